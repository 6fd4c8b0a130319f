//! One timer thread for the process: it exists only while a deadline is pending.

use std::{
    cmp::Ordering,
    collections::BinaryHeap,
    process,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

static TIMER: Timer = Timer { state: Mutex::new(None), changed: Condvar::new() };

struct Timer {
    state: Mutex<Option<State>>,
    changed: Condvar,
}

struct State {
    alarms: BinaryHeap<Alarm>,
    next: u64,
    /// The process that runs the thread: after a fork the child has the state but not the thread.
    process: u32,
}

struct Alarm {
    at: Instant,
    order: u64,
    action: Box<dyn FnOnce() + Send>,
}

/// The moment after `time` has passed from now; `None` if that is later than a clock can tell, which is never.
pub(crate) fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// Runs `action` on the timer thread when `at` is reached. The action must be short.
pub(crate) fn at(at: Instant, action: impl FnOnce() + Send + 'static) {
    let mut guard = TIMER.state.lock();
    let process = process::id();
    let start = guard.as_ref().is_none_or(|state| state.process != process);
    if start {
        *guard = Some(State { alarms: BinaryHeap::new(), next: 0, process });
    }
    if let Some(state) = guard.as_mut() {
        state.next += 1;
        let order = state.next;
        state.alarms.push(Alarm { at, order, action: Box::new(action) });
    }
    drop(guard);
    if start && super::spawn("steerage-timer", run).is_err() {
        // Without a thread a deadline cannot fire early; the alarms of the next call try again.
        *TIMER.state.lock() = None;
    }
    TIMER.changed.notify_one();
}

fn run() {
    /// How long the thread stays without an alarm before it ends.
    const LINGER: Duration = Duration::from_secs(1);
    let mut guard = TIMER.state.lock();
    let mut idle_since = None;
    loop {
        let Some(state) = guard.as_mut() else { return };
        let now = Instant::now();
        match state.alarms.peek() {
            Some(alarm) if alarm.at <= now => {
                let alarm = state.alarms.pop();
                parking_lot::MutexGuard::unlocked(&mut guard, || {
                    if let Some(alarm) = alarm {
                        let _ = super::catch(alarm.action);
                    }
                });
                idle_since = None;
            }
            Some(alarm) => {
                let at = alarm.at;
                TIMER.changed.wait_until(&mut guard, at);
                idle_since = None;
            }
            None => {
                let since = *idle_since.get_or_insert(now);
                if now >= since + LINGER {
                    *guard = None;
                    return;
                }
                TIMER.changed.wait_until(&mut guard, since + LINGER);
            }
        }
    }
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Alarm) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Alarm) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    /// The earliest alarm is the greatest, since the heap gives the greatest first.
    fn cmp(&self, other: &Alarm) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}
