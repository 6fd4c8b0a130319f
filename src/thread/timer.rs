//! One timer thread for the process: it exists only while a deadline is pending.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::thread::{
    Home,
    lock::{Condvar, Mutex},
};

static TIMER: Timer = Timer { state: Mutex::new(None), changed: Condvar::new() };

static NEXT: AtomicU64 = AtomicU64::new(0);

struct Timer {
    state: Mutex<Option<State>>,
    changed: Condvar,
}

struct State {
    /// By their time, those of the same time in the order in which they were set.
    alarms: BTreeMap<Key, Box<dyn FnOnce() + Send>>,
    /// The process that runs the thread: after a fork the child has the state but not the thread.
    home: Home,
}

type Key = (Instant, u64);

/// Keeps an alarm set; dropping it takes the alarm back, unless it is just going off.
#[must_use = "dropping it takes the alarm back"]
#[derive(Debug)]
pub(crate) struct Alarm {
    key: Key,
}

/// The moment after `time` has passed from now; `None` if that is later than a clock can tell, which is never.
pub(crate) fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// Runs `action` on the timer thread when `at` is reached. The action must be short.
pub(crate) fn at(at: Instant, action: impl FnOnce() + Send + 'static) -> Alarm {
    let mut guard = TIMER.state.lock();
    let start = guard.as_ref().is_none_or(|state| !state.home.is_here());
    if start {
        *guard = None;
    }
    let state = guard.get_or_insert_with(|| State { alarms: BTreeMap::new(), home: Home::here() });
    let key = (at, NEXT.fetch_add(1, Ordering::Relaxed));
    state.alarms.insert(key, Box::new(action));
    drop(guard);
    if start && super::spawn("steerage-timer", run).is_err() {
        // Without a thread a deadline cannot fire early; the alarms of the next call try again.
        *TIMER.state.lock() = None;
    }
    TIMER.changed.notify_all();
    Alarm { key }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let mut guard = TIMER.state.lock();
        let Some(state) = guard.as_mut() else { return };
        let action = state.alarms.remove(&self.key);
        let is_last = action.is_some() && state.alarms.is_empty();
        drop(guard);
        if is_last {
            // The thread waits for what will not come.
            TIMER.changed.notify_all();
        }
        // What the action owns is dropped here, after the lock is free.
        drop(action);
    }
}

fn run() {
    /// How long the thread stays without an alarm before it ends.
    const LINGER: Duration = Duration::from_secs(1);
    let mut guard = TIMER.state.lock();
    let mut idle_since = None;
    loop {
        let Some(state) = guard.as_mut() else { return };
        let now = Instant::now();
        match state.alarms.first_key_value().map(|(key, _)| *key) {
            Some((at, _)) if at <= now => {
                let alarm = state.alarms.pop_first();
                drop(guard);
                if let Some((_, action)) = alarm {
                    let _ = super::catch(action);
                }
                guard = TIMER.state.lock();
                idle_since = None;
            }
            Some((at, _)) => {
                (guard, _) = TIMER.changed.wait_until(guard, at);
                idle_since = None;
            }
            None => {
                let since = *idle_since.get_or_insert(now);
                if now >= since + LINGER {
                    *guard = None;
                    return;
                }
                (guard, _) = TIMER.changed.wait_until(guard, since + LINGER);
            }
        }
    }
}
