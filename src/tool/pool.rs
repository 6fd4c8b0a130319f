//! The threads that tools run on, and stand-ins for tools that wait for other tools.
//!
//! Jobs wait in a stack of our own. The first thread is a plain one that looks for the next job a moment before it goes
//! to sleep, as most messages call one small tool. What it cannot take at once goes to a rayon pool, whose tasks take
//! whatever is on top. So a thread whose tool waits for a run or a nested call can be stood in for: a plain thread takes
//! jobs from the same stack while the wait lasts. Rayon alone would deadlock there, since its threads cannot be added to
//! and a waiting one takes no job.
//!
//! A place is what a tool holds while it works; there are as many as the pool is large. Whoever gives a place back takes
//! the next job, so a thread that finds no place free may go.

use std::{
    cell::RefCell,
    fmt, mem,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    error::{Error, ErrorKind},
    thread::{
        self, Home,
        hand_over::Patience,
        lock::{Condvar, Mutex},
    },
};

mod places;

pub(crate) use crate::tool::pool::places::while_blocked;

/// A tool that takes longer than this is worth another thread for those that wait.
const SLOW: Duration = Duration::from_millis(1);

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Threads for tools; its size is how many tools run at once.
///
/// Every agent makes one of its own at its first tool call; several agents may share one on purpose. Cloning copies a
/// pointer. The threads end when the last handle and the last job are gone.
///
/// A tool that blocks until agents or other tools are done leaves its place to them, if it waits on its own thread or
/// calls them through its [`ToolContext`](crate::ToolContext). Waiting for agents of the same pool on threads that the tool
/// has started itself takes a larger pool, or one for each agent.
///
/// Most threads are rayon's: what a tool does with rayon there uses those of them that are free.
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
    /// The newest on top: what a waiting tool waits for was added after it.
    jobs: Vec<Job>,
    first: First,
    /// When the first thread began its last job.
    busy_since: Option<Instant>,
    rayon: Option<Arc<rayon::ThreadPool>>,
    /// Whether a thread of rayon was called and has not come yet. It calls the next one if jobs are left.
    is_coming: bool,
    /// How many places are taken, less those that threads of the tools' own gave.
    running: isize,
    /// Threads of an earlier generation are stuck, or were; they take no more jobs.
    generation: u64,
    is_closed: bool,
    home: Home,
}

/// The thread that is not rayon's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Unborn,
    Idle,
    Busy,
}

/// Who is called for a new job.
#[derive(Clone, Copy)]
enum Call {
    First,
    Birth(u64),
    Rayon(u64),
    Nobody,
}

/// The pool that a thread works for.
#[derive(Clone)]
struct Employer {
    shared: Weak<Shared>,
    generation: u64,
}

thread_local! {
    static WORKS_FOR: RefCell<Option<Employer>> = const { RefCell::new(None) };
}

