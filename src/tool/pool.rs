//! The threads that tools run on, and stand-ins for tools that wait for other tools.
//!
//! Jobs wait in a stack of our own. The first thread is a plain one that looks for the next job a moment before it goes
//! to sleep, as most messages call one small tool. What it cannot take at once goes to a rayon pool, whose tasks take
//! whatever is on top. So a thread whose tool waits for a run or a nested call can be stood in for: a plain thread takes
//! jobs from the same stack while the wait lasts. Rayon alone would deadlock there, since its threads cannot be added to
//! and a waiting one takes no job.

use std::{
    cell::RefCell,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::{Condvar, Mutex};

use crate::{
    error::{Error, ErrorKind},
    thread::{self, hand_over::Patience},
};

type Job = Box<dyn FnOnce() + Send>;

/// Threads for tools; its size is how many tools run at once.
///
/// Every agent makes one of its own at its first tool call; several agents may share one on purpose. Cloning copies a
/// pointer. The threads end when the last handle and the last job are gone.
#[derive(Clone)]
pub struct ToolPool {
    owner: Arc<Owner>,
}

/// Held by the handles; the threads hold what it owns.
struct Owner {
    shared: Arc<Shared>,
}

struct Shared {
    size: usize,
    stack: Mutex<Stack>,
    /// How many jobs wait, to be seen without the lock.
    waiting: AtomicUsize,
    /// For the first thread.
    called: Condvar,
    /// For stand-ins.
    added: Condvar,
    stand_ins: AtomicUsize,
}

struct Stack {
    jobs: Vec<Job>,
    first: First,
    rayon: Option<Arc<rayon::ThreadPool>>,
    /// Whether a thread of rayon was called and has not come yet. It calls the next one if jobs are left.
    is_coming: bool,
    /// Threads of an earlier generation are stuck, or were; they take no more jobs.
    generation: u64,
    is_closed: bool,
}

/// The thread that is not rayon's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Unborn,
    Idle,
    Busy,
}

/// Who is called for a new job.
enum Call {
    First,
    Birth(u64),
    Rayon(u64),
    Nobody,
}

thread_local! {
    /// The pool that this thread works for.
    static WORKS_FOR: RefCell<Option<Weak<Shared>>> = const { RefCell::new(None) };
}

impl ToolPool {
    /// Makes a pool that runs `size` tools at once (at least one). Its threads start when they are needed.
    pub fn new(size: usize) -> ToolPool {
        let stack = Stack {
            jobs: Vec::new(),
            first: First::Unborn,
            rayon: None,
            is_coming: false,
            generation: 0,
            is_closed: false,
        };
        let shared = Shared {
            size: size.max(1),
            stack: Mutex::new(stack),
            waiting: AtomicUsize::new(0),
            called: Condvar::new(),
            added: Condvar::new(),
            stand_ins: AtomicUsize::new(0),
        };
        ToolPool { owner: Arc::new(Owner { shared: Arc::new(shared) }) }
    }

    /// How many tools run at once.
    pub fn size(&self) -> usize {
        self.owner.shared.size
    }

    /// Runs `job` on a thread of the pool as soon as one is free.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let shared = &self.owner.shared;
        let call = {
            let mut stack = shared.stack.lock();
            stack.jobs.push(Box::new(job));
            shared.waiting.store(stack.jobs.len(), Ordering::Release);
            stack.next_call(shared.size)
        };
        shared.added.notify_one();
        shared.call(call)
    }

    /// Leaves the present threads to finish what they are stuck in and takes new ones for everything else.
    pub(crate) fn replace_threads(&self) {
        let shared = &self.owner.shared;
        let (old, call) = {
            let mut stack = shared.stack.lock();
            stack.generation += 1;
            stack.first = First::Unborn;
            stack.is_coming = false;
            let call =
                if stack.jobs.is_empty() { Call::Nobody } else { stack.next_call(shared.size) };
            (stack.rayon.take(), call)
        };
        // An idle first thread of the generation before ends.
        shared.called.notify_all();
        drop(old);
        // Without threads the jobs wait on; their runs can still be aborted.
        let _ = shared.call(call);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let (jobs, rayon) = {
            let mut stack = self.shared.stack.lock();
            stack.is_closed = true;
            self.shared.waiting.store(0, Ordering::Release);
            (std::mem::take(&mut stack.jobs), stack.rayon.take())
        };
        self.shared.called.notify_all();
        self.shared.added.notify_all();
        drop((jobs, rayon));
    }
}

impl Stack {
    /// Who shall take one more of the jobs.
    fn next_call(&mut self, size: usize) -> Call {
        match self.first {
            First::Unborn => {
                self.first = First::Busy;
                Call::Birth(self.generation)
            }
            First::Idle if self.jobs.len() == 1 => Call::First,
            _ if size > 1 && !self.is_coming => {
                self.is_coming = true;
                Call::Rayon(self.generation)
            }
            First::Idle => Call::First,
            First::Busy => Call::Nobody,
        }
    }
}

