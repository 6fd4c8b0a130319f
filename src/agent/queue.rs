//! Queued messages: steering ones, which a run takes between turns, and follow-ups, which it takes when it would stop.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use crate::{agent::options::QueueMode, message::Message};

/// Tells what became of a message that was queued.
#[derive(Debug, Clone)]
pub struct Receipt {
    id: u64,
    status: Arc<AtomicU8>,
}

/// What became of a message that was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueStatus {
    /// It waits, or is about to be added to the transcript.
    Queued,
    /// It stands in the transcript.
    Delivered,
    /// It was cleared or removed, or the agent is gone.
    Dropped,
}

/// A message that waits.
#[derive(Debug, Clone)]
pub struct QueuedMessage {
    /// Its id, for [`Agent::remove`](crate::Agent::remove).
    pub id: u64,
    /// Whether it steers; else it is a follow-up.
    pub steers: bool,
    /// The message.
    pub message: Arc<Message>,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Entry>,
    /// Taken by the run, not yet in the transcript.
    taken: Vec<Entry>,
}

struct Entry {
    id: u64,
    message: Arc<Message>,
    status: Arc<AtomicU8>,
}

const QUEUED: u8 = 0;
const DELIVERED: u8 = 1;
const DROPPED: u8 = 2;

impl Receipt {
    /// What stands for a list without a message.
    pub(super) fn dropped() -> Receipt {
        Receipt { id: 0, status: Arc::new(AtomicU8::new(DROPPED)) }
    }

    /// The message's id, for [`Agent::remove`](crate::Agent::remove).
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What became of the message.
    pub fn status(&self) -> QueueStatus {
        match self.status.load(Ordering::Acquire) {
            QUEUED => QueueStatus::Queued,
            DELIVERED => QueueStatus::Delivered,
            _ => QueueStatus::Dropped,
        }
    }
}

impl Queue {
    pub(super) fn push(&mut self, id: u64, message: Message) -> Receipt {
        let status = Arc::new(AtomicU8::new(QUEUED));
        self.waiting.push_back(Entry { id, message: Arc::new(message), status: status.clone() });
        Receipt { id, status }
    }

    pub(super) fn peek(&self, mode: QueueMode) -> Vec<Arc<Message>> {
        self.waiting.iter().take(batch(mode)).map(|entry| entry.message.clone()).collect()
    }

    /// Takes a batch; each message counts as queued until [`delivered`](Queue::delivered).
    pub(super) fn take(&mut self, mode: QueueMode) -> Vec<Arc<Message>> {
        let count = batch(mode).min(self.waiting.len());
        let from = self.taken.len();
        self.taken.extend(self.waiting.drain(..count));
        self.taken[from..].iter().map(|entry| entry.message.clone()).collect()
    }

    pub(super) fn delivered(&mut self, message: &Arc<Message>) {
        if let Some(place) =
            self.taken.iter().position(|entry| Arc::ptr_eq(&entry.message, message))
        {
            self.taken.remove(place).status.store(DELIVERED, Ordering::Release);
        }
    }

    /// Puts back, in their old order, messages that a run took and could not deliver.
    pub(super) fn restore(&mut self) {
        for entry in self.taken.drain(..).rev() {
            self.waiting.push_front(entry);
        }
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Arc<Message>> {
        let place = self.waiting.iter().position(|entry| entry.id == id)?;
        self.waiting.remove(place).map(|entry| entry.message.clone())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn list(&self, steers: bool) -> impl Iterator<Item = QueuedMessage> {
        self.waiting.iter().map(move |entry| QueuedMessage {
            id: entry.id,
            steers,
            message: entry.message.clone(),
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = self.status.compare_exchange(QUEUED, DROPPED, Ordering::AcqRel, Ordering::Acquire);
    }
}

fn batch(mode: QueueMode) -> usize {
    match mode {
        QueueMode::OneAtATime => 1,
        QueueMode::All => usize::MAX,
    }
}
