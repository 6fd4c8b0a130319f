//! A clock that stands still and keeps a list of the pauses that it was asked for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::{abort::AbortSignal, clock::Clock};

/// Records pauses instead of waiting. Its jitter is one half, its time of day is fixed.
#[derive(Debug)]
pub struct RecordingClock {
    now: SystemTime,
    pauses: Mutex<Vec<Duration>>,
}

impl RecordingClock {
    /// Makes a clock that stands at `now`.
    pub fn at(now: SystemTime) -> RecordingClock {
        RecordingClock { now, pauses: Mutex::default() }
    }

    /// Returns the pauses so far.
    pub fn pauses(&self) -> Vec<Duration> {
        self.pauses.lock().clone()
    }
}

impl Default for RecordingClock {
    fn default() -> RecordingClock {
        RecordingClock::at(UNIX_EPOCH)
    }
}

impl Clock for RecordingClock {
    fn sleep(&self, duration: Duration, signal: &AbortSignal) -> bool {
        self.pauses.lock().push(duration);
        signal.is_aborted()
    }

    fn now(&self) -> SystemTime {
        self.now
    }

    fn jitter(&self) -> f64 {
        0.5
    }
}
