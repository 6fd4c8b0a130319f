//! A transcript as the `messages` of this API.

use std::{mem, sync::Arc};

use serde_json::{Map, Value, json};

use crate::{
    error::Error,
    message::{
        AssistantContent, AssistantMessage, Content, ImageContent, Message, MessageContent,
        SystemMessage, ThinkingContent, ToolCall, ToolResultMessage,
    },
    model::Model,
    provider::{
        grammar::GrammarTools,
        openai_completions::{compat::Compat, details, tools},
    },
    transcript::{prompt_text, update_text},
};

/// The content of a tool result without any.
const NO_OUTPUT: &str = "(the tool gave no output)";
/// The content of a tool result that is an image, which this API takes from users only.
const SEE_IMAGE: &str = "(an image, see the next user message)";
/// Introduces the images of tool results.
const IMAGE_CAPTION: &str = "Images from the tool results above:";
/// Stands between tool results and a user message where a server insists on an answer.
const BRIDGE: &str = "I have read the tool results.";

/// The fields of a delta, and of a message, that servers put reasoning into; earlier ones win.
pub(super) const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// Converts messages one after the other.
#[derive(Debug)]
pub(super) struct Converter<'a> {
    pub(super) model: &'a Model,
    pub(super) compat: &'a Compat,
    pub(super) grammar_tools: &'a GrammarTools,
    /// So many system messages have their tools in the list of the request.
    pub(super) folded: usize,
}

/// Where messages stand among all of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Whether a system message among them is the prompt.
    pub(super) is_head: bool,
    /// How many system messages came before.
    pub(super) systems: usize,
}

/// What was converted so far.
struct Converted {
    messages: Vec<Value>,
    /// Images of the tool results that were converted last.
    images: Vec<Value>,
    systems: usize,
}

impl Converter<'_> {
    /// Converts messages that were made ready for the model.
    pub(super) fn convert(
        &self,
        messages: &[Arc<Message>],
        place: Place,
    ) -> Result<Vec<Value>, Error> {
        let systems = place.systems;
        let mut converted = Converted { messages: Vec::new(), images: Vec::new(), systems };
        for message in messages {
            if !matches!(**message, Message::ToolResult(_)) {
                self.flush_images(&mut converted);
            }
            match &**message {
                Message::System(system) => self.system(&mut converted, system, place.is_head)?,
                Message::User(user) => {
                    if let Some(content) = user_content(&user.content) {
                        self.push_user(&mut converted, content);
                    }
                }
                Message::Assistant(assistant) => {
                    converted.messages.extend(self.assistant(assistant)?);
                }
                Message::ToolResult(result) => self.result(&mut converted, result),
                Message::Custom(_) => {}
            }
        }
        self.flush_images(&mut converted);
        Ok(converted.messages)
    }

    fn system(
        &self,
        converted: &mut Converted,
        system: &SystemMessage,
        is_base: bool,
    ) -> Result<(), Error> {
        if converted.systems >= self.folded && !system.tools_added.is_empty() {
            let tools = tools::declare(&system.tools_added, self.compat)?;
            converted.messages.push(json!({"role": "system", "tools": tools}));
        }
        converted.systems += 1;
        let text = if is_base { prompt_text(system) } else { update_text(system) };
        if !text.is_empty() {
            let is_developer = self.model.reasoning && self.compat.supports_developer_role;
            let role = if is_developer { "developer" } else { "system" };
            converted.messages.push(object([("role", role.into()), ("content", text.into())]));
        }
        Ok(())
    }

    fn push_user(&self, converted: &mut Converted, content: Value) {
        let follows_results = converted.messages.last().is_some_and(|last| last["role"] == "tool");
        if follows_results && self.compat.requires_assistant_after_tool_result {
            converted.messages.push(json!({"role": "assistant", "content": BRIDGE}));
        }
        converted.messages.push(object([("role", "user".into()), ("content", content)]));
    }

    fn flush_images(&self, converted: &mut Converted) {
        if !converted.images.is_empty() {
            let mut parts = vec![json!({"type": "text", "text": IMAGE_CAPTION})];
            parts.append(&mut converted.images);
            self.push_user(converted, Value::Array(parts));
        }
    }

    fn result(&self, converted: &mut Converted, result: &ToolResultMessage) {
        let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
        let mut text = texts.join("\n");
        let images = result.content.iter().filter_map(|block| match block {
            Content::Image(image) => Some(image_part(image)),
            Content::Text(_) => None,
        });
        let before = converted.images.len();
        converted.images.extend(images);
        if text.is_empty() {
            let has_images = converted.images.len() > before;
            text.push_str(if has_images { SEE_IMAGE } else { NO_OUTPUT });
        }
        let mut message = object([
            ("role", "tool".into()),
            ("content", text.into()),
            ("tool_call_id", result.tool_call_id.clone().into()),
        ]);
        if self.compat.requires_tool_result_name && !result.tool_name.is_empty() {
            message["name"] = result.tool_name.clone().into();
        }
        converted.messages.push(message);
    }

    /// Converts a response; `None` if nothing of it is for the server.
    fn assistant(&self, assistant: &AssistantMessage) -> Result<Option<Value>, Error> {
        let mut message = Map::new();
        let content = self.assistant_content(assistant);
        let is_empty = matches!(&content, Value::Null) || content == "";
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), content);
        let details = self.reasoning(assistant, &mut message);
        let calls: Vec<Value> =
            assistant.tool_calls().map(|call| self.call(call)).collect::<Result<_, _>>()?;
        if is_empty && calls.is_empty() {
            return Ok(None);
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        if let Some(details) = details {
            message.insert("reasoning_details".to_owned(), details);
        }
        let wants_reasoning = self.compat.requires_reasoning_content && self.model.reasoning;
        if wants_reasoning && !message.contains_key("reasoning_content") {
            message.insert("reasoning_content".to_owned(), "".into());
        }
        Ok(Some(Value::Object(message)))
    }

    fn assistant_content(&self, assistant: &AssistantMessage) -> Value {
        let texts: Vec<&str> = assistant.texts().filter(|it| !it.trim().is_empty()).collect();
        let thinking: Vec<&str> = shown_thinking(assistant).map(|it| &*it.thinking).collect();
        if self.compat.requires_thinking_as_text && !thinking.is_empty() {
            let thinking = thinking.join("\n\n");
            let parts = std::iter::once(&*thinking).chain(texts);
            return parts.map(|text| json!({"type": "text", "text": text})).collect();
        }
        let text = texts.concat();
        let must_be_text = self.compat.requires_non_null_assistant_content
            || self.compat.requires_assistant_after_tool_result;
        if text.is_empty() && !must_be_text { Value::Null } else { text.into() }
    }

    /// Gives the reasoning back in the field that it came in, or returns it as details.
    fn reasoning(
        &self,
        assistant: &AssistantMessage,
        message: &mut Map<String, Value>,
    ) -> Option<Value> {
        let signatures = assistant.content.iter().filter_map(|block| match block {
            AssistantContent::Thinking(thinking) => thinking.thinking_signature.as_deref(),
            _ => None,
        });
        let encrypted = || {
            let kept = assistant.tool_calls().filter_map(|it| it.thought_signature.as_deref());
            let pieces: Vec<Value> = kept.filter_map(details::parse_encrypted).collect();
            (!pieces.is_empty()).then_some(Value::Array(pieces))
        };
        let details = signatures.into_iter().find_map(details::parse).or_else(encrypted);
        if details.is_none() && !self.compat.requires_thinking_as_text {
            let mut shown = shown_thinking(assistant).peekable();
            let field = shown.peek().and_then(|first| first.thinking_signature.as_deref());
            if let Some(field) = field.filter(|field| REASONING_FIELDS.contains(field)) {
                let texts: Vec<&str> = shown.map(|it| it.thinking.as_str()).collect();
                message.insert(field.to_owned(), texts.join("\n").into());
            }
        }
        details
    }

    fn call(&self, call: &ToolCall) -> Result<Value, Error> {
        let Some(input) = self.grammar_tools.input(call)? else {
            let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
            return Ok(json!({
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments},
            }));
        };
        Ok(json!({
            "id": call.id,
            "type": "custom",
            "custom": {"name": call.name, "input": input},
        }))
    }
}

