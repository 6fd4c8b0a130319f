//! The agent loop: asks the model, runs its tool calls, asks again, until nothing asks for more.
//!
//! It owns no thread and no lock and keeps nothing between calls. What it is given comes as a [`LoopContext`] and a
//! [`LoopConfig`]; what happens goes to an [`EventSink`], which may make the loop wait.

use std::sync::Arc;

use tracing::Span;

use crate::{
    abort::{AbortController, AbortSignal},
    error::{Error, ErrorKind},
    event::AgentEvent,
    message::{Message, StopReason, shared},
    thread,
    tool::{Budget, Tool, ToolError},
    trace,
    usage::Usage,
};

mod calls;
mod config;
mod declare;
mod execution;
mod response;
mod retry;
mod sizes;
mod turns;

pub(crate) use crate::agent_loop::calls::{CallScope, CallSite};
pub use crate::agent_loop::config::{
    AfterToolCall, AfterToolCallHook, ApiKeyHook, BeforeToolCall, BeforeToolCallHook,
    ContextChanges, CutResult, FinishTurnHook, Hooks, LoopConfig, MessageQueue, MessagesHook,
    NextTurn, PrepareNextTurnHook, PrepareRequestHook, ResultChanges, ResultCutHook, RunContext,
    SoftStop, ToolDecision, Turn, TurnDecision,
};
pub use crate::agent_loop::retry::RetryOptions;

/// Messages and executable tools that a run starts from.
#[derive(Debug, Clone, Default)]
pub struct LoopContext {
    /// The transcript so far.
    pub messages: Vec<Arc<Message>>,
    /// The tools that can be executed.
    pub tools: Vec<Tool>,
}

/// Takes the events of a run. The loop goes on when `emit` returns; an error breaks the run.
///
/// Closures that take an event are sinks too.
pub trait EventSink {
    /// Takes one event.
    fn emit(&mut self, event: AgentEvent) -> Result<(), Error>;

    /// Takes several updates of one message that were there at once.
    fn emit_updates(&mut self, events: Vec<AgentEvent>) -> Result<(), Error> {
        events.into_iter().try_for_each(|event| self.emit(event))
    }

    /// Takes updates without waiting until they are handled, which [`settle`](EventSink::settle) does before the next event.
    /// Whatever fails meanwhile fires `interrupt`, so that the loop does not wait for the server in vain.
    fn post_updates(
        &mut self,
        events: Vec<AgentEvent>,
        interrupt: &AbortController,
    ) -> Result<(), Error> {
        let _ = interrupt;
        self.emit_updates(events)
    }

    /// Takes an event after which the loop runs nothing of anybody else's until it [`settle`](EventSink::settle)s or tells
    /// the next one, so that the two may be handed over together.
    fn post(&mut self, event: AgentEvent) -> Result<(), Error> {
        self.emit(event)
    }

    /// Waits until what was posted is handled.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Waits until what was posted is handled, and tells these events as well, each while nobody has aborted or stopped the
    /// run in the one before. Returns how many of them were told; the loop decides anew about the others.
    fn predict(&mut self, events: Vec<AgentEvent>) -> Result<usize, Error> {
        drop(events);
        self.settle().map(|()| 0)
    }
}

/// Runs prompts on a context until nothing asks for another request, on the calling thread.
///
/// Returns the messages that the run added, the prompts included. A response that failed is a message among them; an
/// `Err` means that a hook, the stream function or the sink failed, or that there was no prompt
/// ([`ErrorKind::NothingToContinue`]).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use steerage::{
///     AbortSignal, AgentEvent, Message,
///     agent_loop::{LoopConfig, LoopContext, agent_loop},
///     testing::Scripted,
/// };
///
/// let scripted = Scripted::new(["Hello!"]);
/// let config = LoopConfig::new(scripted.model(), Arc::new(scripted.clone()));
/// let mut text = String::new();
/// let prompts = vec![Message::user("Hi")];
/// let added = agent_loop(prompts, LoopContext::default(), &config, &AbortSignal::never(), &mut |event: AgentEvent| {
///     text.push_str(event.text_delta().unwrap_or_default());
///     Ok(())
/// })?;
/// assert_eq!(text, "Hello!");
/// assert_eq!(added.len(), 2);
/// # Ok::<(), steerage::Error>(())
/// ```
pub fn agent_loop(
    prompts: Vec<Message>,
    context: LoopContext,
    config: &LoopConfig,
    signal: &AbortSignal,
    sink: &mut dyn EventSink,
) -> Result<Vec<Arc<Message>>, Error> {
    let prompts = shared(prompts);
    check_prompts(&prompts)?;
    let start = RunStart { prompts, queue: None, skip_first_poll: false };
    Ok(run_loop(start, context, config, Surroundings { signal, sink, above: None })?.messages)
}

