//! The time and the chance that waiting depends on, so that a test can put its own in their place.

use std::{
    fmt::Debug,
    hash::{BuildHasher, Hasher, RandomState},
    time::{Duration, SystemTime},
};

use crate::abort::AbortSignal;

/// Tells the time, waits and throws the dice for whoever retries.
///
/// Used from any thread. [`SystemClock`] is the real one.
pub trait Clock: Debug + Send + Sync {
    /// Waits for `duration` or until `signal` fires; tells whether it fired.
    fn sleep(&self, duration: Duration, signal: &AbortSignal) -> bool;

    /// Returns the time of day.
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Returns a random number from 0 up to 1.
    fn jitter(&self) -> f64 {
        // Each `RandomState` has keys of its own, which is random enough to spread retries.
        let bits = RandomState::new().build_hasher().finish() >> 32;
        u32::try_from(bits).map_or(0.0, |bits| f64::from(bits) / (f64::from(u32::MAX) + 1.0))
    }
}

/// The clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn sleep(&self, duration: Duration, signal: &AbortSignal) -> bool {
        signal.wait_timeout(duration)
    }
}
