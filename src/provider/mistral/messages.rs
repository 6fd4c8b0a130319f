//! A transcript as the `messages` of Mistral's API.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Map, Value, json};

use crate::{
    message::{
        AssistantContent, AssistantMessage, Content, ImageContent, Message, MessageContent,
        SystemMessage, ToolResultMessage,
    },
    transcript::{prompt_text, update_text},
};

/// The content of a tool result without any.
const NO_OUTPUT: &str = "(the tool gave no output)";
/// The text of a tool result that is an image.
const SEE_IMAGE: &str = "(see the image)";
/// Comes before the text of a failed call.
const ERROR: &str = "[the tool failed] ";
/// So many letters and digits an id has.
const ID_LENGTH: usize = 9;

/// Converts messages that were made ready for the model; `are_head` says that a system message is the prompt.
pub(super) fn convert(messages: &[Arc<Message>], are_head: bool) -> Vec<Value> {
    let converted = messages.iter().filter_map(|message| match &**message {
        Message::System(system) => system_message(system, are_head),
        Message::User(user) => {
            let content = user_content(&user.content)?;
            Some(object([("role", "user".into()), ("content", content)]))
        }
        Message::Assistant(assistant) => assistant_message(assistant),
        Message::ToolResult(result) => Some(result_message(result)),
        Message::Custom(_) => None,
    });
    converted.collect()
}

fn system_message(system: &SystemMessage, is_head: bool) -> Option<Value> {
    let text = if is_head { prompt_text(system) } else { update_text(system) };
    (!text.is_empty()).then(|| object([("role", "system".into()), ("content", text.into())]))
}

/// The content of a user message; `None` if nothing is left of it.
fn user_content(content: &MessageContent) -> Option<Value> {
    let blocks = match content {
        MessageContent::Text(text) => return Some(text.clone().into()),
        MessageContent::Blocks(blocks) => blocks,
    };
    let part = |block: &Content| match block {
        Content::Text(text) if text.text.is_empty() => None,
        Content::Text(text) => Some(text_part(&text.text)),
        Content::Image(image) => Some(image_part(image)),
    };
    let parts: Vec<Value> = blocks.iter().filter_map(part).collect();
    (!parts.is_empty()).then_some(Value::Array(parts))
}

fn assistant_message(assistant: &AssistantMessage) -> Option<Value> {
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in &assistant.content {
        match block {
            AssistantContent::Text(text) if !text.text.trim().is_empty() => {
                parts.push(text_part(&text.text));
            }
            AssistantContent::Thinking(thinking) if !thinking.thinking.trim().is_empty() => {
                let thinking = vec![text_part(&thinking.thinking)];
                parts.push(json!({"type": "thinking", "thinking": thinking}));
            }
            AssistantContent::ToolCall(call) => {
                let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                calls.push(json!({
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": arguments},
                    "index": 0,
                }));
            }
            AssistantContent::Text(_) | AssistantContent::Thinking(_) => (),
        }
    }
    if parts.is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("prefix".to_owned(), false.into());
    if !parts.is_empty() {
        message.insert("content".to_owned(), parts.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    Some(Value::Object(message))
}

fn result_message(result: &ToolResultMessage) -> Value {
    let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
    let joined = texts.join("\n");
    let images: Vec<Value> = result
        .content
        .iter()
        .filter_map(|block| match block {
            Content::Image(image) => Some(image_part(image)),
            Content::Text(_) => None,
        })
        .collect();
    let text = match (joined.trim(), images.is_empty()) {
        ("", true) => NO_OUTPUT,
        ("", false) => SEE_IMAGE,
        (text, _) => text,
    };
    let text = if result.is_error { format!("{ERROR}{text}") } else { text.to_owned() };
    let mut content = vec![text_part(&text)];
    content.extend(images);
    object([
        ("role", "tool".into()),
        ("name", result.tool_name.clone().into()),
        ("content", content.into()),
        ("tool_call_id", result.tool_call_id.clone().into()),
    ])
}

fn text_part(text: &str) -> Value {
    object([("type", "text".into()), ("text", text.into())])
}

fn image_part(image: &ImageContent) -> Value {
    let url = format!("data:{};base64,{}", image.mime_type, image.data);
    object([("type", "image_url".into()), ("image_url", url.into())])
}

/// Makes an object without copying its values, as the macro does.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Ids of other models' calls in the vendor's form; no two are alike.
#[derive(Debug, Clone, Default)]
pub(super) struct CallIds {
    used: HashMap<String, String>,
}

impl CallIds {
    pub(super) fn fitting(&mut self, id: &str) -> String {
        let plain: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
        let mut fitting = if plain.len() == ID_LENGTH { plain } else { derived_id(id) };
        for attempt in 1.. {
            let owner = self.used.entry(fitting.clone()).or_insert_with(|| id.to_owned());
            if owner == id {
                break;
            }
            fitting = derived_id(&format!("{id} {attempt}"));
        }
        fitting
    }
}

/// Nine letters and digits that differ for different texts (FNV-1a).
pub(super) fn derived_id(text: &str) -> String {
    const SIGNS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let signs = (0..ID_LENGTH).map(|_| {
        let sign = usize::try_from(hash % 62).unwrap_or_default();
        hash /= 62;
        char::from(SIGNS[sign])
    });
    signs.collect()
}
