//! Responses that fail before anything of them was told are asked for again, as the agent's options say.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::json;
use steerage::{
    AbortSignal, Agent, AgentEvent, AgentOptions, Clock, ErrorKind, Model, RetryOptions, Run,
    RunEnd, Secret, StreamOptions,
    message::{AssistantMessage, StopReason},
    provider::ProviderOptions,
    render::Renderer,
    testing::{
        clock::RecordingClock,
        server::{End, Gate, Response, Server},
    },
};

use crate::apis;

/// No wait of these tests takes that long unless something hangs.
const BOUND: Duration = Duration::from_mins(1);

/// Sun, 06 Nov 1994 08:49:37 GMT.
fn sunday() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(784_111_777)
}

/// What a listener saw, what came of it, and the pauses that were made.
struct Played {
    events: Vec<String>,
    message: AssistantMessage,
    pauses: Vec<Duration>,
    requests: usize,
    transcript: Vec<String>,
}

fn agent(api: &str, url: String, retry: RetryOptions, now: SystemTime) -> Agent {
    let model = json!({"id": "m", "api": api, "provider": "p", "baseUrl": url,
        "maxTokens": 1000, "contextWindow": 100_000});
    let model: Model = serde_json::from_value(model).unwrap();
    let clock = Arc::new(RecordingClock::at(now));
    let stream = apis::stream_fn(api, ProviderOptions { clock, ..ProviderOptions::default() });
    let request = StreamOptions {
        api_key: Some(Secret::new("sk-of-the-program")),
        max_retries: Some(0),
        ..StreamOptions::default()
    };
    let options = AgentOptions { stream: Some(stream), request, retry, ..AgentOptions::default() };
    Agent::new(model, options).unwrap()
}

fn note(events: &Arc<Mutex<Vec<String>>>, agent: &Agent) {
    let events = events.clone();
    let listener = agent.subscribe(move |event, _| {
        let text = match event {
            AgentEvent::RetryScheduled { attempt, max_attempts, delay_ms, .. } => {
                format!("retry {attempt}/{max_attempts} in {delay_ms}")
            }
            AgentEvent::MessageStart { message } | AgentEvent::MessageEnd { message } => {
                format!("{} {}", event.type_name(), message.role())
            }
            _ => event.type_name().to_owned(),
        };
        events.lock().unwrap().push(text);
        Ok(())
    });
    listener.keep();
}

fn outcome(run: &Run) -> AssistantMessage {
    assert!(run.wait_timeout(BOUND).is_some(), "the run hangs");
    let messages = run.outcome().unwrap().messages;
    messages.iter().rev().find_map(|it| it.as_assistant()).unwrap().clone()
}

#[track_caller]
fn play(api: &str, responses: Vec<Response>, retry: RetryOptions) -> Played {
    let server = Server::start(responses).unwrap();
    let clock = Arc::new(RecordingClock::at(sunday()));
    let retry = RetryOptions { clock: clock.clone(), ..retry };
    let agent = agent(api, server.url(), retry, sunday());
    let events = Arc::default();
    note(&events, &agent);
    let message = outcome(&agent.prompt("Hi").unwrap());
    let events = events.lock().unwrap().clone();
    let transcript = agent.messages().iter().map(|it| it.role().to_owned()).collect();
    let requests = server.requests().len();
    Played { events, message, pauses: clock.pauses(), requests, transcript }
}

fn twice() -> RetryOptions {
    RetryOptions { max_retries: 2, ..RetryOptions::default() }
}

fn limited() -> Response {
    Response::json(429, json!({"error": {"message": "slow down"}}).to_string())
}

/// An answer of status 200 whose first frame is an error.
fn failing(api: &str) -> Response {
    let error =
        json!({"error": {"code": 503, "type": "overloaded_error", "message": "Overloaded"}});
    let body = match api {
        "anthropic-messages" => {
            let error = json!({"type": "error", "error": error["error"]});
            format!("event: error\ndata: {error}\n\n")
        }
        "openai-responses" | "azure-openai-responses" => {
            let error = json!({"type": "error", "code": "server_error", "message": "Overloaded"});
            format!("event: error\ndata: {error}\n\n")
        }
        "pi-messages" | "proxy" => {
            let error = json!({"type": "error", "reason": "error", "errorMessage": "Overloaded",
                "usage": {"input": 0, "output": 0}});
            format!("data: {error}\n\n")
        }
        _ => format!("data: {error}\n\n"),
    };
    Response::events([body])
}

