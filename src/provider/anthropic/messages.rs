//! Messages as this API takes them. Everything is borrowed from the transcript.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    message::{
        AssistantContent, AssistantMessage, Content, ImageContent, Message, MessageContent,
        ThinkingContent, ToolResultMessage,
    },
    provider::anthropic::cache::CacheMark,
    transcript::update_text,
};

const SEE_IMAGE: &str = "(see the image)";
const IMAGE_FOLLOWS: &str = "(the image follows after the results)";
const NO_OUTPUT: &str = "(no output)";

/// A message of a request.
#[derive(Debug, Serialize)]
pub(super) struct WireMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: WireContent<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum WireContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<WireBlock<'a>>),
}

#[derive(Debug, Serialize)]
pub(super) struct WireBlock<'a> {
    #[serde(flatten)]
    body: BlockBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockBody<'a> {
    Text { text: Cow<'a, str> },
    Image { source: Source<'a> },
    Thinking { thinking: &'a str, signature: &'a str },
    RedactedThinking { data: &'a str },
    ToolUse { id: &'a str, name: &'a str, input: &'a Map<String, Value> },
    ToolResult { tool_use_id: &'a str, content: WireContent<'a>, is_error: bool },
}

#[derive(Debug, Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

impl<'a> WireBlock<'a> {
    fn new(body: BlockBody<'a>) -> WireBlock<'a> {
        WireBlock { body, cache_control: None }
    }

    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> WireBlock<'a> {
        WireBlock::new(BlockBody::Text { text: text.into() })
    }

    fn image(image: &'a ImageContent) -> WireBlock<'a> {
        let source = Source { kind: "base64", media_type: &image.mime_type, data: &image.data };
        WireBlock::new(BlockBody::Image { source })
    }

    pub(super) fn set_mark(&mut self, mark: CacheMark) {
        self.cache_control = Some(mark);
    }
}

/// Converts messages that were made fit for the model; the prompt is not among them.
///
/// Later system messages wait until just before the next assistant message, or go to the end: the API takes them
/// nowhere else.
pub(super) fn convert<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    allow_empty_signature: bool,
) -> Vec<WireMessage<'a>> {
    let mut converter = Converter { wire: Vec::new(), updates: Vec::new(), results: Vec::new() };
    for message in messages {
        if let Message::ToolResult(result) = message {
            converter.results.push(result);
            continue;
        }
        converter.flush_results();
        match message {
            Message::User(user) => converter.push("user", user_content(&user.content)),
            Message::Assistant(assistant) => {
                let blocks = assistant_blocks(assistant, allow_empty_signature);
                if !blocks.is_empty() {
                    converter.flush_updates();
                    converter.push("assistant", Some(WireContent::Blocks(blocks)));
                }
            }
            Message::System(system) => converter.updates.push(update_text(system)),
            Message::ToolResult(_) | Message::Custom(_) => (),
        }
    }
    converter.flush_results();
    converter.flush_updates();
    converter.wire
}

struct Converter<'a> {
    wire: Vec<WireMessage<'a>>,
    updates: Vec<String>,
    results: Vec<&'a ToolResultMessage>,
}

impl<'a> Converter<'a> {
    fn push(&mut self, role: &'static str, content: Option<WireContent<'a>>) {
        self.wire.extend(content.map(|content| WireMessage { role, content }));
    }

    fn flush_updates(&mut self) {
        for text in std::mem::take(&mut self.updates) {
            let is_empty = is_blank(&text);
            let blocks = || WireContent::Blocks(vec![WireBlock::text(text)]);
            self.push("system", (!is_empty).then(blocks));
        }
    }

    /// Results that follow one another share a message; images of failed ones go behind all results.
    fn flush_results(&mut self) {
        if self.results.is_empty() {
            return;
        }
        let results = std::mem::take(&mut self.results);
        let mut blocks: Vec<_> = results.iter().map(|result| result_block(result)).collect();
        for result in results.iter().filter(|result| result.is_error) {
            let images: Vec<_> = images(&result.content).map(WireBlock::image).collect();
            if !images.is_empty() {
                blocks.push(WireBlock::text(caption(result)));
                blocks.extend(images);
            }
        }
        self.push("user", Some(WireContent::Blocks(blocks)));
    }
}

fn user_content(content: &MessageContent) -> Option<WireContent<'_>> {
    match content {
        MessageContent::Text(text) if is_blank(text) => None,
        MessageContent::Text(text) => Some(WireContent::Text(Cow::Borrowed(text))),
        MessageContent::Blocks(blocks) => {
            let blocks = content_blocks(blocks);
            (!blocks.is_empty()).then_some(WireContent::Blocks(blocks))
        }
    }
}

