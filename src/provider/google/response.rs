//! The chunks of a response as stream events: a state machine without network and clock.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind, Failure},
    message::{StopReason, ToolCall},
    model::Model,
    partial_json::repair::from_str_repaired,
    provider::{
        blocks::Blocks,
        driver::{Events, FrameDecoder},
        failure, halves,
    },
    sse::DataLines,
    stream::{ResponseInfo, StreamEvent},
    usage::Usage,
};

/// Understands the chunks of one response.
#[derive(Debug)]
pub(crate) struct Decoder {
    model: Arc<Model>,
    /// When the response began; ids that the vendor does not give are made of it.
    now: u64,
    blocks: Blocks,
    ids: HashSet<String>,
    made_ids: u64,
    has_id: bool,
    finish: Option<String>,
    /// More about the end, in the vendor's words.
    finish_message: Option<String>,
    /// Why the prompt was not answered at all.
    blocked: Option<String>,
}

impl Decoder {
    /// Begins at `now`, in milliseconds since 1970.
    pub(crate) fn new(model: Arc<Model>, now: u64) -> Decoder {
        Decoder {
            model,
            now,
            blocks: Blocks::default(),
            ids: HashSet::new(),
            made_ids: 0,
            has_id: false,
            finish: None,
            finish_message: None,
            blocked: None,
        }
    }

    fn chunk(&mut self, chunk: &Value, has_marks: bool, out: &mut Events) -> Result<(), Error> {
        let error = &chunk["error"];
        if !error.is_null() {
            // One without a code comes from a gateway, after the answer.
            if error["code"].as_u64().is_none_or(|code| !(400..600).contains(&code)) {
                self.blocks.end(out);
            }
            return Err(failure::after_acceptance(error));
        }
        if let Some(id) = chunk["responseId"].as_str().filter(|id| !id.is_empty() && !self.has_id) {
            self.has_id = true;
            let response_id = Some(id.to_owned());
            out.push_back(info(ResponseInfo { response_id, ..ResponseInfo::default() }));
        }
        if let Some(reason) = chunk["promptFeedback"]["blockReason"].as_str() {
            self.blocked = Some(reason.to_owned());
            tell_end(reason, out);
        }
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part, has_marks, out)?;
        }
        if let Some(reason) = candidate["finishReason"].as_str().filter(|it| !it.is_empty()) {
            self.finish = Some(reason.to_owned());
            tell_end(reason, out);
        }
        if let Some(message) = candidate["finishMessage"].as_str() {
            self.finish_message = Some(message.to_owned());
        }
        if let Some(reported) = chunk.get("usageMetadata").filter(|it| it.is_object()) {
            let usage = Some(usage(reported, &self.model));
            out.push_back(info(ResponseInfo { usage, ..ResponseInfo::default() }));
        }
        Ok(())
    }

    fn part(&mut self, part: &Value, has_marks: bool, out: &mut Events) -> Result<(), Error> {
        let signature = part["thoughtSignature"].as_str().filter(|it| !it.is_empty());
        if let Some(text) = part["text"].as_str() {
            let is_thought = part["thought"] == true;
            self.blocks.push(text, is_thought, has_marks, out)?;
            if let (Some(signature), Some(content_index)) = (signature, self.blocks.open()) {
                let signature = signature.to_owned();
                out.push_back(StreamEvent::Signature { content_index, signature });
            }
        }
        if let Some(function) = part.get("functionCall").filter(|it| it.is_object()) {
            self.blocks.end(out);
            self.call(function, signature, out)?;
        }
        Ok(())
    }

    /// A call comes whole.
    fn call(
        &mut self,
        function: &Value,
        signature: Option<&str>,
        out: &mut Events,
    ) -> Result<(), Error> {
        let content_index = self.blocks.begin()?;
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        let arguments = match &function["args"] {
            Value::Object(arguments) => arguments.clone(),
            _ => Map::new(),
        };
        let delta = serde_json::to_string(&arguments).unwrap_or_default();
        let id = self.call_id(function["id"].as_str().unwrap_or_default(), &name);
        let (start_id, tool_name) = (id.clone(), name.clone());
        out.push_back(StreamEvent::ToolCallStart { content_index, id: start_id, tool_name });
        out.push_back(StreamEvent::ToolCallDelta { content_index, delta });
        let thought_signature = signature.map(str::to_owned);
        let call = ToolCall { id, name, arguments, thought_signature, ..ToolCall::default() };
        out.push_back(StreamEvent::ToolCallEnd { content_index, tool_call: Some(Box::new(call)) });
        Ok(())
    }

    /// The id of a call, or one that no other call has: results name their call by it.
    fn call_id(&mut self, given: &str, name: &str) -> String {
        let mut id = given.to_owned();
        while id.is_empty() || self.ids.contains(&id) {
            self.made_ids += 1;
            id = format!("{name}_{}_{}", self.now, self.made_ids);
        }
        self.ids.insert(id.clone());
        id
    }

    fn stop_reason(&self) -> Result<StopReason, Error> {
        let explained = self.finish_message.as_deref();
        match (self.finish.as_deref(), &self.blocked) {
            (Some("STOP"), _) if self.ids.is_empty() => Ok(StopReason::Stop),
            (Some("STOP"), _) => Ok(StopReason::ToolUse),
            (Some("MAX_TOKENS" | "CONTINUATION"), _) => Ok(StopReason::Length),
            (Some(reason), _) => Err(bad_ending(reason, explained)),
            (None, Some(reason)) => {
                let why = format!("the prompt was blocked ({reason})");
                Err(failure::refused(reason, Some(&why)))
            }
            (None, None) => Err(failure::cut("ended without a finish reason")),
        }
    }
}

