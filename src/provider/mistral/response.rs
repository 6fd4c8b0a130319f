//! The chunks of a response as stream events: a state machine without network and clock.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind, Failure},
    message::{StopReason, ToolCall},
    model::Model,
    partial_json::{parse_arguments, repair::from_str_repaired},
    provider::{
        blocks::Blocks,
        driver::{Events, FrameDecoder},
        failure, halves,
        mistral::messages::derived_id,
    },
    stream::{ResponseInfo, StreamEvent},
    usage::Usage,
};

/// Understands the chunks of one response.
#[derive(Debug)]
pub(super) struct Decoder {
    model: Arc<Model>,
    blocks: Blocks,
    calls: Vec<OpenCall>,
    response: Option<String>,
    finish: Option<String>,
}

#[derive(Debug)]
struct OpenCall {
    block: usize,
    /// The vendor's number of the call.
    index: Option<u64>,
    id: String,
    name: String,
    text: String,
    /// Whether the text was made up because the call began without one.
    is_assumed: bool,
}

impl Decoder {
    pub(super) fn new(model: Arc<Model>) -> Decoder {
        Decoder {
            model,
            blocks: Blocks::default(),
            calls: Vec::new(),
            response: None,
            finish: None,
        }
    }

    fn chunk(&mut self, chunk: &Value, has_marks: bool, out: &mut Events) -> Result<(), Error> {
        if !chunk["error"].is_null() {
            return Err(failure::after_acceptance(&chunk["error"]));
        }
        let Some(choices) = chunk["choices"].as_array() else {
            return Err(if chunk["object"] == "error" {
                failure::after_acceptance(chunk)
            } else {
                failure::malformed("data", "it has no choices")
            });
        };
        if let Some(id) = chunk["id"].as_str().filter(|id| !id.is_empty())
            && self.response.is_none()
        {
            self.response = Some(id.to_owned());
            let response_id = Some(id.to_owned());
            out.push_back(info(ResponseInfo { response_id, ..ResponseInfo::default() }));
        }
        if let Some(reported) = chunk.get("usage").filter(|it| it.is_object()) {
            let usage = Some(usage(reported, &self.model));
            out.push_back(info(ResponseInfo { usage, ..ResponseInfo::default() }));
        }
        let Some(choice) = choices.first() else { return Ok(()) };
        if let Some(reason) = choice["finish_reason"].as_str().filter(|it| !it.is_empty()) {
            self.finish = Some(reason.to_owned());
            let raw_stop_reason = Some(reason.to_owned());
            out.push_back(info(ResponseInfo { raw_stop_reason, ..ResponseInfo::default() }));
        }
        let delta = &choice["delta"];
        self.content(&delta["content"], has_marks, out)?;
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            if piece.is_object() {
                self.call(piece, out)?;
            }
        }
        Ok(())
    }

    fn content(&mut self, content: &Value, has_marks: bool, out: &mut Events) -> Result<(), Error> {
        if let Some(text) = content.as_str() {
            return self.text(text, false, has_marks, out);
        }
        for part in content.as_array().into_iter().flatten() {
            let is_thinking = part["type"] == "thinking";
            if is_thinking {
                for piece in part["thinking"].as_array().into_iter().flatten() {
                    if let Some(text) = piece["text"].as_str() {
                        self.text(text, true, has_marks, out)?;
                    }
                }
            } else if let Some(text) = part.as_str().or(part["text"].as_str()) {
                self.text(text, false, has_marks, out)?;
            }
        }
        Ok(())
    }

    /// Empty pieces, which some models send around thinking, mean nothing.
    fn text(
        &mut self,
        text: &str,
        is_thinking: bool,
        has_marks: bool,
        out: &mut Events,
    ) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.blocks.push(text, is_thinking, has_marks, out)
    }

    fn call(&mut self, piece: &Value, out: &mut Events) -> Result<(), Error> {
        self.blocks.end(out);
        let index = piece["index"].as_u64();
        let given = piece["id"].as_str().filter(|id| !matches!(*id, "" | "null"));
        let function = &piece["function"];
        let arguments = match &function["arguments"] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let known = self.calls.iter().rposition(|call| match (index, given) {
            (Some(_), _) => call.index == index,
            (None, Some(id)) => call.id == id,
            (None, None) => true,
        });
        let (place, delta) = match known {
            Some(place) => (place, arguments.unwrap_or_default()),
            None => {
                let name = function["name"].as_str().unwrap_or_default().to_owned();
                let id = self.call_id(given);
                let block = self.blocks.begin()?;
                out.push_back(StreamEvent::ToolCallStart {
                    content_index: block,
                    id: id.clone(),
                    tool_name: name.clone(),
                });
                let is_assumed = arguments.is_none();
                let text = String::new();
                self.calls.push(OpenCall { block, index, id, name, text, is_assumed });
                (self.calls.len() - 1, arguments.unwrap_or_else(|| "{}".to_owned()))
            }
        };
        let call = &mut self.calls[place];
        if known.is_some() && call.is_assumed && !delta.is_empty() {
            call.is_assumed = false;
            call.text.clear();
        }
        call.text.push_str(&delta);
        out.push_back(StreamEvent::ToolCallDelta { content_index: call.block, delta });
        Ok(())
    }

    /// The id of a call, or one that no other call has: results name their call by it.
    fn call_id(&self, given: Option<&str>) -> String {
        let is_used = |id: &str| self.calls.iter().any(|call| call.id == id);
        if let Some(id) = given.filter(|id| !is_used(id)) {
            return id.to_owned();
        }
        let response = self.response.as_deref().unwrap_or_default();
        let mut ids =
            (self.calls.len()..).map(|number| derived_id(&format!("{response} {number}")));
        ids.find(|id| !is_used(id)).unwrap_or_default()
    }

    fn end_calls(&mut self, out: &mut Events) {
        for OpenCall { block, id, name, text, .. } in self.calls.drain(..) {
            let (arguments, arguments_error) = match parse_arguments(&text) {
                Ok(arguments) => (arguments, None),
                Err(error) => (Map::new(), Some(error.to_string())),
            };
            let call = ToolCall { id, name, arguments, arguments_error, ..ToolCall::default() };
            let tool_call = Some(Box::new(call));
            out.push_back(StreamEvent::ToolCallEnd { content_index: block, tool_call });
        }
    }

    fn stop_reason(&self) -> Result<StopReason, Error> {
        match self.finish.as_deref() {
            None => Err(failure::cut("ended without a finish reason")),
            Some("stop") => Ok(StopReason::Stop),
            Some("length" | "model_length") => Ok(StopReason::Length),
            Some("tool_calls") => Ok(StopReason::ToolUse),
            Some("content_filter") => Err(failure::refused("content_filter", None)),
            Some(reason) => {
                let kind =
                    if reason == "error" { ErrorKind::Overloaded } else { ErrorKind::Protocol };
                let failure = Failure { code: Some(reason.to_owned()), ..Failure::new(kind) };
                let message =
                    format!("the server ended the response with finish reason `{reason}`");
                Err(Error::from_failure(failure, message))
            }
        }
    }
}

