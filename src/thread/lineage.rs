//! Which runs this thread is at work for, so that waiting for one of them is refused instead of blocking for ever.
//!
//! A run inherits the line of the thread that started it: a tool of agent A that runs agent B, whose tool waits for A,
//! is found too. The span of `tracing` that the work belongs to goes the same way.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tracing::{Span, span::EnteredSpan};

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

/// What a thread is at work for, to be taken along to another one.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    runs: Option<Arc<Lineage>>,
    span: Span,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Lineage>>> = const { RefCell::new(None) };
}

/// Puts back what the thread was at work for before.
pub(crate) struct Entered {
    before: Option<Arc<Lineage>>,
    _span: Option<EnteredSpan>,
}

impl Mark {
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }
}

impl Line {
    /// The line of a run that is started on this thread, within `span`. Runs that have ended wait for nothing and drop out,
    /// or agents that start one another would grow a line without end.
    pub(crate) fn of(run: &Arc<Mark>, span: Span) -> Line {
        let current = runs();
        let before = current.iter().flat_map(|line| &line.runs);
        let mut runs: Vec<_> =
            before.filter(|mark| !mark.has_ended.load(Ordering::Acquire)).cloned().collect();
        runs.push(run.clone());
        Line { runs: Some(Arc::new(Lineage { runs })), span }
    }

    /// The same runs within the span of this thread, if it has one.
    pub(crate) fn within_present(&self) -> Line {
        let present = Span::current();
        let span = if present.is_disabled() { self.span.clone() } else { present };
        Line { runs: self.runs.clone(), span }
    }
}

/// What this thread is at work for.
pub(crate) fn current() -> Line {
    Line { runs: runs(), span: Span::current() }
}

fn runs() -> Option<Arc<Lineage>> {
    // A host may wait for a run while a thread ends, when the thread's own data is gone already.
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Sets what this thread is at work for until the guard is dropped.
pub(crate) fn enter(line: Line) -> Entered {
    let Line { runs, span } = line;
    let before = CURRENT.try_with(|current| current.replace(runs)).ok().flatten();
    Entered { before, _span: (!span.is_disabled()).then(|| span.entered()) }
}

/// Whether this thread is at work for `run`.
pub(crate) fn serves(run: &Arc<Mark>) -> bool {
    runs().is_some_and(|line| line.runs.iter().any(|mark| Arc::ptr_eq(mark, run)))
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        let _ = CURRENT.try_with(|current| current.replace(before));
    }
}
