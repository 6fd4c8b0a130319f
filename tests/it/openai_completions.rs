//! The provider of OpenAI's chat completions against a scripted server, where the recorded cases say nothing.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use steerage::{
    AbortSignal, Clock, Failure, LiveMessage, Message, Model, StreamEvent, StreamFn, StreamOptions,
    StreamRequest, Transcript,
    message::AssistantMessage,
    provider::{HttpClient, HttpOptions, ProviderOptions, openai_completions::OpenAiCompletions},
    testing::server::{Request, Response, Server},
};

mod formats;
mod hostile;
mod request;
mod response;

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

    fn error_text(&self) -> &str {
        self.message.error_message.as_deref().unwrap_or_default()
    }

    fn text(&self) -> String {
        self.message.texts().collect()
    }

    /// The body of the last request.
    #[track_caller]
    fn body(&self) -> Value {
        let request = self.requests.last().expect("a request was sent");
        serde_json::from_slice(&request.body).expect("the body is JSON")
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

/// The standard model with some fields changed.
fn model(fields: Value) -> Value {
    let mut model = json!({
        "id": "m", "api": "openai-completions", "provider": "custom", "reasoning": true,
        "input": ["text", "image"], "contextWindow": 100_000, "maxTokens": 10_000
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        model[name] = value.clone();
    }
    model
}

fn with_compat(compat: Value) -> Value {
    model(json!({"compat": compat}))
}

fn messages(list: Value) -> Transcript {
    let list: Vec<Message> = serde_json::from_value(list).expect("messages");
    Transcript::new(list.into_iter().map(Arc::new).collect::<Vec<_>>())
}

fn hello() -> Transcript {
    messages(json!([{"role": "user", "content": "Hi"}]))
}

fn provider_options() -> ProviderOptions {
    ProviderOptions { clock: Arc::new(Hurried), ..ProviderOptions::default() }
}

/// Asks a server that answers with `responses`.
#[track_caller]
fn ask(
    responses: impl IntoIterator<Item = Response>,
    model: Value,
    transcript: Transcript,
    options: StreamOptions,
) -> Outcome {
    ask_with(provider_options(), responses, model, transcript, options)
}

#[track_caller]
fn ask_with(
    provider: ProviderOptions,
    responses: impl IntoIterator<Item = Response>,
    model: Value,
    transcript: Transcript,
    options: StreamOptions,
) -> Outcome {
    let server = Server::start(responses).expect("a server");
    let mut model: Model = serde_json::from_value(model).expect("a model");
    let mut provider = provider;
    if model.base_url.is_empty() {
        model.base_url = server.url();
    } else {
        // The address is one that means something to the provider.
        let url = server.url();
        provider.client = provider.client.rewriting(move |_| url.clone());
    }
    let request = StreamRequest { model: Arc::new(model), transcript, options };
    let live = LiveMessage::of(&request.model);
    let stream = OpenAiCompletions::new(provider).stream(request, &AbortSignal::never());
    let mut events = Vec::new();
    for mut event in stream.expect("failures are events") {
        live.apply(&mut event).expect("events fit together");
        events.push(event);
    }
    assert!(events.last().is_some_and(StreamEvent::is_terminal), "{events:?}");
    Outcome { events, message: live.snapshot(), requests: server.requests() }
}

/// Asks with the standard model, transcript and options.
#[track_caller]
fn answer(response: Response) -> Outcome {
    ask([response], model(json!({})), hello(), StreamOptions::default())
}

/// The request that is sent for a model, a transcript and options.
#[track_caller]
fn sent(model: Value, transcript: Transcript, options: StreamOptions) -> Value {
    ask([ok()], model, transcript, options).body()
}

/// A response of these chunks.
fn chunks(list: impl IntoIterator<Item = Value>) -> Response {
    Response::events(list.into_iter().map(|chunk| frame(&chunk)).chain([DONE.to_owned()]))
}

const DONE: &str = "data: [DONE]\n\n";

fn frame(chunk: &Value) -> String {
    format!("data: {chunk}\n\n")
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"delta": {}, "finish_reason": reason}]})
}

fn ok() -> Response {
    chunks([delta(json!({"content": "ok"})), finish("stop")])
}

/// A client with limits of its own.
fn client(options: HttpOptions) -> HttpClient {
    HttpClient::new(options).expect("valid options")
}
