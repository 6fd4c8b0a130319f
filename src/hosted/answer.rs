//! One answer of the host that a thread of a run waits for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use crossbeam_channel::{Receiver, Sender, at, bounded, never, select};

use crate::{abort::AbortSignal, tool::while_blocked};

/// Where the first answer goes. Whoever settles it first, an answer or the end of the wait, decides.
pub(crate) struct Slot<T> {
    is_settled: AtomicBool,
    sender: Sender<T>,
    receiver: Receiver<T>,
}

/// Why a wait ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Aborted,
    TimedOut,
}

impl<T> Slot<T> {
    pub(crate) fn new() -> Arc<Slot<T>> {
        let (sender, receiver) = bounded(1);
        Arc::new(Slot { is_settled: AtomicBool::new(false), sender, receiver })
    }

    /// Gives the answer; false if it came too late.
    pub(crate) fn give(&self, answer: T) -> bool {
        // There is room for it, since only one is ever sent.
        self.settle() && self.sender.try_send(answer).is_ok()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire)
    }

    /// Waits for the answer, until the signal fires or the deadline has passed. On a thread of a tool pool a stand-in takes
    /// its place meanwhile, so calls that wait for a host do not keep others from starting.
    pub(crate) fn wait(&self, signal: &AbortSignal, deadline: Option<Instant>) -> Result<T, Ended> {
        let late = deadline.map_or_else(never, at);
        let ended = while_blocked(|| {
            select! {
                recv(self.receiver) -> answer => Ok(answer),
                recv(signal.channel()) -> _ => Err(Ended::Aborted),
                recv(late) -> _ => Err(Ended::TimedOut),
            }
        });
        match ended {
            Ok(answer) => answer.map_err(|_| Ended::Aborted),
            Err(ended) if self.settle() => Err(ended),
            // An answer came first; it is here or just being sent.
            Err(ended) => self.receiver.recv().map_err(|_| ended),
        }
    }

    fn settle(&self) -> bool {
        !self.is_settled.swap(true, Ordering::AcqRel)
    }
}
