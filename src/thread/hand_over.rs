//! A channel for answers that come at once: the receiver looks for a short while before it goes to sleep.
//!
//! Waking a sleeping thread costs both sides several microseconds of system time, far more than a listener or a small
//! tool takes. So whoever waits for an answer that is likely to come at once looks for it a little while first. How long
//! follows from whether looking paid lately: a thread that is asked every few milliseconds goes to sleep at once.
//!
//! General channels yield the processor several times before they sleep, a system call each; where each event of a run is
//! handed to and fro these were a third of its time.

use std::{
    collections::VecDeque,
    hint,
    sync::{
        Arc, MutexGuard, OnceLock,
        atomic::{AtomicU8, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::thread::lock::{Condvar, Mutex};

/// Makes a channel. Each side learns from its next call that the other is gone.
pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            messages: VecDeque::new(),
            senders: 1,
            is_wanted: true,
            sleeps: false,
        }),
        sign: AtomicU8::new(NOTHING),
        added: Condvar::new(),
    });
    (Sender { shared: shared.clone() }, Receiver { shared, patience: Patience::new() })
}

/// Gives messages. A message never waits for room: whoever sends waits for an answer before the next, or is few.
pub(crate) struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// Takes messages.
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    patience: Patience,
}

/// Why a wait ended without a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecvError {
    /// The deadline passed.
    Timeout,
    /// Every sender is gone.
    Disconnected,
}

const NOTHING: u8 = 0;
const SOMETHING: u8 = 1;

struct Shared<T> {
    state: Mutex<State<T>>,
    /// What there is to see without the lock: whether a look at the state is worth it.
    sign: AtomicU8,
    added: Condvar,
}

struct State<T> {
    messages: VecDeque<T>,
    senders: usize,
    /// Whether the receiver is still there.
    is_wanted: bool,
    sleeps: bool,
}

impl<T> Sender<T> {
    /// Gives a message; it comes back if the receiver is gone.
    pub(crate) fn send(&self, message: T) -> Result<(), T> {
        let mut state = self.shared.state.lock();
        if !state.is_wanted {
            return Err(message);
        }
        state.messages.push_back(message);
        self.shared.wake(state);
        Ok(())
    }
}

impl<T> Shared<T> {
    fn wake(&self, state: MutexGuard<'_, State<T>>) {
        self.sign.store(SOMETHING, Ordering::Release);
        let sleeps = state.sleeps;
        drop(state);
        if sleeps {
            self.added.notify_one();
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for the next message.
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        self.recv_until(None)
    }

    /// Whether a message is there, or none will come any more.
    pub(crate) fn has_some(&self) -> bool {
        self.shared.sign.load(Ordering::Acquire) == SOMETHING
    }

    /// Waits for the next message until the deadline.
    pub(crate) fn recv_until(&self, deadline: Option<Instant>) -> Result<T, RecvError> {
        let shared = &*self.shared;
        let saw = self.patience.look(|| shared.sign.load(Ordering::Acquire) == SOMETHING);
        let mut state = shared.state.lock();
        let slept = Instant::now();
        let result = loop {
            if let Some(message) = state.messages.pop_front() {
                break Ok(message);
            }
            if state.senders == 0 {
                break Err(RecvError::Disconnected);
            }
            shared.sign.store(NOTHING, Ordering::Relaxed);
            state.sleeps = true;
            let is_late = match deadline {
                None => {
                    state = shared.added.wait(state);
                    false
                }
                Some(deadline) => {
                    let is_late;
                    (state, is_late) = shared.added.wait_until(state, deadline);
                    is_late
                }
            };
            state.sleeps = false;
            if is_late && state.messages.is_empty() {
                break Err(RecvError::Timeout);
            }
        };
        if state.messages.is_empty() && state.senders > 0 {
            shared.sign.store(NOTHING, Ordering::Relaxed);
        }
        drop(state);
        if !saw {
            self.patience.slept(slept.elapsed());
        }
        result
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.shared.state.lock().senders += 1;
        Sender { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.senders -= 1;
        if state.senders == 0 {
            self.shared.wake(state);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_wanted = false;
        let unread = std::mem::take(&mut state.messages);
        drop(state);
        drop(unread);
    }
}

/// How often to look before going to sleep. One for each place that waits.
#[derive(Debug)]
pub(crate) struct Patience {
    looks: AtomicU32,
    most: u32,
}

impl Patience {
    const LEAST: u32 = 16;
    const MOST: u32 = 500;
    /// What came within this time would have been worth looking for.
    const WORTHWHILE: Duration = Duration::from_micros(20);

    pub(crate) fn new() -> Patience {
        // With one processor, looking keeps the one that is waited for from running. To ask how many there are reads files.
        static IS_ONLY_ONE: OnceLock<bool> = OnceLock::new();
        let count = thread::available_parallelism;
        let is_only_one = IS_ONLY_ONE.get_or_init(|| count().is_ok_and(|it| it.get() == 1));
        let most = if *is_only_one { 0 } else { Patience::MOST };
        Patience { looks: AtomicU32::new(most), most }
    }

    /// Looks until `is_there`, or until it is better to sleep; tells whether it was there.
    pub(crate) fn look(&self, is_there: impl Fn() -> bool) -> bool {
        let looks = self.looks.load(Ordering::Relaxed);
        for _ in 0..looks {
            if is_there() {
                self.looks.store((looks * 2).min(self.most), Ordering::Relaxed);
                return true;
            }
            hint::spin_loop();
        }
        is_there()
    }

    /// Learns how long the sleep was that followed a look in vain.
    pub(crate) fn slept(&self, time: Duration) {
        let looks = self.looks.load(Ordering::Relaxed);
        let looks = if time <= Patience::WORTHWHILE {
            (looks * 4).min(self.most)
        } else {
            (looks / 2).max(Patience::LEAST).min(self.most)
        };
        self.looks.store(looks, Ordering::Relaxed);
    }
}
