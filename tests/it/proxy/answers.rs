//! What a model says arrives as it was said.

use std::{collections::BTreeMap, sync::Arc};

use expect_test::{Expect, expect};
use serde_json::json;
use steerage::{
    AbortSignal, Agent, AgentOptions, Error, ErrorKind, Failure, StreamEvent, StreamOptions,
    StreamRequest, Tool,
    message::{Diagnostic, StopReason, ThinkingContent, ToolCall},
    stream::{AssistantStream, ResponseInfo},
    testing::{Answer, Scripted},
};

use super::{answer, client, described, hi, serve};

type Stream = Result<Box<dyn AssistantStream>, Error>;

/// A stream function whose answer is always the same.
fn always(
    events: Vec<StreamEvent>,
) -> impl Fn(StreamRequest, &AbortSignal) -> Stream + Send + Sync {
    move |_, _| Ok(Box::new(events.clone().into_iter()))
}

/// The message is the same whether the model is asked here or behind a server.
#[track_caller]
fn check(events: Vec<StreamEvent>) {
    let here = answer(&always(events.clone()), hi());
    let server = serve(always(events), described());
    let there = answer(&client(&server), hi());
    assert_eq!(here, there);
}

fn text(content_index: usize, deltas: &[&str], end: StreamEvent) -> Vec<StreamEvent> {
    let delta = |delta: &&str| StreamEvent::TextDelta { content_index, delta: (*delta).to_owned() };
    let mut events = vec![StreamEvent::TextStart { content_index }];
    events.extend(deltas.iter().map(delta));
    events.push(end);
    events
}

fn text_end(content: Option<&str>, signature: Option<&str>) -> StreamEvent {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let (content, content_signature) = (owned(content), owned(signature));
    StreamEvent::TextEnd { content_index: 0, content, content_signature }
}

fn whole(blocks: Vec<StreamEvent>, ending: StreamEvent) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::Start];
    events.extend(blocks);
    events.push(ending);
    events
}

const DONE: StreamEvent = StreamEvent::Done { reason: StopReason::Stop };

#[test]
fn texts_of_all_kinds() {
    check(whole(Vec::new(), DONE));
    check(whole(
        text(0, &["Hel", "lo\n\n", "data: x\r\n", "größer 🙈\u{2028}"], text_end(None, None)),
        DONE,
    ));
    check(whole(text(0, &["a"], text_end(Some("a"), Some("sig"))), DONE));
    check(whole(text(0, &["a"], text_end(Some("another text"), None)), DONE));
    check(whole(text(0, &[], text_end(None, None)), DONE));
    let initial = StreamEvent::InitialText { content_index: 0, text: "from the start".to_owned() };
    check(whole(
        vec![StreamEvent::TextStart { content_index: 0 }, initial, text_end(None, None)],
        DONE,
    ));
    let signature = StreamEvent::Signature { content_index: 0, signature: "kept".to_owned() };
    check(whole(
        vec![StreamEvent::TextStart { content_index: 0 }, signature, text_end(None, None)],
        DONE,
    ));
}

#[test]
fn thinking_shown_and_redacted() {
    let start = |initial| StreamEvent::ThinkingStart { content_index: 0, initial };
    let delta = StreamEvent::ThinkingDelta { content_index: 0, delta: "hm".to_owned() };
    let end = |signature: Option<&str>| StreamEvent::ThinkingEnd {
        content_index: 0,
        content: None,
        content_signature: signature.map(str::to_owned),
    };
    let signature = |signature: &str| StreamEvent::Signature {
        content_index: 0,
        signature: signature.to_owned(),
    };
    check(whole(vec![start(None), delta.clone(), end(Some("s=="))], DONE));
    check(whole(
        vec![start(None), delta.clone(), signature("half"), signature("all"), end(None)],
        DONE,
    ));
    let redacted = ThinkingContent {
        thinking: "[redacted]".to_owned(),
        thinking_signature: Some("blob".to_owned()),
        redacted: true,
    };
    check(whole(vec![start(Some(Box::new(redacted))), end(None)], DONE));
}

