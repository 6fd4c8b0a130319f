//! The events of a response as stream events: a state machine without network and clock.

use std::{mem, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    error::Error,
    message::{Diagnostic, StopReason, ThinkingContent, ToolCall},
    model::Model,
    provider::{
        anthropic::{
            failure,
            frames::{self, Block, BlockDelta, BlockStart, Head, MessageDelta, MessageStart, Stop},
            usage::Meter,
        },
        blocks::check_count,
        driver::Events,
        halves,
    },
    stream::{ResponseInfo, StreamEvent},
};

const REDACTED: &str = "(this reasoning is encrypted)";

/// Understands the events of one response.
#[derive(Debug)]
pub(super) struct Decoder {
    model: Arc<Model>,
    meter: Meter,
    now: u64,
    blocks: Blocks,
    has_begun: bool,
    has_ended: bool,
    ending: Option<Ending>,
    /// Told when the response is complete.
    transformations: Vec<Value>,
}

/// The content blocks so far.
#[derive(Debug, Default)]
struct Blocks {
    count: usize,
    /// Those that have not ended, in the order of their beginning.
    open: Vec<OpenBlock>,
    /// What the ids of calls that come without one are made of: the response's id, or else the time.
    response: String,
}

#[derive(Debug)]
struct OpenBlock {
    server_index: u64,
    content_index: usize,
    kind: BlockKind,
    /// Half of a character that the next delta completes.
    half: Option<u16>,
}

#[derive(Debug)]
enum BlockKind {
    Text,
    /// The signature grows by deltas; its end is told with the block, so that many pieces cost no more than one.
    Thinking {
        signature: String,
        is_told: bool,
    },
    Redacted,
    /// A call; `whole` is set as long as only its beginning told of arguments.
    Call {
        whole: Option<Box<ToolCall>>,
    },
}

#[derive(Debug)]
enum Ending {
    Good(StopReason),
    Refused(Error),
}

impl Decoder {
    /// Begins at `now`, in milliseconds since 1970.
    pub(super) fn new(model: Arc<Model>, now: u64) -> Decoder {
        Decoder {
            meter: Meter::new(&model),
            model,
            now,
            blocks: Blocks { response: now.to_string(), ..Blocks::default() },
            has_begun: false,
            has_ended: false,
            ending: None,
            transformations: Vec::new(),
        }
    }

    /// Takes one event of the server. Events with other names mean nothing here.
    pub(super) fn event(&mut self, name: &str, data: &str, out: &mut Events) -> Result<(), Error> {
        match name {
            "content_block_delta" => match serde_json::from_str(data) {
                Ok(delta) => self.blocks.delta(delta, false, out),
                Err(_) => {
                    let event = frames::tree(name, &halves::mark(data))?;
                    self.blocks.delta(BlockDelta::of(&event), true, out);
                }
            },
            "content_block_start" => self.block_start(frames::read(name, data)?, out)?,
            "content_block_stop" => {
                let Stop { index } = frames::read(name, data)?;
                self.blocks.stop(index, out);
            }
            "message_start" => {
                let MessageStart { message } = frames::read(name, data)?;
                self.message_start(message, out);
            }
            "message_delta" => self.message_delta(frames::read(name, data)?, out)?,
            "message_stop" => {
                let Stop { .. } = frames::read(name, data)?;
                self.has_ended = true;
            }
            "error" => return Err(failure::in_stream(data)),
            _ => (),
        }
        Ok(())
    }

    /// Whether the server said that the message is over.
    pub(super) fn is_complete(&self) -> bool {
        self.has_ended && self.ending.is_some()
    }

    /// Takes the end of the stream.
    pub(super) fn finish(&mut self, out: &mut Events) -> Result<(), Error> {
        if self.has_begun && !self.has_ended {
            return Err(failure::cut("broke off: the stream ended before message_stop"));
        }
        let reason = match self.ending.take() {
            None => return Err(failure::cut("ended without a stop reason")),
            Some(Ending::Refused(error)) => return Err(error),
            Some(Ending::Good(reason)) => reason,
        };
        self.blocks.close_all(out);
        if !self.transformations.is_empty() {
            let transformations = mem::take(&mut self.transformations);
            let diagnostics = vec![Diagnostic {
                kind: "anthropic_input_transformations".to_owned(),
                timestamp: self.now,
                error: None,
                details: Some(serde_json::json!({ "transformations": transformations })),
            }];
            out.push_back(StreamEvent::Info(Box::new(ResponseInfo {
                diagnostics,
                ..ResponseInfo::default()
            })));
        }
        out.push_back(StreamEvent::Done { reason });
        Ok(())
    }