/// Runs on from a context whose last message is not the model's, without a new prompt.
///
/// Refused with [`ErrorKind::NothingToContinue`] when the context is empty or holds only system messages, and with
/// [`ErrorKind::EndsWithAssistant`] when it ends with an assistant message.
pub fn agent_loop_continue(
    context: LoopContext,
    config: &LoopConfig,
    signal: &AbortSignal,
    sink: &mut dyn EventSink,
) -> Result<Vec<Arc<Message>>, Error> {
    check_continuable(&context.messages)?;
    let start = RunStart { prompts: Vec::new(), queue: None, skip_first_poll: false };
    Ok(run_loop(start, context, config, Surroundings { signal, sink, above: None })?.messages)
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopEnd {
    /// Nothing asked for another request, or the last response failed.
    Natural,
    /// A hook or the host asked to end it.
    Stopped,
    /// The budget of requests was used up while more was asked for.
    OutOfRequests,
    /// The budget of costs was used up while more was asked for.
    OutOfBudget,
}

pub(crate) struct LoopResult {
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) end: LoopEnd,
}

/// What a run begins with.
pub(crate) struct RunStart {
    /// Empty for a run that continues.
    pub(crate) prompts: Vec<Arc<Message>>,
    /// The queue that gave the prompts, if one did.
    pub(crate) queue: Option<Arc<dyn MessageQueue>>,
    /// Whether the prompts came from the steering queue, which is then not polled at once again.
    pub(crate) skip_first_poll: bool,
}

/// Who listens and who may stop it.
pub(crate) struct Surroundings<'a> {
    pub(crate) signal: &'a AbortSignal,
    pub(crate) sink: &'a mut dyn EventSink,
    /// The budget of the run that this one serves.
    pub(crate) above: Option<Arc<Budget>>,
}

pub(crate) fn run_loop(
    start: RunStart,
    context: LoopContext,
    config: &LoopConfig,
    surroundings: Surroundings<'_>,
) -> Result<LoopResult, Error> {
    check_budget(config.max_requests, config.max_cost)?;
    let run = turns::Run::new(context, config.clone(), surroundings);
    let span = trace::agent(&config.model, config.request.session_id.as_deref());
    // Foreign code is guarded where it is called; this catches what remains, such as a stream that panics when dropped.
    let result = guard(|| Ok(span.in_scope(|| run.run(start))))?;
    note(&span, &result);
    result
}

/// Notes what came of a run.
fn note(span: &Span, result: &Result<LoopResult, Error>) {
    if span.is_disabled() {
        return;
    }
    let LoopResult { messages, .. } = match result {
        Ok(result) => result,
        Err(error) => return trace::failed(span, error.kind()),
    };
    let mut usage = Usage::default();
    let answers = messages.iter().filter_map(|message| message.as_assistant());
    answers.for_each(|answer| usage.add(&answer.usage));
    trace::used(span, &usage);
    let last = messages.last().and_then(|message| message.as_assistant());
    if let Some(failure) = last.and_then(|last| last.failure.as_ref()) {
        trace::failed(span, failure.kind);
    }
}

pub(crate) fn check_continuable(messages: &[Arc<Message>]) -> Result<(), Error> {
    match messages.last().map(|message| &**message) {
        Some(Message::Assistant(_)) => {
            let message = "the transcript ends with an assistant message and nothing is queued: prompt instead";
            Err(Error::new(ErrorKind::EndsWithAssistant, message))
        }
        Some(_) if messages.iter().any(|message| message.as_system().is_none()) => Ok(()),
        _ => {
            let message = "the transcript holds no message to continue from: prompt instead";
            Err(Error::new(ErrorKind::NothingToContinue, message))
        }
    }
}

pub(crate) fn check_budget(max_requests: Option<u32>, max_cost: Option<f64>) -> Result<(), Error> {
    if max_requests == Some(0) {
        let message = "max_requests is 0, so a run could ask nothing: allow one at least, or any number with `None`";
        return Err(Error::new(ErrorKind::Configuration, message));
    }
    if let Some(most) = max_cost.filter(|most| most.is_nan() || *most < 0.0) {
        let message =
            format!("max_cost is {most}: give an amount in US dollars, or `None` for any");
        return Err(Error::new(ErrorKind::Configuration, message));
    }
    Ok(())
}

pub(crate) fn check_prompts(prompts: &[Arc<Message>]) -> Result<(), Error> {
    if prompts.is_empty() {
        let message = "the prompt holds no message: give one, or resume from the transcript";
        return Err(Error::new(ErrorKind::NothingToContinue, message));
    }
    Ok(())
}

/// Runs a hook of the host; its failure or panic is an error with its own text.
pub(crate) fn guard<T>(hook: impl FnOnce() -> Result<T, ToolError>) -> Result<T, Error> {
    // The text of an error is foreign code too.
    thread::catch(|| hook().map_err(callback_error))
        .unwrap_or_else(|panic| Err(Error::new(ErrorKind::Callback, panic)))
}

/// Keeps an error of this crate as it is, kind included; any other becomes a callback's.
fn callback_error(error: ToolError) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => Error::new(ErrorKind::Callback, error.to_string()).with_source(error),
    }
}

fn stop_reason(message: &Message) -> StopReason {
    message.as_assistant().map_or(StopReason::Stop, |message| message.stop_reason)
}

impl<F: FnMut(AgentEvent) -> Result<(), Error>> EventSink for F {
    fn emit(&mut self, event: AgentEvent) -> Result<(), Error> {
        self(event)
    }
}
