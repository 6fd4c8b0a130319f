//! The events of a gateway as stream events: a state machine without network and clock.

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, ErrorKind, Failure},
    message::{Diagnostic, StopReason, ToolCall},
    partial_json::repair::from_str_repaired,
    provider::{
        blocks::check_count,
        driver::{Events, FrameDecoder},
        failure, halves,
    },
    sse::DataLines,
    stream::{ResponseInfo, StreamEvent},
    usage::Usage,
};

/// Understands the events of one response.
#[derive(Debug)]
pub(crate) struct Decoder {
    dialect: Dialect,
    now: u64,
    blocks: Vec<Block>,
}

/// Whose events they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// A gateway's, which is a provider itself.
    Gateway,
    /// A proxy's, which tells what this library told it: each line is an event, and an error says all that is known.
    Proxy,
}

#[derive(Debug)]
struct Block {
    kind: Kind,
    has_ended: bool,
    /// Half of a character that the next delta completes.
    half: Option<u16>,
}

#[derive(Debug)]
enum Kind {
    Text,
    Thinking,
    /// What its beginning told of a call.
    Call {
        id: String,
        name: String,
    },
}

impl Decoder {
    /// Begins at `now`, in milliseconds since 1970.
    pub(crate) fn new(now: u64, dialect: Dialect) -> Decoder {
        Decoder { dialect, now, blocks: Vec::new() }
    }

    fn event(&mut self, event: &Value, has_marks: bool, out: &mut Events) -> Result<(), Error> {
        let Some(kind) = event["type"].as_str() else {
            return Err(if event["error"].is_null() {
                failure::malformed("data", "it has no type")
            } else {
                failure::after_acceptance(&event["error"])
            });
        };
        match kind {
            "text_start" => self.begin(event, Kind::Text, out),
            "thinking_start" => self.begin(event, Kind::Thinking, out),
            "toolcall_start" => {
                let (mut id, name) = (text(event, "id"), text(event, "toolName"));
                if id.is_empty() {
                    // Its result must name it.
                    id = format!("call_{}_{}", self.now, self.blocks.len());
                }
                self.begin(event, Kind::Call { id, name }, out)
            }
            "text_delta" | "thinking_delta" | "toolcall_delta" => {
                self.delta(kind, event, has_marks, out)
            }
            "text_end" | "thinking_end" | "toolcall_end" => self.end_block(kind, event, out),
            "signature" if self.dialect == Dialect::Proxy => self.sign(event, out),
            "done" => self.done(event, out),
            "error" if self.dialect == Dialect::Proxy => {
                self.tell(event, out);
                out.push_back(told_error(event));
                Ok(())
            }
            "error" => Err(self.failed(event, out)),
            // `start` came with the headers; other types are for those who know them.
            _ => Ok(()),
        }
    }

    fn begin(&mut self, event: &Value, kind: Kind, out: &mut Events) -> Result<(), Error> {
        let content_index = self.blocks.len();
        check_count(content_index)?;
        if index(event) != Some(content_index) {
            return Err(misplaced(event, &format!("the next block is {content_index}")));
        }
        out.push_back(match &kind {
            Kind::Text => StreamEvent::TextStart { content_index },
            Kind::Thinking => {
                let initial = serde_json::from_value(event["initial"].clone()).unwrap_or_default();
                StreamEvent::ThinkingStart { content_index, initial }
            }
            Kind::Call { id, name } => {
                let (id, tool_name) = (id.clone(), name.clone());
                StreamEvent::ToolCallStart { content_index, id, tool_name }
            }
        });
        self.blocks.push(Block { kind, has_ended: false, half: None });
        Ok(())
    }

    /// The open block that an event is about, whose type begins with the kind of the block.
    fn open(&mut self, kind: &str, event: &Value) -> Result<(usize, &mut Block), Error> {
        let place = index(event);
        let block = place.and_then(|place| self.blocks.get_mut(place));
        let (Some(place), Some(block)) = (place, block) else {
            return Err(misplaced(event, "there is no such block"));
        };
        let own = match block.kind {
            Kind::Text => "text_",
            Kind::Thinking => "thinking_",
            Kind::Call { .. } => "toolcall_",
        };
        match (kind.starts_with(own), block.has_ended) {
            (true, false) => Ok((place, block)),
            (true, true) => Err(misplaced(event, "the block has ended")),
            (false, _) => Err(misplaced(event, "the block is of another kind")),
        }
    }

