//! Clocks that mean the same in every process, and pauses.

use std::{sync::mpsc, time::Duration};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The monotonic clock of the machine, in nanoseconds.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// What all threads of this process have used of the processor so far, user and system, in nanoseconds.
pub(crate) fn cpu() -> u64 {
    read(ClockId::ProcessCPUTime)
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn micros(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e6
}

pub(crate) fn pause(time: Duration) {
    let (_never, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(time);
}

fn read(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    u64::try_from(tv_sec * 1_000_000_000 + tv_nsec).unwrap_or_default()
}
