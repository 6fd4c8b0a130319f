//! Whose turn it is to change a store. No mutex is held while the one whose turn it is does its work.

use std::thread::{self, ThreadId};

use crate::{
    error::{Error, ErrorKind, Result},
    thread::lock::{Condvar, Mutex},
};

/// Lets one thread after the other do something.
#[derive(Debug, Default)]
pub(super) struct Turns {
    whose: Mutex<Option<ThreadId>>,
    over: Condvar,
}

/// Ends the turn when it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
}

impl Turns {
    /// Waits for the turn of this thread. A thread whose turn it is already would wait for itself, which is refused.
    pub(super) fn take(&self) -> Result<Turn<'_>> {
        let me = thread::current().id();
        let mut whose = self.whose.lock();
        if *whose == Some(me) {
            let message =
                "a change of a credential store waits for itself: change the store outside of it";
            return Err(Error::new(ErrorKind::WouldDeadlock, message));
        }
        while whose.is_some() {
            whose = self.over.wait(whose);
        }
        *whose = Some(me);
        Ok(Turn { turns: self })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.turns.whose.lock() = None;
        self.turns.over.notify_one();
    }
}