/// The first half of an answer, with its text.
fn half(api: &str) -> Response {
    let body = apis::hi(api)
        .replace(r#""finish_reason":"stop""#, r#""finish_reason":null"#)
        .replace(r#","finishReason":"STOP""#, "");
    let text = body.find("Hi").unwrap();
    let end = text + body[text..].find("\n\n").unwrap() + 2;
    Response::events([&body[..end]]).end(End::Destroy)
}

#[test]
fn the_pause_that_a_server_asks_for_is_made() {
    let google = json!({"error": {"code": 429, "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    ]}});
    let table = [
        (limited().header("retry-after", "3"), 3.0),
        (limited().header("retry-after", "Sun, 06 Nov 1994 08:49:44 GMT"), 7.0),
        (limited().header("retry-after-ms", "1500"), 1.5),
        (Response::json(429, google.to_string()), 7.0),
        // None is asked for: two seconds, less an eighth by chance.
        (limited(), 1.75),
        (Response::json(529, json!({"error": {"message": "Overloaded"}}).to_string()), 1.75),
        (Response::json(503, ""), 1.75),
        (Response::close(), 1.75),
    ];
    for api in apis::with_proxy() {
        let table = table.iter().cloned().chain([(failing(api), 1.75)]);
        for (index, (failure, pause)) in table.enumerate() {
            let played = play(api, vec![failure, Response::events([apis::hi(api)])], twice());
            let what = format!("{api}, failure {index}: {:?}", played.message);
            assert_eq!(played.pauses, [Duration::from_secs_f64(pause)], "{what}");
            assert_eq!(played.message.stop_reason, StopReason::Stop, "{what}");
            assert_eq!(played.message.texts().collect::<String>(), "Hi", "{what}");
            assert_eq!(played.transcript, ["user", "assistant"], "{what}");
            let told = format!("retry 1/2 in {}", played.pauses[0].as_millis());
            assert!(played.events.contains(&told), "{what}: {:?}", played.events);
            let starts = played.events.iter().filter(|it| *it == "message_start assistant");
            assert_eq!(starts.count(), 1, "{what}");
        }
    }
}

#[test]
fn a_pause_over_the_cap_fails_at_once_and_names_both() {
    for api in apis::with_proxy() {
        let hours = limited().header("retry-after", "7200");
        let played = play(api, vec![hours], twice());
        assert!(played.pauses.is_empty(), "{api}");
        let text = played.message.error_message.unwrap();
        let named = "the server asks to wait 7200 s, more than the 60 s that are allowed";
        assert!(text.starts_with(named), "{api}: {text}");
        assert_eq!(played.message.failure.unwrap().kind, ErrorKind::RateLimited, "{api}");
        let retry = RetryOptions { max_asked_delay: Duration::ZERO, ..twice() };
        let hours = limited().header("retry-after", "7200");
        let played = play(api, vec![hours, Response::events([apis::hi(api)])], retry);
        assert_eq!(played.pauses, [Duration::from_hours(2)], "{api}");
    }
}

#[test]
fn what_has_begun_is_not_asked_for_again() {
    for api in apis::with_proxy() {
        let played = play(api, vec![half(api), Response::events([apis::hi(api)])], twice());
        assert_eq!(played.message.stop_reason, StopReason::Error, "{api}");
        assert_eq!((played.requests, played.pauses.len()), (1, 0), "{api}: {:?}", played.message);
    }
}

#[test]
fn what_would_fail_the_same_way_is_not_asked_for_again() {
    for api in apis::with_proxy() {
        for status in [400, 401, 403, 404, 422] {
            let refusal = Response::json(status, json!({"error": {"message": "no"}}).to_string());
            let played = play(api, vec![refusal], twice());
            assert_eq!((played.requests, played.pauses.len()), (1, 0), "{api}, {status}");
        }
        let played = play(api, vec![limited()], RetryOptions::default());
        assert_eq!((played.requests, played.pauses.len()), (1, 0), "{api}, no retries");
    }
}

#[test]
fn pauses_double_up_to_the_longest_and_then_the_last_failure_stands() {
    let retry = RetryOptions {
        max_retries: 4,
        max_delay: Duration::from_secs(10),
        ..RetryOptions::default()
    };
    let responses = (0..4).map(|_| limited()).chain([Response::json(503, "")]).collect();
    let played = play("anthropic-messages", responses, retry);
    let seconds: Vec<f64> = played.pauses.iter().map(Duration::as_secs_f64).collect();
    assert_eq!(seconds, [1.75, 3.5, 7.0, 8.75]);
    assert_eq!(played.message.failure.unwrap().status, Some(503));
    let expected = [
        "agent_start",
        "turn_start",
        "message_start user",
        "message_end user",
        "retry 1/4 in 1750",
        "retry 2/4 in 3500",
        "retry 3/4 in 7000",
        "retry 4/4 in 8750",
        "message_start assistant",
        "message_end assistant",
        "turn_end",
        "agent_end",
    ];
    assert_eq!(played.events, expected);
}

#[test]
fn a_start_that_was_told_is_not_told_again() {
    let gate = Gate::new();
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let failing = Response::events([": the server is there\n\n"])
        .chunk_behind(&gate, format!("event: error\ndata: {error}\n\n"));
    let api = "anthropic-messages";
    let server = Server::start([failing, Response::events([apis::hi(api)])]).unwrap();
    let clock = Arc::new(RecordingClock::at(sunday()));
    let agent = agent(api, server.url(), RetryOptions { clock, ..twice() }, sunday());
    let events = Arc::default();
    note(&events, &agent);
    let listener = agent.subscribe(move |event, _| {
        if let AgentEvent::MessageStart { message } = event
            && message.role() == "assistant"
        {
            gate.open();
        }
        Ok(())
    });
    listener.keep();
    let run = agent.prompt("Hi").unwrap();
    assert_eq!(outcome(&run).texts().collect::<String>(), "Hi");
    let events = events.lock().unwrap();
    let place = events.iter().position(|it| it == "message_start assistant").unwrap();
    let after = ["retry 1/2 in 1750", "message_update", "message_update", "message_update"];
    assert_eq!(events[place + 1..][..4], after);
    assert_eq!(events[place + 5], "message_end assistant");
}

/// A clock whose pauses last until the run is aborted.
#[derive(Debug, Default)]
struct AbortedAtOnce {
    run: OnceLock<Run>,
}

impl Clock for AbortedAtOnce {
    fn sleep(&self, _: Duration, signal: &AbortSignal) -> bool {
        self.run.wait().abort();
        signal.wait_timeout(BOUND)
    }
}

#[test]
fn an_abort_ends_the_pause() {
    let server = Server::start([limited()]).unwrap();
    let clock = Arc::new(AbortedAtOnce::default());
    let retry = RetryOptions { clock: clock.clone(), ..twice() };
    let agent = agent("anthropic-messages", server.url(), retry, sunday());
    let run = agent.prompt("Hi").unwrap();
    clock.run.set(run.clone()).unwrap();
    let message = outcome(&run);
    assert_eq!(message.stop_reason, StopReason::Aborted);
    assert_eq!(run.outcome().unwrap().end, RunEnd::Aborted);
    assert_eq!(server.requests().len(), 1);
}

#[derive(Debug)]
struct Broken;

impl Clock for Broken {
    fn sleep(&self, _: Duration, _: &AbortSignal) -> bool {
        panic!("no time")
    }
}

#[test]
fn a_clock_that_panics_breaks_the_run_and_not_the_thread() {
    let server = Server::start([limited(), Response::events([apis::hi("pi-messages")])]).unwrap();
    let retry = RetryOptions { clock: Arc::new(Broken), ..twice() };
    let agent = agent("pi-messages", server.url(), retry, sunday());
    let run = agent.prompt("Hi").unwrap();
    assert!(outcome(&run).error_message.unwrap().contains("no time"));
    assert_eq!(run.outcome().unwrap().end, RunEnd::Broken);
    assert_eq!(outcome(&agent.prompt("Hi").unwrap()).texts().collect::<String>(), "Hi");
}

#[test]
fn the_event_has_a_json_form_and_a_line() {
    let event = json!({"type": "retry_scheduled", "attempt": 1, "maxAttempts": 3, "delayMs": 1750,
        "errorMessage": "slow down"});
    let read: AgentEvent = serde_json::from_value(event.clone()).unwrap();
    let shown = Renderer::default().event(&read);
    assert_eq!(shown, "asked again (1 of 3) in 1.75 s: slow down\n");
    assert_eq!(serde_json::to_value(read).unwrap(), event);
}
