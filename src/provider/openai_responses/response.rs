//! The events of a response as stream events: a state machine without network and clock.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    error::{Error, ErrorKind, Failure},
    message::{Diagnostic, StopReason},
    partial_json::repair::from_str_repaired,
    provider::{
        driver::{Events, FrameDecoder},
        failure,
        grammar::GrammarTools,
        halves,
        openai_responses::{
            compat::Compat,
            response::{
                items::{Delta, Items},
                usage::Tariff,
            },
        },
    },
    stream::{ResponseInfo, StreamEvent, StreamRequest},
};

mod items;
mod usage;

/// Understands the events of one response.
#[derive(Debug)]
pub(in crate::provider) struct Decoder {
    items: Items,
    tariff: Tariff,
    has_id: bool,
    ending: Option<Ending>,
    now: u64,
}

#[derive(Debug)]
enum Ending {
    Good(StopReason),
    Bad(Error),
}

/// The one event that comes in masses; it is read without a tree.
#[derive(Debug, Deserialize)]
struct TextDelta<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    output_index: u64,
    delta: String,
}

impl Decoder {
    /// Begins at `now`, in milliseconds since 1970.
    pub(super) fn new(
        request: &StreamRequest,
        compat: &Compat,
        grammar_tools: GrammarTools,
        now: u64,
    ) -> Decoder {
        Decoder {
            items: Items::new(grammar_tools),
            tariff: Tariff::new(request, compat),
            has_id: false,
            ending: None,
            now,
        }
    }

    fn event(&mut self, event: &Value, has_marks: bool, out: &mut Events) -> Result<(), Error> {
        let index = event["output_index"].as_u64();
        let text = |name: &str| event[name].as_str();
        match text("type").unwrap_or_default() {
            "response.created" => self.take_id(&event["response"], out),
            "response.output_item.added" => self.items.begin(index, &event["item"], out)?,
            "response.output_item.done" => self.items.finish(index, &event["item"], out)?,
            "response.function_call_arguments.done" => {
                self.items.complete(index, text("arguments"), out)?;
            }
            "response.custom_tool_call_input.done" => {
                self.items.complete(index, text("input"), out)?;
            }
            "response.reasoning_summary_part.done" => {
                let kind = "response.reasoning_summary_text.delta";
                self.items.delta(&Delta { kind, index, text: "\n\n", has_marks: false }, out);
            }
            "response.completed" | "response.incomplete" => {
                self.complete(&event["response"], out);
            }
            "response.failed" => return Err(self.failed(&event["response"], out)),
            "error" => return Err(vendor_error(event)),
            // Some gateways send errors without a type.
            "" if !event["error"].is_null() => return Err(vendor_error(event)),
            kind => {
                if let Some(text) = text("delta") {
                    self.items.delta(&Delta { kind, index, text, has_marks }, out);
                }
            }
        }
        Ok(())
    }

    fn take_id(&mut self, response: &Value, out: &mut Events) {
        let id = response["id"].as_str().filter(|id| !id.is_empty() && !self.has_id);
        if let Some(id) = id {
            self.has_id = true;
            id.clone_into(&mut self.items.response);
            let response_id = Some(id.to_owned());
            out.push_back(info(ResponseInfo { response_id, ..ResponseInfo::default() }));
        }
    }

    fn complete(&mut self, response: &Value, out: &mut Events) {
        self.take_id(response, out);
        self.items.sign_late(&response["output"], out);
        let status = response["status"].as_str();
        let reason = response["incomplete_details"]["reason"].as_str();
        let raw_stop_reason = match (status, reason) {
            (Some("incomplete"), Some(reason)) => Some(format!("incomplete.{reason}")),
            (status, _) => status.map(str::to_owned),
        };
        let usage = self.tariff.read(response);
        let diagnostics = transformations(&response["input_transformations"], self.now);
        out.push_back(info(ResponseInfo {
            usage,
            raw_stop_reason,
            diagnostics,
            ..ResponseInfo::default()
        }));
        self.ending = Some(match status {
            None | Some("completed" | "in_progress" | "queued") => {
                let has_calls = self.items.has_calls();
                Ending::Good(if has_calls { StopReason::ToolUse } else { StopReason::Stop })
            }
            Some("incomplete") => match reason {
                Some("max_output_tokens") => Ending::Good(StopReason::Length),
                Some("content_filter") => Ending::Bad(failure::refused("content_filter", None)),
                reason => Ending::Bad(bad_ending("incomplete", reason)),
            },
            Some(status) if !response["error"].is_null() => {
                let error = failure::after_acceptance(&response["error"]);
                Ending::Bad(Error::from_failure(
                    error.failure().clone(),
                    format!("the response ended as {status}: {}", error.message()),
                ))
            }
            Some(status) => Ending::Bad(bad_ending(status, None)),
        });
    }

