//! What a connection must know of the request that it serves: the signal that ends it and how long a wait may last.

use std::{
    cell::RefCell,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use ureq::{
    Timeout,
    unversioned::transport::{NextTimeout, time},
};

use crate::abort::AbortSignal;

thread_local! {
    /// The request that this thread sends. The client below hands no context to a connection, but it works on the
    /// thread that calls it.
    static CURRENT: RefCell<Option<Arc<Ticket>>> = const { RefCell::new(None) };
}

/// One request, as far as a connection is concerned.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) signal: AbortSignal,
    state: Mutex<State>,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Name lookup, connect, proxy and TLS.
    Connecting,
    /// The request is sent, or the answer's head is awaited.
    Sent,
    /// The head of the answer has arrived.
    Body,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    sent: Instant,
    first_byte: Option<Duration>,
    idle: Option<Duration>,
    deadline: Option<Instant>,
}

/// Makes a ticket current on this thread; dropping it puts back what was current before.
#[must_use = "dropping the guard ends it"]
pub(crate) struct Entered {
    before: Option<Arc<Ticket>>,
}

impl Ticket {
    pub(crate) fn new(
        signal: AbortSignal,
        first_byte: Option<Duration>,
        idle: Option<Duration>,
    ) -> Arc<Ticket> {
        let state = State {
            phase: Phase::Connecting,
            sent: Instant::now(),
            first_byte,
            idle,
            deadline: None,
        };
        Arc::new(Ticket { signal, state: Mutex::new(state) })
    }

    /// Makes the ticket the current one of this thread. What was current is put back, not cleared: a thread may be
    /// in the middle of another request.
    pub(crate) fn enter(self: &Arc<Ticket>) -> Entered {
        Entered { before: CURRENT.with(|current| current.replace(Some(self.clone()))) }
    }

    pub(crate) fn current() -> Option<Arc<Ticket>> {
        CURRENT.with(|current| current.borrow().clone())
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// Notes that the head of the answer has arrived: from here on the idle limit holds.
    pub(crate) fn head_arrived(&self) {
        self.state.lock().phase = Phase::Body;
    }

    /// Sets a time at which a wait for the body ends, whatever the idle limit.
    pub(crate) fn set_deadline(&self, deadline: Option<Instant>) {
        self.state.lock().deadline = deadline;
    }

    /// Tells whether a deadline is set.
    pub(crate) fn has_deadline(&self) -> bool {
        self.state.lock().deadline.is_some()
    }

    /// Returns how long the next write may block. `given` is exact only while the connection is being made.
    pub(crate) fn write_limit(&self, given: NextTimeout) -> NextTimeout {
        if !given.after.is_not_happening() {
            return given;
        }
        let mut state = self.state.lock();
        if state.phase == Phase::Connecting {
            state.phase = Phase::Sent;
        }
        state.sent = Instant::now();
        NextTimeout { per_write: state.idle.map(Into::into), ..given }
    }

    /// Returns how long the next read may block. `given` is exact only while the connection is being made.
    pub(crate) fn read_limit(&self, given: NextTimeout) -> Result<NextTimeout, ureq::Error> {
        if !given.after.is_not_happening() {
            return Ok(given);
        }
        let state = self.state.lock();
        let now = Instant::now();
        let (left, reason) = if state.phase == Phase::Body {
            let deadline = state.deadline.map(|it| it.saturating_duration_since(now));
            let left = match (state.idle, deadline) {
                (Some(idle), Some(deadline)) => Some(idle.min(deadline)),
                (idle, deadline) => idle.or(deadline),
            };
            (left, Timeout::PerRead)
        } else {
            let left = state.first_byte.map(|it| (state.sent + it).saturating_duration_since(now));
            (left, Timeout::RecvResponse)
        };
        match left {
            None => Ok(given),
            Some(Duration::ZERO) => Err(ureq::Error::Timeout(reason)),
            Some(left) => Ok(NextTimeout { after: time::Duration::Exact(left), reason, ..given }),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        CURRENT.with(|current| current.replace(before));
    }
}
