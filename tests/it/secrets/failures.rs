//! Requests that fail in every way, on servers that repeat the key.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use serde_json::{Value, json};
use steerage::{
    AbortSignal, Agent, AgentEvent, AgentOptions, Clock, Message, Model, StreamEvent, StreamFn,
    StreamOptions, StreamRequest,
    provider::ProviderOptions,
    testing::server::{End, Framing, Response, Server},
};

use super::*;
use crate::apis;

/// Never waits.
#[derive(Debug)]
struct Hurried;

impl Clock for Hurried {
    fn sleep(&self, _: Duration, signal: &AbortSignal) -> bool {
        signal.is_aborted()
    }
}

/// Where a host puts its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Option,
    Provider,
    Header,
    ModelHeader,
    Query,
    UserInfo,
}

const PLACES: [Place; 6] = [
    Place::Option,
    Place::Provider,
    Place::Header,
    Place::ModelHeader,
    Place::Query,
    Place::UserInfo,
];

/// A request whose key stands in one place.
struct Asking {
    provider: Arc<dyn StreamFn>,
    model: Model,
    options: StreamOptions,
}

fn asking(api: &str, place: Place, url: &str) -> Asking {
    let mut model =
        Model { api: api.into(), provider: "p".into(), ..Model::openai_compatible("m", url) };
    let mut options = StreamOptions { max_retries: Some(1), ..StreamOptions::default() };
    let mut provider = ProviderOptions { clock: Arc::new(Hurried), ..ProviderOptions::default() };
    match place {
        Place::Option => options.api_key = Some(KEY.into()),
        Place::Provider => provider.api_key = Some(KEY.into()),
        Place::Header => {
            options.headers = vec![("Authorization".into(), Some(format!("Bearer {KEY}")))];
        }
        Place::ModelHeader => drop(model.headers.insert("x-vendor-token".into(), KEY.into())),
        Place::Query => model.base_url = format!("{url}?api-key={}", encoded()),
        Place::UserInfo => {
            model.base_url = url.replace("://", &format!("://user:{}@", encoded()));
        }
    }
    let provider = apis::stream_fn(api, provider);
    Asking { provider, model, options }
}

/// Asks a server that answers all requests in the same way, alone and through an agent, and looks at all that is told.
#[track_caller]
fn check_at(api: &str, place: Place, what: &str, response: &Response) {
    drop(log().lock());
    let response = response.clone();
    let server = Server::answering(move |_| response.clone()).unwrap();
    let what = format!("{what} ({api}, {place:?})");
    check_asking(&what, asking(api, place, &server.url()));
}

#[track_caller]
fn check_asking(what: &str, asking: Asking) {
    let Asking { provider, model, options } = asking;
    let mut request = StreamRequest::new(model.clone(), [Message::user("Hi")]);
    request.options = options.clone();
    let events: Vec<StreamEvent> =
        provider.stream(request, &AbortSignal::never()).unwrap().collect();
    shows_no_key(what, &format!("{events:?}"));
    shows_no_key(what, &serde_json::to_string(&events).unwrap());

    let agent_options =
        AgentOptions { stream: Some(provider), request: options, ..AgentOptions::default() };
    let agent = Agent::new(model, agent_options).unwrap();
    let told: Arc<Mutex<String>> = Arc::default();
    let text = told.clone();
    let subscription = agent.subscribe(move |event: &AgentEvent, _| {
        let _ = write!(text.lock(), "{event:?} {:?}", event.to_json());
        Ok(())
    });
    let run = agent.prompt("Hi").unwrap();
    match run.wait() {
        Ok(outcome) => shows_no_key(what, &format!("{outcome:?}")),
        Err(error) => shows_no_key(what, &format!("{error} {error:?} {:?}", error.failure())),
    }
    drop(subscription);
    shows_no_key(what, &told.lock());
    shows_no_key(what, &format!("{:?} {:?}", run.outcome(), agent.state()));
    shows_no_key(what, &serde_json::to_string(&**agent.messages()).unwrap());
    logged_no_key();
}

#[track_caller]
fn check(what: &str, response: Response) {
    for api in apis::with_proxy() {
        check_at(api, Place::Option, what, &response);
    }
}

#[test]
fn wherever_it_stands_it_is_taken_out() {
    let error = json!({"error": {"message": echo(), "code": KEY}});
    for api in apis::ALL {
        for place in PLACES {
            check_at(api, place, "a refusal", &Response::json(401, error.to_string()));
            check_at(api, place, "an error frame", &events(format!("data: {error}\n\n")));
            check_at(api, place, "a page", &Response::new(200).text(echo()));
        }
    }
}

