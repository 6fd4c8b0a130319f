//! How events reach the state, the observers and the listeners.
//!
//! Events that follow from one another without anything foreign between them go to a listener as one delivery, so that its
//! thread is woken once. That changes nothing of what it sees: an event is put into the state, and told to the observers,
//! when the listener is done with the one before, and a delivery ends early where a listener asks something of the run.

use std::{ops::Range, sync::Arc};

use crate::{
    abort::{AbortController, AbortSignal},
    agent::{
        core::{Core, State},
        listeners::Listener,
        observers::Observer,
    },
    agent_loop::SoftStop,
    error::Error,
    event::AgentEvent,
    thread::lineage,
};

/// Where a run may be told to go another way.
#[derive(Clone)]
pub(super) struct Course {
    pub(super) signal: AbortSignal,
    pub(super) stop: SoftStop,
}

/// What was asked so far.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    listeners: u64,
    is_aborted: bool,
    is_stopped: bool,
}

/// Events on their way to a listener.
pub(super) struct Delivery {
    pub(super) events: Arc<[AgentEvent]>,
    pub(super) range: Range<usize>,
    pub(super) signal: AbortSignal,
    pub(super) line: lineage::Line,
    /// Fired when the listener fails, for a run that does not wait for the answer at once.
    pub(super) interrupt: Option<AbortController>,
    /// Of events that are not in the state yet.
    pub(super) steps: Option<Steps>,
}

/// Puts events into the state as the only listener comes to them.
pub(super) struct Steps {
    core: Arc<Core>,
    course: Course,
    mark: Mark,
    /// Whether the events have happened, so that a soft stop changes nothing of them.
    is_past: bool,
}

/// Events that a listener is at work on.
pub(super) struct Posted {
    /// None if nobody listens.
    listener: Option<Arc<Listener>>,
    events: Arc<[AgentEvent]>,
    range: Range<usize>,
    in_steps: bool,
}

impl Delivery {
    fn new(events: &Arc<[AgentEvent]>, range: Range<usize>, course: &Course) -> Delivery {
        Delivery {
            events: events.clone(),
            range,
            signal: course.signal.clone(),
            line: lineage::current(),
            interrupt: None,
            steps: None,
        }
    }
}

impl Posted {
    /// Whether all is told without anything more from whoever posted it: to the only listener, or because nobody listens.
    pub(super) fn needs_no_more(&self) -> bool {
        let is_told = self.listener.is_none() || self.in_steps;
        is_told && self.range.end == self.events.len()
    }
}

impl Course {
    fn mark(&self, state: &State) -> Mark {
        Mark {
            listeners: state.listener_changes,
            is_aborted: self.signal.is_aborted(),
            is_stopped: self.stop.is_asked(),
        }
    }

    /// Whether nothing keeps the run from going on.
    pub(super) fn is_free(&self) -> bool {
        !self.signal.is_aborted() && !self.stop.is_asked()
    }
}

impl Core {
    /// Reduces events into the state and tells the observers and each listener, one event after another. The first `sure`
    /// are told whatever is asked of the run meanwhile, the others while nothing is. Returns how many were told.
    pub(super) fn tell(
        self: &Arc<Self>,
        events: &Arc<[AgentEvent]>,
        sure: usize,
        course: &Course,
    ) -> Result<usize, Error> {
        let mark = course.mark(&self.state.lock());
        let mut told = 0;
        loop {
            let is_undisturbed = course.mark(&self.state.lock()) == mark;
            let end = if is_undisturbed { events.len() } else { sure };
            if told >= end {
                return Ok(told);
            }
            let posted = self.begin(events, told..end, course, None);
            told = self.wait(posted, course)?;
        }
    }

