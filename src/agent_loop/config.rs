//! What a run is set up with: the model, the stream function, the hooks, the queues.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value};

use crate::{
    abort::AbortSignal,
    agent_loop::retry::RetryOptions,
    message::{Content, Message, ToolCall},
    model::{Model, ThinkingLevel},
    secret::Secret,
    stream::{RequestMemo, StreamFn, StreamOptions},
    tool::{CallLimits, ExecutionMode, Tool, ToolError, ToolPool, ToolResult},
    usage::Usage,
};

/// Everything that a run of the low-level loop needs beside the messages and the tools.
#[derive(Clone)]
pub struct LoopConfig {
    /// The model that is asked first.
    pub model: Arc<Model>,
    /// How hard it shall think. Default: off.
    pub thinking_level: ThinkingLevel,
    /// What asks it.
    pub stream: Arc<dyn StreamFn>,
    /// What goes with each request; reasoning and key are set for each anew. Default: nothing.
    pub request: StreamOptions,
    /// The host's hooks. Default: none.
    pub hooks: Hooks,
    /// Messages that steer the run. Default: none.
    pub steering: Option<Arc<dyn MessageQueue>>,
    /// Messages that wait until the run would stop. Default: none.
    pub follow_ups: Option<Arc<dyn MessageQueue>>,
    /// Whether the calls of one message run at the same time. Default: parallel.
    pub tool_execution: ExecutionMode,
    /// The threads that tools run on. Default: eight of its own.
    pub pool: ToolPool,
    /// How long a tool may take to return after an abort. Default: 2 seconds.
    pub grace: Duration,
    /// What tool calls may take. Default: anything.
    pub call_limits: CallLimits,
    /// Whether the model is asked again after a response that failed. Default: no.
    pub retry: RetryOptions,
    /// How many turns the run may take, which is how many requests it makes, less those that are asked again; at least one;
    /// then it ends softly. Default: any number.
    pub max_requests: Option<u32>,
    /// What its responses and its tools may cost together, in US dollars; when that is reached after a turn, the run ends
    /// softly. Default: anything.
    pub max_cost: Option<f64>,
    /// Ends the run softly after the present turn.
    pub stop: SoftStop,
    /// Where providers keep what the next request can use again; runs of one conversation share it. Default: its own.
    pub memo: RequestMemo,
}

/// Asks a run to end after its present turn. Clones are handles to the same wish.
#[derive(Debug, Clone, Default)]
pub struct SoftStop(Arc<AtomicBool>);

/// Gives messages to a run whenever it polls. Closures that return messages are queues too.
pub trait MessageQueue: Send + Sync {
    /// Takes the messages that are due now.
    fn poll(&self) -> Vec<Arc<Message>>;

    /// Tells that a message that was taken stands in the transcript now.
    fn delivered(&self, message: &Arc<Message>) {
        let _ = message;
    }
}

/// The host's hooks. They run on the worker thread, one at a time (those of nested calls on threads of the calling
/// tool, for a script several at once); an error or a panic breaks the run, except in the three about calls, where it
/// becomes the call's error result.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Decides about a call before it runs. Default: allow.
    pub before_tool_call: Option<BeforeToolCallHook>,
    /// May change the result of a call. Default: no change.
    pub after_tool_call: Option<AfterToolCallHook>,
    /// Gets the whole of a result that is longer than [`CallLimits::result_bytes`], after `after_tool_call`, and may say where
    /// the model finds it, for example "the whole is in call.log"; that stands in the note. Default: it is lost.
    pub on_result_cut: Option<ResultCutHook>,
    /// Decides at the end of a turn whether the run goes on. Default: as the calls and the queues ask.
    pub finish_turn: Option<FinishTurnHook>,
    /// May change what the run works with, before every request. Default: no change.
    pub prepare_request: Option<PrepareRequestHook>,
    /// May change what the run works with and add messages, from the second turn on. Default: no change.
    pub prepare_next_turn: Option<PrepareNextTurnHook>,
    /// Makes the messages of a request from those of the context. Default: all of them.
    pub transform_context: Option<MessagesHook>,
    /// Makes messages that a model understands of those that it does not. Default: the four known roles are kept.
    pub convert_to_llm: Option<MessagesHook>,
    /// Gives the key for a provider, for keys that expire. Default: the configured one.
    pub get_api_key: Option<ApiKeyHook>,
}

