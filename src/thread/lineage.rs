//! Which runs this thread is at work for, so that waiting for one of them is refused instead of blocking for ever.
//!
//! A run inherits the line of the thread that started it: a tool of agent A that runs agent B, whose tool waits for A,
//! is found too.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Stands for one run, and tells whether it has ended.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    has_ended: AtomicBool,
}

/// Runs at work, each started by the one before it.
#[derive(Debug)]
pub(crate) struct Lineage {
    runs: Vec<Arc<Mark>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Lineage>>> = const { RefCell::new(None) };
}

/// Puts back what the thread was at work for before.
pub(crate) struct Entered(Option<Arc<Lineage>>);

impl Mark {
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }
}

impl Lineage {
    /// The line of a run that is started on this thread. Runs that have ended wait for nothing and drop out, or agents that
    /// start one another would grow a line without end.
    pub(crate) fn of(run: &Arc<Mark>) -> Arc<Lineage> {
        let current = current();
        let before = current.iter().flat_map(|line| &line.runs);
        let mut runs: Vec<_> =
            before.filter(|mark| !mark.has_ended.load(Ordering::Acquire)).cloned().collect();
        runs.push(run.clone());
        Arc::new(Lineage { runs })
    }
}

/// What this thread is at work for.
pub(crate) fn current() -> Option<Arc<Lineage>> {
    // A host may wait for a run while a thread ends, when the thread's own data is gone already.
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Sets what this thread is at work for until the guard is dropped.
pub(crate) fn enter(lineage: Option<Arc<Lineage>>) -> Entered {
    Entered(CURRENT.try_with(|current| current.replace(lineage)).ok().flatten())
}

/// Whether this thread is at work for `run`.
pub(crate) fn serves(run: &Arc<Mark>) -> bool {
    current().is_some_and(|line| line.runs.iter().any(|mark| Arc::ptr_eq(mark, run)))
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.take();
        let _ = CURRENT.try_with(|current| current.replace(before));
    }
}
