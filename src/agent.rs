//! The agent: transcript, tools, queues and listeners around the loop.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tracing::Span;

use crate::{
    abort::AbortSignal,
    agent::{
        core::{AgentQueue, Core, State},
        listeners::Listener,
        run::RunState,
        worker::Job,
    },
    agent_loop::{
        CallScope, CallSite, LoopConfig, LoopContext, MessageQueue, RunStart, check_budget,
        check_continuable, check_prompts,
    },
    error::{Error, ErrorKind},
    event::AgentEvent,
    message::{AssistantMessage, Message, MessageContent, SystemMessage, ToolCall, now_ms, shared},
    model::Model,
    stream::default_stream_fn,
    thread::timer,
    tool::{Budget, NestedCall, Tool, ToolError, ToolOutcome, while_blocked},
    transcript::current_system,
};

mod core;
mod delivery;
mod listeners;
mod observers;
mod options;
mod queue;
mod run;
mod state;
mod worker;

pub use crate::agent::{
    listeners::Subscription,
    observers::Events,
    options::{AgentOptions, Prompt, QueueMode},
    queue::{QueueStatus, QueuedMessage, Receipt},
    run::{Run, RunEnd, RunOutcome},
    state::AgentState,
};

/// An agent: holds a conversation with a model, runs its tool calls, is steered and aborted while it works.
///
/// # About threads and cloning
///
/// An `Agent` is a handle; clones are handles to the same agent, and all of it may be used from any thread at any time.
/// [`prompt`](Agent::prompt) and [`resume`](Agent::resume) return at once; the run works on the agent's worker thread, one
/// run at a time. No lock is held while a tool, hook, listener or stream function of the host runs.
///
/// Dropping the last handle aborts the run and returns at once. What the agent itself holds (hooks, tools, listeners)
/// should keep a [`WeakAgent`], or the agent keeps itself alive.
///
/// # Examples
///
/// ```
/// use steerage::{Agent, AgentOptions, testing::Scripted};
///
/// let scripted = Scripted::new(["Hello! How can I help?"]);
/// let agent = Agent::new(scripted.model(), AgentOptions {
///     stream: Some(scripted.into()),
///     system_prompt: "You are a helpful assistant.".into(),
///     ..AgentOptions::default()
/// })?;
/// let _subscription = agent.subscribe(|event, _signal| {
///     if let Some(text) = event.text_delta() {
///         print!("{text}");
///     }
///     Ok(())
/// });
/// let outcome = agent.prompt("Hello!")?.wait()?;
/// assert_eq!(outcome.text, "Hello! How can I help?");
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone)]
pub struct Agent {
    handle: Arc<Handle>,
}

/// A handle that does not keep its agent alive, for what the agent itself holds.
#[derive(Clone)]
pub struct WeakAgent {
    handle: Weak<Handle>,
}

/// What all handles share: when it goes, the run is aborted.
struct Handle {
    core: Arc<Core>,
}

/// What a run of this crate's own asks for beside its prompt.
#[derive(Default)]
pub(crate) struct RunTerms {
    /// The budget of the run that it serves, whose limits hold for it too.
    pub(crate) above: Option<Arc<Budget>>,
    /// Changes what the run works with. The agent's lock is held meanwhile.
    pub(crate) adjust: Option<Adjust>,
}

type Adjust = Box<dyn FnOnce(&mut LoopConfig, &mut LoopContext)>;

impl Agent {
    /// Makes an agent. It does nothing until it is prompted.
    ///
    /// Fails with [`ErrorKind::Configuration`] without a stream function, for a tool whose schema cannot be used, and for
    /// a budget of no request or of less than no cost.
    pub fn new(model: impl Into<Arc<Model>>, options: AgentOptions) -> Result<Agent, Error> {
        Agent::assemble(model.into(), options)
    }

    fn assemble(model: Arc<Model>, mut options: AgentOptions) -> Result<Agent, Error> {
        options.stream = Some(options.stream.or_else(default_stream_fn).ok_or_else(no_stream_fn)?);
        check_options(&options)?;
        let mut messages = shared(std::mem::take(&mut options.messages));
        let prompted = messages.first().is_some_and(|first| first.as_system().is_some());
        if !prompted && (!options.system_prompt.is_empty() || !options.tools.is_empty()) {
            let system = SystemMessage {
                content: MessageContent::Text(options.system_prompt.clone()),
                tools_added: options.tools.iter().map(Tool::declaration).collect(),
                timestamp: now_ms(),
                ..SystemMessage::default()
            };
            messages.insert(0, Arc::new(Message::System(system)));
        }
        Ok(Agent { handle: Arc::new(Handle { core: Core::new(model, options, messages) }) })
    }