#[test]
fn tool_calls_side_by_side_and_broken_ones() {
    let start = |content_index: usize, id: &str| StreamEvent::ToolCallStart {
        content_index,
        id: id.to_owned(),
        tool_name: "look".to_owned(),
    };
    let delta = |content_index, delta: &str| StreamEvent::ToolCallDelta {
        content_index,
        delta: delta.to_owned(),
    };
    let end = |content_index| StreamEvent::ToolCallEnd { content_index, tool_call: None };
    let done = StreamEvent::Done { reason: StopReason::ToolUse };
    let blocks = vec![
        start(0, "a"),
        start(1, "b"),
        delta(1, "{\"z\":1,"),
        delta(0, "{\"x\":{\"y\":[1,2]}}"),
        delta(1, "\"a\":2}"),
        end(1),
        end(0),
    ];
    check(whole(blocks, done.clone()));
    // What is no JSON is an error that the call carries.
    check(whole(vec![start(0, "a"), delta(0, "{\"x\": nonsense"), end(0)], done.clone()));
    let given = ToolCall {
        id: "another".to_owned(),
        name: "look".to_owned(),
        arguments: json!({"x": 1}).as_object().unwrap().clone(),
        thought_signature: Some("t".to_owned()),
        namespace: Some("n".to_owned()),
        ..ToolCall::default()
    };
    let ended = StreamEvent::ToolCallEnd { content_index: 0, tool_call: Some(Box::new(given)) };
    check(whole(vec![start(0, "a"), ended], done.clone()));
    let signed = StreamEvent::Signature { content_index: 0, signature: "t".to_owned() };
    check(whole(vec![start(0, "a"), signed, delta(0, "{}"), end(0)], done));
}

