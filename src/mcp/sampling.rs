//! Servers that want a model asked, answered by a model of the program.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    abort::AbortSignal,
    jsonrpc::{INTERNAL_ERROR, INVALID_PARAMS, RpcError},
    mcp::{
        client::{Handler, Sampling},
        content,
    },
    message::{
        AssistantContent, AssistantMessage, Message, MessageContent, StopReason, UserMessage,
    },
    model::Model,
    stream::{StreamFn, StreamRequest, collect},
};

/// Makes a handler that asks `model`. Whoever uses it lets servers spend the tokens of the program: for servers that are
/// not trusted, ask the user first.
///
/// # Examples
///
/// ```
/// use steerage::{mcp::{ClientOptions, sampling::by_model}, testing::Scripted};
///
/// let scripted = Scripted::new(["A summary."]);
/// let model = scripted.model();
/// let options = ClientOptions { sampling: Some(by_model(scripted.into(), model)), ..ClientOptions::default() };
/// # assert!(options.sampling.is_some());
/// ```
pub fn by_model(stream: Arc<dyn StreamFn>, model: impl Into<Arc<Model>>) -> Handler<Sampling> {
    let model = model.into();
    Arc::new(move |question, signal| ask(&*stream, &model, &question.params, signal))
}

fn ask(
    stream: &dyn StreamFn,
    model: &Arc<Model>,
    params: &Map<String, Value>,
    signal: &AbortSignal,
) -> Result<Value, RpcError> {
    let mut messages = Vec::new();
    if let Some(prompt) = params.get("systemPrompt").and_then(Value::as_str) {
        messages.push(Message::system(prompt));
    }
    let asked = params.get("messages").and_then(Value::as_array);
    let asked = asked.ok_or_else(|| RpcError::new(INVALID_PARAMS, "no messages"))?;
    for message in asked {
        messages.push(to_message(message));
    }
    let mut request = StreamRequest::new(model.clone(), messages);
    request.options.max_tokens = params.get("maxTokens").and_then(Value::as_u64);
    request.options.temperature = params.get("temperature").and_then(Value::as_f64);
    let failed = |text: &str| RpcError::new(INTERNAL_ERROR, format!("the model failed: {text}"));
    let mut stream = stream.stream(request, signal).map_err(|error| failed(error.message()))?;
    let answer = collect(model, &mut *stream);
    if answer.is_failed() {
        return Err(failed(answer.error_message.as_deref().unwrap_or("it gave no answer")));
    }
    let stop = if answer.stop_reason == StopReason::Length { "maxTokens" } else { "endTurn" };
    let text: Vec<&str> = answer.texts().collect();
    Ok(json!({
        "role": "assistant",
        "content": {"type": "text", "text": text.join("")},
        "model": answer.response_model.as_ref().unwrap_or(&model.id),
        "stopReason": stop,
    }))
}

fn to_message(message: &Value) -> Message {
    let blocks = match message.get("content") {
        Some(Value::Array(blocks)) => blocks.iter().map(content::block).collect(),
        Some(block) => vec![content::block(block)],
        None => Vec::new(),
    };
    if message.get("role").and_then(Value::as_str) == Some("assistant") {
        let texts = blocks.iter().filter_map(|block| block.as_text());
        let content = texts.map(AssistantContent::text).collect();
        return Message::Assistant(AssistantMessage { content, ..AssistantMessage::default() });
    }
    Message::User(UserMessage::new(MessageContent::Blocks(blocks)))
}
