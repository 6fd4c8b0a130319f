//! A response of this API: chunks in, events out.

use std::{borrow::Cow, mem, sync::Arc};

use serde_json::Value;

use crate::{
    error::{Error, ErrorKind, Failure},
    message::StopReason,
    model::Model,
    provider::{
        driver::{Events, FrameDecoder},
        failure,
        grammar::GrammarTools,
        halves,
        openai_completions::{
            details,
            messages::REASONING_FIELDS,
            response::{
                calls::Calls,
                chunk::{Choice, Chunk, Delta, List, Loose},
            },
        },
    },
    stream::{ResponseInfo, StreamEvent},
};

mod calls;
mod chunk;
mod usage;

/// Understands the chunks of one response. There is one block of text and one of thinking at most; blocks end when the
/// response does.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Decoder {
    model: Arc<Model>,
    /// Whether the server says why a response ended.
    tells_finish: bool,
    blocks: Vec<Block>,
    text: Option<Text>,
    thinking: Option<Thinking>,
    calls: Calls,
    has_id: bool,
    has_model: bool,
    finish: String,
    are_blocks_ended: bool,
    /// Whether the texts of the present chunk may hold marks of half characters.
    has_marks: bool,
}

#[derive(Debug, Clone, Copy)]
enum Block {
    Text,
    Thinking,
    Call,
}

#[derive(Debug)]
struct Text {
    block: usize,
    /// The first half of a character that was cut in two.
    half: Option<u16>,
}

#[derive(Debug)]
struct Thinking {
    block: usize,
    half: Option<u16>,
    is_signed: bool,
    /// Pieces that have to come back as they were; they become the signature at the end.
    details: Vec<Value>,
}

impl Decoder {
    /// `seed` is what ids begin with that the server does not give.
    pub(super) fn new(
        model: Arc<Model>,
        tells_finish: bool,
        grammar_tools: GrammarTools,
        seed: String,
    ) -> Decoder {
        Decoder {
            model,
            tells_finish,
            blocks: Vec::new(),
            text: None,
            thinking: None,
            calls: Calls::new(grammar_tools, seed),
            has_id: false,
            has_model: false,
            finish: String::new(),
            are_blocks_ended: false,
            has_marks: false,
        }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, events: &mut Events) -> Result<(), Error> {
        if let Some(error) = said_error(&chunk.error) {
            return Err(failure::in_stream(&self.without_marks(&error)));
        }
        self.head(chunk, events);
        if chunk.choices.is_null {
            return Err(Error::new(
                ErrorKind::Protocol,
                "the server sent null in place of a choice",
            ));
        }
        let choice = chunk.choices.choice.as_ref();
        let of_choice = choice.and_then(|choice| choice.usage.container());
        self.usage(chunk.usage.container().or(of_choice), events);
        if let Some(choice) = choice {
            self.choice(choice, events)?;
        }
        Ok(())
    }

    /// The id of the response, and the model if it is another one than was asked for; the first of each counts.
    fn head(&mut self, chunk: &Chunk<'_>, events: &mut Events) {
        if self.has_id && self.has_model {
            return;
        }
        let mut info = ResponseInfo::default();
        let id = chunk.id.text();
        if !self.has_id && !id.is_empty() {
            self.has_id = true;
            info.response_id = Some(id.to_owned());
        }
        let model = chunk.model.text();
        if !self.has_model && !model.is_empty() && model != self.model.id {
            self.has_model = true;
            info.response_model = Some(model.to_owned());
        }
        if info.response_id.is_some() || info.response_model.is_some() {
            events.push_back(StreamEvent::Info(Box::new(info)));
        }
    }

    fn usage(&self, reported: Option<&Value>, events: &mut Events) {
        if let Some(reported @ Value::Object(_)) = reported {
            let usage = Some(usage::read(reported, &self.model));
            let info = ResponseInfo { usage, ..ResponseInfo::default() };
            events.push_back(StreamEvent::Info(Box::new(info)));
        }
    }

