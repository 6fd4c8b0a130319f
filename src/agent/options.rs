//! What an agent is made with.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    agent_loop::{Hooks, RetryOptions},
    message::{Content, ImageContent, Message, MessageContent, UserMessage},
    model::ThinkingLevel,
    stream::{StreamFn, StreamOptions},
    tool::{CallLimits, ExecutionMode, Tool, ToolPool},
};

/// What an agent is made with; [`Agent::configure`](crate::Agent::configure) changes it later.
#[derive(Clone)]
pub struct AgentOptions {
    /// What asks the model. Default: the one of [`set_default_stream_fn`](crate::set_default_stream_fn).
    pub stream: Option<Arc<dyn StreamFn>>,
    /// The prompt that a new transcript begins with; not used when `messages` begin with a system message. Default: empty.
    pub system_prompt: String,
    /// The tools that can be executed. Default: none.
    pub tools: Vec<Tool>,
    /// The transcript to go on from; looked at by `Agent::new` only. Default: empty.
    pub messages: Vec<Message>,
    /// How hard the model shall think. Default: off.
    pub thinking_level: ThinkingLevel,
    /// How many steering messages a poll takes. Default: one.
    pub steering_mode: QueueMode,
    /// How many follow-up messages a poll takes. Default: one.
    pub follow_up_mode: QueueMode,
    /// Whether the calls of one message run at the same time. Default: parallel.
    pub tool_execution: ExecutionMode,
    /// The threads that tools run on. Default: eight of the agent's own.
    pub tool_pool: ToolPool,
    /// How long a tool may take to return after an abort before it is left alone. Default: 2 seconds.
    pub tool_grace: Duration,
    /// The host's hooks. Default: none.
    pub hooks: Hooks,
    /// What goes with each request: temperature, headers, key, session. Default: nothing.
    pub request: StreamOptions,
    /// How long a run may take; then it is aborted. Default: any time.
    pub deadline: Option<Duration>,
    /// What tool calls may take: how many at once, how long arguments and results. How long a call may run is said by
    /// [`Tool::time_limit`]. Default: anything.
    pub call_limits: CallLimits,
    /// Whether the model is asked again after a response that failed before anything of it was told. Default: no.
    pub retry: RetryOptions,
    /// How many turns a run may take, which is how many requests it makes, less those that are asked again; at least one. Then it ends softly with
    /// [`RunEnd::OutOfRequests`](crate::RunEnd::OutOfRequests). Default: any number.
    pub max_requests: Option<u32>,
    /// What a run may cost in US dollars, its responses and what its tools report together. When that is reached after a
    /// turn, the run ends softly with [`RunEnd::OutOfBudget`](crate::RunEnd::OutOfBudget). Default: anything.
    pub max_cost: Option<f64>,
}

/// How many queued messages a poll takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueMode {
    /// The oldest one.
    #[default]
    OneAtATime,
    /// All of them.
    All,
}

/// What a run begins with: a text, a text with images, a message, or a list of messages.
#[derive(Debug, Clone)]
pub struct Prompt {
    pub(super) messages: Vec<Message>,
}

impl Default for AgentOptions {
    fn default() -> AgentOptions {
        AgentOptions {
            stream: None,
            system_prompt: String::new(),
            tools: Vec::new(),
            messages: Vec::new(),
            thinking_level: ThinkingLevel::Off,
            steering_mode: QueueMode::default(),
            follow_up_mode: QueueMode::default(),
            tool_execution: ExecutionMode::default(),
            tool_pool: ToolPool::default(),
            tool_grace: Duration::from_secs(2),
            hooks: Hooks::default(),
            request: StreamOptions::default(),
            deadline: None,
            call_limits: CallLimits::default(),
            retry: RetryOptions::default(),
            max_requests: None,
            max_cost: None,
        }
    }
}

impl Prompt {
    fn blocks(text: String, images: Vec<ImageContent>) -> Prompt {
        let mut blocks = vec![Content::text(text)];
        blocks.extend(images.into_iter().map(Content::Image));
        Prompt { messages: vec![Message::User(UserMessage::new(MessageContent::Blocks(blocks)))] }
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Prompt {
        Prompt::blocks(text.to_owned(), Vec::new())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Prompt {
        Prompt::blocks(text, Vec::new())
    }
}

impl<T: Into<String>> From<(T, Vec<ImageContent>)> for Prompt {
    fn from((text, images): (T, Vec<ImageContent>)) -> Prompt {
        Prompt::blocks(text.into(), images)
    }
}

impl From<Message> for Prompt {
    fn from(message: Message) -> Prompt {
        Prompt { messages: vec![message] }
    }
}

impl From<Vec<Message>> for Prompt {
    fn from(messages: Vec<Message>) -> Prompt {
        Prompt { messages }
    }
}

impl fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentOptions")
            .field("tools", &self.tools)
            .field("thinking_level", &self.thinking_level)
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}