impl Shared {
    fn call(self: &Arc<Shared>, call: Call) -> Result<(), Error> {
        match call {
            Call::Nobody => Ok(()),
            Call::First => {
                self.called.notify_one();
                Ok(())
            }
            Call::Birth(generation) => {
                let shared = self.clone();
                let born = thread::spawn("tool-0", move || shared.first(generation));
                born.map(drop).map_err(|error| {
                    self.stack.lock().first = First::Unborn;
                    let message = "the thread for tools could not be started";
                    Error::new(ErrorKind::Configuration, message).with_source(error)
                })
            }
            Call::Rayon(generation) => {
                // Without rayon's threads the first one takes all jobs, one after another.
                if let Some(pool) = self.rayon() {
                    let shared = self.clone();
                    pool.spawn(move || shared.help(generation));
                }
                Ok(())
            }
        }
    }

    fn rayon(&self) -> Option<Arc<rayon::ThreadPool>> {
        let mut stack = self.stack.lock();
        if let Some(pool) = &stack.rayon {
            return Some(pool.clone());
        }
        let built = rayon::ThreadPoolBuilder::new()
            .num_threads(self.size - 1)
            .thread_name(|index| format!("tool-{}", index + 1))
            .build();
        stack.is_coming = built.is_ok();
        Some(stack.rayon.insert(Arc::new(built.ok()?)).clone())
    }

    /// The first thread: takes jobs until the pool is gone or its generation is over.
    fn first(self: Arc<Shared>, generation: u64) {
        let patience = Patience::new();
        let weak = Arc::downgrade(&self);
        while let Some(job) = self.wait_for_job(generation, &patience) {
            work(&weak, job);
        }
    }

    fn wait_for_job(&self, generation: u64, patience: &Patience) -> Option<Job> {
        let mut stack = self.stack.lock();
        if stack.jobs.is_empty() && stack.generation == generation && !stack.is_closed {
            stack.first = First::Idle;
            drop(stack);
            patience.look(|| self.waiting.load(Ordering::Acquire) > 0);
            stack = self.stack.lock();
        }
        loop {
            if stack.generation != generation || stack.is_closed {
                return None;
            }
            if let Some(job) = self.pop(&mut stack) {
                stack.first = First::Busy;
                return Some(job);
            }
            stack.first = First::Idle;
            let slept = std::time::Instant::now();
            self.called.wait(&mut stack);
            patience.slept(slept.elapsed());
        }
    }

    /// A task of rayon: takes jobs until none is left. Before it runs one it calls another thread for the rest.
    fn help(self: Arc<Shared>, generation: u64) {
        let weak = Arc::downgrade(&self);
        let mut has_come = false;
        loop {
            let (job, call) = {
                let mut stack = self.stack.lock();
                if stack.generation != generation || stack.is_closed {
                    return;
                }
                if !has_come {
                    stack.is_coming = false;
                }
                let Some(job) = self.pop(&mut stack) else { return };
                let call = match stack.jobs.len() {
                    0 => Call::Nobody,
                    _ => stack.next_call(self.size),
                };
                (job, call)
            };
            has_come = true;
            let _ = self.call(call);
            work(&weak, job);
        }
    }

    /// The newest job first: what a waiting tool waits for was added after it.
    fn pop(&self, stack: &mut Stack) -> Option<Job> {
        let job = stack.jobs.pop();
        self.waiting.store(stack.jobs.len(), Ordering::Release);
        job
    }
}

fn work(shared: &Weak<Shared>, job: Job) {
    let before = WORKS_FOR.replace(Some(shared.clone()));
    // Jobs catch the panics of the tools themselves; this keeps a fault of ours from ending the process.
    let _ = thread::catch(job);
    WORKS_FOR.set(before);
}

/// Runs `wait`, which blocks until other tools or runs are done. On a thread of a pool a stand-in takes its place
/// meanwhile, so that what it waits for can run.
pub(crate) fn while_blocked<T>(wait: impl FnOnce() -> T) -> T {
    let Some(shared) = WORKS_FOR.with_borrow(|pool| pool.as_ref().and_then(Weak::upgrade)) else {
        return wait();
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stand_in = {
        let (shared, stop) = (shared.clone(), stop.clone());
        let number = shared.stand_ins.fetch_add(1, Ordering::Relaxed);
        thread::spawn(&format!("tool-standin-{number}"), move || stand_in(&shared, &stop))
    };
    let _ended = StandInEnd { shared: &shared, stop: &stop };
    let result = wait();
    drop(stand_in);
    result
}

/// Tells the stand-in to end after its present job, also when the wait panics.
struct StandInEnd<'a> {
    shared: &'a Shared,
    stop: &'a AtomicBool,
}

impl Drop for StandInEnd<'_> {
    fn drop(&mut self) {
        // Under the lock, so that the stand-in cannot fall asleep between its look at the flag and its wait.
        let _stack = self.shared.stack.lock();
        self.stop.store(true, Ordering::Release);
        self.shared.added.notify_all();
    }
}

fn stand_in(shared: &Arc<Shared>, stop: &AtomicBool) {
    let weak = Arc::downgrade(shared);
    loop {
        let job = {
            let mut stack = shared.stack.lock();
            loop {
                if stop.load(Ordering::Acquire) || stack.is_closed {
                    // It may have been woken for a job: another stand-in shall have a look.
                    shared.added.notify_one();
                    return;
                }
                if let Some(job) = shared.pop(&mut stack) {
                    break job;
                }
                shared.added.wait(&mut stack);
            }
        };
        work(&weak, job);
    }
}

impl Default for ToolPool {
    /// Eight tools at once.
    fn default() -> ToolPool {
        ToolPool::new(8)
    }
}

impl fmt::Debug for ToolPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolPool").field("size", &self.size()).finish_non_exhaustive()
    }
}