    fn choice(&mut self, choice: &Choice<'_>, events: &mut Events) -> Result<(), Error> {
        let finish = choice.finish_reason.text();
        if !finish.is_empty() {
            finish.clone_into(&mut self.finish);
            let raw_stop_reason = Some(finish.to_owned());
            let info = ResponseInfo { raw_stop_reason, ..ResponseInfo::default() };
            events.push_back(StreamEvent::Info(Box::new(info)));
        }
        let Some(delta) = choice.delta.get() else { return Ok(()) };
        self.reasoning(delta, events);
        for text in [delta.content.text(), delta.refusal.text()] {
            if !text.is_empty() {
                self.text(text, events);
            }
        }
        let List(pieces) = &delta.tool_calls;
        if !pieces.is_empty() {
            let blocks = &mut self.blocks;
            let mut open_block = || {
                blocks.push(Block::Call);
                blocks.len() - 1
            };
            self.calls.take(pieces, self.has_marks, &mut open_block, events)?;
        }
        Ok(())
    }

    fn text(&mut self, text: &str, events: &mut Events) {
        let open = self.text.get_or_insert_with(|| {
            self.blocks.push(Block::Text);
            let content_index = self.blocks.len() - 1;
            events.push_back(StreamEvent::TextStart { content_index });
            Text { block: content_index, half: None }
        });
        let delta = halves::whole(&mut open.half, text, self.has_marks);
        events.push_back(StreamEvent::TextDelta { content_index: open.block, delta });
    }

    /// Some servers send the same text in two fields: only the first that is not empty counts.
    fn reasoning(&mut self, delta: &Delta<'_>, events: &mut Events) {
        let fields = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text];
        let found = REASONING_FIELDS.iter().zip(fields).find(|(_, text)| !text.text().is_empty());
        if let Some((field, text)) = found {
            // What this gateway calls `reasoning` it wants back as `reasoning_content`.
            let is_renamed = self.model.provider == "opencode-go" && *field == "reasoning";
            let signature = if is_renamed { "reasoning_content" } else { field };
            let has_marks = self.has_marks;
            let thinking = self.open_thinking(events);
            let content_index = thinking.block;
            if !thinking.is_signed {
                thinking.is_signed = true;
                let signature = signature.to_owned();
                events.push_back(StreamEvent::Signature { content_index, signature });
            }
            let delta = halves::whole(&mut thinking.half, text.text(), has_marks);
            events.push_back(StreamEvent::ThinkingDelta { content_index, delta });
        }
        if let Some(pieces) = delta.reasoning_details.container() {
            let pieces = &self.without_marks(pieces);
            let mut details = self.thinking.as_mut().map(|it| mem::take(&mut it.details));
            let any = details::append(details.get_or_insert_default(), pieces);
            if any || self.thinking.is_some() {
                self.open_thinking(events).details = details.unwrap_or_default();
            }
        }
    }

    /// A value that comes in one piece, and so waits for no other half.
    fn without_marks<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        let mut value = Cow::Borrowed(value);
        if self.has_marks {
            halves::replace(value.to_mut());
        }
        value
    }

    fn open_thinking(&mut self, events: &mut Events) -> &mut Thinking {
        self.thinking.get_or_insert_with(|| {
            self.blocks.push(Block::Thinking);
            let block = self.blocks.len() - 1;
            events.push_back(StreamEvent::ThinkingStart { content_index: block, initial: None });
            Thinking { block, half: None, is_signed: false, details: Vec::new() }
        })
    }

    /// The details as a signature, once.
    fn details(&mut self) -> Option<String> {
        let details = mem::take(&mut self.thinking.as_mut()?.details);
        (!details.is_empty()).then(|| Value::Array(details).to_string())
    }

    fn end_blocks(&mut self, events: &mut Events) {
        if mem::replace(&mut self.are_blocks_ended, true) {
            return;
        }
        for content_index in 0..self.blocks.len() {
            match self.blocks[content_index] {
                Block::Text => events.push_back(StreamEvent::TextEnd {
                    content_index,
                    content: None,
                    content_signature: None,
                }),
                Block::Thinking => {
                    let content_signature = self.details();
                    events.push_back(StreamEvent::ThinkingEnd {
                        content_index,
                        content: None,
                        content_signature,
                    });
                }
                Block::Call => self.calls.end(content_index, events),
            }
        }
    }

    /// Why the response ended, or the error that its end is.
    fn stop_reason(&self) -> Result<StopReason, Error> {
        match self.finish.as_str() {
            "stop" | "end" => Ok(StopReason::Stop),
            "length" => Ok(StopReason::Length),
            "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
            "" if self.tells_finish => {
                let failure = Failure { retryable: true, ..Failure::new(ErrorKind::Protocol) };
                Err(Error::from_failure(failure, "the response ended without a finish reason"))
            }
            "" if self.calls.is_empty() => Ok(StopReason::Stop),
            "" => Ok(StopReason::ToolUse),
            other => {
                let kind = match other {
                    "content_filter" => ErrorKind::Refused,
                    "model_context_window_exceeded" => ErrorKind::ContextOverflow,
                    "network_error" => ErrorKind::Network,
                    "error" | "insufficient_system_resource" => ErrorKind::Overloaded,
                    _ => ErrorKind::Protocol,
                };
                let message = format!("the server ended the response with finish reason `{other}`");
                let failure = Failure { code: Some(other.to_owned()), ..Failure::new(kind) };
                Err(Error::from_failure(failure, message))
            }
        }
    }
}

