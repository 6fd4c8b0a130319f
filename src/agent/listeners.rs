//! Listeners: each has a thread of its own, gets every event in order, and the run waits until it is done.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    abort::{AbortController, AbortSignal},
    agent::core::Core,
    agent_loop::guard,
    error::{Error, ErrorKind},
    event::AgentEvent,
    thread::{
        self,
        hand_over::{self, Receiver, Sender},
        lineage,
    },
    tool::ToolError,
};

/// Keeps a listener subscribed; dropping it unsubscribes.
#[must_use = "dropping the subscription unsubscribes the listener"]
pub struct Subscription {
    core: Weak<Core>,
    listener: Arc<Listener>,
    kept: bool,
}

/// The run's side of a listener.
pub(super) struct Listener {
    pub(super) id: u64,
    active: Arc<AtomicBool>,
    /// One delivery at a time: the run waits for its answer before the next.
    deliveries: Sender<Delivery>,
    answers: Receiver<Result<(), Error>>,
}

/// Events on their way to a listener.
pub(super) struct Delivery {
    pub(super) events: Arc<[AgentEvent]>,
    pub(super) signal: AbortSignal,
    pub(super) line: Option<Arc<lineage::Lineage>>,
    /// Fired when the listener fails, for a run that does not wait for the answer at once.
    pub(super) interrupt: Option<AbortController>,
}

/// The thread's side of a listener.
struct Actor<F> {
    active: Arc<AtomicBool>,
    deliveries: Receiver<Delivery>,
    answers: Sender<Result<(), Error>>,
    callback: F,
}

impl Subscription {
    pub(super) fn new(core: &Arc<Core>, listener: Arc<Listener>) -> Subscription {
        Subscription { core: Arc::downgrade(core), listener, kept: false }
    }

    /// Takes the listener off. An event that it is just at is finished; none comes after. Works inside the listener too.
    pub fn unsubscribe(self) {
        drop(self);
    }

    /// Keeps the listener for as long as the agent lives.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        self.listener.active.store(false, Ordering::Release);
        if let Some(core) = self.core.upgrade() {
            core.remove_listener(self.listener.id);
        }
    }
}

impl Listener {
    /// Starts the listener's thread. If none can be started the listener fails at its first event.
    pub(super) fn start<F>(id: u64, callback: F) -> Arc<Listener>
    where
        F: FnMut(&AgentEvent, &AbortSignal) -> Result<(), ToolError> + Send + 'static,
    {
        let (delivery_sender, delivery_receiver) = hand_over::channel();
        let (answer_sender, answer_receiver) = hand_over::channel();
        let active = Arc::new(AtomicBool::new(true));
        let listener = Arc::new(Listener {
            id,
            active: active.clone(),
            deliveries: delivery_sender,
            answers: answer_receiver,
        });
        let actor = Actor {
            active,
            deliveries: delivery_receiver,
            answers: answer_sender.clone(),
            callback,
        };
        if let Err(error) = thread::spawn(&format!("listener-{id}"), move || actor.run()) {
            let message = "the listener's thread could not be started";
            let _ = answer_sender
                .send(Err(Error::new(ErrorKind::Configuration, message).with_source(error)));
        }
        listener
    }

    /// Hands events over; false if the listener takes none any more.
    pub(super) fn post(&self, delivery: Delivery) -> bool {
        self.active.load(Ordering::Acquire) && self.deliveries.send(delivery).is_ok()
    }

    /// Waits until the listener is done with what was posted.
    pub(super) fn settle(&self) -> Result<(), Error> {
        // A thread that is gone has dropped its sender, which settles the delivery.
        self.answers.recv().unwrap_or(Ok(()))
    }
}

impl<F> Actor<F>
where
    F: FnMut(&AgentEvent, &AbortSignal) -> Result<(), ToolError>,
{
    fn run(mut self) {
        while let Ok(delivery) = self.deliveries.recv() {
            let answer = self.handle(&delivery);
            let interrupt = delivery.interrupt.clone().filter(|_| answer.is_err());
            drop(delivery);
            if self.answers.send(answer).is_err() {
                return;
            }
            if let Some(interrupt) = interrupt {
                interrupt.abort();
            }
        }
    }

    fn handle(&mut self, delivery: &Delivery) -> Result<(), Error> {
        let _entered = lineage::enter(delivery.line.clone());
        for event in &*delivery.events {
            if !self.active.load(Ordering::Acquire) {
                return Ok(());
            }
            guard(|| (self.callback)(event, &delivery.signal))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("listener", &self.listener.id).finish_non_exhaustive()
    }
}
