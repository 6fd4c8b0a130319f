//! The events of a response.

use serde::{Deserialize, Serialize};

use crate::{
    error::{ErrorKind, Failure},
    message::{Diagnostic, StopReason, ThinkingContent, ToolCall},
    model::Model,
    usage::Usage,
};

/// One event of a response. `content_index` is the place of the block in the message; blocks may interleave.
///
/// Its JSON is the reference's, without the message so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum StreamEvent {
    /// The response begins.
    Start,
    /// A text block begins.
    TextStart {
        /// The place of the block.
        content_index: usize,
    },
    /// What a text block holds from its start, where a vendor begins with more than nothing. Not passed on to listeners: they
    /// see it in the message and at the end of the block.
    InitialText {
        /// The place of the block.
        content_index: usize,
        /// The text.
        text: String,
    },
    /// More text.
    TextDelta {
        /// The place of the block.
        content_index: usize,
        /// The new text.
        delta: String,
    },
    /// A text block is complete.
    TextEnd {
        /// The place of the block.
        content_index: usize,
        /// The whole text. A provider may leave it out (then it is what the deltas gave) or give another one, which wins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// The vendor's opaque data for sending the block back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_signature: Option<String>,
    },
    /// A thinking block begins.
    ThinkingStart {
        /// The place of the block.
        content_index: usize,
        /// What the block holds from the start, for redacted thinking.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial: Option<Box<ThinkingContent>>,
    },
    /// More thinking.
    ThinkingDelta {
        /// The place of the block.
        content_index: usize,
        /// The new text.
        delta: String,
    },
    /// A thinking block is complete.
    ThinkingEnd {
        /// The place of the block.
        content_index: usize,
        /// The whole text, as in [`TextEnd`](StreamEvent::TextEnd).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// The vendor's opaque data for sending the block back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_signature: Option<String>,
    },
    /// A tool call begins.
    #[serde(rename = "toolcall_start")]
    ToolCallStart {
        /// The place of the block.
        content_index: usize,
        /// The id of the call.
        #[serde(default)]
        id: String,
        /// The name of the tool.
        #[serde(default)]
        tool_name: String,
    },
    /// More of the argument text.
    #[serde(rename = "toolcall_delta")]
    ToolCallDelta {
        /// The place of the block.
        content_index: usize,
        /// The new text.
        delta: String,
    },
    /// A tool call is complete.
    #[serde(rename = "toolcall_end")]
    ToolCallEnd {
        /// The place of the block.
        content_index: usize,
        /// The whole call. A provider may leave it out (then the argument text is parsed) or give another one, which wins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call: Option<Box<ToolCall>>,
    },
    /// Something about the response that is no content. Not passed on to listeners.
    Info(Box<ResponseInfo>),
    /// The vendor's opaque data of a block that is still open. Not passed on to listeners.
    Signature {
        /// The place of the block.
        content_index: usize,
        /// The data so far, in place of what stood there.
        signature: String,
    },
    /// The response is complete.
    Done {
        /// Why it ended: `stop`, `length` or `toolUse`.
        reason: StopReason,
    },
    /// The response failed or was aborted. The blocks so far stay in the message.
    Error {
        /// What went wrong, for people.
        #[serde(rename = "errorMessage")]
        message: String,
        /// What went wrong, for programs.
        failure: Box<Failure>,
    },
}

/// Something about a response that is no content; what is `None` stays as it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResponseInfo {
    /// The vendor's id of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The model that answered, if the server reported another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// The model that answers in the place of the one that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answerer: Option<Answerer>,
    /// Tokens and costs so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The vendor's own word for why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_stop_reason: Option<String>,
    /// The vendor's own effort value, where effort travels as a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_thinking_level: Option<String>,
    /// Notes to add.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

/// A model as a message names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answerer {
    /// The wire API by which it is reached.
    pub api: String,
    /// Whose it is.
    pub provider: String,
    /// Its id.
    pub model: String,
}

impl Answerer {
    /// Names a model.
    pub fn of(model: &Model) -> Answerer {
        let Model { api, provider, id, .. } = model;
        Answerer { api: api.clone(), provider: provider.clone(), model: id.clone() }
    }
}

impl StreamEvent {
    /// Whether no event comes after it.
    pub fn is_terminal(&self) -> bool {
        matches!(self, StreamEvent::Done { .. } | StreamEvent::Error { .. })
    }

    /// Whether it changes content, so that listeners are told of it.
    pub fn is_update(&self) -> bool {
        let is_silent =
            matches!(self, StreamEvent::Signature { .. } | StreamEvent::InitialText { .. });
        self.content_index().is_some() && !is_silent
    }

    /// The place of the block that it is about.
    pub fn content_index(&self) -> Option<usize> {
        match self {
            StreamEvent::TextStart { content_index }
            | StreamEvent::InitialText { content_index, .. }
            | StreamEvent::TextDelta { content_index, .. }
            | StreamEvent::TextEnd { content_index, .. }
            | StreamEvent::ThinkingStart { content_index, .. }
            | StreamEvent::ThinkingDelta { content_index, .. }
            | StreamEvent::ThinkingEnd { content_index, .. }
            | StreamEvent::ToolCallStart { content_index, .. }
            | StreamEvent::ToolCallDelta { content_index, .. }
            | StreamEvent::ToolCallEnd { content_index, .. }
            | StreamEvent::Signature { content_index, .. } => Some(*content_index),
            StreamEvent::Start
            | StreamEvent::Info(_)
            | StreamEvent::Done { .. }
            | StreamEvent::Error { .. } => None,
        }
    }

    /// The stop reason that a terminal event gives the message.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self {
            StreamEvent::Done { reason } => Some(*reason),
            StreamEvent::Error { failure, .. } if failure.kind == ErrorKind::Aborted => {
                Some(StopReason::Aborted)
            }
            StreamEvent::Error { .. } => Some(StopReason::Error),
            _ => None,
        }
    }
}