impl FrameDecoder for Decoder {
    fn frame(&mut self, event: Option<&str>, data: &str, out: &mut Events) -> Result<(), Error> {
        if data.trim() == "[DONE]" {
            return self.end(out);
        }
        let (chunk, has_marks) = match serde_json::from_str::<Value>(data) {
            Ok(chunk) => (chunk, false),
            Err(_) if event == Some("error") => {
                return Err(failure::after_acceptance(&Value::from(data)));
            }
            Err(error) => match from_str_repaired(&halves::mark(data)) {
                Ok(chunk) => (chunk, true),
                Err(_) => return Err(failure::malformed("data", &error.to_string())),
            },
        };
        if event == Some("error") {
            return Err(failure::after_acceptance(&chunk));
        }
        self.chunk(&chunk, has_marks, out)
    }

    fn end(&mut self, out: &mut Events) -> Result<(), Error> {
        self.blocks.end(out);
        self.end_calls(out);
        let reason = self.stop_reason()?;
        out.push_back(StreamEvent::Done { reason });
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }
}

fn info(info: ResponseInfo) -> StreamEvent {
    StreamEvent::Info(Box::new(info))
}

/// Tokens and costs as the vendor reports them.
fn usage(reported: &Value, model: &Model) -> Usage {
    let tokens = |path: &str| reported.pointer(path).and_then(Value::as_u64);
    let prompt = tokens("/prompt_tokens").unwrap_or(0);
    let output = tokens("/completion_tokens").unwrap_or(0);
    let cached = [
        "/prompt_tokens_details/cached_tokens",
        "/prompt_token_details/cached_tokens",
        "/num_cached_tokens",
        "/cached_tokens",
    ];
    let cache_read = cached.iter().find_map(|path| tokens(path)).unwrap_or(0).min(prompt);
    let mut usage = Usage {
        input: prompt - cache_read,
        output,
        cache_read,
        total_tokens: tokens("/total_tokens").unwrap_or_else(|| prompt.saturating_add(output)),
        ..Usage::default()
    };
    usage.price(&model.cost);
    usage
}
