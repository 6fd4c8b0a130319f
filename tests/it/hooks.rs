//! The hooks of a request, on every wire API: how often they are called, with what, and what comes of their failures.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use steerage::{
    AbortController, AbortSignal, Agent, AgentOptions, Error, ErrorKind, Message, Model, Secret,
    StreamEvent, StreamFn, StreamRequest,
    message::AssistantMessage,
    provider::ProviderOptions,
    stream::{RequestHooks, collect},
    testing::{
        clock::RecordingClock,
        server::{Response, Server},
    },
};

use crate::apis;

mod identity;

const KEY: &str = "sk-of-the-program";

/// What the hooks saw, in order.
type Seen = Arc<Mutex<Vec<(&'static str, Value)>>>;

/// Hooks that note what they see.
fn noting(seen: &Seen) -> RequestHooks {
    let note = |what: &'static str| {
        let seen = seen.clone();
        move |value: Value, model: &Model| {
            assert_eq!(model.id, "m");
            seen.lock().unwrap().push((what, value));
        }
    };
    let (request, payload, response, event) =
        (note("request"), note("payload"), note("response"), note("event"));
    RequestHooks {
        on_request: Some(Arc::new(move |meta, model| {
            let headers: Vec<_> =
                meta.headers.iter().map(|(name, it)| format!("{name}: {it}")).collect();
            request(json!({"method": meta.method, "url": meta.url, "headers": headers}), model);
            Ok(())
        })),
        on_payload: Some(Arc::new(move |body, model| {
            payload(body.clone(), model);
            Ok(None)
        })),
        on_response: Some(Arc::new(move |meta, model| {
            let echo = meta.headers.iter().find(|(name, _)| name == "x-request-id");
            response(json!({"status": meta.status, "id": echo.unwrap().1}), model);
            Ok(())
        })),
        on_provider_stream_event: Some(Arc::new(move |frame, model| {
            event(frame.clone(), model);
            Ok(())
        })),
    }
}

fn good(api: &str) -> Response {
    Response::events([apis::hi(api)]).header("x-request-id", "r1")
}

struct Call {
    server: Server,
    stream: Arc<dyn StreamFn>,
    request: StreamRequest,
}

impl Call {
    fn new(api: &str, responses: impl IntoIterator<Item = Response>) -> Call {
        let server = Server::start(responses).unwrap();
        let model = json!({"id": "m", "api": api, "provider": "p", "baseUrl": server.url(),
            "maxTokens": 1000, "contextWindow": 100_000});
        let model: Model = serde_json::from_value(model).unwrap();
        let mut request = StreamRequest::new(model, [Message::user("Hi")]);
        let clock = Arc::new(RecordingClock::default());
        let options = ProviderOptions { clock, ..ProviderOptions::default() };
        let stream = apis::stream_fn(api, options);
        request.options.api_key = Some(Secret::new(KEY));
        request.options.max_retries = Some(0);
        Call { server, stream, request }
    }

    fn answer(&self, signal: &AbortSignal) -> AssistantMessage {
        let mut stream = self.stream.stream(self.request.clone(), signal).unwrap();
        collect(&self.request.model, &mut *stream)
    }

    fn body(&self, index: usize) -> Value {
        serde_json::from_slice(&self.server.requests()[index].body).unwrap()
    }
}

#[test]
fn each_is_called_once_for_each_thing_with_what_is_on_the_wire() {
    for api in apis::with_proxy() {
        let mut call = Call::new(api, [good(api)]);
        let seen = Seen::default();
        call.request.options.hooks = noting(&seen);
        let message = call.answer(&AbortSignal::never());
        assert_eq!(
            (message.error_message.as_deref(), message.texts().collect::<String>()),
            (None, "Hi".to_owned()),
            "{api}"
        );
        let seen = seen.lock().unwrap().clone();
        let lines = apis::hi(api).lines().filter_map(|line| line.strip_prefix("data: "));
        let frames = lines.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        let mut expected =
            vec![("payload", call.body(0)), ("response", json!({"status": 200, "id": "r1"}))];
        expected.extend(frames.map(|frame| ("event", frame)));
        assert_eq!((seen[0].0, &seen[1..]), ("request", &expected[..]), "{api}");
        let request = &seen[0].1;
        let sent = &call.server.requests()[0];
        assert_eq!(request["method"], "POST", "{api}");
        let url = format!("{}{}", call.server.url(), sent.path);
        assert_eq!(request["url"], *url, "{api}");
        let told = request["headers"].to_string();
        assert!(told.contains("content-type: application/json"), "{api}: {told}");
        assert!(told.contains(": ***") && !told.contains(KEY), "{api}: {told}");
    }
}

#[test]
fn what_on_payload_returns_is_sent_instead() {
    for api in apis::with_proxy() {
        let mut call = Call::new(api, [good(api)]);
        call.request.options.hooks.on_payload =
            Some(Arc::new(|_, _| Ok(Some(json!({"z": 1, "a": {"own": "body"}})))));
        assert_eq!(call.answer(&AbortSignal::never()).error_message, None, "{api}");
        let mut expected = json!({"z": 1, "a": {"own": "body"}});
        if api == "anthropic-messages" {
            // Without it there is no stream to be read.
            expected["stream"] = true.into();
        }
        assert_eq!(call.body(0).to_string(), expected.to_string(), "{api}");
    }
}

