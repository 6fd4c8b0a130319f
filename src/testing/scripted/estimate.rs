//! What a vendor would count, estimated at four characters a token.

use std::fmt::Write;

use crate::{
    message::{AssistantContent, Content, Message, MessageContent},
    stream::{TOKEN, Transcript},
    usage::Usage,
};

pub(super) fn tokens(text: &str) -> u64 {
    of_characters(text.chars().count())
}

/// The transcript as one text, which is what counts and what a cache holds.
pub(super) fn prompt(transcript: &Transcript) -> String {
    let mut text = String::new();
    for message in transcript.messages() {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(message.role());
        text.push(':');
        write_message(&mut text, message);
    }
    text
}

/// What the answer counts.
pub(super) fn output(blocks: &[AssistantContent]) -> u64 {
    let mut text = String::new();
    write_answer(&mut text, blocks);
    tokens(&text)
}

/// What a prompt counts when the cache holds the one before it: what both begin with is read, the rest is written.
pub(super) fn cached_usage(before: Option<&str>, prompt: &str) -> Usage {
    let shared = before
        .map_or(0, |before| before.chars().zip(prompt.chars()).take_while(|(a, b)| a == b).count());
    let cache_read = u64::try_from(shared / TOKEN).unwrap_or(u64::MAX);
    let cache_write = tokens(prompt).saturating_sub(cache_read);
    Usage { cache_read, cache_write, ..Usage::default() }
}

fn of_characters(characters: usize) -> u64 {
    u64::try_from(characters.div_ceil(TOKEN)).unwrap_or(u64::MAX)
}

fn write_message(text: &mut String, message: &Message) {
    match message {
        Message::System(system) => {
            text.push_str(&crate::transcript::prompt_text(system));
            for tool in &system.tools_added {
                let _ = write!(text, "\n+{}:{}{}", tool.name, tool.description, tool.parameters);
            }
            for tool in &system.tools_removed {
                let _ = write!(text, "\n-{}", tool.name);
            }
        }
        Message::User(user) => match &user.content {
            MessageContent::Text(content) => text.push_str(content),
            MessageContent::Blocks(blocks) => write_blocks(text, blocks),
        },
        Message::Assistant(assistant) => write_answer(text, &assistant.content),
        Message::ToolResult(result) => write_blocks(text, &result.content),
        Message::Custom(_) => {}
    }
}

fn write_blocks(text: &mut String, blocks: &[Content]) {
    for block in blocks {
        match block {
            Content::Text(block) => text.push_str(&block.text),
            Content::Image(image) => {
                let _ = write!(text, "[image {} of {}]", image.mime_type, image.data.len());
            }
        }
    }
}

fn write_answer(text: &mut String, blocks: &[AssistantContent]) {
    for block in blocks {
        match block {
            AssistantContent::Text(block) => text.push_str(&block.text),
            AssistantContent::Thinking(block) => text.push_str(&block.thinking),
            AssistantContent::ToolCall(call) => {
                let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                let _ = write!(text, "{}:{arguments}", call.name);
            }
        }
    }
}
