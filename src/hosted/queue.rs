//! What waits for the host: a queue that is polled, waited on, iterated or selected on.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, unbounded};
use parking_lot::Mutex;

use crate::{
    thread::{self, timer},
    tool::while_blocked,
};

type Wake = Arc<dyn Fn() + Send + Sync>;

/// What runs have for the host: calls of hosted tools, questions of a gate.
///
/// It is polled ([`try_next`](Queue::try_next)), waited on ([`next_timeout`](Queue::next_timeout)), iterated, or selected
/// on ([`receiver`](Queue::receiver)). A thread that serves it must not wait for a run that waits for it. When the queue
/// and all clones of its receiver are gone, what is in it and all that comes later is refused.
pub struct Queue<T> {
    receiver: Receiver<T>,
    wake: Arc<Mutex<Option<Wake>>>,
}

/// The side of the runs.
pub(crate) struct Sender<T> {
    sender: crossbeam_channel::Sender<T>,
    wake: Arc<Mutex<Option<Wake>>>,
}

pub(crate) fn channel<T>() -> (Sender<T>, Queue<T>) {
    let (sender, receiver) = unbounded();
    let wake = Arc::default();
    (Sender { sender, wake: Arc::clone(&wake) }, Queue { receiver, wake })
}

impl<T> Queue<T> {
    /// Calls `wake` for everything that is put into the queue, and at once if something is there. It runs on a thread of
    /// the crate and must not block: a repaint request, a message to an event loop.
    #[must_use]
    pub fn on_wake(self, wake: impl Fn() + Send + Sync + 'static) -> Queue<T> {
        let wake: Wake = Arc::new(wake);
        let before = self.wake.lock().replace(wake.clone());
        drop(before);
        if !self.receiver.is_empty() {
            wake();
        }
        self
    }

    /// The next one, if one is there. Never waits.
    pub fn try_next(&self) -> Option<T> {
        self.receiver.try_recv().ok()
    }

    /// Waits for the next one, but no longer than `timeout`. `None` when the time has passed, or when nothing is left that
    /// could put anything in.
    pub fn next_timeout(&self, timeout: Duration) -> Option<T> {
        self.wait(timer::after(timeout))
    }

    /// Whether nothing is there at the moment.
    pub fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// The channel itself, for `crossbeam_channel::select!`. Clones of it may be served by several threads.
    pub fn receiver(&self) -> &Receiver<T> {
        &self.receiver
    }

    fn wait(&self, deadline: Option<Instant>) -> Option<T> {
        // A tool may wait here for the calls of an agent of its own.
        self.try_next().or_else(|| {
            while_blocked(|| match deadline {
                None => self.receiver.recv().ok(),
                Some(deadline) => self.receiver.recv_deadline(deadline).ok(),
            })
        })
    }
}

impl<T> Iterator for Queue<T> {
    type Item = T;

    /// Waits for the next one; `None` when nothing is left that could put anything in.
    fn next(&mut self) -> Option<T> {
        self.wait(None)
    }
}

impl<T> Sender<T> {
    /// Puts one in; it comes back if nobody serves the queue any more.
    pub(crate) fn send(&self, item: T) -> Result<(), T> {
        self.sender.send(item).map_err(|error| error.0)?;
        let wake = self.wake.lock().clone();
        if let Some(wake) = wake {
            let _ = thread::catch(|| wake());
        }
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender { sender: self.sender.clone(), wake: self.wake.clone() }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.receiver.len()).finish_non_exhaustive()
    }
}