    /// Starts a run with a text, a text with images, a message or a list of messages. Returns at once.
    ///
    /// Fails with [`ErrorKind::Busy`] while a run is active, and with [`ErrorKind::NothingToContinue`] for an empty list.
    pub fn prompt(&self, prompt: impl Into<Prompt>) -> Result<Run, Error> {
        self.prompt_on(prompt, RunTerms::default())
    }

    /// The same on terms of its own.
    pub(crate) fn prompt_on(
        &self,
        prompt: impl Into<Prompt>,
        terms: RunTerms,
    ) -> Result<Run, Error> {
        let prompts = shared(prompt.into().messages);
        check_prompts(&prompts)?;
        self.start(terms, |_| Ok(RunStart { prompts, queue: None, skip_first_poll: false }))
    }

    /// Starts a run from the transcript as it stands. Returns at once.
    ///
    /// A transcript that ends with an assistant message goes on with what is queued: steering messages first, else
    /// follow-ups. Fails with [`ErrorKind::Busy`] while a run is active, with [`ErrorKind::NothingToContinue`] if there is
    /// no message but the prompt, and with [`ErrorKind::EndsWithAssistant`] if nothing is queued.
    pub fn resume(&self) -> Result<Run, Error> {
        let core = self.core().clone();
        self.start(RunTerms::default(), move |state| match check_continuable(&state.messages) {
            Ok(()) => Ok(RunStart { prompts: Vec::new(), queue: None, skip_first_poll: false }),
            Err(error) if error.kind() == ErrorKind::EndsWithAssistant => {
                let steers = !state.steering.is_empty();
                let mode = state.queue_mode(steers);
                let prompts = state.queue(steers).take(mode);
                if prompts.is_empty() {
                    return Err(error);
                }
                let queue: Arc<dyn MessageQueue> = Arc::new(AgentQueue { core, steers });
                Ok(RunStart { prompts, queue: Some(queue), skip_first_poll: steers })
            }
            Err(error) => Err(error),
        })
    }

    fn start(
        &self,
        terms: RunTerms,
        begin: impl FnOnce(&mut State) -> Result<RunStart, Error>,
    ) -> Result<Run, Error> {
        let core = self.core();
        // It asks the host's subscriber, so nothing is locked yet.
        let span = Span::current();
        let (run, job) = {
            let mut state = core.state.lock();
            refuse_active(&state)?;
            let run = RunState::new(state.options.deadline);
            let RunTerms { above, adjust } = terms;
            let mut config = config_of(core, &state, &run, above.as_deref())?;
            let start = begin(&mut state)?;
            state.active = Some(run.clone());
            state.error = None;
            let mut context = LoopContext {
                messages: state.messages.to_vec(),
                tools: state.options.tools.clone(),
            };
            if let Some(adjust) = adjust {
                adjust(&mut config, &mut context);
            }
            let line = run.line(span);
            (run.clone(), Job { core: core.clone(), run, start, context, config, line, above })
        };
        if let Err(error) = core.dispatch(job) {
            core.end_run(&run, None);
            return Err(error);
        }
        Ok(Run { state: run })
    }

    /// Aborts the active run, if there is one. Returns at once; after that no request, no tool and no hook but
    /// `after_tool_call` and `finish_turn` starts. Queued messages stay queued.
    pub fn abort(&self) {
        let active = self.core().state.lock().active.clone();
        if let Some(active) = active {
            active.abort();
        }
    }

    /// The signal of the active run.
    pub fn signal(&self) -> Option<AbortSignal> {
        self.core().state.lock().active.as_ref().map(|active| active.signal())
    }

    /// Waits until no run is active. In a listener, hook or tool of this agent it is [`ErrorKind::WouldDeadlock`] at once.
    pub fn wait_for_idle(&self) -> Result<(), Error> {
        self.wait_until(None).map(|_| ())
    }

    /// The same, but no longer than `timeout`; tells whether the agent is idle.
    pub fn wait_for_idle_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        self.wait_until(timer::after(timeout))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Result<bool, Error> {
        let core = self.core();
        let active = core.state.lock().active.clone();
        match active {
            None => return Ok(true),
            Some(run) => run.refuse_deadlock()?,
        }
        Ok(while_blocked(|| {
            let mut state = core.state.lock();
            while state.active.is_some() {
                match deadline {
                    None => state = core.idle.wait(state),
                    Some(deadline) => {
                        let is_late;
                        (state, is_late) = core.idle.wait_until(state, deadline);
                        if is_late {
                            break;
                        }
                    }
                }
            }
            state.active.is_none()
        }))
    }

    /// Forgets the conversation: the replayed prompt stays as the only message, the error and both queues are cleared.
    ///
    /// Fails with [`ErrorKind::Busy`] while a run is active.
    pub fn reset(&self) -> Result<(), Error> {
        let mut state = self.core().state.lock();
        refuse_active(&state)?;
        let system = current_system(state.messages.iter().map(|message| &**message));
        state.messages =
            Arc::new(system.map(|system| Arc::new(Message::System(system))).into_iter().collect());
        state.error = None;
        state.streaming = None;
        state.steering.clear();
        state.follow_ups.clear();
        drop(state);
        self.core().memo.clear();
        Ok(())
    }

