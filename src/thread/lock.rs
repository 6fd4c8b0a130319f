//! Locks for what threads wait on.
//!
//! They are the standard library's, since a thread that sleeps on one leaves no trace beside it: other locks keep the
//! sleeping threads of the process in a common table, whose entries lead nowhere after a fork. A panic poisons nothing, and
//! waking nobody costs no system call.

use std::{
    sync::{
        self, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

#[derive(Debug, Default)]
pub(crate) struct Condvar {
    inner: sync::Condvar,
    /// Changed with the lock held, so whoever has changed what they wait for sees them.
    waiters: AtomicUsize,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condvar {
    pub(crate) const fn new() -> Condvar {
        Condvar { inner: sync::Condvar::new(), waiters: AtomicUsize::new(0) }
    }

    /// Waits to be woken, which also happens for no reason.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let guard = self.inner.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// The same, but no longer than until `deadline`; tells whether that has passed.
    pub(crate) fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        let left = deadline.saturating_duration_since(Instant::now());
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let waited = self.inner.wait_timeout(guard, left);
        let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        (guard, result.timed_out())
    }

    /// Wakes one of those who wait. What it waits for must have been changed with the lock held.
    pub(crate) fn notify_one(&self) {
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.inner.notify_one();
        }
    }

    /// Wakes all who wait. What they wait for must have been changed with the lock held.
    pub(crate) fn notify_all(&self) {
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.inner.notify_all();
        }
    }
}
