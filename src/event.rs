//! What a run tells its listeners.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    message::{Message, ToolCall},
    stream::{LiveMessage, StreamEvent},
    tool::ToolResult,
};

mod form;

/// One event of a run, in the order things happen.
///
/// Cloning copies pointers. Its JSON is the reference's; see [`to_json`](AgentEvent::to_json).
#[derive(Debug, Clone)]
pub enum AgentEvent {
    /// A run begins.
    AgentStart,
    /// A turn begins: one response of the model and the tool results it causes.
    TurnStart,
    /// A message begins. An assistant message is still empty here.
    MessageStart {
        /// The message as it begins.
        message: Arc<Message>,
    },
    /// A response failed before anything of it was told; the model is asked again after a pause, which an abort ends.
    ///
    /// It comes before the start of the message, or right after it.
    RetryScheduled {
        /// Which attempt comes next; the first one after a failure is 1.
        attempt: u32,
        /// How many there may be.
        max_attempts: u32,
        /// How long the pause is, in milliseconds.
        delay_ms: u64,
        /// Why the attempt before failed.
        error_message: String,
    },
    /// An assistant message grows.
    MessageUpdate {
        /// The message under construction. It may be newer than the event when several updates come as one batch.
        message: LiveMessage,
        /// What changed.
        event: StreamEvent,
    },
    /// A message is complete and stands in the transcript.
    MessageEnd {
        /// The message.
        message: Arc<Message>,
    },
    /// A tool call is about to be prepared.
    ToolExecutionStart {
        /// The call as the model sent it.
        call: Arc<ToolCall>,
    },
    /// A tool reported progress.
    ToolExecutionUpdate {
        /// The call as the model sent it.
        call: Arc<ToolCall>,
        /// What it has so far.
        partial_result: Arc<ToolResult>,
    },
    /// A tool call has its result.
    ToolExecutionEnd {
        /// The call as the model sent it.
        call: Arc<ToolCall>,
        /// The result.
        result: Arc<ToolResult>,
        /// Whether the call failed.
        is_error: bool,
        /// How long the tool ran, in milliseconds; `None` if it did not run.
        duration_ms: Option<u64>,
    },
    /// A turn is complete.
    TurnEnd {
        /// The model's message.
        message: Arc<Message>,
        /// The results of its calls, in their order.
        tool_results: Vec<Arc<Message>>,
    },
    /// The run is over. No event comes after it.
    AgentEnd {
        /// What this run added to the transcript.
        messages: Vec<Arc<Message>>,
    },
}

impl AgentEvent {
    /// The new text, if it is an update with text (not thinking).
    pub fn text_delta(&self) -> Option<&str> {
        match self {
            AgentEvent::MessageUpdate { event: StreamEvent::TextDelta { delta, .. }, .. } => {
                Some(delta)
            }
            _ => None,
        }
    }

    /// The new thinking, if it is an update with thinking.
    pub fn thinking_delta(&self) -> Option<&str> {
        match self {
            AgentEvent::MessageUpdate {
                event: StreamEvent::ThinkingDelta { delta, .. }, ..
            } => Some(delta),
            _ => None,
        }
    }

    /// The name of its type as JSON has it, for example `message_start`.
    pub fn type_name(&self) -> &'static str {
        match self {
            AgentEvent::AgentStart => "agent_start",
            AgentEvent::TurnStart => "turn_start",
            AgentEvent::MessageStart { .. } => "message_start",
            AgentEvent::RetryScheduled { .. } => "retry_scheduled",
            AgentEvent::MessageUpdate { .. } => "message_update",
            AgentEvent::MessageEnd { .. } => "message_end",
            AgentEvent::ToolExecutionStart { .. } => "tool_execution_start",
            AgentEvent::ToolExecutionUpdate { .. } => "tool_execution_update",
            AgentEvent::ToolExecutionEnd { .. } => "tool_execution_end",
            AgentEvent::TurnEnd { .. } => "turn_end",
            AgentEvent::AgentEnd { .. } => "agent_end",
        }
    }

    /// The call's id, if it is about a tool call.
    pub fn tool_call_id(&self) -> Option<&str> {
        match self {
            AgentEvent::ToolExecutionStart { call }
            | AgentEvent::ToolExecutionUpdate { call, .. }
            | AgentEvent::ToolExecutionEnd { call, .. } => Some(&call.id),
            _ => None,
        }
    }

    /// The event as JSON, with the message as it stands now in an update.
    pub fn to_json(&self) -> Map<String, Value> {
        form::to_json(self)
    }

    /// The event as JSON without the messages that other events tell in whole: its size is that of what is new.
    pub(crate) fn to_lean_json(&self) -> Map<String, Value> {
        form::to_lean_json(self)
    }
}