    /// Calls `listener` with every event, on a thread of its own; the run waits until it is done. An error or a panic makes
    /// the run fail, and later listeners do not get that event.
    pub fn subscribe<F>(&self, listener: F) -> Subscription
    where
        F: FnMut(&AgentEvent, &AbortSignal) -> Result<(), ToolError> + Send + 'static,
    {
        let listener = self.core().add_listener(|id| Listener::start(id, listener));
        Subscription::new(self.core(), &listener)
    }

    /// Returns an observer: a queue of the events from now on that never holds a run up.
    pub fn events(&self) -> Events {
        let (events, observer) = Events::new();
        self.core().add_observer(observer);
        events
    }

    /// Runs one call of a tool of this agent through validation, hooks and limits, without events or messages. It never
    /// fails: refusals and errors come back as an outcome with `is_error`. It blocks until the tool is done.
    pub fn run_tool_call(&self, call: &ToolCall, signal: &AbortSignal) -> ToolOutcome {
        let (options, messages) = {
            let state = self.core().state.lock();
            (state.options.clone(), state.messages.clone())
        };
        let scope = CallScope {
            tools: options.tools.clone().into(),
            hooks: options.hooks.clone(),
            pool: options.tool_pool.clone(),
            grace: options.tool_grace,
            limits: options.call_limits,
            budget: None,
        };
        let message =
            messages.iter().rev().find(|message| message.as_assistant().is_some()).cloned();
        let message =
            message.unwrap_or_else(|| Arc::new(Message::Assistant(AssistantMessage::default())));
        let nested = NestedCall { tool: None, call, signal, on_update: &drop };
        scope.run_call(&CallSite { message, context: messages }, &nested)
    }

    /// Returns a handle that does not keep the agent alive.
    pub fn downgrade(&self) -> WeakAgent {
        WeakAgent { handle: Arc::downgrade(&self.handle) }
    }

    fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }
}

impl WeakAgent {
    /// Returns the agent, if it still lives.
    pub fn upgrade(&self) -> Option<Agent> {
        self.handle.upgrade().map(|handle| Agent { handle })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let active = {
            let mut state = self.core.state.lock();
            // Nobody can start another run, so what waits is dropped now, not when the worker lets go of the core.
            state.steering.clear();
            state.follow_ups.clear();
            state.active.clone()
        };
        if let Some(active) = active {
            active.abort();
        }
    }
}

fn config_of(
    core: &Arc<Core>,
    state: &State,
    run: &RunState,
    above: Option<&Budget>,
) -> Result<LoopConfig, Error> {
    let inherited = above.map(|above| above.passed_down).unwrap_or_default();
    let options = &state.options;
    let queue = |steers| -> Option<Arc<dyn MessageQueue>> {
        Some(Arc::new(AgentQueue { core: core.clone(), steers }))
    };
    Ok(LoopConfig {
        model: state.model.clone(),
        thinking_level: options.thinking_level,
        stream: options.stream.clone().or_else(default_stream_fn).ok_or_else(no_stream_fn)?,
        request: options.request.clone(),
        hooks: options.hooks.clone(),
        steering: queue(true),
        follow_ups: queue(false),
        tool_execution: options.tool_execution,
        pool: options.tool_pool.clone(),
        grace: options.tool_grace,
        call_limits: options.call_limits.or(inherited.call_limits),
        retry: options.retry.clone(),
        max_requests: options.max_requests.or(inherited.max_requests),
        max_cost: options.max_cost,
        stop: run.stop.clone(),
        memo: core.memo.clone(),
    })
}

fn no_stream_fn() -> Error {
    let message =
        "the agent has no stream function: set AgentOptions::stream or call set_default_stream_fn";
    Error::new(ErrorKind::Configuration, message)
}

fn refuse_active(state: &State) -> Result<(), Error> {
    if state.active.is_some() {
        let message = "a run is active: wait for it, steer it, queue a follow-up or abort it";
        return Err(Error::new(ErrorKind::Busy, message));
    }
    Ok(())
}

fn check_options(options: &AgentOptions) -> Result<(), Error> {
    check_budget(options.max_requests, options.max_cost)?;
    check_tools(&options.tools)
}

fn check_tools(tools: &[Tool]) -> Result<(), Error> {
    tools.iter().try_for_each(Tool::check_schema)
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.core().state.lock();
        f.debug_struct("Agent")
            .field("model", &state.model.id)
            .field("messages", &state.messages.len())
            .field("is_streaming", &state.active.is_some())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WeakAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakAgent").field("alive", &(self.handle.strong_count() > 0)).finish()
    }
}