    fn delta(
        &mut self,
        kind: &str,
        event: &Value,
        has_marks: bool,
        out: &mut Events,
    ) -> Result<(), Error> {
        let (content_index, block) = self.open(kind, event)?;
        let delta = event["delta"].as_str().unwrap_or_default();
        let joined =
            (has_marks || block.half.is_some()).then(|| halves::join(&mut block.half, delta));
        let delta = joined.unwrap_or_else(|| delta.to_owned());
        out.push_back(match block.kind {
            Kind::Text => StreamEvent::TextDelta { content_index, delta },
            Kind::Thinking => StreamEvent::ThinkingDelta { content_index, delta },
            Kind::Call { .. } => StreamEvent::ToolCallDelta { content_index, delta },
        });
        Ok(())
    }

    fn end_block(&mut self, kind: &str, event: &Value, out: &mut Events) -> Result<(), Error> {
        let (content_index, block) = self.open(kind, event)?;
        let given = |name: &str| event[name].as_str().map(str::to_owned);
        let (content, content_signature) = (given("content"), given("contentSignature"));
        let end = match &block.kind {
            Kind::Text => StreamEvent::TextEnd { content_index, content, content_signature },
            Kind::Thinking => {
                StreamEvent::ThinkingEnd { content_index, content, content_signature }
            }
            Kind::Call { id, name } => {
                let tool_call = whole_call(&event["toolCall"], id, name)?;
                StreamEvent::ToolCallEnd { content_index, tool_call }
            }
        };
        block.has_ended = true;
        out.push_back(end);
        Ok(())
    }

    /// What a vendor tells of a block later than its end, or of one that it never ended.
    fn sign(&self, event: &Value, out: &mut Events) -> Result<(), Error> {
        let known = index(event).filter(|place| *place < self.blocks.len());
        let content_index = known.ok_or_else(|| misplaced(event, "there is no such block"))?;
        let signature = text(event, "signature");
        out.push_back(StreamEvent::Signature { content_index, signature });
        Ok(())
    }

    fn done(&mut self, event: &Value, out: &mut Events) -> Result<(), Error> {
        let reason = match event["reason"].as_str() {
            Some("stop") => StopReason::Stop,
            Some("length") => StopReason::Length,
            Some("toolUse") => StopReason::ToolUse,
            other => {
                let other = other.unwrap_or("none");
                return Err(failure::malformed("done", &format!("its reason is `{other}`")));
            }
        };
        for (content_index, block) in self.blocks.iter().enumerate().filter(|it| !it.1.has_ended) {
            let (content, content_signature) = (None, None);
            out.push_back(match block.kind {
                Kind::Text => StreamEvent::TextEnd { content_index, content, content_signature },
                Kind::Thinking => {
                    StreamEvent::ThinkingEnd { content_index, content, content_signature }
                }
                Kind::Call { .. } => StreamEvent::ToolCallEnd { content_index, tool_call: None },
            });
        }
        self.tell(event, out);
        out.push_back(StreamEvent::Done { reason });
        Ok(())
    }

    fn failed(&self, event: &Value, out: &mut Events) -> Error {
        self.tell(event, out);
        if event["reason"] == "aborted" {
            return Error::aborted();
        }
        let message = event["errorMessage"].as_str().unwrap_or("the gateway gave no reason");
        let mut said = json!({ "message": message });
        for name in ["code", "status"] {
            if let Some(value) = event.get(name).filter(|it| !it.is_null()) {
                said[name] = value.clone();
            }
        }
        failure::after_acceptance(&said)
    }