impl FrameDecoder for Decoder {
    fn frame(&mut self, event: Option<&str>, data: &str, events: &mut Events) -> Result<(), Error> {
        match event {
            Some("error") => return Err(error_event(data)),
            // Of OpenAI's assistants, which share the format of streams.
            Some(name) if name.starts_with("thread.") => return Ok(()),
            _ => (),
        }
        if data.trim() == "[DONE]" {
            return self.end(events);
        }
        let read = chunk::read(data, |chunk, has_marks| {
            self.has_marks = has_marks;
            self.chunk(&chunk, events)
        });
        match read {
            Ok(done) => done.unwrap_or(Ok(())),
            Err(error) => {
                let shown: String = data.chars().take(200).collect();
                let message =
                    format!("the server sent a chunk that cannot be read ({error}): {shown}");
                Err(Error::new(ErrorKind::Protocol, message))
            }
        }
    }

    fn end(&mut self, events: &mut Events) -> Result<(), Error> {
        self.end_blocks(events);
        let reason = self.stop_reason()?;
        events.push_back(StreamEvent::Done { reason });
        Ok(())
    }

    /// An abort ends the blocks as a normal end does; after other failures they stay open.
    fn fail(&mut self, error: &Error, events: &mut Events) {
        if error.kind() == ErrorKind::Aborted {
            self.end_blocks(events);
        }
        if let Some(signature) = self.details()
            && let Some(thinking) = &self.thinking
        {
            events.push_back(StreamEvent::Signature { content_index: thinking.block, signature });
        }
    }
}

/// The error of a chunk, unless it is one of the values that say that there is none.
fn said_error(error: &Loose<'_>) -> Option<Value> {
    match error {
        Loose::Null => None,
        Loose::Text(text) if text.is_empty() => None,
        Loose::Text(text) => Some(Value::from(text.as_ref())),
        Loose::Number(0) => None,
        Loose::Number(number) => Some(Value::from(*number)),
        Loose::Other(value) if **value == Value::Bool(false) => None,
        Loose::Other(value) => Some((**value).clone()),
    }
}

/// The data of an event named `error`: JSON with or without an `error` in it, or a text.
fn error_event(data: &str) -> Error {
    match serde_json::from_str::<Value>(data) {
        Ok(value) => failure::in_stream(&value),
        Err(_) => failure::in_stream(&Value::from(data)),
    }
}
