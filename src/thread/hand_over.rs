//! Receiving with a short look before the thread goes to sleep.
//!
//! Waking a sleeping thread costs both sides several microseconds of system time, far more than a listener or a small
//! tool takes. So whoever waits for an answer that is likely to come at once looks for it a little while first. How long
//! follows from whether looking paid lately: a thread that is asked every few milliseconds goes to sleep at once.

use std::{
    hint,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvError, TryRecvError};

/// How often to look before going to sleep. One for each place that waits.
#[derive(Debug)]
pub(crate) struct Patience {
    looks: AtomicU32,
    most: u32,
}

impl Patience {
    const LEAST: u32 = 4;
    const MOST: u32 = 400;
    /// What came within this time would have been worth looking for.
    const WORTHWHILE: Duration = Duration::from_micros(8);

    pub(crate) fn new() -> Patience {
        // With one processor, looking keeps the one that is waited for from running.
        let alone = thread::available_parallelism().is_ok_and(|count| count.get() == 1);
        let most = if alone { 0 } else { Patience::MOST };
        Patience { looks: AtomicU32::new(most), most }
    }

    /// Receives the next message.
    pub(crate) fn recv<T>(&self, receiver: &Receiver<T>) -> Result<T, RecvError> {
        let looks = self.looks.load(Ordering::Relaxed);
        for _ in 0..looks {
            match receiver.try_recv() {
                Ok(message) => {
                    self.looks.store((looks * 2).min(self.most), Ordering::Relaxed);
                    return Ok(message);
                }
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => hint::spin_loop(),
            }
        }
        let slept = Instant::now();
        let message = receiver.recv();
        let looks = if slept.elapsed() <= Patience::WORTHWHILE {
            (looks * 4).min(self.most)
        } else {
            (looks / 2).max(Patience::LEAST).min(self.most)
        };
        self.looks.store(looks, Ordering::Relaxed);
        message
    }
}
