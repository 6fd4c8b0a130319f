//! The one lock of an agent, and the one place that changes its state.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crossbeam_channel::Sender;

use crate::{
    agent::{
        listeners::Listener,
        observers::Observer,
        options::{AgentOptions, QueueMode},
        queue::Queue,
        run::RunState,
        worker::Job,
    },
    agent_loop::MessageQueue,
    event::AgentEvent,
    message::Message,
    model::Model,
    stream::{LiveMessage, RequestMemo},
    thread::{
        Home,
        lock::{Condvar, Mutex},
    },
};

static NEXT_AGENT: AtomicU64 = AtomicU64::new(1);

/// What the handles, the worker and the listeners of one agent share.
pub(super) struct Core {
    pub(super) id: u64,
    pub(super) state: Mutex<State>,
    /// Of the requests of all runs.
    pub(super) memo: RequestMemo,
    pub(super) idle: Condvar,
}

pub(super) struct State {
    pub(super) options: Arc<AgentOptions>,
    pub(super) model: Arc<Model>,
    pub(super) messages: Arc<Vec<Arc<Message>>>,
    pub(super) streaming: Option<Streaming>,
    pub(super) pending: BTreeSet<String>,
    pub(super) error: Option<String>,
    pub(super) steering: Queue,
    pub(super) follow_ups: Queue,
    pub(super) active: Option<Arc<RunState>>,
    /// The worker thread's work; it ends when this is dropped with the core.
    pub(super) worker: Option<(Home, Sender<Job>)>,
    /// In the order of their ids.
    listeners: Vec<Arc<Listener>>,
    /// How often a listener came or went.
    pub(super) listener_changes: u64,
    observers: Vec<Arc<Observer>>,
    next_id: u64,
}

/// The message that is being added.
#[derive(Clone)]
pub(super) enum Streaming {
    Whole(Arc<Message>),
    Live(LiveMessage),
}

/// Which queue of an agent a run polls.
pub(super) struct AgentQueue {
    pub(super) core: Arc<Core>,
    pub(super) steers: bool,
}

impl Core {
    pub(super) fn new(
        model: Arc<Model>,
        options: AgentOptions,
        messages: Vec<Arc<Message>>,
    ) -> Arc<Core> {
        let state = State {
            options: Arc::new(options),
            model,
            messages: Arc::new(messages),
            streaming: None,
            pending: BTreeSet::new(),
            error: None,
            steering: Queue::default(),
            follow_ups: Queue::default(),
            active: None,
            worker: None,
            listeners: Vec::new(),
            listener_changes: 0,
            observers: Vec::new(),
            next_id: 0,
        };
        Arc::new(Core {
            id: NEXT_AGENT.fetch_add(1, Ordering::Relaxed),
            state: Mutex::new(state),
            memo: RequestMemo::default(),
            idle: Condvar::new(),
        })
    }

    /// The next listener. Looked up anew each time: a listener may subscribe and unsubscribe others, which counts for this
    /// event already.
    pub(super) fn after(&self, listener: &Listener) -> Option<Arc<Listener>> {
        let state = self.state.lock();
        state.listeners.iter().find(|it| it.id > listener.id).cloned()
    }

    pub(super) fn add_listener(&self, start: impl FnOnce(u64) -> Arc<Listener>) -> Arc<Listener> {
        let id = self.state.lock().next_id();
        let listener = start(id);
        let mut state = self.state.lock();
        let place = state.listeners.partition_point(|it| it.id < id);
        state.listeners.insert(place, listener.clone());
        state.listener_changes += 1;
        listener
    }

    pub(super) fn remove_listener(&self, id: u64) {
        let removed = {
            let mut state = self.state.lock();
            state.listener_changes += 1;
            let place = state.listeners.iter().position(|it| it.id == id);
            place.map(|place| state.listeners.remove(place))
        };
        drop(removed);
    }

    pub(super) fn add_observer(&self, observer: Observer) {
        self.state.lock().observers.push(Arc::new(observer));
    }

    pub(super) fn remove_observer(&self, observer: &Arc<Observer>) {
        self.state.lock().observers.retain(|it| !Arc::ptr_eq(it, observer));
    }
}

impl State {
    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn first_listener(&self) -> Option<&Arc<Listener>> {
        self.listeners.first()
    }

    /// The listener, if there is one and no other.
    pub(super) fn only_listener(&self) -> Option<&Arc<Listener>> {
        let [only] = self.listeners.as_slice() else { return None };
        Some(only)
    }

    pub(super) fn observers(&self) -> &[Arc<Observer>] {
        &self.observers
    }

    /// The only place where a run changes the state.
    pub(super) fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageStart { message } => {
                self.streaming = Some(Streaming::Whole(message.clone()));
            }
            AgentEvent::MessageUpdate { message, .. } => match &self.streaming {
                Some(Streaming::Live(live)) if live.is_same(message) => (),
                _ => self.streaming = Some(Streaming::Live(message.clone())),
            },
            AgentEvent::MessageEnd { message } => {
                self.streaming = None;
                Arc::make_mut(&mut self.messages).push(message.clone());
            }
            AgentEvent::ToolExecutionStart { call } => {
                self.pending.insert(call.id.clone());
            }
            AgentEvent::ToolExecutionEnd { call, .. } => {
                self.pending.remove(&call.id);
            }
            AgentEvent::TurnEnd { message, .. } => {
                if let Some(error) =
                    message.as_assistant().and_then(|message| message.error_message.as_ref())
                {
                    self.error = Some(error.clone());
                }
            }
            AgentEvent::AgentEnd { .. } => self.streaming = None,
            AgentEvent::AgentStart
            | AgentEvent::TurnStart
            | AgentEvent::RetryScheduled { .. }
            | AgentEvent::ToolExecutionUpdate { .. } => (),
        }
    }

    pub(super) fn queue_mode(&self, steers: bool) -> QueueMode {
        if steers { self.options.steering_mode } else { self.options.follow_up_mode }
    }

    pub(super) fn queue(&mut self, steers: bool) -> &mut Queue {
        if steers { &mut self.steering } else { &mut self.follow_ups }
    }
}

impl Streaming {
    pub(super) fn message(&self) -> Arc<Message> {
        match self {
            Streaming::Whole(message) => message.clone(),
            Streaming::Live(live) => Arc::new(Message::Assistant(live.snapshot())),
        }
    }
}

impl MessageQueue for AgentQueue {
    fn poll(&self) -> Vec<Arc<Message>> {
        let mut state = self.core.state.lock();
        let mode = state.queue_mode(self.steers);
        state.queue(self.steers).take(mode)
    }

    fn delivered(&self, message: &Arc<Message>) {
        self.core.state.lock().queue(self.steers).delivered(message);
    }
}