    /// Prepares for the terminal event of a failure.
    pub(super) fn fail(&mut self, out: &mut Events) {
        self.blocks.tell_signatures(out);
    }

    fn message_start(&mut self, message: Head, out: &mut Events) {
        self.has_begun = true;
        let Head { id, model, usage, input_transformations } = message;
        let said = |text: String| Some(text).filter(|it| !it.is_empty());
        let response_model = said(model).filter(|it| *it != self.model.id);
        if let Some(answering) = &response_model {
            self.meter.answered_by(&self.model, answering);
        }
        let response_id = said(id);
        if let Some(id) = &response_id {
            self.blocks.response.clone_from(id);
        }
        out.push_back(StreamEvent::Info(Box::new(ResponseInfo {
            response_id,
            response_model,
            usage: usage.is_object().then(|| self.meter.begin(&usage)),
            ..ResponseInfo::default()
        })));
        self.note_transformations(&input_transformations);
    }

    fn message_delta(&mut self, event: MessageDelta, out: &mut Events) -> Result<(), Error> {
        let MessageDelta { delta, usage, input_transformations } = event;
        if let Some(reason) = delta.stop_reason {
            let ending = ending(&reason, &delta.stop_details);
            let info = ResponseInfo { raw_stop_reason: Some(reason), ..ResponseInfo::default() };
            out.push_back(StreamEvent::Info(Box::new(info)));
            self.ending = Some(ending?);
        }
        if usage.is_object() {
            let usage = Some(self.meter.update(&usage));
            let info = ResponseInfo { usage, ..ResponseInfo::default() };
            out.push_back(StreamEvent::Info(Box::new(info)));
        }
        self.note_transformations(&input_transformations);
        Ok(())
    }

    /// Keeps what the server says it changed in the request; a later list replaces an earlier one.
    fn note_transformations(&mut self, list: &Value) {
        let Some(list) = list.as_array() else { return };
        let objects = list.iter().filter_map(Value::as_object);
        self.transformations = objects.map(|it| Value::Object(described(it))).collect();
    }

    fn block_start(&mut self, event: BlockStart, out: &mut Events) -> Result<(), Error> {
        let BlockStart { index, block } = event;
        if block.kind == "fallback" && self.blocks.count > 0 {
            return Err(failure::cut("went on with another model after content had come"));
        }
        check_count(self.blocks.count)?;
        self.blocks.start(index, block, out);
        Ok(())
    }
}

impl Blocks {
    /// Begins a block. Types that are unknown, or that the server itself takes care of, are left out with their deltas.
    fn start(&mut self, server_index: u64, block: Block, out: &mut Events) {
        self.stop(server_index, out);
        let content_index = self.count;
        let kind = match &*block.kind {
            "text" => {
                out.push_back(StreamEvent::TextStart { content_index });
                let text = block.text;
                if !text.is_empty() {
                    out.push_back(StreamEvent::InitialText { content_index, text });
                }
                BlockKind::Text
            }
            "thinking" => {
                let Block { thinking, signature, .. } = block;
                let initial = (!thinking.is_empty())
                    .then(|| Box::new(ThinkingContent { thinking, ..ThinkingContent::default() }));
                out.push_back(StreamEvent::ThinkingStart { content_index, initial });
                out.push_back(StreamEvent::Signature {
                    content_index,
                    signature: signature.clone(),
                });
                BlockKind::Thinking { signature, is_told: true }
            }
            "redacted_thinking" => {
                let initial = Some(Box::new(ThinkingContent {
                    thinking: REDACTED.to_owned(),
                    thinking_signature: Some(block.data),
                    redacted: true,
                }));
                out.push_back(StreamEvent::ThinkingStart { content_index, initial });
                BlockKind::Redacted
            }
            "tool_use" => self.call(block, out),
            _ => return,
        };
        self.count += 1;
        self.open.push(OpenBlock { server_index, content_index, kind, half: None });
    }