    fn failed(&mut self, response: &Value, out: &mut Events) -> Error {
        self.take_id(response, out);
        if let Some(status) = response["status"].as_str() {
            let raw_stop_reason = Some(status.to_owned());
            out.push_back(info(ResponseInfo { raw_stop_reason, ..ResponseInfo::default() }));
        }
        if let Some(usage) = self.tariff.read(response) {
            let usage = Some(usage);
            out.push_back(info(ResponseInfo { usage, ..ResponseInfo::default() }));
        }
        match (&response["error"], response["incomplete_details"]["reason"].as_str()) {
            (Value::Null, Some("content_filter")) => failure::refused("content_filter", None),
            (Value::Null, reason) => bad_ending("failed", reason),
            (error, _) => failure::after_acceptance(error),
        }
    }
}

impl FrameDecoder for Decoder {
    fn frame(&mut self, event: Option<&str>, data: &str, out: &mut Events) -> Result<(), Error> {
        if data.trim() == "[DONE]" {
            return self.end(out);
        }
        let name = event.unwrap_or("data");
        if name.ends_with("delta")
            && let Ok(TextDelta { kind, output_index, delta }) = serde_json::from_str(data)
        {
            let index = Some(output_index);
            self.items.delta(&Delta { kind: &kind, index, text: &delta, has_marks: false }, out);
            return Ok(());
        }
        let (value, has_marks) = match serde_json::from_str::<Value>(data) {
            Ok(value) => (value, false),
            Err(_) if event == Some("error") => return Err(vendor_error(&Value::from(data))),
            Err(error) => match from_str_repaired(&halves::mark(data)) {
                Ok(value) => (value, true),
                Err(_) => return Err(failure::malformed(name, &error.to_string())),
            },
        };
        if event == Some("error") {
            return Err(vendor_error(&value));
        }
        if !value.is_object() {
            return Err(failure::malformed(name, "it is no JSON object"));
        }
        self.event(&value, has_marks, out)
    }

    fn end(&mut self, out: &mut Events) -> Result<(), Error> {
        let reason = match self.ending.take() {
            None => return Err(failure::cut("ended without its last event")),
            Some(Ending::Bad(error)) => return Err(error),
            Some(Ending::Good(reason)) => reason,
        };
        self.items.end_all(reason, out)?;
        out.push_back(StreamEvent::Done { reason });
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.ending.is_some()
    }
}

fn info(info: ResponseInfo) -> StreamEvent {
    StreamEvent::Info(Box::new(info))
}

/// The error of an event: in an `error` of its own, or flat in the event.
fn vendor_error(event: &Value) -> Error {
    let mut event = event.clone();
    if let Some(fields) = event.as_object_mut()
        && fields.get("error").is_none_or(Value::is_null)
    {
        // These belong to the event.
        for name in ["type", "sequence_number", "error"] {
            fields.shift_remove(name);
        }
    }
    failure::after_acceptance(&event)
}

/// An end that is none of the good ones.
fn bad_ending(status: &str, reason: Option<&str>) -> Error {
    let code = reason.unwrap_or(status).to_owned();
    let why = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let kind = match status {
        "failed" => ErrorKind::Overloaded,
        _ => ErrorKind::Protocol,
    };
    let failure = Failure { code: Some(code), ..Failure::new(kind) };
    Error::from_failure(failure, format!("the response ended as {status}{why}, without more said"))
}

/// Reasoning of earlier turns that the vendor left out because what came before it had changed.
fn transformations(list: &Value, now: u64) -> Vec<Diagnostic> {
    let removed: Vec<Value> = list
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| it["type"] == "reasoning" && it["action"] == "removed")
        .filter(|it| it["reason"] != "turn_boundary")
        .cloned()
        .collect();
    if removed.is_empty() {
        return Vec::new();
    }
    vec![Diagnostic {
        kind: "openai_input_transformations".to_owned(),
        timestamp: now,
        error: None,
        details: Some(json!({"transformations": removed})),
    }]
}
