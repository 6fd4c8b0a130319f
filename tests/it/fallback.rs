//! The next model is asked when one cannot answer.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use steerage::{
    AbortController, AbortSignal, Agent, AgentOptions, ErrorKind, Fallback, Message, Model, Secret,
    StreamFn, StreamRequest,
    message::{AssistantMessage, StopReason},
    provider::ProviderOptions,
    stream::{AssistantStream, StreamEvent, collect},
    testing::{
        clock::RecordingClock,
        server::{End, Response, Server},
    },
};

use crate::apis;

/// A model whose provider is called like its API.
fn model(api: &str, url: &str) -> Model {
    let model = json!({"id": format!("{api}-model"), "api": api, "provider": api, "baseUrl": url,
        "maxTokens": 1000, "contextWindow": 100_000,
        "cost": {"input": 1_000_000, "output": 0, "cacheRead": 0, "cacheWrite": 0}});
    serde_json::from_value(model).unwrap()
}

fn stream(api: &str, key: &str) -> Arc<dyn StreamFn> {
    let clock = Arc::new(RecordingClock::default());
    let options =
        ProviderOptions { clock, api_key: Some(key.into()), ..ProviderOptions::default() };
    apis::stream_fn(api, options)
}

fn request(model: Model) -> StreamRequest {
    let mut request = StreamRequest::new(model, [Message::user("Hi")]);
    request.options.max_retries = Some(0);
    request
}

struct Asked {
    message: AssistantMessage,
    first: Server,
    second: Server,
}

/// Asks a model whose server answers with `response`, and behind it one that says hi, both of the API.
fn ask(api: &str, response: Response) -> Asked {
    let first = Server::start([response]).unwrap();
    let second = Server::start([Response::events([apis::hi(api)])]).unwrap();
    let backup =
        Model { id: "backup".to_owned(), provider: "b".to_owned(), ..model(api, &second.url()) };
    let fallback =
        Fallback::new(stream(api, "sk-first-key")).then(backup, stream(api, "sk-second-key"));
    let request = request(model(api, &first.url()));
    let mut stream = fallback.stream(request.clone(), &AbortSignal::never()).unwrap();
    let message = collect(&request.model, &mut *stream);
    Asked { message, first, second }
}

fn error(status: u16, kind: &str) -> Response {
    let error = json!({"type": "error", "error": {"type": kind, "code": kind, "message": kind}});
    Response::json(status, error.to_string())
}

#[test]
fn the_next_model_answers_where_one_cannot() {
    let causes = [
        error(429, "rate_limit_error"),
        error(529, "overloaded_error"),
        error(503, "unavailable"),
        error(429, "insufficient_quota"),
        Response::close(),
    ];
    for api in apis::with_proxy() {
        for (index, cause) in causes.iter().enumerate() {
            let Asked { message, first, second } = ask(api, cause.clone());
            let what = format!("{api}, cause {index}: {message:?}");
            assert_eq!(message.stop_reason, StopReason::Stop, "{what}");
            assert_eq!(message.texts().collect::<String>(), "Hi", "{what}");
            assert_eq!((&*message.model, &*message.provider), ("backup", "b"), "{what}");
            assert_eq!((first.requests().len(), second.requests().len()), (1, 1), "{what}");
            let note = message.diagnostics.iter().find(|it| it.kind == "fallback").unwrap();
            let passed = &note.details.as_ref().unwrap()["passedOver"];
            assert_eq!(passed[0]["model"], format!("{api}-model"), "{what}");
            assert_eq!(passed.as_array().unwrap().len(), 1, "{what}");
        }
    }
}

#[test]
fn what_the_caller_must_mend_ends_the_response() {
    for api in apis::with_proxy() {
        for status in [400, 401, 403, 404, 413] {
            let Asked { message, second, .. } = ask(api, error(status, "no"));
            assert_eq!(message.stop_reason, StopReason::Error, "{api}, {status}");
            assert_eq!(message.model, format!("{api}-model"), "{api}, {status}");
            assert!(second.requests().is_empty(), "{api}, {status}");
        }
    }
}