/// See [`Hooks::before_tool_call`].
pub type BeforeToolCallHook =
    Arc<dyn Fn(&BeforeToolCall<'_>, &AbortSignal) -> Result<ToolDecision, ToolError> + Send + Sync>;
/// See [`Hooks::after_tool_call`].
pub type AfterToolCallHook = Arc<
    dyn Fn(&AfterToolCall<'_>, &AbortSignal) -> Result<Option<ResultChanges>, ToolError>
        + Send
        + Sync,
>;
/// See [`Hooks::on_result_cut`].
pub type ResultCutHook =
    Arc<dyn Fn(&CutResult<'_>, &AbortSignal) -> Result<Option<String>, ToolError> + Send + Sync>;
/// See [`Hooks::finish_turn`].
pub type FinishTurnHook =
    Arc<dyn Fn(&Turn<'_>, &AbortSignal) -> Result<TurnDecision, ToolError> + Send + Sync>;
/// See [`Hooks::prepare_request`].
pub type PrepareRequestHook = Arc<
    dyn Fn(&RunContext<'_>, &AbortSignal) -> Result<Option<ContextChanges>, ToolError>
        + Send
        + Sync,
>;
/// See [`Hooks::prepare_next_turn`].
pub type PrepareNextTurnHook =
    Arc<dyn Fn(&Turn<'_>, &AbortSignal) -> Result<Option<NextTurn>, ToolError> + Send + Sync>;
/// See [`Hooks::transform_context`] and [`Hooks::convert_to_llm`].
pub type MessagesHook = Arc<
    dyn Fn(Vec<Arc<Message>>, &AbortSignal) -> Result<Vec<Arc<Message>>, ToolError> + Send + Sync,
>;
/// See [`Hooks::get_api_key`].
pub type ApiKeyHook =
    Arc<dyn Fn(&str, &AbortSignal) -> Result<Option<Secret>, ToolError> + Send + Sync>;

/// A call that is about to run.
#[derive(Debug)]
pub struct BeforeToolCall<'a> {
    /// The assistant message that holds the call.
    pub message: &'a Arc<Message>,
    /// The call as the model sent it.
    pub call: &'a ToolCall,
    /// The tool that is called.
    pub tool: &'a Tool,
    /// The arguments after preparation, coercion and validation.
    pub arguments: &'a Map<String, Value>,
    /// The messages of the run so far.
    pub context: &'a [Arc<Message>],
}

/// What shall become of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolDecision {
    /// It runs.
    #[default]
    Allow,
    /// It does not run; the model gets an error result.
    Block {
        /// Why, for the model. Default: that it was not allowed.
        reason: Option<String>,
        /// Whether the run shall end with this batch, if all its results say so.
        terminate: bool,
    },
}

/// A call that has run.
#[derive(Debug)]
pub struct AfterToolCall<'a> {
    /// The assistant message that holds the call.
    pub message: &'a Arc<Message>,
    /// The call as the model sent it.
    pub call: &'a ToolCall,
    /// The arguments that the tool got.
    pub arguments: &'a Map<String, Value>,
    /// What the tool gave.
    pub result: &'a ToolResult,
    /// Whether the call failed.
    pub is_error: bool,
    /// The messages of the run so far.
    pub context: &'a [Arc<Message>],
}

/// A result that is about to be cut.
#[derive(Debug)]
pub struct CutResult<'a> {
    /// The call as the model sent it.
    pub call: &'a ToolCall,
    /// The whole result.
    pub result: &'a ToolResult,
    /// How many bytes of text the model gets of it, the note included.
    pub limit: usize,
}

/// What replaces parts of a result, each as a whole; `None` keeps the part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResultChanges {
    /// What the model sees. Without new structured content it drops the old.
    pub content: Option<Vec<Content>>,
    /// What the host keeps.
    pub details: Option<Value>,
    /// The result as data.
    pub structured_content: Option<Value>,
    /// What the call cost.
    pub usage: Option<Usage>,
    /// Whether the call failed.
    pub is_error: Option<bool>,
    /// Whether the run shall end with this batch.
    pub terminate: Option<bool>,
}

/// A turn that is complete: a response of the model and the results of its calls.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The assistant message.
    pub message: &'a Arc<Message>,
    /// The results of its calls in their order.
    pub tool_results: &'a [Arc<Message>],
    /// The messages of the run after them.
    pub context: &'a [Arc<Message>],
    /// The messages that the run has added so far.
    pub new_messages: &'a [Arc<Message>],
}

