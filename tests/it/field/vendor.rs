//! A vendor that answers as told, asked through its provider.

use serde_json::{Value, json};
use steerage::{
    AbortSignal, LiveMessage, Model, StreamEvent, StreamFn, StreamOptions, StreamRequest,
    message::{AssistantContent, AssistantMessage},
    provider::{
        ProviderOptions, anthropic::AnthropicMessages, openai_completions::OpenAiCompletions,
    },
    testing::{
        clock::RecordingClock,
        server::{Request, Response, Server},
    },
};

use super::*;

/// Which API it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Anthropic,
}

/// What came of asking.
pub(super) struct Answered {
    pub(super) message: AssistantMessage,
    pub(super) requests: Vec<Request>,
    pub(super) pauses: Vec<Duration>,
}

/// How it is asked.
#[derive(Default)]
pub(super) struct Asking {
    pub(super) options: StreamOptions,
    pub(super) provider: ProviderOptions,
    pub(super) clock: RecordingClock,
    /// Fields of the model that differ.
    pub(super) model: Value,
}

impl Api {
    pub(super) fn provider(self, options: ProviderOptions) -> Arc<dyn StreamFn> {
        match self {
            Api::Chat => Arc::new(OpenAiCompletions::new(options)),
            Api::Anthropic => Arc::new(AnthropicMessages::new(options)),
        }
    }

    pub(super) fn model(self, url: &str) -> Model {
        let (api, provider) = match self {
            Api::Chat => ("openai-completions", "openai"),
            Api::Anthropic => ("anthropic-messages", "anthropic"),
        };
        let model = json!({
            "id": "m", "api": api, "provider": provider, "baseUrl": url, "reasoning": true,
            "input": ["text"], "contextWindow": 100_000, "maxTokens": 1000
        });
        serde_json::from_value(model).expect("a model")
    }

    /// The frames of a text that is all there is.
    pub(super) fn text(self, text: &str) -> String {
        match self {
            Api::Chat => chunk(json!({"content": text})) + &finish("stop") + "data: [DONE]\n\n",
            Api::Anthropic => {
                frames(&[
                    json!({"type": "message_start", "message": {"id": "msg_1"}}),
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                    json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
                    json!({"type": "content_block_stop", "index": 0}),
                ]) + &anthropic_end("end_turn")
            }
        }
    }

    /// The frames of a text that is broken off in the middle.
    pub(super) fn half(self, text: &str) -> String {
        let whole = self.text(text);
        let end = match self {
            Api::Chat => "data: {\"choices\":[{\"delta\":{},\"finish_reason\"",
            Api::Anthropic => "event: message_delta",
        };
        whole.split(end).next().unwrap_or_default().to_owned()
    }
}

/// A chunk with this delta.
pub(super) fn chunk(delta: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}))
}

/// The chunk that says why the response ended.
pub(super) fn finish(reason: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"delta": {}, "finish_reason": reason}]}))
}

/// Anthropic's frames, each named by its type.
pub(super) fn frames(events: &[Value]) -> String {
    let frame = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(frame).collect::<Vec<_>>().concat()
}

pub(super) fn anthropic_end(stop_reason: &str) -> String {
    frames(&[
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}}),
        json!({"type": "message_stop"}),
    ])
}

/// Asks a server that answers with `responses`, without retries unless told otherwise.
#[track_caller]
pub(super) fn ask(
    api: Api,
    responses: impl IntoIterator<Item = Response>,
    asking: Asking,
) -> Answered {
    run(api, responses.into_iter().collect(), asking, vec![Message::user("Hi")])
}

/// Asks with these messages; the answer does not matter.
#[track_caller]
pub(super) fn ask_about(api: Api, messages: Value, asking: Asking) -> Answered {
    let messages = serde_json::from_value(messages).expect("messages");
    run(api, vec![Response::events([api.text("ok")])], asking, messages)
}

#[track_caller]
fn run(api: Api, responses: Vec<Response>, asking: Asking, messages: Vec<Message>) -> Answered {
    let Asking { mut options, provider, clock, model: changes } = asking;
    let server = Server::start(responses).expect("a server");
    let clock = Arc::new(clock);
    let provider = api.provider(ProviderOptions { clock: clock.clone(), ..provider });
    options.max_retries = options.max_retries.or(Some(0));
    let mut model = serde_json::to_value(api.model(&server.url())).expect("JSON");
    for (name, value) in changes.as_object().into_iter().flatten() {
        model[name] = value.clone();
    }
    let model: Model = serde_json::from_value(model).expect("a model");
    let mut request = StreamRequest::new(model, messages);
    request.options = options;
    let live = LiveMessage::of(&request.model);
    let stream = provider.stream(request, &AbortSignal::never()).expect("a stream");
    let mut has_ended = false;
    for mut event in stream {
        live.apply(&mut event).expect("events fit together");
        has_ended = matches!(event, StreamEvent::Done { .. } | StreamEvent::Error { .. });
    }
    assert!(has_ended, "no terminal event");
    let message = live.snapshot();
    Answered { message, requests: server.requests(), pauses: clock.pauses() }
}

/// The same with a response that is these bytes, in one piece each, and nothing special.
#[track_caller]
pub(super) fn answer<T: Into<Vec<u8>>>(
    api: Api,
    pieces: impl IntoIterator<Item = T>,
) -> AssistantMessage {
    ask(api, [Response::events(pieces)], Asking::default()).message
}

/// A message in one line: its blocks, and how it ended.
pub(super) fn described(message: &AssistantMessage) -> String {
    let blocks = message.content.iter().map(|block| match block {
        AssistantContent::Text(text) => format!("{:?}", text.text),
        AssistantContent::Thinking(thinking) => format!("thinks {:?}", thinking.thinking),
        AssistantContent::ToolCall(call) => {
            let arguments = Value::Object(call.arguments.clone());
            let error = call.arguments_error.as_ref().map_or("", |_| " (broken)");
            format!("{}: {}{arguments}{error}", call.id, call.name)
        }
    });
    let ending = match &message.failure {
        None => format!("{:?}", message.stop_reason),
        Some(failure) => {
            let retry = if failure.retryable { ", retryable" } else { "" };
            let text = message.error_message.as_deref().unwrap_or_default();
            format!("{:?}{retry}: {text}", failure.kind)
        }
    };
    blocks.chain([ending]).collect::<Vec<_>>().join(" | ")
}
