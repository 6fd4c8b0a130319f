//! Which agents this thread is at work for, so that waiting for one of them is refused instead of blocking for ever.
//!
//! A run inherits the line of the thread that started it: a tool of agent A that runs agent B, whose tool waits for A,
//! is found too.

use std::{cell::RefCell, sync::Arc};

/// An agent at work and those that wait for it.
#[derive(Debug)]
pub(crate) struct Lineage {
    agent: u64,
    parent: Option<Arc<Lineage>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Lineage>>> = const { RefCell::new(None) };
}

/// Puts back what the thread was at work for before.
pub(crate) struct Entered(Option<Arc<Lineage>>);

impl Lineage {
    /// The line of a run of `agent` that is started on this thread.
    pub(crate) fn of(agent: u64) -> Arc<Lineage> {
        Arc::new(Lineage { agent, parent: current() })
    }
}

/// What this thread is at work for.
pub(crate) fn current() -> Option<Arc<Lineage>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Sets what this thread is at work for until the guard is dropped.
pub(crate) fn enter(lineage: Option<Arc<Lineage>>) -> Entered {
    Entered(CURRENT.replace(lineage))
}

/// Whether this thread is at work for a run of `agent`.
pub(crate) fn serves(agent: u64) -> bool {
    CURRENT.with_borrow(|current| {
        let mut next = current.as_ref();
        while let Some(lineage) = next {
            if lineage.agent == agent {
                return true;
            }
            next = lineage.parent.as_ref();
        }
        false
    })
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}
