//! A small model that is part of the crate: no network, no key, no chance.

use std::{fmt, sync::Arc};

use crate::{
    abort::AbortSignal,
    builtin::conversation::Conversation,
    clock::{Clock, SystemClock},
    error::Error,
    message::{AssistantContent, AssistantMessage, Message, StopReason, ThinkingContent, ToolCall},
    model::{Modality, Model},
    stream::{AssistantStream, Cut, Pace, Playback, StreamFn, StreamRequest},
    transcript,
    usage::Usage,
};

mod conversation;
mod parameters;
mod reply;
mod request;
mod script;
mod skills;
mod talk;

/// A model that runs inside the program: it understands simple requests, calls tools and knows the conversation.
///
/// It is for trying things out and for demonstrations, where a model of a vendor would need a key. It looks at the names,
/// descriptions and parameters of the tools that it is given, so it uses a program's own tools as well. The same transcript
/// always gets the same answer. Ask it `help` for what it understands.
///
/// # Examples
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use steerage::{Agent, AgentOptions, Builtin, Tool};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     a: f64,
///     b: f64,
/// }
///
/// let add = Tool::new("add", "Adds two numbers", |args: Add, _| Ok((args.a + args.b).to_string()));
/// let agent = Agent::new(Builtin::model(), AgentOptions {
///     stream: Some(Builtin::unpaced().into()),
///     tools: vec![add],
///     ..AgentOptions::default()
/// })?;
/// assert_eq!(agent.prompt("What is 2 + 3?")?.wait()?.text, "`add` says: 5");
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Builtin {
    options: BuiltinOptions,
}

/// How a [`Builtin`] model answers.
#[derive(Debug, Clone)]
pub struct BuiltinOptions {
    /// How fast it talks; `None` is as fast as it is read. Default: 40, which is pleasant to read.
    pub tokens_per_second: Option<f64>,
    /// What it waits on between pieces. Default: the clock of the system.
    pub clock: Arc<dyn Clock>,
}

/// What the model has decided to say, before it is streamed.
struct Decision {
    thoughts: Vec<String>,
    text: String,
    calls: Vec<ToolCall>,
    /// Why it fails after all that, if it was asked to.
    failure: Option<String>,
}

impl Default for BuiltinOptions {
    fn default() -> BuiltinOptions {
        BuiltinOptions { tokens_per_second: Some(40.0), clock: Arc::new(SystemClock) }
    }
}

impl Builtin {
    /// Makes a model that talks at a pace that is pleasant to read.
    pub fn new() -> Builtin {
        Builtin::default()
    }

    /// Makes a model that talks as fast as it is read.
    pub fn unpaced() -> Builtin {
        Builtin::with_options(BuiltinOptions {
            tokens_per_second: None,
            ..BuiltinOptions::default()
        })
    }

    /// Makes a model with options.
    pub fn with_options(options: BuiltinOptions) -> Builtin {
        Builtin { options }
    }

    /// The model, to make an agent or a request with.
    pub fn model() -> Model {
        Model {
            id: "builtin-1".to_owned(),
            name: "Built-in model".to_owned(),
            api: "builtin".to_owned(),
            provider: "builtin".to_owned(),
            reasoning: true,
            input: vec![Modality::Text, Modality::Image],
            context_window: 128_000,
            max_tokens: 8192,
            ..Model::default()
        }
    }
}

impl StreamFn for Builtin {
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        /// Pieces of a word or so.
        const PIECE: std::ops::RangeInclusive<usize> = 1..=2;
        let message = answer(&request);
        let clock = self.options.clock.clone();
        let pace = self.options.tokens_per_second;
        let pace = pace.map(|tokens_per_second| Pace { tokens_per_second, clock });
        Ok(Box::new(Playback::of_message(message, Cut::new(0, PIECE), pace, signal)))
    }
}

impl From<Builtin> for Arc<dyn StreamFn> {
    fn from(builtin: Builtin) -> Arc<dyn StreamFn> {
        Arc::new(builtin)
    }
}

fn answer(request: &StreamRequest) -> AssistantMessage {
    let conversation = Conversation::of(request);
    let decision = reply::decide(&conversation);
    let mut message = AssistantMessage::default();
    if let Some(level) = request.options.reasoning {
        let thinking = reply::think(&decision, level);
        let block = ThinkingContent { thinking, ..ThinkingContent::default() };
        message.content.push(AssistantContent::Thinking(block));
    }
    if !decision.text.is_empty() || decision.calls.is_empty() {
        message.content.push(AssistantContent::text(decision.text));
    }
    if !decision.calls.is_empty() {
        message.stop_reason = StopReason::ToolUse;
    }
    message.content.extend(decision.calls.into_iter().map(AssistantContent::ToolCall));
    if let Some(failure) = decision.failure {
        message.stop_reason = StopReason::Error;
        message.error_message = Some(failure);
    }
    message.usage = usage(request, &message);
    message
}

/// What a vendor would count, estimated.
fn usage(request: &StreamRequest, message: &AssistantMessage) -> Usage {
    let input = transcript::estimate_tokens(request.transcript.messages());
    let output = transcript::estimate_message(&Message::Assistant(message.clone()));
    Usage { input, output, total_tokens: input + output, ..Usage::default() }
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builtin").field("options", &self.options).finish()
    }
}