#[test]
fn an_answer_that_has_begun_is_not_begun_again() {
    for api in apis::with_proxy() {
        let body = apis::hi(api)
            .replace(r#""finish_reason":"stop""#, r#""finish_reason":null"#)
            .replace(r#","finishReason":"STOP""#, "");
        let text = body.find("Hi").unwrap();
        let end = text + body[text..].find("\n\n").unwrap() + 2;
        let half = Response::events([&body[..end]]).end(End::Destroy);
        let Asked { message, second, .. } = ask(api, half);
        assert_eq!(message.stop_reason, StopReason::Error, "{api}");
        assert_eq!(message.texts().collect::<String>(), "Hi", "{api}");
        assert!(second.requests().is_empty(), "{api}");
    }
}

/// Streams of fixed events, and what each request of them was.
type Requests = Arc<Mutex<Vec<StreamRequest>>>;

fn fixed(events: Vec<StreamEvent>, requests: &Requests) -> Arc<dyn StreamFn> {
    let requests = requests.clone();
    Arc::new(move |request: StreamRequest, _: &AbortSignal| {
        requests.lock().unwrap().push(request);
        Ok(Box::new(events.clone().into_iter()) as Box<dyn AssistantStream>)
    })
}

fn failure(kind: ErrorKind, text: &str) -> StreamEvent {
    StreamEvent::failed(&steerage::Error::new(kind, text))
}

fn said(text: &str) -> Vec<StreamEvent> {
    vec![
        StreamEvent::Start,
        StreamEvent::TextStart { content_index: 0 },
        StreamEvent::TextDelta { content_index: 0, delta: text.to_owned() },
        StreamEvent::TextEnd { content_index: 0, content: None, content_signature: None },
        StreamEvent::Done { reason: StopReason::Stop },
    ]
}

#[test]
fn keys_stay_with_their_provider_and_own_options_with_their_api() {
    let requests = Requests::default();
    let busy =
        || fixed(vec![StreamEvent::Start, failure(ErrorKind::Overloaded, "busy")], &requests);
    let sibling = Model { id: "sibling".to_owned(), ..model("anthropic-messages", "") };
    let fallback = Fallback::new(busy())
        .then(sibling, busy())
        .then(model("pi-messages", ""), fixed(said("Hi"), &requests));
    let mut request = request(model("anthropic-messages", ""));
    request.options.api_key = Some(Secret::new("sk-first-key"));
    request.options.headers = vec![
        ("X-Api-Key".to_owned(), Some("sk".to_owned())),
        ("x-team".to_owned(), Some("a".to_owned())),
    ];
    request.options.native = json!({"effort": "low"}).as_object().cloned();
    let mut stream = fallback.stream(request.clone(), &AbortSignal::never()).unwrap();
    let events: Vec<StreamEvent> = stream.by_ref().collect();
    let starts = events.iter().filter(|it| matches!(it, StreamEvent::Start)).count();
    assert_eq!(starts, 1, "{events:?}");
    let seen: Vec<Value> = requests
        .lock()
        .unwrap()
        .iter()
        .map(|request| {
            let options = &request.options;
            let names: Vec<&str> = options.headers.iter().map(|(name, _)| &**name).collect();
            json!([request.model.id, options.api_key.is_some(), names, options.native.is_some()])
        })
        .collect();
    let expected = [
        json!(["anthropic-messages-model", true, ["X-Api-Key", "x-team"], true]),
        json!(["sibling", true, ["X-Api-Key", "x-team"], true]),
        json!(["pi-messages-model", false, ["x-team"], false]),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn when_all_fail_the_error_names_each() {
    let requests = Requests::default();
    let fallback = Fallback::new(fixed(vec![failure(ErrorKind::Quota, "no money")], &requests))
        .then(
            model("pi-messages", ""),
            fixed(vec![failure(ErrorKind::Network, "no line")], &requests),
        );
    let request = request(model("anthropic-messages", ""));
    let mut stream = fallback.stream(request.clone(), &AbortSignal::never()).unwrap();
    let message = collect(&request.model, &mut *stream);
    assert_eq!(
        message.error_message.unwrap(),
        "no model answered: `anthropic-messages-model` of `anthropic-messages`: no money; \
         `pi-messages-model` of `pi-messages`: no line"
    );
    assert_eq!(message.failure.unwrap().kind, ErrorKind::Network);
}

#[test]
fn an_abort_asks_nobody_else() {
    let requests = Requests::default();
    let controller = AbortController::new();
    let signal = controller.signal();
    let first = move |_: StreamRequest, _: &AbortSignal| {
        controller.abort();
        let events = vec![failure(ErrorKind::Overloaded, "busy")];
        Ok(Box::new(events.into_iter()) as Box<dyn AssistantStream>)
    };
    let first: Arc<dyn StreamFn> = Arc::new(first);
    let fallback =
        Fallback::new(first).then(model("pi-messages", ""), fixed(said("Hi"), &requests));
    let mut stream = fallback.stream(request(model("anthropic-messages", "")), &signal).unwrap();
    assert!(matches!(stream.next(), Some(StreamEvent::Error { .. })));
    assert!(requests.lock().unwrap().is_empty());
}

#[test]
fn an_agent_goes_on_with_the_model_that_answered_and_back() {
    let apis = ["anthropic-messages", "openai-responses"];
    let busy = error(529, "overloaded_error");
    let first = Server::start([busy, Response::events([apis::hi(apis[0])])]).unwrap();
    let second = Server::start([Response::events([apis::hi(apis[1])])]).unwrap();
    let fallback = Fallback::new(stream(apis[0], "sk-first-key"))
        .then(model(apis[1], &second.url()), stream(apis[1], "sk-second-key"));
    let mut options = AgentOptions { stream: Some(fallback.into()), ..AgentOptions::default() };
    options.request.max_retries = Some(0);
    let agent = Agent::new(model(apis[0], &first.url()), options).unwrap();
    for _ in 0..2 {
        agent.prompt("Hi").unwrap().wait().unwrap();
    }
    let messages = agent.messages();
    let named: Vec<_> =
        messages.iter().filter_map(|it| it.as_assistant()).map(|it| &*it.api).collect();
    assert_eq!(named, [apis[1], apis[0]]);
    let last = &first.requests()[1];
    assert!(last.text().contains("Hi"), "{}", last.text());
    assert!(
        !last.text().contains("sk-second-key") && !second.requests()[0].text().contains("sk-first")
    );
}