/// Makes an object without copying its values, as the macro does.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Thinking that people can read.
fn shown_thinking(assistant: &AssistantMessage) -> impl Iterator<Item = &ThinkingContent> {
    assistant.content.iter().filter_map(|block| match block {
        AssistantContent::Thinking(it) if !it.redacted && !it.thinking.trim().is_empty() => {
            Some(it)
        }
        _ => None,
    })
}

/// The content of a user message; `None` if nothing is left of it.
fn user_content(content: &MessageContent) -> Option<Value> {
    let blocks = match content {
        MessageContent::Text(text) => return Some(text.clone().into()),
        MessageContent::Blocks(blocks) => blocks,
    };
    let parts: Vec<Value> = blocks
        .iter()
        .filter_map(|block| match block {
            Content::Text(text) if text.text.is_empty() => None,
            Content::Text(text) => Some(json!({"type": "text", "text": text.text})),
            Content::Image(image) => Some(image_part(image)),
        })
        .collect();
    (!parts.is_empty()).then_some(Value::Array(parts))
}

fn image_part(image: &ImageContent) -> Value {
    let url = format!("data:{};base64,{}", image.mime_type, image.data);
    object([("type", "image_url".into()), ("image_url", object([("url", url.into())]))])
}

/// Marks the prompt, where the server may cut its cache; tells whether there is one.
pub(super) fn mark_instruction(messages: &mut [Value], marker: &Value) -> bool {
    let is_instruction = |message: &&mut Value| {
        matches!(message["role"].as_str(), Some("system" | "developer"))
            && !message["content"].is_null()
    };
    messages.iter_mut().find(is_instruction).is_some_and(|first| {
        mark(first, marker);
        true
    })
}

/// Marks the last tool likewise.
pub(super) fn mark_last_tool(tools: &mut [Value], marker: &Value) {
    if let Some(last) = tools.last_mut() {
        last["cache_control"] = marker.clone();
    }
}

/// Marks the last message with a text likewise; tells whether there is one.
pub(super) fn mark_last_text(messages: &mut [Value], marker: &Value) -> bool {
    messages.iter_mut().rev().any(|message| {
        let may = matches!(message["role"].as_str(), Some("user" | "assistant" | "tool"));
        may && mark(message, marker)
    })
}

/// Marks the last text of a message; tells whether there is one.
fn mark(message: &mut Value, marker: &Value) -> bool {
    match message.get_mut("content") {
        Some(Value::String(text)) if !text.is_empty() => {
            let text = mem::take(text);
            message["content"] = json!([{"type": "text", "text": text, "cache_control": marker}]);
            true
        }
        Some(Value::Array(parts)) => {
            match parts.iter_mut().rev().find(|part| part["type"] == "text") {
                Some(part) => {
                    part["cache_control"] = marker.clone();
                    true
                }
                None => false,
            }
        }
        _ => false,
    }
}
