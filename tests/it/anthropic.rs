//! The provider of Anthropic's Messages API against a scripted server, where the recorded cases say nothing.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use steerage::{
    AbortSignal, Clock, ErrorKind, Failure, LiveMessage, Message, Model, StreamEvent, StreamFn,
    StreamOptions, StreamRequest, Transcript,
    message::{AssistantContent, AssistantMessage, StopReason, ToolCall},
    provider::{ProviderOptions, anthropic::AnthropicMessages},
    testing::server::{Request, Response, Server},
};

mod hostile;
mod request;
mod response;
mod secrets;
mod strict;

/// What came of one request.
struct Outcome {
    events: Vec<StreamEvent>,
    message: AssistantMessage,
    requests: Vec<Request>,
}

impl Outcome {
    #[track_caller]
    fn failure(&self) -> &Failure {
        self.message.failure.as_ref().expect("the response failed")
    }

    fn calls(&self) -> Vec<&ToolCall> {
        self.message.tool_calls().collect()
    }

    /// The body of the last request.
    #[track_caller]
    fn body(&self) -> Value {
        let request = self.requests.last().expect("a request was sent");
        serde_json::from_slice(&request.body).expect("the body is JSON")
    }

    fn error_text(&self) -> &str {
        self.message.error_message.as_deref().unwrap_or_default()
    }
}

/// Never waits.
#[derive(Debug)]
struct Hurried;

impl Clock for Hurried {
    fn sleep(&self, _duration: Duration, signal: &AbortSignal) -> bool {
        signal.is_aborted()
    }
}

fn model() -> Value {
    json!({
        "id": "claude-test", "api": "anthropic-messages", "provider": "anthropic", "reasoning": true,
        "input": ["text", "image"], "contextWindow": 200_000, "maxTokens": 64_000,
        "cost": {"input": 3.0, "output": 15.0, "cacheRead": 0.3, "cacheWrite": 3.75}
    })
}

/// The model with some fields changed.
fn model_with(fields: Value) -> Value {
    let mut model = model();
    for (name, value) in fields.as_object().into_iter().flatten() {
        model[name] = value.clone();
    }
    model
}

fn messages(list: Value) -> Transcript {
    let list: Vec<Message> = serde_json::from_value(list).expect("messages");
    Transcript::new(list.into_iter().map(Arc::new).collect::<Vec<_>>())
}

fn hello() -> Transcript {
    messages(json!([{"role": "user", "content": "Hi"}]))
}

fn provider() -> AnthropicMessages {
    AnthropicMessages::new(ProviderOptions {
        clock: Arc::new(Hurried),
        ..ProviderOptions::default()
    })
}

/// Asks a server that answers with `responses`.
#[track_caller]
fn ask(
    responses: impl IntoIterator<Item = Response>,
    model: Value,
    transcript: Transcript,
    options: StreamOptions,
) -> Outcome {
    ask_with(&provider(), responses, model, transcript, options)
}

#[track_caller]
fn ask_with(
    provider: &AnthropicMessages,
    responses: impl IntoIterator<Item = Response>,
    model: Value,
    transcript: Transcript,
    options: StreamOptions,
) -> Outcome {
    let server = Server::start(responses).expect("a server");
    run(&server, provider, model, transcript, options)
}

#[track_caller]
fn run(
    server: &Server,
    provider: &AnthropicMessages,
    model: Value,
    transcript: Transcript,
    options: StreamOptions,
) -> Outcome {
    let request = StreamRequest { model: model_at(server, model), transcript, options };
    let live = LiveMessage::of(&request.model);
    let stream = provider.stream(request, &AbortSignal::never()).expect("a stream");
    let mut events = Vec::new();
    for mut event in stream {
        live.apply(&mut event).expect("events fit together");
        events.push(event);
    }
    assert!(events.last().is_some_and(StreamEvent::is_terminal), "{events:?}");
    Outcome { events, message: live.snapshot(), requests: server.requests() }
}

fn model_at(server: &Server, model: Value) -> Arc<Model> {
    let mut model: Model = serde_json::from_value(model).expect("a model");
    model.base_url = server.url();
    Arc::new(model)
}

/// Asks with the standard model, transcript and options.
#[track_caller]
fn answer(response: Response) -> Outcome {
    ask([response], model(), hello(), StreamOptions::default())
}

/// The request that is sent for a model, a transcript and options.
#[track_caller]
fn sent(model: Value, transcript: Transcript, options: StreamOptions) -> Value {
    ask([ok()], model, transcript, options).body()
}

/// A response of these events, each named by its `type`.
fn events(list: impl IntoIterator<Item = Value>) -> Response {
    Response::events(list.into_iter().map(|event| frame(&event)))
}

fn frame(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

fn message_start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "model": "claude-test", "usage": {"input_tokens": 10, "output_tokens": 1}
    }})
}

fn block_start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn block_delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn block_stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn message_delta(stop_reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 7}})
}

fn message_stop() -> Value {
    json!({"type": "message_stop"})
}

/// The events of a text that is all there is.
fn text_events(text: &str) -> Vec<Value> {
    vec![
        message_start(),
        block_start(0, json!({"type": "text", "text": ""})),
        block_delta(0, json!({"type": "text_delta", "text": text})),
        block_stop(0),
        message_delta("end_turn"),
        message_stop(),
    ]
}

/// The events of one tool call whose argument text comes in these pieces.
fn call_events(pieces: &[&str]) -> Vec<Value> {
    let mut list = vec![
        message_start(),
        block_start(0, json!({"type": "tool_use", "id": "toolu_1", "name": "edit", "input": {}})),
    ];
    let delta =
        |piece: &&str| block_delta(0, json!({"type": "input_json_delta", "partial_json": piece}));
    list.extend(pieces.iter().map(delta));
    list.extend([block_stop(0), message_delta("tool_use"), message_stop()]);
    list
}

fn ok() -> Response {
    events(text_events("ok"))
}

fn error(kind: &str, message: &str) -> String {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
        .to_string()
}

fn only_text(message: &AssistantMessage) -> &str {
    match message.content.as_slice() {
        [AssistantContent::Text(text)] => &text.text,
        other => panic!("not one text: {other:?}"),
    }
}

/// Takes what a hook or a clock saw.
type Seen<T> = Arc<Mutex<Vec<T>>>;
