//! What a scripted model answers to one request.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind, Failure},
    message::{AssistantContent, AssistantMessage, StopReason, ThinkingContent, ToolCall},
    stream::{StreamEvent, StreamRequest},
    testing::scripted::Factory,
};

/// What a [`Scripted`](crate::testing::Scripted) model answers to one request.
///
/// A text, a message, a block, a list of blocks and a list of events are answers, too.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use steerage::{ErrorKind, testing::Answer};
///
/// let answer = Answer::new()
///     .thinking("Two calls will do.")
///     .tool_call("add", json!({"a": 1, "b": 2}))
///     .tool_call("add", json!({"a": 3, "b": 4}));
/// let cut = Answer::new().text("It is").fails(ErrorKind::Network, "the connection broke");
/// let by_request = Answer::with(|request, count| {
///     format!("request {count} has {} messages", request.transcript.messages().len())
/// });
/// ```
pub struct Answer {
    kind: Kind,
}

enum Kind {
    Content(Content),
    Later(Later),
}

type Later = Box<dyn FnOnce(&StreamRequest, usize) -> Answer + Send + Sync>;

/// An answer as it stands.
pub(super) enum Content {
    Message(Box<AssistantMessage>),
    Events(Vec<StreamEvent>),
}

impl Answer {
    /// Makes an answer without content, to be built with the other functions.
    pub fn new() -> Answer {
        Answer::from(AssistantMessage::default())
    }

    /// Makes an answer when it is asked for, from the request and how many requests came before it. A panic fails the
    /// request.
    pub fn with<A: Into<Answer>>(
        answer: impl FnOnce(&StreamRequest, usize) -> A + Send + Sync + 'static,
    ) -> Answer {
        Answer { kind: Kind::Later(Box::new(move |request, count| answer(request, count).into())) }
    }

    pub(super) fn by(factory: Factory) -> Answer {
        Answer::with(move |request, count| factory(request, count))
    }

    /// Adds a text block.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Answer {
        self.block(AssistantContent::text(text))
    }

    /// Adds a thinking block.
    #[must_use]
    pub fn thinking(self, thinking: impl Into<String>) -> Answer {
        let block = ThinkingContent { thinking: thinking.into(), ..ThinkingContent::default() };
        self.block(AssistantContent::Thinking(block))
    }

    /// Adds a tool call with an id of the model's choice. Arguments that are no object are given as none.
    #[must_use]
    pub fn tool_call(self, name: impl Into<String>, arguments: Value) -> Answer {
        self.tool_call_with_id("", name, arguments)
    }

    /// Adds a tool call with an id.
    #[must_use]
    pub fn tool_call_with_id(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: Value,
    ) -> Answer {
        let arguments = if let Value::Object(fields) = arguments { fields } else { Map::new() };
        let (id, name) = (id.into(), name.into());
        self.block(AssistantContent::ToolCall(ToolCall {
            id,
            name,
            arguments,
            ..ToolCall::default()
        }))
    }

    /// Adds any block. A tool call makes the message end for tool use.
    #[must_use]
    pub fn block(self, block: AssistantContent) -> Answer {
        self.change(|message| {
            let calls = matches!(block, AssistantContent::ToolCall(_));
            if calls && message.stop_reason == StopReason::Stop {
                message.stop_reason = StopReason::ToolUse;
            }
            message.content.push(block);
        })
    }

    /// Ends the message with another stop reason.
    #[must_use]
    pub fn stops(self, reason: StopReason) -> Answer {
        self.change(|message| message.stop_reason = reason)
    }

    /// Fails after the content so far; `ErrorKind::Aborted` makes it an abort.
    #[must_use]
    pub fn fails(self, kind: ErrorKind, text: impl Into<String>) -> Answer {
        self.change(|message| {
            message.stop_reason = match kind {
                ErrorKind::Aborted => StopReason::Aborted,
                _ => StopReason::Error,
            };
            message.error_message = Some(text.into());
            message.failure = Some(Failure::new(kind));
        })
    }

    /// Changes the message. An answer that is a list of events or is made later stays as it is.
    fn change(mut self, change: impl FnOnce(&mut AssistantMessage)) -> Answer {
        if let Kind::Content(Content::Message(message)) = &mut self.kind {
            change(message);
        }
        self
    }

    /// The answer as it stands for this request.
    pub(super) fn resolve(self, request: &StreamRequest, count: usize) -> Result<Content, Error> {
        /// An answer may be made by one that makes answers, but not without end.
        const DEPTH: usize = 16;
        let mut answer = self;
        for _ in 0..DEPTH {
            match answer.kind {
                Kind::Content(content) => return Ok(content),
                Kind::Later(factory) => answer = factory(request, count),
            }
        }
        let message = "the scripted answer gives ever more functions instead of content";
        Err(Error::new(ErrorKind::Configuration, message))
    }
}

impl Default for Answer {
    fn default() -> Answer {
        Answer::new()
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Answer {
        Answer::new().text(text)
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Answer {
        Answer::new().text(text)
    }
}

impl From<AssistantMessage> for Answer {
    /// The names of the model and the usage become those of the request that it answers.
    fn from(message: AssistantMessage) -> Answer {
        Answer { kind: Kind::Content(Content::Message(Box::new(message))) }
    }
}

impl From<AssistantContent> for Answer {
    fn from(block: AssistantContent) -> Answer {
        Answer::new().block(block)
    }
}

impl From<Vec<AssistantContent>> for Answer {
    fn from(blocks: Vec<AssistantContent>) -> Answer {
        blocks.into_iter().fold(Answer::new(), Answer::block)
    }
}

impl From<Vec<StreamEvent>> for Answer {
    /// The events are given as they are, also those that no good model would send.
    fn from(events: Vec<StreamEvent>) -> Answer {
        Answer { kind: Kind::Content(Content::Events(events)) }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Content(Content::Message(message)) => {
                f.debug_tuple("Answer").field(message).finish()
            }
            Kind::Content(Content::Events(events)) => {
                f.debug_tuple("Answer").field(events).finish()
            }
            Kind::Later(_) => f.write_str("Answer(by request)"),
        }
    }
}