fn content_blocks(content: &[Content]) -> Vec<WireBlock<'_>> {
    let blocks = content.iter().filter_map(|block| match block {
        Content::Text(text) if is_blank(&text.text) => None,
        Content::Text(text) => Some(WireBlock::text(text.text.as_str())),
        Content::Image(image) => Some(WireBlock::image(image)),
    });
    blocks.collect()
}

fn assistant_blocks(message: &AssistantMessage, allow_empty_signature: bool) -> Vec<WireBlock<'_>> {
    let blocks = message.content.iter().filter_map(|block| match block {
        AssistantContent::Text(text) if is_blank(&text.text) => None,
        AssistantContent::Text(text) => Some(WireBlock::text(text.text.as_str())),
        AssistantContent::Thinking(thinking) => thinking_block(thinking, allow_empty_signature),
        AssistantContent::ToolCall(call) => Some(WireBlock::new(BlockBody::ToolUse {
            id: &call.id,
            name: &call.name,
            input: &call.arguments,
        })),
    });
    blocks.collect()
}

/// Signed thinking goes back byte for byte, be its text empty; unsigned thinking is text to a server that signs.
fn thinking_block(block: &ThinkingContent, allow_empty_signature: bool) -> Option<WireBlock<'_>> {
    let signature = block.thinking_signature.as_deref().filter(|it| !is_blank(it));
    let thinking = block.thinking.as_str();
    match signature {
        Some(data) if block.redacted => Some(WireBlock::new(BlockBody::RedactedThinking { data })),
        Some(signature) => Some(WireBlock::new(BlockBody::Thinking { thinking, signature })),
        None if block.redacted || is_blank(thinking) => None,
        None if allow_empty_signature => {
            Some(WireBlock::new(BlockBody::Thinking { thinking, signature: "" }))
        }
        None => Some(WireBlock::text(thinking)),
    }
}

fn result_block(result: &ToolResultMessage) -> WireBlock<'_> {
    WireBlock::new(BlockBody::ToolResult {
        tool_use_id: &result.tool_call_id,
        content: result_content(result),
        is_error: result.is_error,
    })
}

fn result_content(result: &ToolResultMessage) -> WireContent<'_> {
    if result.is_error {
        let text = error_text(&result.content);
        // The API refuses an error without a text.
        return WireContent::Text(if is_blank(&text) { Cow::Borrowed(NO_OUTPUT) } else { text });
    }
    if images(&result.content).next().is_none() {
        return WireContent::Text(joined(&result.content, |_| None));
    }
    let mut blocks = content_blocks(&result.content);
    if !blocks.iter().any(|block| matches!(block.body, BlockBody::Text { .. })) {
        blocks.insert(0, WireBlock::text(SEE_IMAGE));
    }
    WireContent::Blocks(blocks)
}

/// The text of a failed result: the API takes no images in it, so a placeholder stands for each run of them.
fn error_text(content: &[Content]) -> Cow<'_, str> {
    joined(content, |_| Some(IMAGE_FOLLOWS))
}

/// The texts of blocks joined by line breaks; a run of images is what `placeholder` says.
fn joined<'a>(
    content: &'a [Content],
    placeholder: impl Fn(&ImageContent) -> Option<&'a str>,
) -> Cow<'a, str> {
    let mut parts = Vec::with_capacity(content.len());
    let mut after_image = false;
    for block in content {
        match block {
            Content::Text(text) => parts.push(text.text.as_str()),
            Content::Image(image) if !after_image => parts.extend(placeholder(image)),
            Content::Image(_) => (),
        }
        after_image = matches!(block, Content::Image(_));
    }
    match parts.as_slice() {
        [one] => Cow::Borrowed(*one),
        parts => Cow::Owned(parts.join("\n")),
    }
}

fn images(content: &[Content]) -> impl Iterator<Item = &ImageContent> {
    content.iter().filter_map(|block| match block {
        Content::Image(image) => Some(image),
        Content::Text(_) => None,
    })
}

fn caption(result: &ToolResultMessage) -> String {
    format!("image from the failed call {} of tool {}:", result.tool_call_id, result.tool_name)
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
