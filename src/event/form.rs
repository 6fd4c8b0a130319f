//! The reference's JSON form of an event.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};

use crate::{
    event::AgentEvent,
    message::{AssistantContent, AssistantMessage, Message, ToolCall},
    stream::{LiveMessage, StreamEvent},
};

pub(super) fn to_json(event: &AgentEvent) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), event.type_name().into());
    let mut put = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    match event {
        AgentEvent::AgentStart | AgentEvent::TurnStart => (),
        AgentEvent::MessageStart { message } | AgentEvent::MessageEnd { message } => {
            put("message", json!(message));
        }
        AgentEvent::RetryScheduled { attempt, max_attempts, delay_ms, error_message } => {
            put("attempt", json!(attempt));
            put("maxAttempts", json!(max_attempts));
            put("delayMs", json!(delay_ms));
            put("errorMessage", json!(error_message));
        }
        AgentEvent::MessageUpdate { message, event } => {
            put("message", json!(Message::Assistant(message.snapshot())));
            put("assistantMessageEvent", update_json(event));
        }
        AgentEvent::ToolExecutionStart { call } => put_call(&mut put, call),
        AgentEvent::ToolExecutionUpdate { call, partial_result } => {
            put_call(&mut put, call);
            put("partialResult", json!(partial_result));
        }
        AgentEvent::ToolExecutionEnd { call, result, is_error, duration_ms } => {
            put("toolCallId", json!(call.id));
            put("toolName", json!(call.name));
            put("result", json!(result));
            put("isError", json!(is_error));
            if let Some(duration) = duration_ms {
                put("durationMs", json!(duration));
            }
        }
        AgentEvent::TurnEnd { message, tool_results } => {
            put("message", json!(message));
            put("toolResults", json!(tool_results));
        }
        AgentEvent::AgentEnd { messages } => put("messages", json!(messages)),
    }
    fields
}

pub(super) fn to_lean_json(event: &AgentEvent) -> Map<String, Value> {
    let mut fields = Map::from_iter([("type".to_owned(), event.type_name().into())]);
    match event {
        AgentEvent::MessageUpdate { event, .. } => {
            fields.insert("assistantMessageEvent".to_owned(), update_json(event));
        }
        AgentEvent::TurnEnd { .. } | AgentEvent::AgentEnd { .. } => (),
        _ => fields = to_json(event),
    }
    fields
}

fn put_call(put: &mut impl FnMut(&str, Value), call: &ToolCall) {
    put("toolCallId", json!(call.id));
    put("toolName", json!(call.name));
    put("args", json!(call.arguments));
}

/// An update as listeners of the reference see it: what only its proxy protocol carries is left out.
fn update_json(event: &StreamEvent) -> Value {
    let mut value = json!(event);
    if let Some(fields) = value.as_object_mut() {
        for name in ["id", "toolName", "contentSignature", "initial"] {
            fields.shift_remove(name);
        }
        if let Some(call) = fields.get_mut("toolCall").and_then(Value::as_object_mut) {
            call.shift_insert(0, "type".to_owned(), "toolCall".into());
        }
    }
    value
}

impl Serialize for AgentEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        to_json(self).serialize(serializer)
    }
}

/// The fields of all events; which of them are there depends on the type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    r#type: String,
    message: Option<Value>,
    assistant_message_event: Option<StreamEvent>,
    #[serde(default)]
    tool_call_id: String,
    #[serde(default)]
    tool_name: String,
    #[serde(default)]
    args: Map<String, Value>,
    partial_result: Option<Value>,
    result: Option<Value>,
    #[serde(default)]
    is_error: bool,
    duration_ms: Option<u64>,
    #[serde(default)]
    attempt: u32,
    #[serde(default)]
    max_attempts: u32,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    error_message: String,
    tool_results: Option<Value>,
    messages: Option<Value>,
}

impl<'de> Deserialize<'de> for AgentEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AgentEvent, D::Error> {
        let fields = Fields::deserialize(deserializer)?;
        from_fields(fields).map_err(de::Error::custom)
    }
}

fn from_fields(fields: Fields) -> Result<AgentEvent, serde_json::Error> {
    fn read<T: de::DeserializeOwned>(value: Option<Value>) -> Result<T, serde_json::Error> {
        serde_json::from_value(value.unwrap_or_default())
    }
    let call = || {
        ToolCall {
            id: fields.tool_call_id.clone(),
            name: fields.tool_name.clone(),
            arguments: fields.args.clone(),
            ..ToolCall::default()
        }
        .into()
    };
    Ok(match fields.r#type.as_str() {
        "agent_start" => AgentEvent::AgentStart,
        "turn_start" => AgentEvent::TurnStart,
        "message_start" => AgentEvent::MessageStart { message: read(fields.message)? },
        "message_end" => AgentEvent::MessageEnd { message: read(fields.message)? },
        "retry_scheduled" => AgentEvent::RetryScheduled {
            attempt: fields.attempt,
            max_attempts: fields.max_attempts,
            delay_ms: fields.delay_ms,
            error_message: fields.error_message,
        },
        "message_update" => {
            let message: AssistantMessage = read(fields.message)?;
            let mut event = fields
                .assistant_message_event
                .ok_or_else(|| de::Error::missing_field("assistantMessageEvent"))?;
            if let StreamEvent::ToolCallStart { content_index, id, tool_name } = &mut event
                && let Some(AssistantContent::ToolCall(call)) = message.content.get(*content_index)
            {
                id.clone_from(&call.id);
                tool_name.clone_from(&call.name);
            }
            AgentEvent::MessageUpdate { message: LiveMessage::with_message(message), event }
        }
        "tool_execution_start" => AgentEvent::ToolExecutionStart { call: call() },
        "tool_execution_update" => AgentEvent::ToolExecutionUpdate {
            call: call(),
            partial_result: read(fields.partial_result)?,
        },
        "tool_execution_end" => AgentEvent::ToolExecutionEnd {
            call: call(),
            result: read(fields.result)?,
            is_error: fields.is_error,
            duration_ms: fields.duration_ms,
        },
        "turn_end" => AgentEvent::TurnEnd {
            message: read(fields.message)?,
            tool_results: read(fields.tool_results)?,
        },
        "agent_end" => AgentEvent::AgentEnd { messages: read(fields.messages)? },
        other => return Err(de::Error::custom(format_args!("unknown event type `{other}`"))),
    })
}
