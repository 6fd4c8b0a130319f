//! Listeners: each has a thread of its own, gets every event in order, and the run waits until it is done.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    abort::AbortSignal,
    agent::{
        core::Core,
        delivery::{Delivery, stride},
    },
    agent_loop::guard,
    error::{Error, ErrorKind},
    event::AgentEvent,
    thread::{
        self, Home,
        hand_over::{self, Receiver, Sender},
        lineage,
    },
    tool::ToolError,
};

/// Keeps a listener subscribed; dropping it unsubscribes.
#[must_use = "dropping the subscription unsubscribes the listener"]
pub struct Subscription {
    core: Weak<Core>,
    /// Not the listener itself, whose thread shall end with the agent even if the subscription is kept.
    listener: u64,
    active: Arc<AtomicBool>,
    kept: bool,
}

/// The run's side of a listener.
pub(super) struct Listener {
    pub(super) id: u64,
    active: Arc<AtomicBool>,
    /// One delivery at a time: the run waits for its answer before the next.
    deliveries: Sender<Delivery>,
    /// Up to where the events of the delivery were handled.
    answers: Receiver<Result<usize, Error>>,
    home: Home,
    /// Whether its thread could be started.
    started: bool,
}

/// The thread's side of a listener.
struct Actor<F> {
    active: Arc<AtomicBool>,
    deliveries: Receiver<Delivery>,
    answers: Sender<Result<usize, Error>>,
    callback: F,
}

impl Subscription {
    pub(super) fn new(core: &Arc<Core>, listener: &Listener) -> Subscription {
        Subscription {
            core: Arc::downgrade(core),
            listener: listener.id,
            active: listener.active.clone(),
            kept: false,
        }
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
        self.active.store(false, Ordering::Release);
        if let Some(core) = self.core.upgrade() {
            core.remove_listener(self.listener);
        }
    }
}

impl Listener {
    /// Starts the listener's thread. If none can be started the listener fails at its first event.
    pub(super) fn start<F>(id: u64, callback: F) -> Arc<Listener>
    where
        F: FnMut(&AgentEvent, &AbortSignal) -> Result<(), ToolError> + Send + 'static,
    {
        let (deliveries, delivered) = hand_over::channel();
        let (answer, answers) = hand_over::channel();
        let active = Arc::new(AtomicBool::new(true));
        let actor =
            Actor { active: active.clone(), deliveries: delivered, answers: answer, callback };
        let started = thread::spawn(&format!("listener-{id}"), move || actor.run()).is_ok();
        Arc::new(Listener { id, active, deliveries, answers, home: Home::here(), started })
    }

    /// Hands events over; false if the listener takes none any more.
    pub(super) fn post(&self, delivery: Delivery) -> bool {
        let is_active = self.active.load(Ordering::Acquire);
        is_active && (self.missing().is_some() || self.deliveries.send(delivery).is_ok())
    }

    /// Whether it has a thread that can take events.
    pub(super) fn is_there(&self) -> bool {
        self.missing().is_none()
    }

    /// Why there is no thread that could take events. It must not look as if all was told.
    fn missing(&self) -> Option<&'static str> {
        if !self.started {
            return Some("the listener's thread could not be started");
        }
        (!self.home.is_here()).then_some(
            "the listener's thread is in the process that this one was forked from: subscribe again",
        )
    }

    /// Waits until the listener is done with what was posted; says up to where it came, if it is still there.
    pub(super) fn settle(&self) -> Result<Option<usize>, Error> {
        if let Some(why) = self.missing() {
            return Err(Error::new(ErrorKind::Configuration, why));
        }
        // A thread that is gone has dropped its sender, which settles the delivery.
        self.answers.recv().map_or(Ok(None), |answer| answer.map(Some))
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

    /// Returns up to where the events were handled.
    fn handle(&mut self, delivery: &Delivery) -> Result<usize, Error> {
        let _entered = lineage::enter(delivery.line.clone());
        let Delivery { events, range, steps, .. } = delivery;
        let mut at = range.start;
        while at < range.end {
            let step = at..steps.as_ref().map_or(range.end, |_| stride(events, &(at..range.end)));
            let is_active = || self.active.load(Ordering::Acquire);
            if let Some(steps) = steps
                && !(is_active() && steps.enter(events, &step, at == range.start))
            {
                break;
            }
            for event in &events[step.clone()] {
                if !self.active.load(Ordering::Acquire) {
                    return Ok(step.end);
                }
                guard(|| (self.callback)(event, &delivery.signal))?;
            }
            at = step.end;
        }
        Ok(at)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("listener", &self.listener).finish_non_exhaustive()
    }
}