/// A request that is sent again is the same one, and its answer the first that is none of failure.
#[test]
fn a_request_that_is_sent_again_is_shown_once() {
    for api in apis::with_proxy() {
        let mut call = Call::new(api, [Response::json(503, "{}"), good(api)]);
        let seen = Seen::default();
        call.request.options.hooks = noting(&seen);
        call.request.options.max_retries = Some(1);
        call.request.options.max_retry_delay_ms = Some(1);
        assert_eq!(call.answer(&AbortSignal::never()).error_message, None, "{api}");
        let kinds: Vec<_> = seen.lock().unwrap().iter().map(|it| it.0).collect();
        assert_eq!(kinds[..4], ["request", "payload", "response", "event"], "{api}");
        assert!(kinds[4..].iter().all(|it| *it == "event"), "{api}: {kinds:?}");
        assert_eq!(call.server.requests().len(), 2, "{api}");
    }
}

#[test]
fn a_refusal_is_no_response() {
    for api in apis::with_proxy() {
        let mut call = Call::new(api, [Response::json(401, r#"{"error":{"message":"no"}}"#)]);
        let seen = Seen::default();
        call.request.options.hooks = noting(&seen);
        let kind = call.answer(&AbortSignal::never()).failure.unwrap().kind;
        let kinds: Vec<_> = seen.lock().unwrap().iter().map(|it| it.0).collect();
        assert_eq!((kind, &kinds[..]), (ErrorKind::Auth, &["request", "payload"][..]), "{api}");
    }
}

type Fault = fn() -> Error;

/// Puts the same behaviour into the hook of a name.
fn put(
    hooks: &mut RequestHooks,
    name: &str,
    act: impl Fn() -> Result<(), Error> + Send + Sync + 'static,
) {
    match name {
        "on_request" => hooks.on_request = Some(Arc::new(move |_, _| act())),
        "on_payload" => hooks.on_payload = Some(Arc::new(move |_, _| act().map(|()| None))),
        "on_response" => hooks.on_response = Some(Arc::new(move |_, _| act())),
        _ => hooks.on_provider_stream_event = Some(Arc::new(move |_, _| act())),
    }
}

const HOOKS: [&str; 4] = ["on_request", "on_payload", "on_response", "on_provider_stream_event"];

/// How many requests have been sent when a hook is called.
fn sent_before(name: &str) -> usize {
    usize::from(matches!(name, "on_response" | "on_provider_stream_event"))
}

#[test]
fn the_error_of_a_hook_is_the_requests() {
    let error: Fault = || Error::new(ErrorKind::Limit, "the budget is spent");
    for (api, name) in apis::with_proxy().flat_map(|api| HOOKS.map(|name| (api, name))) {
        let mut call = Call::new(api, [good(api)]);
        put(&mut call.request.options.hooks, name, move || Err(error()));
        let message = call.answer(&AbortSignal::never());
        let kind = message.failure.as_ref().unwrap().kind;
        let text = message.error_message.as_deref().unwrap();
        assert_eq!((kind, text), (ErrorKind::Limit, "the budget is spent"), "{api} {name}");
        assert_eq!(message.content, [], "{api} {name}");
        assert_eq!(call.server.requests().len(), sent_before(name), "{api} {name}");
    }
}

#[test]
fn the_panic_of_a_hook_is_an_error_that_names_it() {
    for (api, name) in apis::with_proxy().flat_map(|api| HOOKS.map(|name| (api, name))) {
        let mut call = Call::new(api, [good(api)]);
        put(&mut call.request.options.hooks, name, || panic!("on purpose"));
        let message = call.answer(&AbortSignal::never());
        let kind = message.failure.as_ref().unwrap().kind;
        let text = message.error_message.as_deref().unwrap();
        let expected = format!("the hook {name} panicked: on purpose");
        assert_eq!((kind, text), (ErrorKind::Callback, &*expected), "{api} {name}");
        assert_eq!(call.server.requests().len(), sent_before(name), "{api} {name}");
    }
}

#[test]
fn an_abort_in_a_hook_ends_the_request() {
    for (api, name) in apis::with_proxy().flat_map(|api| HOOKS.map(|name| (api, name))) {
        let mut call = Call::new(api, [good(api)]);
        let controller = Arc::new(AbortController::new());
        let firing = controller.clone();
        let seen = Seen::default();
        call.request.options.hooks = noting(&seen);
        put(&mut call.request.options.hooks, name, move || {
            firing.abort();
            Ok(())
        });
        let stream = call.stream.stream(call.request.clone(), &controller.signal()).unwrap();
        let last = stream.last();
        assert_eq!(last, Some(StreamEvent::aborted()), "{api} {name}");
        // No hook begins after it: those that were noted came before.
        let place = HOOKS.iter().position(|it| *it == name).unwrap();
        let kinds: Vec<_> = seen.lock().unwrap().iter().map(|it| it.0).collect();
        assert_eq!(kinds, ["request", "payload", "response"][..place], "{api} {name}");
        assert_eq!(call.server.requests().len(), sent_before(name), "{api} {name}");
    }
}

/// The hooks of an agent's options are those of each of its requests.
#[test]
fn an_agent_hands_them_on() {
    let call =
        Call::new("openai-completions", [good("openai-completions"), good("openai-completions")]);
    let seen = Seen::default();
    let mut request = call.request.options.clone();
    request.hooks = noting(&seen);
    let options =
        AgentOptions { stream: Some(call.stream.clone()), request, ..AgentOptions::default() };
    let agent = Agent::new(call.request.model.clone(), options).unwrap();
    for text in ["Hi", "again"] {
        agent.prompt(text).unwrap().wait().unwrap();
    }
    let kinds: Vec<_> = seen.lock().unwrap().iter().map(|it| it.0).collect();
    assert_eq!(kinds, ["request", "payload", "response", "event"].repeat(2));
}
