//! A transcript as the `contents` of Google's API.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    message::{
        AssistantContent, AssistantMessage, Content, ImageContent, Message, MessageContent,
        ToolCall, ToolResultMessage,
    },
    model::Model,
    provider::google::family::Family,
};

/// Stands for the text of a result that is an image.
const SEE_IMAGE: &str = "(see the image)";
/// Introduces the images of a result, for models that take them from users only.
const IMAGE_CAPTION: &str = "Image of the tool result:";

/// Converts messages that were made ready for the model.
pub(super) fn convert(messages: &[Arc<Message>], model: &Model) -> Vec<Value> {
    let family = Family::of(&model.id);
    let mut contents = Vec::new();
    let mut results = Vec::new();
    for message in messages {
        if !matches!(**message, Message::ToolResult(_)) {
            flush(&mut results, &mut contents);
        }
        match &**message {
            Message::User(user) => push(user_parts(&user.content), "user", &mut contents),
            Message::Assistant(assistant) => {
                push(assistant_parts(assistant, model, family), "model", &mut contents);
            }
            Message::ToolResult(result) => {
                results.push(result_part(result, family));
                let images: Vec<Value> = result.content.iter().filter_map(image_part).collect();
                if !images.is_empty() && !family.nests_images {
                    flush(&mut results, &mut contents);
                    let mut parts = vec![json!({"text": IMAGE_CAPTION})];
                    parts.extend(images);
                    push(parts, "user", &mut contents);
                }
            }
            Message::System(_) | Message::Custom(_) => (),
        }
    }
    flush(&mut results, &mut contents);
    contents
}

fn push(parts: Vec<Value>, role: &str, contents: &mut Vec<Value>) {
    if !parts.is_empty() {
        contents.push(object([("role", role.into()), ("parts", parts.into())]));
    }
}

/// Results that follow each other are one message.
fn flush(results: &mut Vec<Value>, contents: &mut Vec<Value>) {
    push(std::mem::take(results), "user", contents);
}

fn user_parts(content: &MessageContent) -> Vec<Value> {
    match content {
        MessageContent::Text(text) => vec![json!({"text": text})],
        MessageContent::Blocks(blocks) => blocks
            .iter()
            .filter_map(|block| {
                image_part(block).or_else(|| block.as_text().map(|text| json!({"text": text})))
            })
            .collect(),
    }
}

fn assistant_parts(assistant: &AssistantMessage, model: &Model, family: Family) -> Vec<Value> {
    let is_own = model.is_same(&assistant.provider, &assistant.api, &assistant.model);
    let parts = assistant.content.iter().filter_map(|block| match block {
        AssistantContent::Text(text) => {
            let signature = valid(text.text_signature.as_deref(), is_own);
            let is_worth = !text.text.trim().is_empty() || signature.is_some();
            is_worth.then(|| signed(json!({"text": text.text}), signature))
        }
        AssistantContent::Thinking(thinking) => {
            let signature = valid(thinking.thinking_signature.as_deref(), is_own);
            let is_worth = !thinking.thinking.trim().is_empty() || signature.is_some();
            is_worth.then(|| signed(json!({"thought": true, "text": thinking.thinking}), signature))
        }
        AssistantContent::ToolCall(call) => {
            let signature = valid(call.thought_signature.as_deref(), is_own);
            Some(signed(json!({"functionCall": function_call(call, family)}), signature))
        }
    });
    parts.collect()
}

fn function_call(call: &ToolCall, family: Family) -> Value {
    let mut function = json!({"name": call.name, "args": call.arguments});
    if family.has_call_ids {
        function["id"] = call.id.clone().into();
    }
    function
}

fn signed(mut part: Value, signature: Option<&str>) -> Value {
    if let Some(signature) = signature {
        part["thoughtSignature"] = signature.into();
    }
    part
}

/// A signature of the model's own that the vendor can read: base64.
fn valid(signature: Option<&str>, is_own: bool) -> Option<&str> {
    let is_base64 = |text: &&str| {
        let bare = text.trim_end_matches('=');
        !text.is_empty()
            && text.len().is_multiple_of(4)
            && text.len() - bare.len() <= 2
            && bare.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/'))
    };
    signature.filter(|_| is_own).filter(is_base64)
}

fn result_part(result: &ToolResultMessage, family: Family) -> Value {
    let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
    let mut text = texts.join("\n");
    let images: Vec<Value> = result.content.iter().filter_map(image_part).collect();
    if text.is_empty() && !images.is_empty() {
        text.push_str(SEE_IMAGE);
    }
    let field = if result.is_error { "error" } else { "output" };
    let mut response = json!({"name": result.tool_name, "response": {field: text}});
    if !images.is_empty() && family.nests_images {
        response["parts"] = images.into();
    }
    if family.has_call_ids {
        response["id"] = result.tool_call_id.clone().into();
    }
    json!({"functionResponse": response})
}

fn image_part(block: &Content) -> Option<Value> {
    let Content::Image(ImageContent { data, mime_type }) = block else { return None };
    let image = object([("mimeType", mime_type.clone().into()), ("data", data.clone().into())]);
    Some(object([("inlineData", image)]))
}

/// Makes an object without copying its values, as the macro does.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
