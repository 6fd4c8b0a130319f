//! How long a transcript is, in tokens, without asking the vendor.

use std::borrow::Borrow;

use serde::Serialize;
use serde_json::Value;

use crate::{
    message::{AssistantContent, Content, Message, MessageContent},
    model::Model,
    transcript::replay::prompt_text,
};

/// An image counts as so many characters.
const IMAGE_CHARACTERS: u64 = 4800;
/// The least room that is left beside prompt and answer, since the estimate may be wrong.
const LEAST_MARGIN: u64 = 4096;
/// Below this much room the margin shrinks to the least.
const COMFORTABLE_ROOM: u64 = 32_768;

/// Estimates the tokens of one message: 3.5 characters a token, rounded up.
pub fn estimate_message(message: &Message) -> u64 {
    let characters = match message {
        Message::System(system) => {
            let tools = json_length_unless_empty(&system.tools_added)
                + json_length_unless_empty(&system.tools_removed);
            length(&prompt_text(system)) + tools
        }
        Message::User(user) => match &user.content {
            MessageContent::Text(text) => length(text),
            MessageContent::Blocks(blocks) => blocks_length(blocks),
        },
        Message::Assistant(assistant) => assistant.content.iter().map(assistant_block_length).sum(),
        Message::ToolResult(result) => blocks_length(&result.content),
        Message::Custom(_) => 0,
    };
    (characters * 2).div_ceil(7)
}

/// Estimates the tokens of a transcript.
///
/// The last response that reports its usage counts for all up to it; what comes after is estimated. Failed responses do
/// not count, and neither does one that is older than a message before it: then the transcript was shortened since.
pub fn estimate_tokens<M: Borrow<Message>>(messages: &[M]) -> u64 {
    let (mut start, mut tokens, mut newest) = (0, 0, 0);
    for (index, message) in messages.iter().enumerate() {
        let message = message.borrow();
        let timestamp = timestamp(message);
        if let Some(assistant) = message.as_assistant()
            && !assistant.is_failed()
            && timestamp >= newest
        {
            let reported = match assistant.usage.total_tokens {
                0 => assistant.usage.prompt_tokens().saturating_add(assistant.usage.output),
                total => total,
            };
            if reported > 0 {
                (start, tokens) = (index + 1, reported);
            }
        }
        newest = newest.max(timestamp);
    }
    let rest: u64 = messages[start..].iter().map(|it| estimate_message(it.borrow())).sum();
    tokens.saturating_add(rest)
}

/// How many tokens the answer may have: what was asked for, or else the model's limit, as far as the transcript leaves room
/// for it. 0 where nobody set a limit.
pub fn output_cap<M: Borrow<Message>>(
    model: &Model,
    messages: &[M],
    requested: Option<u64>,
) -> u64 {
    let wanted = requested.unwrap_or(model.max_tokens);
    if model.context_window == 0 || wanted == 0 {
        return wanted;
    }
    let estimate = estimate_tokens(messages);
    let left = model.context_window.saturating_sub(estimate);
    let margin = LEAST_MARGIN.max(estimate.saturating_mul(15).div_ceil(100));
    let mut room = left.saturating_sub(margin);
    if room < COMFORTABLE_ROOM {
        room = COMFORTABLE_ROOM.min(left.saturating_sub(LEAST_MARGIN));
    }
    wanted.min(room.max(1))
}

fn assistant_block_length(block: &AssistantContent) -> u64 {
    match block {
        AssistantContent::Text(text) => length(&text.text),
        AssistantContent::Thinking(thinking) => length(&thinking.thinking),
        AssistantContent::ToolCall(call) => length(&call.name) + json_length(&call.arguments),
    }
}

fn blocks_length(blocks: &[Content]) -> u64 {
    blocks
        .iter()
        .map(|block| match block {
            Content::Text(text) => length(&text.text),
            Content::Image(_) => IMAGE_CHARACTERS,
        })
        .sum()
}

/// The length in UTF-16 units.
fn length(text: &str) -> u64 {
    let units = if text.is_ascii() { text.len() } else { text.encode_utf16().count() };
    u64::try_from(units).unwrap_or(u64::MAX)
}

fn json_length_unless_empty<T: Serialize>(items: &[T]) -> u64 {
    if items.is_empty() { 0 } else { json_length(&items) }
}

fn json_length<T: Serialize>(value: &T) -> u64 {
    serde_json::to_string(value).map_or(0, |text| length(&text))
}

fn timestamp(message: &Message) -> u64 {
    match message {
        Message::System(it) => it.timestamp,
        Message::User(it) => it.timestamp,
        Message::Assistant(it) => it.timestamp,
        Message::ToolResult(it) => it.timestamp,
        Message::Custom(it) => it.fields().get("timestamp").and_then(Value::as_u64).unwrap_or(0),
    }
}
