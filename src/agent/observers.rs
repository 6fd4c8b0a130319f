//! Observers: they never hold a run up; what nobody has read yet waits in a queue, with text merged.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use crate::{
    event::AgentEvent,
    stream::StreamEvent,
    thread::{
        self,
        lock::{Condvar, Mutex},
        timer,
    },
    tool::while_blocked,
};

/// A reader of events that never holds a run up.
///
/// It is polled ([`try_next`](Events::try_next), [`drain`](Events::drain)), waited on
/// ([`next_timeout`](Events::next_timeout)) or iterated. Deltas of one block that nobody has read yet are merged into one.
/// It begins with the next event and ends when the agent is gone.
///
/// # Examples
///
/// A frame loop reads what has come, without waiting:
///
/// ```
/// use steerage::{Agent, AgentOptions, testing::Scripted};
///
/// let scripted = Scripted::new(["Hello!"]);
/// let agent = Agent::new(scripted.model(), AgentOptions { stream: Some(scripted.into()), ..AgentOptions::default() })?;
/// let events = agent.events();
/// let run = agent.prompt("Hi")?;
/// let mut shown = String::new();
/// while !run.is_done() || !events.is_empty() {
///     for event in events.drain(16) {
///         shown.push_str(event.text_delta().unwrap_or_default());
///     }
/// }
/// assert_eq!(shown, "Hello!");
/// # Ok::<(), steerage::Error>(())
/// ```
pub struct Events {
    shared: Arc<Shared>,
}

/// The agent's side of an observer.
pub(super) struct Observer {
    shared: Weak<Shared>,
}

struct Shared {
    state: Mutex<State>,
    added: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<AgentEvent>,
    wake: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Whether the wake callback was called since the last read.
    woken: bool,
    closed: bool,
}

impl Events {
    pub(super) fn new() -> (Events, Observer) {
        let shared = Arc::new(Shared { state: Mutex::default(), added: Condvar::new() });
        let observer = Observer { shared: Arc::downgrade(&shared) };
        (Events { shared }, observer)
    }

    /// Calls `wake` when events are there, once until the next read. It runs on the agent's thread or on a listener's and
    /// must not block: a repaint request, a message to an event loop.
    #[must_use]
    pub fn on_wake(self, wake: impl Fn() + Send + Sync + 'static) -> Events {
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(wake);
        let due = {
            let mut state = self.shared.state.lock();
            state.wake = Some(wake.clone());
            state.woken = !state.queue.is_empty();
            state.woken
        };
        if due {
            wake();
        }
        self
    }

    /// The next event, if one is there. Never waits.
    pub fn try_next(&self) -> Option<AgentEvent> {
        let mut state = self.shared.state.lock();
        state.woken = false;
        state.queue.pop_front()
    }

    /// Up to `limit` events that are there. Never waits.
    pub fn drain(&self, limit: usize) -> Vec<AgentEvent> {
        let mut state = self.shared.state.lock();
        state.woken = false;
        let count = limit.min(state.queue.len());
        state.queue.drain(..count).collect()
    }

    /// Waits for the next event, but no longer than `timeout`. `None` when the time has passed or the agent is gone.
    pub fn next_timeout(&self, timeout: Duration) -> Option<AgentEvent> {
        self.wait(timer::after(timeout))
    }

    /// Whether no event is there at the moment.
    pub fn is_empty(&self) -> bool {
        self.shared.state.lock().queue.is_empty()
    }

    /// Whether the agent is gone, so that no event will come any more.
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().closed
    }

    fn wait(&self, deadline: Option<Instant>) -> Option<AgentEvent> {
        let at_once = self.try_next();
        if at_once.is_some() || self.is_closed() {
            return at_once;
        }
        // A tool may wait here for what an agent of its own tells.
        while_blocked(|| self.wait_blocked(deadline))
    }

    fn wait_blocked(&self, deadline: Option<Instant>) -> Option<AgentEvent> {
        let mut state = self.shared.state.lock();
        loop {
            state.woken = false;
            if let Some(event) = state.queue.pop_front() {
                return Some(event);
            }
            if state.closed {
                return None;
            }
            match deadline {
                None => state = self.shared.added.wait(state),
                Some(deadline) => {
                    let is_late;
                    (state, is_late) = self.shared.added.wait_until(state, deadline);
                    if is_late {
                        return state.queue.pop_front();
                    }
                }
            }
        }
    }
}

impl Iterator for Events {
    type Item = AgentEvent;

    /// Waits for the next event; `None` when the agent is gone.
    fn next(&mut self) -> Option<AgentEvent> {
        self.wait(None)
    }
}

impl Observer {
    /// Queues events; false when nobody reads any more.
    pub(super) fn push(&self, events: &[AgentEvent]) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let wake = {
            let mut state = shared.state.lock();
            for event in events {
                if !state.queue.back_mut().is_some_and(|last| merge(last, event)) {
                    state.queue.push_back(event.clone());
                }
            }
            let due = !state.woken && !state.queue.is_empty();
            if due && state.wake.is_some() {
                state.woken = true;
            }
            state.wake.clone().filter(|_| due)
        };
        shared.added.notify_all();
        if let Some(wake) = wake {
            let _ = thread::catch(|| wake());
        }
        true
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            let wake = {
                let mut state = shared.state.lock();
                state.closed = true;
                state.wake.take()
            };
            shared.added.notify_all();
            if let Some(wake) = wake {
                let _ = thread::catch(|| wake());
            }
        }
    }
}

/// Appends a delta to an unread one of the same block.
fn merge(last: &mut AgentEvent, event: &AgentEvent) -> bool {
    let (
        AgentEvent::MessageUpdate { message: last_message, event: last },
        AgentEvent::MessageUpdate { message, event },
    ) = (last, event)
    else {
        return false;
    };
    if !last_message.is_same(message) || last.content_index() != event.content_index() {
        return false;
    }
    match (last, event) {
        (StreamEvent::TextDelta { delta: last, .. }, StreamEvent::TextDelta { delta, .. })
        | (
            StreamEvent::ThinkingDelta { delta: last, .. },
            StreamEvent::ThinkingDelta { delta, .. },
        )
        | (
            StreamEvent::ToolCallDelta { delta: last, .. },
            StreamEvent::ToolCallDelta { delta, .. },
        ) => {
            last.push_str(delta);
            true
        }
        _ => false,
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("Events")
            .field("waiting", &state.queue.len())
            .field("closed", &state.closed)
            .finish()
    }
}