impl ToolPool {
    /// Makes a pool that runs `size` tools at once (at least one). Its threads start when they are needed.
    pub fn new(size: usize) -> ToolPool {
        let stack = Stack {
            jobs: Vec::new(),
            first: First::Unborn,
            busy_since: None,
            rayon: None,
            is_coming: false,
            running: 0,
            generation: 0,
            is_closed: false,
            home: Home::here(),
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

    /// Runs jobs on threads of the pool as soon as they are free; they start in their order.
    pub(crate) fn run(&self, jobs: Vec<Job>) -> Result<(), Error> {
        let shared = &self.owner.shared;
        let call = {
            let mut stack = shared.stack.lock();
            stack.settle_here();
            stack.jobs.extend(jobs.into_iter().rev());
            shared.waiting.store(stack.jobs.len(), Ordering::Release);
            stack.next_call(shared.size)
        };
        shared.added.notify_all();
        shared.call(call)
    }

    /// Calls more threads for jobs that still wait; `false` if it is too early to tell whether they are needed.
    ///
    /// Whoever waits for jobs asks for this when they are not done at once: most tools take less time than it takes to
    /// wake a thread. The first thread gets a chance to come and to be done, unless nobody will ask again (`is_last`): where
    /// it is slow to come the machine is busy, and others would be as slow.
    pub(crate) fn relieve(&self, is_last: bool) -> bool {
        let shared = &self.owner.shared;
        if shared.waiting.load(Ordering::Acquire) == 0 {
            return true;
        }
        let call = {
            let mut stack = shared.stack.lock();
            if stack.jobs.is_empty() || stack.is_coming || shared.size == 1 {
                return true;
            }
            let busy_since = stack.busy_since.filter(|_| stack.first == First::Busy);
            let is_stuck = busy_since.is_some_and(|since| since.elapsed() >= SLOW);
            if !is_last && !is_stuck {
                return false;
            }
            stack.call_rayon(shared.size)
        };
        // Without more threads the jobs wait for those that there are.
        let _ = shared.call(call);
        true
    }

    /// Leaves the present threads to finish what they are stuck in and takes new ones for everything else.
    pub(crate) fn replace_threads(&self) {
        let shared = &self.owner.shared;
        let (old, calls) = {
            let mut stack = shared.stack.lock();
            let old = stack.dismiss();
            // The first thread and the first of rayon's, which calls the others.
            let count = stack.jobs.len().min(2);
            let calls: Vec<Call> = (0..count).map(|_| stack.next_call(shared.size)).collect();
            (old, calls)
        };
        // An idle first thread of the generation before ends, and so do stand-ins that have nothing to do.
        shared.called.notify_all();
        shared.added.notify_all();
        drop(old);
        for call in calls {
            // Without threads the jobs wait on; their runs can still be aborted.
            let _ = shared.call(call);
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let (jobs, rayon) = {
            let mut stack = self.shared.stack.lock();
            stack.settle_here();
            stack.is_closed = true;
            self.shared.waiting.store(0, Ordering::Release);
            (mem::take(&mut stack.jobs), stack.rayon.take())
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
            First::Idle => Call::First,
            First::Busy => self.call_rayon(size),
        }
    }

    /// Calls a thread of rayon, unless one is coming.
    fn call_rayon(&mut self, size: usize) -> Call {
        if size == 1 || self.is_coming {
            return Call::Nobody;
        }
        self.is_coming = true;
        Call::Rayon(self.generation)
    }

    /// Begins a new generation of threads and gives back what held those of rayon.
    fn dismiss(&mut self) -> Option<Arc<rayon::ThreadPool>> {
        self.generation += 1;
        self.first = First::Unborn;
        self.busy_since = None;
        self.is_coming = false;
        self.running = 0;
        self.rayon.take()
    }

    /// In a process that was forked off, the threads and what waits for them belong to the parent.
    fn settle_here(&mut self) {
        if !self.home.is_here() {
            self.home = Home::here();
            // They cannot be ended, since they are not here.
            mem::forget((self.dismiss(), mem::take(&mut self.jobs)));
        }
    }
}

impl Shared {
    fn call(self: &Arc<Shared>, call: Call) -> Result<(), Error> {
        match call {
            Call::Nobody => Ok(()),
            Call::First => {
                self.called.notify_all();
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
                match self.rayon() {
                    Some(pool) => {
                        let shared = self.clone();
                        pool.spawn(move || shared.help(generation));
                    }
                    // Without rayon's threads the first one takes all jobs, one after another.
                    None => {
                        self.called.notify_all();
                    }
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
        let employer = Employer::of(&self, generation);
        let mut worked = false;
        while let Some(job) = self.wait_for_job(generation, &patience, worked) {
            employer.work(job);
            worked = true;
        }
    }

    fn wait_for_job(&self, generation: u64, patience: &Patience, worked: bool) -> Option<Job> {
        let mut stack = self.stack.lock();
        if worked {
            stack.leave(generation);
        }
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
            if let Some(job) = self.pop(&mut stack, generation) {
                stack.first = First::Busy;
                stack.busy_since = Some(Instant::now());
                return Some(job);
            }
            stack.first = First::Idle;
            let slept = Instant::now();
            stack = self.called.wait(stack);
            patience.slept(slept.elapsed());
        }
    }

    /// A task of rayon: takes jobs until none is left. Before it runs one it calls another thread for the rest.
    fn help(self: Arc<Shared>, generation: u64) {
        if !places::is_free() {
            return self.help_elsewhere(generation);
        }
        let employer = Employer::of(&self, generation);
        let (mut has_come, mut worked) = (false, false);
        loop {
            let (job, call) = {
                let mut stack = self.stack.lock();
                if stack.generation != generation || stack.is_closed {
                    return;
                }
                if !has_come {
                    stack.is_coming = false;
                }
                if worked {
                    stack.leave(generation);
                }
                let Some(job) = self.pop(&mut stack, generation) else { return };
                let call = match stack.jobs.len() {
                    0 => Call::Nobody,
                    // Not the first thread: whoever waits for these jobs relies on a thread that comes to call the next.
                    _ => stack.call_rayon(self.size),
                };
                (job, call)
            };
            has_come = true;
            let _ = self.call(call);
            employer.work(job);
            worked = true;
        }
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