#[test]
fn all_that_is_known_of_the_response() {
    let usage = json!({"input": 10, "output": 5, "cacheRead": 2, "cacheWrite": 1, "totalTokens": 18, "reasoning": 3,
        "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.01, "cacheWrite": 0.02, "total": 0.4, "totalFromProvider": true}});
    let diagnostic = Diagnostic {
        kind: "note".to_owned(),
        timestamp: 7,
        error: None,
        details: Some(json!({"a": 1})),
    };
    let info = |info: ResponseInfo| StreamEvent::Info(Box::new(info));
    let first = info(ResponseInfo {
        response_id: Some("r1".to_owned()),
        diagnostics: vec![diagnostic.clone()],
        ..ResponseInfo::default()
    });
    let last = info(ResponseInfo {
        response_model: Some("small-2026".to_owned()),
        usage: Some(serde_json::from_value(usage).unwrap()),
        raw_stop_reason: Some("end_turn".to_owned()),
        provider_thinking_level: Some("xhigh".to_owned()),
        diagnostics: vec![diagnostic],
        ..ResponseInfo::default()
    });
    let mut events = vec![first];
    events.extend(text(0, &["a"], text_end(None, None)));
    events.push(last);
    check(whole(events.clone(), StreamEvent::Done { reason: StopReason::Length }));
    check(whole(events, StreamEvent::failed(&Error::new(ErrorKind::Overloaded, "too much"))));
}

#[test]
fn failures_keep_their_words_and_what_they_are_for_programs() {
    let failure = Failure {
        status: Some(429),
        code: Some("rate_limit_exceeded".to_owned()),
        request_id: Some("req_1".to_owned()),
        retry_after_ms: Some(1500),
        ..Failure::new(ErrorKind::RateLimited)
    };
    let limited = Error::from_failure(failure, "vendor.example answered 429: slow down");
    check(whole(text(0, &["par"], text_end(None, None)), StreamEvent::failed(&limited)));
    check(whole(vec![StreamEvent::TextStart { content_index: 0 }], StreamEvent::failed(&limited)));
    check(whole(Vec::new(), StreamEvent::aborted()));
    for kind in
        [ErrorKind::ContextOverflow, ErrorKind::Auth, ErrorKind::Refused, ErrorKind::Protocol]
    {
        check(vec![StreamEvent::failed(&Error::new(kind, "as it is"))]);
    }
}

/// How the message ends when a stream function does what it must not.
#[track_caller]
fn check_fault(
    stream: impl Fn(StreamRequest, &AbortSignal) -> Stream + Send + Sync + 'static,
    expected: Expect,
) {
    let server = serve(stream, described());
    let message = answer(&client(&server), hi());
    let texts: Vec<&str> = message.texts().collect();
    let kind = message.failure.as_ref().map(|it| it.kind);
    let error = message.error_message.as_deref().unwrap_or_default();
    expected.assert_eq(&format!("{texts:?} {kind:?} {error}"));
}

#[test]
fn a_stream_function_that_fails_is_an_error_of_the_answer() {
    check_fault(
        |_, _| Err(Error::new(ErrorKind::Configuration, "the model has no base URL")),
        expect![[r#"[] Some(Configuration) the model has no base URL"#]],
    );
    check_fault(
        |_, _| panic!("at once"),
        expect![[r#"[] Some(Callback) the stream function panicked: at once"#]],
    );
    let half = text(0, &["par"], text_end(None, None));
    check_fault(
        always(half.clone()),
        expect![[r#"["par"] Some(Protocol) the stream ended without its last event"#]],
    );
    check_fault(
        always(whole(Vec::new(), text_end(None, None))),
        expect![[
            r#"[] Some(Protocol) the stream sent an end for block 0, which does not fit the blocks before it"#
        ]],
    );
    check_fault(
        move |_, _| {
            let events = half.clone().into_iter().map(|it| match it {
                StreamEvent::TextEnd { .. } => panic!("half way"),
                it => it,
            });
            Ok(Box::new(Panics(events)))
        },
        expect![[r#"["par"] Some(Callback) the stream function panicked: half way"#]],
    );
}

struct Panics<I>(I);

impl<I: Iterator<Item = StreamEvent>> Iterator for Panics<I> {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        self.0.next()
    }
}

impl<I: Iterator<Item = StreamEvent> + Send> AssistantStream for Panics<I> {}

#[test]
fn an_agent_works_through_it() {
    let model = Scripted::new([
        Answer::new().text("Let me look.").tool_call("look", json!({"at": "the sky"})),
        Answer::from("It is blue."),
    ]);
    let server = serve(model.clone(), model.model());
    let parameters = json!({"type": "object", "properties": {"at": {"type": "string"}}});
    let look = Tool::with_schema("look", "Looks at something", parameters, |arguments, _| {
        Ok(format!("{} is blue", arguments["at"].as_str().unwrap_or_default()))
    });
    let options = AgentOptions {
        stream: Some(Arc::new(client(&server))),
        system_prompt: "Look first.".into(),
        tools: vec![look],
        request: StreamOptions { session_id: Some("s1".to_owned()), ..StreamOptions::default() },
        ..AgentOptions::default()
    };
    let agent = Agent::new(described(), options).unwrap();
    let outcome = agent.prompt("What colour is the sky?").unwrap().wait().unwrap();
    assert_eq!(outcome.text, "It is blue.");
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    let told = requests[1].transcript.messages();
    let roles: BTreeMap<usize, String> = told
        .iter()
        .map(|it| serde_json::to_value(&**it).unwrap()["role"].to_string())
        .enumerate()
        .collect();
    expect![[r#"{0: "\"system\"", 1: "\"user\"", 2: "\"assistant\"", 3: "\"toolResult\""}"#]]
        .assert_eq(&format!("{roles:?}"));
    assert_eq!(told[3].text(), "the sky is blue");
    assert_eq!(requests[1].options.session_id.as_deref(), Some("s1"));
}