    /// What the last event says beside its reason.
    fn tell(&self, event: &Value, out: &mut Events) {
        let given = |name: &str| event[name].as_str().map(str::to_owned);
        let usage: Option<Usage> = serde_json::from_value(event["usage"].clone()).ok();
        let rewrite = event.get("rewrite").filter(|it| !it.is_null());
        let note = rewrite.map(|rewrite| self.note("pi_messages_rewrite", rewrite.clone()));
        let told = event.get("diagnostics").cloned();
        let told: Vec<Diagnostic> =
            told.and_then(|told| serde_json::from_value(told).ok()).unwrap_or_default();
        out.push_back(info(ResponseInfo {
            response_id: given("responseId"),
            response_model: given("responseModel"),
            answerer: serde_json::from_value(event["answerer"].clone()).ok(),
            usage,
            raw_stop_reason: given("rawStopReason"),
            provider_thinking_level: given("providerThinkingLevel"),
            diagnostics: told.into_iter().chain(note).collect(),
        }));
    }

    fn note(&self, kind: &str, details: Value) -> Diagnostic {
        let details = Some(details);
        Diagnostic { kind: kind.to_owned(), timestamp: self.now, error: None, details }
    }
}

impl FrameDecoder for Decoder {
    fn frame(&mut self, _event: Option<&str>, data: &str, out: &mut Events) -> Result<(), Error> {
        let (event, has_marks) = match serde_json::from_str::<Value>(data) {
            Ok(event) => (event, false),
            Err(error) => match from_str_repaired(&halves::mark(data)) {
                Ok(event) => (event, true),
                Err(_) => return Err(failure::malformed("data", &error.to_string())),
            },
        };
        if !event.is_object() {
            return Err(failure::malformed("data", "it is no JSON object"));
        }
        self.event(&event, has_marks, out)
    }

    fn end(&mut self, _out: &mut Events) -> Result<(), Error> {
        Err(failure::cut("ended without its last event"))
    }

    fn data_lines(&self) -> DataLines {
        match self.dialect {
            Dialect::Gateway => DataLines::Joined,
            Dialect::Proxy => DataLines::Separate,
        }
    }

    /// Notes what a gateway that refused a request said of it.
    fn fail(&mut self, error: &Error, out: &mut Events) {
        let failure = error.failure();
        if let Some(status) = failure.status.filter(|_| self.dialect == Dialect::Gateway) {
            let mut details = json!({ "status": status });
            if let Some(code) = &failure.code {
                details["code"] = code.clone().into();
            }
            let diagnostics = vec![self.note("pi_messages_response_failure", details)];
            out.push_back(info(ResponseInfo { diagnostics, ..ResponseInfo::default() }));
        }
    }
}

/// The error that a proxy passes on: its words as they are, and what it is for programs if the proxy says so.
fn told_error(event: &Value) -> StreamEvent {
    let is_abort = event["reason"] == "aborted";
    let unknown = if is_abort { "the request was aborted" } else { "the proxy gave no reason" };
    let message = event["errorMessage"].as_str().unwrap_or(unknown).to_owned();
    let told = serde_json::from_value(event["failure"].clone()).ok();
    let failure = if is_abort {
        Failure::new(ErrorKind::Aborted)
    } else {
        told.unwrap_or_else(|| failure::after_acceptance(&event["errorMessage"]).failure().clone())
    };
    StreamEvent::Error { message, failure: Box::new(failure) }
}

fn info(info: ResponseInfo) -> StreamEvent {
    StreamEvent::Info(Box::new(info))
}

fn text(event: &Value, name: &str) -> String {
    event[name].as_str().unwrap_or_default().to_owned()
}

fn index(event: &Value) -> Option<usize> {
    usize::try_from(event["contentIndex"].as_u64()?).ok()
}

fn misplaced(event: &Value, why: &str) -> Error {
    let kind = event["type"].as_str().unwrap_or("data");
    failure::malformed(kind, &format!("its contentIndex is {}, but {why}", event["contentIndex"]))
}

/// The call that an end tells, over what the beginning told; `None` if it tells none.
fn whole_call(told: &Value, id: &str, name: &str) -> Result<Option<Box<ToolCall>>, Error> {
    let Value::Object(told) = told else { return Ok(None) };
    let mut call = Map::new();
    call.insert("id".to_owned(), id.into());
    call.insert("name".to_owned(), name.into());
    call.extend(told.iter().filter(|it| it.1 != "").map(|(name, it)| (name.clone(), it.clone())));
    serde_json::from_value(Value::Object(call))
        .map(|call| Some(Box::new(call)))
        .map_err(|error| failure::malformed("toolcall_end", &error.to_string()))
}
