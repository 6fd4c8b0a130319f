//! The abort signal: asked, waited on, selected on or hooked.
//!
//! An [`AbortController`] fires, its [`AbortSignal`]s are told. A signal is the first parameter of everything in this
//! crate that can block, so that an abort ends the wait at once instead of at the next poll.

use std::{
    convert::Infallible,
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use crate::thread::{
    self,
    timer::{self, Alarm},
};

/// Fires an [`AbortSignal`]. Dropping the controller fires nothing.
#[derive(Clone, Default)]
pub struct AbortController {
    signal: AbortSignal,
}

/// Tells whether, and waits until, an operation was aborted.
///
/// Clones are handles to the same signal and may be used from any thread.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steerage::AbortController;
///
/// let controller = AbortController::new();
/// let signal = controller.signal();
/// let waiter = std::thread::Builder::new().spawn(move || signal.wait_timeout(Duration::from_secs(60)))?;
/// controller.abort();
/// assert!(waiter.join().unwrap());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct AbortSignal {
    inner: Arc<Inner>,
}

/// Keeps a hook of [`AbortSignal::on_abort`] in place; dropping it takes the hook away.
#[must_use = "dropping the guard takes the hook away"]
pub struct AbortHook {
    signal: AbortSignal,
    id: u64,
}

struct Inner {
    aborted: AtomicBool,
    /// Asked too: while the parent runs its hooks, the one that fires this signal may still be to come.
    parent: Option<AbortSignal>,
    receiver: Receiver<Infallible>,
    state: Mutex<State>,
}

struct State {
    /// Dropped when the signal fires, which disconnects `receiver` for everyone who waits or selects on it.
    sender: Option<Sender<Infallible>>,
    hooks: Vec<(u64, Box<dyn FnOnce() + Send>)>,
    next_hook: u64,
    /// Keeps the hook on the parent in place as long as this signal lives.
    parent: Option<AbortHook>,
    /// Deadlines, which nobody needs any more when the signal has fired or is gone.
    alarms: Vec<Alarm>,
}

impl AbortController {
    /// Makes a controller with a signal of its own that has not fired.
    pub fn new() -> AbortController {
        AbortController::default()
    }

    /// Makes a controller whose signal also fires when `parent` fires.
    pub fn child_of(parent: &AbortSignal) -> AbortController {
        AbortController { signal: parent.child() }
    }

    /// Returns a handle to the signal.
    pub fn signal(&self) -> AbortSignal {
        self.signal.clone()
    }

    /// Fires the signal. Hooks run on the calling thread, after every later question is already answered with "aborted".
    /// Firing twice does nothing.
    pub fn abort(&self) {
        self.signal.fire();
    }

    /// Fires the signal when `deadline` is reached, unless it fired before.
    pub fn abort_at(&self, deadline: Instant) {
        let signal = Arc::downgrade(&self.signal.inner);
        let alarm = timer::at(deadline, move || {
            if let Some(inner) = signal.upgrade() {
                AbortSignal { inner }.fire();
            }
        });
        let mut state = self.signal.inner.state.lock();
        if state.sender.is_some() {
            state.alarms.push(alarm);
        }
    }
}

impl AbortSignal {
    /// Makes a signal that nothing can fire.
    pub fn never() -> AbortSignal {
        AbortSignal::default()
    }

    /// Tells whether the signal has fired.
    pub fn is_aborted(&self) -> bool {
        let mut inner = &self.inner;
        loop {
            if inner.aborted.load(Ordering::Acquire) {
                return true;
            }
            let Some(parent) = &inner.parent else { return false };
            inner = &parent.inner;
        }
    }

    /// Waits until the signal fires or `timeout` has passed; tells whether it fired.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        match self.inner.receiver.recv_timeout(timeout) {
            Ok(never) => match never {},
            Err(RecvTimeoutError::Timeout) => self.is_aborted(),
            Err(RecvTimeoutError::Disconnected) => true,
        }
    }

    /// Waits until the signal fires.
    pub fn wait(&self) {
        let _ = self.inner.receiver.recv();
    }

    /// Returns a channel that disconnects when the signal fires, for `crossbeam_channel::select!`.
    pub fn channel(&self) -> &Receiver<Infallible> {
        &self.inner.receiver
    }

    /// Runs `hook` once when the signal fires, on the thread that fires it, or at once on this thread if it has fired.
    ///
    /// The hook must not block: the abort waits for it. A panic in it ends neither the abort nor the other hooks. It is
    /// taken away when the returned guard is dropped.
    pub fn on_abort(&self, hook: impl FnOnce() + Send + 'static) -> AbortHook {
        let mut state = self.inner.state.lock();
        let id = state.next_hook;
        state.next_hook += 1;
        if state.sender.is_some() {
            state.hooks.push((id, Box::new(hook)));
        } else {
            drop(state);
            hook();
        }
        AbortHook { signal: self.clone(), id }
    }

    /// Makes a signal that fires when this one fires, and that a controller of its own may fire earlier.
    #[must_use]
    pub fn child(&self) -> AbortSignal {
        let child = AbortSignal::with_parent(Some(self.clone()));
        let weak = Arc::downgrade(&child.inner);
        let hook = self.on_abort(move || {
            if let Some(inner) = weak.upgrade() {
                AbortSignal { inner }.fire();
            }
        });
        child.inner.state.lock().parent = Some(hook);
        child
    }

    fn with_parent(parent: Option<AbortSignal>) -> AbortSignal {
        let (sender, receiver) = bounded(0);
        let state = State {
            sender: Some(sender),
            hooks: Vec::new(),
            next_hook: 0,
            parent: None,
            alarms: Vec::new(),
        };
        AbortSignal {
            inner: Arc::new(Inner {
                aborted: AtomicBool::new(false),
                parent,
                receiver,
                state: Mutex::new(state),
            }),
        }
    }

    fn fire(&self) {
        let (hooks, sender, alarms) = {
            let mut state = self.inner.state.lock();
            let Some(sender) = state.sender.take() else { return };
            self.inner.aborted.store(true, Ordering::Release);
            (mem::take(&mut state.hooks), sender, mem::take(&mut state.alarms))
        };
        drop((sender, alarms));
        for (_, hook) in hooks {
            // One that panics must not keep the others from being told.
            let _ = thread::catch(hook);
        }
    }
}

impl Default for AbortSignal {
    fn default() -> AbortSignal {
        AbortSignal::with_parent(None)
    }
}

impl Drop for AbortHook {
    fn drop(&mut self) {
        let hook = {
            let mut state = self.signal.inner.state.lock();
            let place = state.hooks.iter().position(|(id, _)| *id == self.id);
            place.map(|place| state.hooks.swap_remove(place))
        };
        // What the hook owns is dropped here, after the lock is free.
        drop(hook);
    }
}

impl fmt::Debug for AbortController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortController")
            .field("aborted", &self.signal.is_aborted())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AbortSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortSignal").field("aborted", &self.is_aborted()).finish()
    }
}

impl fmt::Debug for AbortHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHook")
            .field("aborted", &self.signal.is_aborted())
            .finish_non_exhaustive()
    }
}