impl FrameDecoder for Decoder {
    fn frame(&mut self, _event: Option<&str>, data: &str, out: &mut Events) -> Result<(), Error> {
        let (chunk, has_marks) = match serde_json::from_str::<Value>(data) {
            Ok(chunk) => (chunk, false),
            Err(error) => match from_str_repaired(&halves::mark(data)) {
                Ok(chunk) => (chunk, true),
                Err(_) => return Err(failure::malformed("data", &error.to_string())),
            },
        };
        if !chunk.is_object() {
            return Err(failure::malformed("data", "it is no JSON object"));
        }
        self.chunk(&chunk, has_marks, out)
    }

    fn end(&mut self, out: &mut Events) -> Result<(), Error> {
        self.blocks.end(out);
        let reason = self.stop_reason()?;
        out.push_back(StreamEvent::Done { reason });
        Ok(())
    }

    fn data_lines(&self) -> DataLines {
        DataLines::Separate
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }
}

fn info(info: ResponseInfo) -> StreamEvent {
    StreamEvent::Info(Box::new(info))
}

fn tell_end(reason: &str, out: &mut Events) {
    let raw_stop_reason = Some(reason.to_owned());
    out.push_back(info(ResponseInfo { raw_stop_reason, ..ResponseInfo::default() }));
}

/// An end that is none of the good ones.
fn bad_ending(reason: &str, explained: Option<&str>) -> Error {
    let is_policy = matches!(
        reason,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
    ) || reason.starts_with("IMAGE_")
        || reason == "MODEL_ARMOR";
    if is_policy {
        let why = explained.map_or_else(|| reason.to_owned(), |text| format!("{reason}: {text}"));
        return failure::refused(reason, Some(&why));
    }
    let failure = Failure {
        code: Some(reason.to_owned()),
        retryable: reason == "MALFORMED_FUNCTION_CALL",
        ..Failure::new(ErrorKind::Protocol)
    };
    let explained = explained.map(|text| format!(": {text}")).unwrap_or_default();
    Error::from_failure(failure, format!("the model stopped with {reason}{explained}"))
}

/// Tokens and costs as the vendor reports them.
fn usage(reported: &Value, model: &Model) -> Usage {
    let tokens = |name: &str| reported[name].as_u64().unwrap_or(0);
    let cache_read = tokens("cachedContentTokenCount");
    let thoughts = tokens("thoughtsTokenCount");
    let mut usage = Usage {
        input: tokens("promptTokenCount").saturating_sub(cache_read),
        output: tokens("candidatesTokenCount").saturating_add(thoughts),
        cache_read,
        reasoning: Some(thoughts),
        total_tokens: tokens("totalTokenCount"),
        ..Usage::default()
    };
    usage.price(&model.cost);
    usage
}
