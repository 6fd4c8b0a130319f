//! One at a time, with a wait that a signal ends.

use std::convert::Infallible;

use crossbeam_channel::{Receiver, Sender, bounded, select};

/// Hands out the only turn, with a value that goes from one holder to the next.
pub(crate) struct Turns<T = ()> {
    free: (Sender<T>, Receiver<T>),
}

/// The turn. It is given back when this is dropped, also by a panic of what is done in it.
pub(crate) struct Turn<'a, T: Copy = ()> {
    turns: &'a Turns<T>,
    /// What the next holder gets.
    pub(crate) value: T,
}

impl<T: Copy> Turns<T> {
    pub(crate) fn new(value: T) -> Turns<T> {
        let free = bounded(1);
        let _ = free.0.send(value);
        Turns { free }
    }

    /// Waits for the turn; `None` if the signal of this channel fires first.
    pub(crate) fn wait(&self, signal: &Receiver<Infallible>) -> Option<Turn<'_, T>> {
        select! {
            recv(self.free.1) -> value => value.ok().map(|value| Turn { turns: self, value }),
            recv(signal) -> _ => None,
        }
    }
}

impl<T: Copy> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let _ = self.turns.free.0.send(self.value);
    }
}