/// Whether the run goes on after a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TurnDecision {
    /// As the calls and the queues ask.
    #[default]
    Proceed,
    /// One more request, even if nothing asks for it.
    Continue,
    /// The run ends now; no queue is polled.
    End,
}

/// What a run works with at the moment.
#[derive(Debug)]
pub struct RunContext<'a> {
    /// The model.
    pub model: &'a Arc<Model>,
    /// How hard it thinks.
    pub thinking_level: ThinkingLevel,
    /// The messages.
    pub messages: &'a [Arc<Message>],
    /// The tools that can be executed.
    pub tools: &'a [Tool],
}

/// What replaces parts of what a run works with, for this and later requests; `None` keeps the part.
#[derive(Debug, Clone, Default)]
pub struct ContextChanges {
    /// The model.
    pub model: Option<Arc<Model>>,
    /// How hard it thinks; off is a value.
    pub thinking_level: Option<ThinkingLevel>,
    /// The messages.
    pub messages: Option<Vec<Arc<Message>>>,
    /// The tools that can be executed.
    pub tools: Option<Vec<Tool>>,
}

/// What the next turn begins with.
#[derive(Debug, Clone, Default)]
pub struct NextTurn {
    /// What changes for it and the later ones.
    pub changes: ContextChanges,
    /// Messages that are added before the queued ones.
    pub messages: Vec<Message>,
}

impl LoopConfig {
    /// Makes a configuration with defaults.
    pub fn new(model: impl Into<Arc<Model>>, stream: Arc<dyn StreamFn>) -> LoopConfig {
        LoopConfig {
            model: model.into(),
            thinking_level: ThinkingLevel::Off,
            stream,
            request: StreamOptions::default(),
            hooks: Hooks::default(),
            steering: None,
            follow_ups: None,
            tool_execution: ExecutionMode::Parallel,
            pool: ToolPool::default(),
            grace: Duration::from_secs(2),
            call_limits: CallLimits::default(),
            retry: RetryOptions::default(),
            max_requests: None,
            max_cost: None,
            stop: SoftStop::default(),
            memo: RequestMemo::default(),
        }
    }
}

impl SoftStop {
    /// Asks the run to end after its present turn.
    pub fn stop_after_turn(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether that was asked.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl ToolDecision {
    /// Blocks a call for a reason that the model is told.
    pub fn block(reason: impl Into<String>) -> ToolDecision {
        ToolDecision::Block { reason: Some(reason.into()), terminate: false }
    }
}

impl<F: Fn() -> Vec<Arc<Message>> + Send + Sync> MessageQueue for F {
    fn poll(&self) -> Vec<Arc<Message>> {
        self()
    }
}

impl fmt::Debug for LoopConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopConfig")
            .field("model", &self.model.id)
            .field("thinking_level", &self.thinking_level)
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = [
            ("before_tool_call", self.before_tool_call.is_some()),
            ("after_tool_call", self.after_tool_call.is_some()),
            ("on_result_cut", self.on_result_cut.is_some()),
            ("finish_turn", self.finish_turn.is_some()),
            ("prepare_request", self.prepare_request.is_some()),
            ("prepare_next_turn", self.prepare_next_turn.is_some()),
            ("transform_context", self.transform_context.is_some()),
            ("convert_to_llm", self.convert_to_llm.is_some()),
            ("get_api_key", self.get_api_key.is_some()),
        ];
        f.debug_set()
            .entries(set.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name))
            .finish()
    }
}