fn echo() -> String {
    format!("the key {KEY} (Bearer {KEY}, {}) is unknown", encoded())
}

fn events(data: impl Into<String>) -> Response {
    Response::events([data.into()])
}

/// The same JSON in the notation of servers that write `/` as `\/`.
fn escaped(value: &Value) -> String {
    value.to_string().replace('/', "\\/")
}

#[test]
fn refusals_do_not_show_it() {
    for status in [400, 401, 403, 404, 429, 500] {
        let error = json!({"error": {"message": echo(), "code": KEY, "type": KEY, "param": KEY}});
        check("JSON", Response::json(status, error.to_string()));
    }
    let error = json!({"error": {"message": echo(), "code": KEY}, "request_id": KEY});
    check("escaped JSON", Response::json(401, escaped(&error)));
    check("broken JSON", Response::json(401, escaped(&error).replace('}', "")));
    check("a text", Response::new(400).text(echo()));
    check("an error that is a text", Response::json(401, json!({"error": echo()}).to_string()));
    check(
        "a page",
        Response::new(403).header("content-type", "text/html").text(format!("<p>{}</p>", echo())),
    );
    let raw = json!({"error": {"message": "no", "metadata": {"raw": echo(), "key": KEY}}});
    check("what is behind a gateway", Response::json(502, raw.to_string()));
    check("request id", Response::json(401, "{}").header("x-request-id", KEY));
    check(
        "a pause",
        Response::json(429, json!({"error": {"message": echo()}}).to_string())
            .header("retry-after", "9999"),
    );
    check("a body that breaks off", Response::new(500).chunk(echo()).end(End::Destroy));
    check("a status line", Response { reason: KEY.into(), ..Response::new(401) });
}

/// Texts are cut to a length; the end of one may be in the middle of the key.
#[test]
fn a_text_that_is_cut_in_the_middle_of_it_does_not_show_it() {
    for before in [3960, 3970, 3975, 3980, 3985] {
        let text = "x".repeat(before) + KEY + &"y".repeat(1000);
        check("a long text", Response::new(400).text(text));
    }
    for before in [160, 170, 175, 180, 185, 190] {
        let text = "x".repeat(before) + KEY + "y";
        check(
            "a page instead of a stream",
            Response::new(200).header("content-type", "text/html").text(text.clone()),
        );
        check("a frame that is no JSON", events(format!("data: {{{text}\n\n")));
        check("a named frame", events(format!("event: message_start\ndata: {{{text}\n\n")));
    }
}

#[test]
fn redirects_do_not_show_it() {
    for status in [302, 307] {
        for location in [
            format!("http://127.0.0.1:1/{}", encoded()),
            format!("ftp://127.0.0.1:1/{KEY}"),
            format!("http://[::1/{KEY}"),
            format!("/again?key={}", encoded()),
        ] {
            check("a redirect", Response::new(status).header("location", location));
        }
    }
}

