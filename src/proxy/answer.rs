//! The answer of the server that holds the keys: the events of a stream as lines.

use std::{io, mem};

use serde_json::{Map, Value, json};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind},
    model::Model,
    stream::{LiveMessage, ResponseInfo, StreamEvent, StreamFn, StreamRequest},
    thread,
};

/// Asks a model and writes its answer as the body of the server's, line by line, each as soon as it is known.
///
/// The head of the answer (status 200, `content-type: text/event-stream`) has been written by the caller. Whatever goes
/// wrong with the model is an event of the answer. An error means that the client is gone, or that `signal` has fired; the
/// request to the vendor is cancelled then. While the vendor is silent nothing is written: have something watch the client's
/// connection that fires `signal` when it ends, and sends a comment (`: …` and an empty line) now and then, since a client
/// gives up on a connection that is silent for two minutes. `examples/proxy_server` does both.
///
/// # Examples
///
/// ```
/// use steerage::{AbortSignal, Message, StreamRequest, proxy::serve, testing::Scripted};
///
/// let model = Scripted::new(["Hello!"]);
/// let request = StreamRequest::new(model.model(), [Message::user("Hi")]);
/// let mut body = Vec::new();
/// serve(&model, request, &AbortSignal::never(), &mut body)?;
/// let body = String::from_utf8(body).unwrap();
/// assert!(body.starts_with("data: {\"type\":\"start\"}\n\ndata: {\"type\":\"text_start\",\"contentIndex\":0}\n\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn serve(
    stream: &dyn StreamFn,
    request: StreamRequest,
    signal: &AbortSignal,
    body: &mut dyn io::Write,
) -> io::Result<()> {
    let mut encoder = Encoder::new(&request.model);
    let started = thread::catch(|| stream.stream(request, signal));
    let mut events = match started.unwrap_or_else(|panic| Err(panicked(&panic))) {
        Ok(events) => events,
        Err(error) => return encoder.write(StreamEvent::failed(&error), body),
    };
    loop {
        let next = thread::catch(|| (events.next(), events.more_is_ready()));
        let (event, has_more) =
            next.unwrap_or_else(|panic| (Some(StreamEvent::failed(&panicked(&panic))), false));
        let Some(event) = event else {
            let error = Error::new(ErrorKind::Protocol, "the stream ended without its last event");
            return encoder.write(StreamEvent::failed(&error), body);
        };
        let is_last = event.is_terminal();
        if is_last && signal.is_aborted() {
            // Nobody is there to be told, or the server ends: its client shall not think that it asked for that.
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        encoder.write(event, body)?;
        if is_last || encoder.has_failed {
            return Ok(());
        }
        if !has_more {
            body.flush()?;
        }
    }
}

fn panicked(panic: &str) -> Error {
    Error::new(ErrorKind::Callback, format!("the stream function panicked: {panic}"))
}

/// Turns the events of one stream into lines.
struct Encoder {
    /// Completes the ends of blocks.
    live: LiveMessage,
    /// What the last event tells beside its reason.
    info: ResponseInfo,
    /// The vendor's data of open blocks, which goes with their ends.
    signatures: Vec<(usize, String)>,
    /// The blocks that have ended.
    ended: Vec<usize>,
    has_failed: bool,
}

impl Encoder {
    fn new(model: &Model) -> Encoder {
        Encoder {
            live: LiveMessage::of(model),
            info: ResponseInfo::default(),
            signatures: Vec::new(),
            ended: Vec::new(),
            has_failed: false,
        }
    }

    /// Writes the line of an event, if it has one. What comes after a last event is not written.
    fn write(&mut self, event: StreamEvent, body: &mut dyn io::Write) -> io::Result<()> {
        let is_last = event.is_terminal();
        let line = self.line(event).unwrap_or_else(|error| {
            self.has_failed = true;
            Some(self.last(error_line(error.to_string(), error.failure())))
        });
        if is_last || self.has_failed {
            for (content_index, signature) in mem::take(&mut self.signatures) {
                let kept = fields(&StreamEvent::Signature { content_index, signature });
                write_line(kept, body)?;
            }
        }
        if let Some(line) = line {
            write_line(line, body)?;
        }
        if is_last || self.has_failed { body.flush() } else { Ok(()) }
    }

    fn line(&mut self, mut event: StreamEvent) -> Result<Option<Map<String, Value>>, Error> {
        let own_content = self.own_content(&event);
        self.live.apply(&mut event)?;
        let line = match event {
            StreamEvent::Info(info) => {
                self.inform(*info);
                return Ok(None);
            }
            StreamEvent::Signature { content_index, .. } if self.ended.contains(&content_index) => {
                fields(&event)
            }
            StreamEvent::Signature { content_index, signature } => {
                self.signatures.retain(|(index, _)| *index != content_index);
                self.signatures.push((content_index, signature));
                return Ok(None);
            }
            StreamEvent::InitialText { content_index, text: delta } => {
                fields(&StreamEvent::TextDelta { content_index, delta })
            }
            StreamEvent::TextEnd { content_index, content_signature: given, .. } => {
                let kept = self.end(content_index);
                let (content, content_signature) = (own_content, given.or(kept));
                fields(&StreamEvent::TextEnd { content_index, content, content_signature })
            }
            StreamEvent::ThinkingEnd { content_index, content_signature: given, .. } => {
                let kept = self.end(content_index);
                let (content, content_signature) = (own_content, given.or(kept));
                fields(&StreamEvent::ThinkingEnd { content_index, content, content_signature })
            }
            StreamEvent::ToolCallEnd { content_index, .. } => {
                self.end(content_index);
                let mut line = fields(&event);
                if let Some(call) = line.get_mut("toolCall").and_then(Value::as_object_mut) {
                    call.shift_insert(0, "type".to_owned(), "toolCall".into());
                }
                line
            }
            StreamEvent::Done { .. } => self.last(fields(&event)),
            StreamEvent::Error { message, failure } => self.last(error_line(message, &failure)),
            event => fields(&event),
        };
        Ok(Some(line))
    }

    /// The content of an end that is not what the deltas gave.
    fn own_content(&self, event: &StreamEvent) -> Option<String> {
        match event {
            StreamEvent::TextEnd { content_index, content: Some(content), .. }
            | StreamEvent::ThinkingEnd { content_index, content: Some(content), .. } => {
                let differs = self.live.with_text(*content_index, |text| text != content);
                differs.unwrap_or(false).then(|| content.clone())
            }
            _ => None,
        }
    }

    /// Notes the end of a block, and returns what the vendor had it keep.
    fn end(&mut self, content_index: usize) -> Option<String> {
        self.ended.push(content_index);
        let place = self.signatures.iter().position(|(index, _)| *index == content_index)?;
        Some(self.signatures.swap_remove(place).1)
    }

    fn inform(&mut self, new: ResponseInfo) {
        let info = &mut self.info;
        let ResponseInfo {
            response_id,
            response_model,
            answerer,
            usage,
            raw_stop_reason,
            provider_thinking_level,
            diagnostics,
        } = new;
        info.response_id = response_id.or_else(|| info.response_id.take());
        info.response_model = response_model.or_else(|| info.response_model.take());
        info.answerer = answerer.or_else(|| info.answerer.take());
        info.usage = usage.or_else(|| info.usage.take());
        info.raw_stop_reason = raw_stop_reason.or_else(|| info.raw_stop_reason.take());
        info.provider_thinking_level =
            provider_thinking_level.or_else(|| info.provider_thinking_level.take());
        info.diagnostics.extend(diagnostics);
    }

    /// Completes a last event with all that is known of the response.
    fn last(&mut self, mut line: Map<String, Value>) -> Map<String, Value> {
        let mut info = mem::take(&mut self.info);
        info.usage.get_or_insert_default();
        if let Value::Object(info) = json!(info) {
            line.extend(info);
        }
        line
    }
}

fn write_line(line: Map<String, Value>, body: &mut dyn io::Write) -> io::Result<()> {
    write!(body, "data: {}\n\n", Value::Object(line))
}

fn fields(event: &StreamEvent) -> Map<String, Value> {
    match json!(event) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn error_line(message: String, failure: &crate::error::Failure) -> Map<String, Value> {
    let reason = if failure.kind == ErrorKind::Aborted { "aborted" } else { "error" };
    let mut line = Map::new();
    line.insert("type".to_owned(), "error".into());
    line.insert("reason".to_owned(), reason.into());
    line.insert("errorMessage".to_owned(), message.into());
    line.insert("failure".to_owned(), json!(failure));
    line
}
