//! The rayon pool that tools run on, and stand-ins for tools that wait for other tools.
//!
//! Jobs wait in a stack of our own; each is announced to rayon by one task that takes whatever is on top. So a thread
//! whose tool waits for a run or a nested call can be stood in for: a plain thread takes jobs from the same stack while
//! the wait lasts. Rayon alone would deadlock there, since its threads cannot be added to and a waiting one takes no job.

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
    thread,
};

type Job = Box<dyn FnOnce() + Send>;

/// Threads for tools; its size is how many tools run at once.
///
/// Every agent makes one of its own at its first tool call; several agents may share one on purpose. Cloning copies a
/// pointer. The threads end when the last handle and the last job are gone.
#[derive(Clone)]
pub struct ToolPool {
    shared: Arc<Shared>,
}

struct Shared {
    size: usize,
    jobs: Mutex<Vec<Job>>,
    added: Condvar,
    threads: Mutex<Option<Arc<rayon::ThreadPool>>>,
    stand_ins: AtomicUsize,
}

thread_local! {
    /// The pool that this thread works for.
    static WORKS_FOR: RefCell<Option<Weak<Shared>>> = const { RefCell::new(None) };
}

impl ToolPool {
    /// Makes a pool that runs `size` tools at once (at least one). Its threads start with the first job.
    pub fn new(size: usize) -> ToolPool {
        ToolPool {
            shared: Arc::new(Shared {
                size: size.max(1),
                jobs: Mutex::new(Vec::new()),
                added: Condvar::new(),
                threads: Mutex::new(None),
                stand_ins: AtomicUsize::new(0),
            }),
        }
    }

    /// How many tools run at once.
    pub fn size(&self) -> usize {
        self.shared.size
    }

    /// Runs `job` on a thread of the pool as soon as one is free.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let threads = self.threads()?;
        self.shared.jobs.lock().push(Box::new(job));
        self.shared.announce(&threads);
        Ok(())
    }

    /// Leaves the present threads to finish what they are stuck in and takes new ones for everything else.
    pub(crate) fn replace_threads(&self) {
        let old = self.shared.threads.lock().take();
        drop(old);
        let waiting = self.shared.jobs.lock().len();
        if waiting > 0
            && let Ok(threads) = self.threads()
        {
            for _ in 0..waiting {
                self.shared.announce(&threads);
            }
        }
    }

    fn threads(&self) -> Result<Arc<rayon::ThreadPool>, Error> {
        let mut threads = self.shared.threads.lock();
        if let Some(threads) = &*threads {
            return Ok(threads.clone());
        }
        let built = rayon::ThreadPoolBuilder::new()
            .num_threads(self.shared.size)
            .thread_name(|index| format!("tool-{index}"))
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::Configuration, "the threads for tools could not be started")
                    .with_source(error)
            })?;
        Ok(threads.insert(Arc::new(built)).clone())
    }
}

impl Shared {
    fn announce(self: &Arc<Shared>, threads: &rayon::ThreadPool) {
        let shared = Arc::downgrade(self);
        threads.spawn(move || {
            let job = shared.upgrade().and_then(|shared| shared.take());
            if let Some(job) = job {
                work(&shared, job);
            }
        });
        self.added.notify_one();
    }

    /// The newest job first: what a waiting tool waits for was added after it.
    fn take(&self) -> Option<Job> {
        self.jobs.lock().pop()
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
        let _jobs = self.shared.jobs.lock();
        self.stop.store(true, Ordering::Release);
        self.shared.added.notify_all();
    }
}

fn stand_in(shared: &Arc<Shared>, stop: &AtomicBool) {
    let weak = Arc::downgrade(shared);
    loop {
        let job = {
            let mut jobs = shared.jobs.lock();
            loop {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                if let Some(job) = jobs.pop() {
                    break job;
                }
                shared.added.wait(&mut jobs);
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
        f.debug_struct("ToolPool").field("size", &self.shared.size).finish_non_exhaustive()
    }
}