    fn call(&self, block: Block, out: &mut Events) -> BlockKind {
        let content_index = self.count;
        let Block { mut id, name, input, .. } = block;
        if id.is_empty() {
            // Its result must name it.
            id = format!("call_{}_{content_index}", self.response);
        }
        let whole = input.filter(|input| !input.is_empty()).map(|arguments| {
            let (id, name) = (id.clone(), name.clone());
            Box::new(ToolCall { id, name, arguments, ..ToolCall::default() })
        });
        out.push_back(StreamEvent::ToolCallStart { content_index, id, tool_name: name });
        BlockKind::Call { whole }
    }

    /// Adds to an open block. What does not fit it, or comes after its end, is left out. With `has_marks` the texts may
    /// hold marks of half characters.
    fn delta(&mut self, event: BlockDelta<'_>, has_marks: bool, out: &mut Events) {
        let BlockDelta { index, delta } = event;
        let Some(block) = self.open.iter_mut().rev().find(|it| it.server_index == index) else {
            return;
        };
        let content_index = block.content_index;
        let half = &mut block.half;
        let mut whole_characters = |text: Option<String>| match text {
            Some(text) if has_marks || half.is_some() => Some(halves::join(half, &text)),
            text => text,
        };
        match (&mut block.kind, &*delta.kind) {
            (BlockKind::Text, "text_delta") => {
                let delta = whole_characters(delta.text);
                out.extend(delta.map(|delta| StreamEvent::TextDelta { content_index, delta }));
            }
            (BlockKind::Thinking { .. }, "thinking_delta") => {
                let delta = whole_characters(delta.thinking);
                out.extend(delta.map(|delta| StreamEvent::ThinkingDelta { content_index, delta }));
            }
            (BlockKind::Call { whole }, "input_json_delta") => {
                let Some(delta) = whole_characters(delta.partial_json) else { return };
                if !delta.is_empty() {
                    *whole = None;
                }
                out.push_back(StreamEvent::ToolCallDelta { content_index, delta });
            }
            (BlockKind::Thinking { signature, is_told }, "signature_delta") => {
                let more = delta.signature.unwrap_or_default();
                *is_told &= more.is_empty();
                signature.push_str(&more);
            }
            _ => (),
        }
    }

    fn stop(&mut self, server_index: u64, out: &mut Events) {
        let place = self.open.iter().rposition(|it| it.server_index == server_index);
        out.extend(place.map(|place| self.open.remove(place).end()));
    }

    fn close_all(&mut self, out: &mut Events) {
        out.extend(self.open.drain(..).map(OpenBlock::end));
    }

    /// Tells what is known of the signatures of blocks that never end.
    fn tell_signatures(&mut self, out: &mut Events) {
        for block in &mut self.open {
            if let BlockKind::Thinking { signature, is_told } = &mut block.kind
                && !mem::replace(is_told, true)
            {
                let (content_index, signature) = (block.content_index, mem::take(signature));
                out.push_back(StreamEvent::Signature { content_index, signature });
            }
        }
    }
}

impl OpenBlock {
    fn end(self) -> StreamEvent {
        let content_index = self.content_index;
        match self.kind {
            BlockKind::Text => {
                StreamEvent::TextEnd { content_index, content: None, content_signature: None }
            }
            BlockKind::Thinking { signature, is_told } => StreamEvent::ThinkingEnd {
                content_index,
                content: None,
                content_signature: (!is_told).then_some(signature),
            },
            BlockKind::Redacted => {
                StreamEvent::ThinkingEnd { content_index, content: None, content_signature: None }
            }
            BlockKind::Call { whole } => {
                StreamEvent::ToolCallEnd { content_index, tool_call: whole }
            }
        }
    }
}

fn ending(reason: &str, details: &Value) -> Result<Ending, Error> {
    let good = match reason {
        "end_turn" | "stop_sequence" | "pause_turn" => StopReason::Stop,
        "max_tokens" => StopReason::Length,
        "tool_use" => StopReason::ToolUse,
        "refusal" | "sensitive" => {
            let explanation = details["explanation"].as_str();
            return Ok(Ending::Refused(failure::refused(reason, explanation)));
        }
        _ => return Err(failure::unknown_ending(reason)),
    };
    Ok(Ending::Good(good))
}

/// What a description of a change says in texts.
fn described(change: &Map<String, Value>) -> Map<String, Value> {
    let named = ["type", "path", "reason"].into_iter();
    let texts = named.filter_map(|name| Some((name.to_owned(), change.get(name)?.clone())));
    texts.filter(|(_, value)| value.is_string()).collect()
}