    /// Hands events to the first listener without waiting for it.
    pub(super) fn begin(
        self: &Arc<Self>,
        events: &Arc<[AgentEvent]>,
        range: Range<usize>,
        course: &Course,
        interrupt: Option<&AbortController>,
    ) -> Posted {
        let post = |listener: Arc<Listener>, range: Range<usize>, steps: Option<Steps>| {
            let in_steps = steps.is_some();
            let mut delivery = Delivery::new(events, range.clone(), course);
            delivery.interrupt = interrupt.cloned();
            delivery.steps = steps;
            let posted = |listener| Posted {
                listener: Some(listener),
                events: events.clone(),
                range,
                in_steps,
            };
            listener.post(delivery).then(|| posted(listener))
        };
        let (only, mark) = {
            let state = self.state.lock();
            (state.only_listener().cloned(), course.mark(&state))
        };
        if let Some(only) = only.filter(|only| only.is_there()) {
            let is_past = interrupt.is_some();
            let steps = Steps { core: self.clone(), course: course.clone(), mark, is_past };
            if let Some(posted) = post(only, range.clone(), Some(steps)) {
                return posted;
            }
        }
        let range = range.start..stride(events, &range);
        let mut next = self.enter(events, &range);
        while let Some(listener) = next {
            match post(listener.clone(), range.clone(), None) {
                Some(posted) => return posted,
                None => next = self.after(&listener),
            }
        }
        Posted { listener: None, events: events.clone(), range, in_steps: false }
    }

    /// Waits for the listener that has the events and tells the ones after it, then the events that are left.
    pub(super) fn settle(self: &Arc<Self>, posted: Posted, course: &Course) -> Result<(), Error> {
        let events = posted.events.clone();
        let mut told = self.wait(posted, course)?;
        while told < events.len() {
            let posted = self.begin(&events, told..events.len(), course, None);
            told = self.wait(posted, course)?;
        }
        Ok(())
    }

    /// Waits until all listeners are done with what was posted; returns up to where that was told.
    fn wait(&self, posted: Posted, course: &Course) -> Result<usize, Error> {
        let Posted { listener, events, range, in_steps } = posted;
        let Some(mut listener) = listener else { return Ok(range.end) };
        let handled = listener.settle()?;
        let range = if in_steps {
            let handled = handled.unwrap_or(range.start);
            if handled == range.start {
                return Ok(handled);
            }
            // Who came while the last of them were told gets those too.
            last_stride(&events, range.start..handled)
        } else {
            range
        };
        while let Some(next) = self.after(&listener) {
            if next.post(Delivery::new(&events, range.clone(), course)) {
                next.settle()?;
            }
            listener = next;
        }
        Ok(range.end)
    }

    /// Reduces events into the state and tells the observers; returns the first listener.
    fn enter(&self, events: &Arc<[AgentEvent]>, range: &Range<usize>) -> Option<Arc<Listener>> {
        let (observers, first) = {
            let mut state = self.state.lock();
            for event in &events[range.clone()] {
                state.apply(event);
            }
            (state.observers().to_vec(), state.first_listener().cloned())
        };
        self.tell_observers(&observers, events, range);
        first
    }

    fn tell_observers(
        &self,
        observers: &[Arc<Observer>],
        events: &Arc<[AgentEvent]>,
        range: &Range<usize>,
    ) {
        for observer in observers {
            if !observer.push(&events[range.clone()]) {
                self.remove_observer(observer);
            }
        }
    }
}

impl Steps {
    /// Reduces the next events into the state and tells the observers. False, and nothing is done, if the run was asked
    /// something since the first event.
    pub(super) fn enter(
        &self,
        events: &Arc<[AgentEvent]>,
        range: &Range<usize>,
        is_first: bool,
    ) -> bool {
        let observers = {
            let mut state = self.core.state.lock();
            let mut mark = self.course.mark(&state);
            if self.is_past {
                mark.is_stopped = self.mark.is_stopped;
            }
            if !is_first && mark != self.mark {
                return false;
            }
            for event in &events[range.clone()] {
                state.apply(event);
            }
            state.observers().to_vec()
        };
        self.core.tell_observers(&observers, events, range);
        true
    }
}

/// The end of what goes into the state at once: updates of one message that come one after another, or one event.
pub(super) fn stride(events: &[AgentEvent], range: &Range<usize>) -> usize {
    let updates = events[range.clone()].iter().take_while(|event| is_update(event)).count();
    range.start + updates.max(1)
}

fn last_stride(events: &[AgentEvent], range: Range<usize>) -> Range<usize> {
    let updates = events[range.clone()].iter().rev().take_while(|event| is_update(event)).count();
    range.end - updates.max(1)..range.end
}

fn is_update(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::MessageUpdate { .. })
}
