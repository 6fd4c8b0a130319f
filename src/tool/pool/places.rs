//! Places in a pool: who holds one, and who stands in for a tool that waits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    thread,
    tool::pool::{Employer, Job, Shared, Stack, ToolPool, WORKS_FOR},
};

/// Whether no tool is at work on this thread.
pub(super) fn is_free() -> bool {
    WORKS_FOR.with_borrow(Option::is_none)
}

/// Runs `wait`, which blocks until other tools or runs are done. On a thread of a pool a stand-in takes its place
/// meanwhile, so that what it waits for can run.
pub(crate) fn while_blocked<T>(wait: impl FnOnce() -> T) -> T {
    match Employer::of_this_thread() {
        Some(employer) => employer.while_blocked(wait),
        None => wait(),
    }
}

impl ToolPool {
    /// Runs `wait` on a thread that a tool started itself and that blocks until another tool of this pool is done. The tool
    /// most likely waits for that thread, so there is one place more meanwhile.
    pub(crate) fn beside<T>(&self, wait: impl FnOnce() -> T) -> T {
        if Employer::of_this_thread().is_some() {
            return wait();
        }
        let shared = &self.owner.shared;
        let generation = shared.stack.lock().generation;
        Employer::of(shared, generation).while_blocked(wait)
    }
}

impl Stack {
    fn has_place(&self, generation: u64, size: usize) -> bool {
        let is_full = isize::try_from(size).is_ok_and(|size| self.running >= size);
        self.generation == generation && !self.is_closed && !is_full
    }

    /// Gives a place back; false if it belongs to threads that were replaced.
    pub(super) fn leave(&mut self, generation: u64) -> bool {
        let is_current = self.generation == generation;
        if is_current {
            self.running -= 1;
        }
        is_current
    }
}

impl Shared {
    /// Takes the next job and a place for it, if there are both.
    pub(super) fn pop(&self, stack: &mut Stack, generation: u64) -> Option<Job> {
        if !stack.has_place(generation, self.size) {
            return None;
        }
        let job = stack.jobs.pop()?;
        stack.running += 1;
        self.waiting.store(stack.jobs.len(), Ordering::Release);
        Some(job)
    }

    /// A tool waits inside rayon for work of its own, and rayon meanwhile gives its thread the task of another tool, which
    /// must not run in the middle of it.
    pub(super) fn help_elsewhere(self: Arc<Shared>, generation: u64) {
        let has_work = {
            let mut stack = self.stack.lock();
            if stack.generation == generation {
                stack.is_coming = false;
            }
            stack.has_place(generation, self.size) && !stack.jobs.is_empty()
        };
        if has_work {
            let shared = self.clone();
            self.start_stand_in(move || shared.help(generation));
        }
    }

    fn start_stand_in(&self, body: impl FnOnce() + Send + 'static) -> bool {
        let number = self.stand_ins.fetch_add(1, Ordering::Relaxed);
        thread::spawn(&format!("tool-standin-{number}"), body).is_ok()
    }
}

impl Employer {
    pub(super) fn of(shared: &Arc<Shared>, generation: u64) -> Employer {
        Employer { shared: Arc::downgrade(shared), generation }
    }

    fn of_this_thread() -> Option<Employer> {
        // A host may wait while a thread ends, when the thread's own data is gone already.
        WORKS_FOR.try_with(|employer| employer.borrow().clone()).ok().flatten()
    }

    pub(super) fn work(&self, job: Job) {
        let before = WORKS_FOR.replace(Some(self.clone()));
        // Jobs catch the panics of the tools themselves; this keeps a fault of ours from ending the process.
        let _ = thread::catch(job);
        WORKS_FOR.set(before);
    }

    fn while_blocked<T>(self, wait: impl FnOnce() -> T) -> T {
        let Some(shared) = self.shared.upgrade() else { return wait() };
        if !shared.stack.lock().leave(self.generation) {
            return wait();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let _back = Back { shared: &shared, generation: self.generation, stop: &stop };
        let started = {
            let (employer, shared, stop) = (self.clone(), shared.clone(), stop.clone());
            shared.clone().start_stand_in(move || employer.stand_in(&shared, &stop))
        };
        if !started {
            // Perhaps one of the pool's own threads is free.
            let call = shared.stack.lock().next_call(shared.size);
            let _ = shared.call(call);
        }
        wait()
    }

    /// Works off what waits and what comes until `stop` is set and nothing waits that there is a place for.
    fn stand_in(&self, shared: &Shared, stop: &AtomicBool) {
        let mut worked = false;
        loop {
            let job = {
                let mut stack = shared.stack.lock();
                if worked {
                    stack.leave(self.generation);
                }
                loop {
                    if let Some(job) = shared.pop(&mut stack, self.generation) {
                        break job;
                    }
                    let is_over = stack.generation != self.generation || stack.is_closed;
                    if is_over || stop.load(Ordering::Acquire) {
                        return;
                    }
                    stack = shared.added.wait(stack);
                }
            };
            self.work(job);
            worked = true;
        }
    }
}

/// Takes the place again and tells the stand-in to end after its present job, also when the wait panics.
struct Back<'a> {
    shared: &'a Shared,
    generation: u64,
    stop: &'a AtomicBool,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // Under the lock, so that the stand-in cannot fall asleep between its look at the flag and its wait.
        let mut stack = self.shared.stack.lock();
        if stack.generation == self.generation {
            stack.running += 1;
        }
        self.stop.store(true, Ordering::Release);
        self.shared.added.notify_all();
    }
}