#[test]
fn streams_that_fail_do_not_show_it() {
    let error = json!({"error": {"message": echo(), "code": KEY, "type": KEY, "param": KEY}});
    check("an error chunk", events(format!("data: {error}\n\n")));
    check("an escaped error chunk", events(format!("data: {}\n\n", escaped(&error))));
    let error =
        json!({"type": "error", "error": {"type": KEY, "message": echo()}, "request_id": KEY});
    check("an error event", events(format!("event: error\ndata: {error}\n\n")));
    check("an escaped error event", events(format!("event: error\ndata: {}\n\n", escaped(&error))));
    check("an error event that is a text", events(format!("event: error\ndata: {}\n\n", echo())));
    check(
        "JSON instead of a stream",
        Response::json(200, json!({"error": {"message": echo(), "code": KEY}}).to_string()),
    );
    check("a text instead of a stream", Response::new(200).text(echo()));
    check("a frame that is no JSON", events(format!("data: {}\n\n", echo())));
    for name in [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "message_stop",
    ] {
        check("a broken event", events(format!("event: {name}\ndata: {{\"{KEY}\n\n")));
        check("a text for an event", events(format!("event: {name}\ndata: \"{KEY}\"\n\n")));
    }
    for name in ["response.created", "response.output_item.done", "response.failed", "error"] {
        let broken = json!({"type": name, "response": KEY, "item": KEY, "error": {"message": echo(), "code": KEY}});
        check("an event of responses", events(format!("event: {name}\ndata: {broken}\n\n")));
        let nested = json!({"type": name, "response": {"id": KEY, "status": KEY,
            "error": {"message": echo(), "code": KEY}, "incomplete_details": {"reason": KEY}}});
        check("a response that failed", events(format!("event: {name}\ndata: {nested}\n\n")));
    }
    for frame in [
        json!({"candidates": [{"finishReason": KEY, "finishMessage": echo()}], "responseId": KEY}),
        json!({"promptFeedback": {"blockReason": KEY}}),
        json!({"error": {"code": 500, "message": echo(), "details": [{"reason": KEY}]}}),
        json!({"object": "error", "message": echo(), "type": KEY, "code": KEY}),
        json!({"choices": [{"delta": {}, "finish_reason": KEY}], "id": KEY}),
        json!({"type": "error", "reason": "error", "errorMessage": echo(), "code": KEY}),
        json!({"type": "done", "reason": KEY}),
        json!({"type": "done", "reason": "stop", "responseId": KEY, "responseModel": KEY, "rewrite": {"why": echo()}}),
        json!({"type": "text_start", "contentIndex": KEY}),
        json!({"type": "toolcall_start", "contentIndex": 9, "id": KEY}),
    ] {
        check("a frame of one of the APIs", events(format!("data: {frame}\n\n")));
    }
    check("text in place of numbers", events(format!("data: {{\"choices\":\"{KEY}\"}}\n\n")));
    check("text in place of a list", events(format!("data: {{\"choices\":[\"{KEY}\"]}}\n\n")));
    check(
        "text in place of calls",
        events(format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":\"{KEY}\"}}}}]}}\n\n")),
    );
}

#[test]
fn endings_do_not_show_it() {
    let finish = json!({"choices": [{"delta": {}, "finish_reason": KEY}]});
    check("a finish reason", events(format!("data: {finish}\n\n")));
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
    let stop = |delta: Value| {
        let event = json!({"type": "message_delta", "delta": delta});
        events(format!(
            "{start}event: message_delta\ndata: {event}\n\nevent: message_stop\ndata: {{}}\n\n"
        ))
    };
    check("a stop reason", stop(json!({"stop_reason": KEY})));
    check(
        "a refusal",
        stop(json!({"stop_reason": "refusal", "stop_details": {"explanation": echo()}})),
    );
    check("an end without a reason", events(start).header("x-request-id", KEY));
}

#[test]
fn connections_that_fail_do_not_show_it() {
    check("no answer", Response::close());
    for end in [End::Destroy, End::Reset] {
        check("a cut stream", events("data: {\"choices\":[]}\n\n").end(end));
    }
    let short = Response { extra_length: 9, ..events("data: {}\n\n") };
    check("a short body", short.framing(Framing::Length).end(End::Destroy));
}

/// Refused at first because of its strict tools, then sent once more with a note.
#[test]
fn the_note_of_a_second_try_does_not_show_it() {
    let text = format!("Too many strict tools ({}): the schema is too complex, {KEY}", echo());
    let error =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": text}});
    check("strict tools", Response::json(400, error.to_string()));
}

#[test]
fn addresses_that_are_none_do_not_show_it() {
    drop(log().lock());
    for api in apis::with_proxy() {
        for url in [
            format!("host.example?api-key={KEY}"),
            format!("ftp://host.example/?api-key={KEY}"),
            format!("http://?api-key={KEY}"),
            format!("http:// host.example/?api-key={KEY}"),
            format!("http://user:{KEY}@"),
            format!("http://user:{KEY}@[::1"),
            format!("http://user:{}@127.0.0.1:99999/", encoded()),
            format!("user:{KEY}@host.example"),
            format!("{KEY}@host.example/v1"),
            format!("http://127.0.0.1:1/v1?api-key={}", encoded()),
            format!("http://user:{}@127.0.0.1:1/v1", encoded()),
            format!("http://127.0.0.1:1/v1#{KEY}"),
        ] {
            let mut asking = asking(api, Place::Provider, "http://127.0.0.1:1");
            asking.model.base_url.clone_from(&url);
            check_asking("an address", asking);
        }
    }
}

#[test]
fn keys_that_cannot_be_sent_are_not_shown() {
    drop(log().lock());
    for api in apis::with_proxy() {
        for end in ["\n", "\r\nx: y", "\0", "\u{e9}", " "] {
            let mut asking = asking(api, Place::Option, "http://127.0.0.1:1");
            asking.options.api_key = Some(format!("{KEY}{end}").into());
            check_asking("a key that is no header", asking);
        }
    }
}
