//! Queued messages: steering ones, which a run takes between turns, and follow-ups, which it takes when it would stop.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use crate::{
    agent::{
        Agent,
        options::{Prompt, QueueMode},
    },
    message::Message,
};

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

/// The queues of messages that wait for a run.
impl Agent {
    /// Queues a message that the run takes as soon as the present turn is complete, before it asks the model again.
    /// While no run is active it waits for the next one.
    pub fn steer(&self, message: impl Into<Prompt>) -> Receipt {
        self.enqueue(message.into(), true)
    }

    /// Queues a message that the run takes when it would stop. While no run is active it waits for the next one.
    pub fn follow_up(&self, message: impl Into<Prompt>) -> Receipt {
        self.enqueue(message.into(), false)
    }

    fn enqueue(&self, prompt: Prompt, steers: bool) -> Receipt {
        let mut state = self.core().state.lock();
        let mut receipt = Receipt::dropped();
        for message in prompt.messages {
            let id = state.next_id();
            receipt = state.queue(steers).push(id, message);
        }
        receipt
    }

    /// Drops the queued steering messages.
    pub fn clear_steering_queue(&self) {
        self.core().state.lock().steering.clear();
    }

    /// Drops the queued follow-up messages.
    pub fn clear_follow_up_queue(&self) {
        self.core().state.lock().follow_ups.clear();
    }

    /// Drops all queued messages.
    pub fn clear_all_queues(&self) {
        let mut state = self.core().state.lock();
        state.steering.clear();
        state.follow_ups.clear();
    }

    /// Whether any message is queued.
    pub fn has_queued_messages(&self) -> bool {
        let state = self.core().state.lock();
        !state.steering.is_empty() || !state.follow_ups.is_empty()
    }

    /// What the next poll would give: steering messages first, else follow-ups. Consumes nothing.
    pub fn peek_queued_messages(&self) -> Vec<Arc<Message>> {
        let state = self.core().state.lock();
        let steering = state.steering.peek(state.options.steering_mode);
        if steering.is_empty() {
            state.follow_ups.peek(state.options.follow_up_mode)
        } else {
            steering
        }
    }

    /// Lists the queued messages, steering ones first.
    pub fn queued(&self) -> Vec<QueuedMessage> {
        let state = self.core().state.lock();
        state.steering.list(true).chain(state.follow_ups.list(false)).collect()
    }

    /// Takes a queued message back; `None` if it is no longer queued.
    pub fn remove(&self, id: u64) -> Option<Arc<Message>> {
        let mut state = self.core().state.lock();
        state.steering.remove(id).or_else(|| state.follow_ups.remove(id))
    }
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
    /// Whether the queue was cleared after a run took it: then it does not come back.
    is_cleared: bool,
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
        self.waiting.push_back(Entry {
            id,
            message: Arc::new(message),
            status: status.clone(),
            is_cleared: false,
        });
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
        for entry in self.taken.drain(..).rev().filter(|entry| !entry.is_cleared) {
            self.waiting.push_front(entry);
        }
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        for entry in &mut self.taken {
            entry.is_cleared = true;
        }
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
