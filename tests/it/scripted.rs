//! The scripted model.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use expect_test::{Expect, expect};
use serde_json::json;
use steerage::{
    AbortController, AbortSignal, AssistantStream, Clock, ErrorKind, Message, StreamEvent,
    StreamFn, StreamOptions, StreamRequest,
    message::{AssistantMessage, StopReason},
    stream::{CacheRetention, collect},
    testing::{Answer, Scripted, ScriptedOptions},
};

fn request(scripted: &Scripted) -> StreamRequest {
    StreamRequest::new(scripted.model(), [Message::user("Hello")])
}

fn open(scripted: &Scripted, signal: &AbortSignal) -> Box<dyn AssistantStream> {
    scripted.stream(request(scripted), signal).unwrap()
}

fn answer(scripted: &Scripted) -> AssistantMessage {
    collect(&scripted.model(), &mut *open(scripted, &AbortSignal::never()))
}

/// One line for each event of the first answer.
fn lines(scripted: &Scripted) -> String {
    let events = open(scripted, &AbortSignal::never());
    events.map(|event| serde_json::to_string(&event).unwrap() + "\n").collect()
}

#[track_caller]
fn check(answer: impl Into<Answer>, expected: Expect) {
    expected.assert_eq(&lines(&Scripted::new([answer.into()])));
}

#[test]
fn blocks_are_streamed_in_order_in_pieces() {
    let answer = Answer::new()
        .thinking("Add them.")
        .text("Let me see what that gives.")
        .tool_call_with_id("a", "add", json!({"left": 1.5, "right": [2, null]}));
    check(
        answer,
        expect![[r#"
            {"type":"start"}
            {"type":"thinking_start","contentIndex":0}
            {"type":"thinking_delta","contentIndex":0,"delta":"Add them."}
            {"type":"thinking_end","contentIndex":0}
            {"type":"text_start","contentIndex":1}
            {"type":"text_delta","contentIndex":1,"delta":"Let me see w"}
            {"type":"text_delta","contentIndex":1,"delta":"hat that gives."}
            {"type":"text_end","contentIndex":1}
            {"type":"toolcall_start","contentIndex":2,"id":"a","toolName":"add"}
            {"type":"toolcall_delta","contentIndex":2,"delta":"{\"left\":1.5,\"rig"}
            {"type":"toolcall_delta","contentIndex":2,"delta":"ht\":[2,null]}"}
            {"type":"toolcall_end","contentIndex":2,"toolCall":{"id":"a","name":"add","arguments":{"left":1.5,"right":[2,null]}}}
            {"type":"info","usage":{"input":3,"output":18,"cacheRead":0,"cacheWrite":0,"totalTokens":21,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}
            {"type":"done","reason":"toolUse"}
        "#]],
    );
}

#[test]
fn an_empty_text_still_gives_one_delta() {
    check(
        "",
        expect![[r#"
            {"type":"start"}
            {"type":"text_start","contentIndex":0}
            {"type":"text_delta","contentIndex":0,"delta":""}
            {"type":"text_end","contentIndex":0}
            {"type":"info","usage":{"input":3,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}
            {"type":"done","reason":"stop"}
        "#]],
    );
}

#[test]
fn a_failure_comes_after_the_content() {
    check(
        Answer::new().text("It is").fails(ErrorKind::Network, "the connection broke"),
        expect![[r#"
            {"type":"start"}
            {"type":"text_start","contentIndex":0}
            {"type":"text_delta","contentIndex":0,"delta":"It is"}
            {"type":"text_end","contentIndex":0}
            {"type":"info","usage":{"input":3,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":5,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}
            {"type":"error","errorMessage":"the connection broke","failure":{"kind":"network","retryable":true}}
        "#]],
    );
}

#[test]
fn events_are_given_as_they_are() {
    let misfit = StreamEvent::TextDelta { content_index: 3, delta: "lost".into() };
    check(
        vec![StreamEvent::Start, misfit],
        expect![[r#"
        {"type":"start"}
        {"type":"text_delta","contentIndex":3,"delta":"lost"}
    "#]],
    );
}

#[test]
fn a_request_without_an_answer_fails() {
    let scripted = Scripted::new(["only one"]);
    answer(&scripted);
    expect![[r#"
        {"type":"error","errorMessage":"the scripted model has no answer left for request 2: give it one more","failure":{"kind":"configuration","retryable":false}}
    "#]].assert_eq(&lines(&scripted));
    assert_eq!(scripted.request_count(), 2);
}

#[test]
fn a_panic_of_a_function_fails_the_request() {
    check(
        Answer::with(|_, _| -> Answer { panic!("no such page") }),
        expect![[r#"
        {"type":"error","errorMessage":"no such page","failure":{"kind":"callback","retryable":false}}
    "#]],
    );
}

#[test]
fn the_seed_decides_where_texts_are_cut() {
    let text = "many words, cut into pieces of several lengths each ".repeat(8);
    let cut = |seed| {
        let options = ScriptedOptions { seed, ..ScriptedOptions::default() };
        lines(&Scripted::with_options(options, [text.as_str()]))
    };
    assert_eq!(cut(7), cut(7));
    assert_ne!(cut(7), cut(8));
}

#[test]
fn pieces_join_to_the_text_that_was_scripted() {
    let text = "déjà vu – 日本語のテキスト 🦀🦀🦀 ".repeat(9);
    assert_eq!(Message::from(answer(&Scripted::new([text.as_str()]))).text(), text);
}

#[test]
fn an_abort_keeps_what_came_before_it() {
    let scripted = Scripted::new(["a text that is long enough for several pieces of it"]);
    let controller = AbortController::new();
    let mut stream = open(&scripted, &controller.signal());
    let came: Vec<StreamEvent> = stream.by_ref().take(3).collect();
    controller.abort();
    let rest: Vec<StreamEvent> = stream.collect();
    assert!(
        matches!(&came[2], StreamEvent::TextDelta { delta, .. } if delta.starts_with("a text"))
    );
    assert_eq!(rest, [StreamEvent::aborted()]);
}

#[test]
fn a_failed_message_keeps_its_content_and_kind() {
    let cut = Answer::new().text("It is").fails(ErrorKind::Network, "the connection broke");
    let message = answer(&Scripted::new([cut]));
    assert_eq!(message.texts().collect::<String>(), "It is");
    assert_eq!(message.stop_reason, StopReason::Error);
    assert_eq!(message.failure.map(|failure| failure.kind), Some(ErrorKind::Network));
}

/// A clock that notes how long it was asked to wait, and may fire a signal meanwhile.
#[derive(Debug, Default)]
struct Notes {
    waits: Mutex<Vec<Duration>>,
    fires: Option<AbortController>,
}

impl Clock for Notes {
    fn sleep(&self, duration: Duration, signal: &AbortSignal) -> bool {
        self.waits.lock().unwrap().push(duration);
        if let Some(controller) = &self.fires {
            controller.abort();
        }
        signal.is_aborted()
    }
}

fn paced(clock: &Arc<Notes>) -> Scripted {
    let options = ScriptedOptions {
        tokens_per_second: Some(2.0),
        chunk_tokens: 4..=4,
        clock: clock.clone(),
        ..ScriptedOptions::default()
    };
    Scripted::with_options(options, ["sixteen letters, then four"])
}

#[test]
fn a_pace_waits_for_each_piece_by_its_tokens() {
    let clock = Arc::new(Notes::default());
    let mut stream = open(&paced(&clock), &AbortSignal::never());
    assert!(!stream.more_is_ready());
    assert!(matches!(stream.by_ref().last(), Some(StreamEvent::Done { .. })));
    let waits = clock.waits.lock().unwrap().clone();
    assert_eq!(waits, [Duration::from_secs(2), Duration::from_millis(1500)]);
}

#[test]
fn an_abort_ends_the_wait_of_a_pace() {
    let controller = AbortController::new();
    let clock = Arc::new(Notes { fires: Some(controller.clone()), ..Notes::default() });
    let events: Vec<StreamEvent> = open(&paced(&clock), &controller.signal()).collect();
    let begun = [StreamEvent::Start, StreamEvent::TextStart { content_index: 0 }];
    assert_eq!(events[..2], begun);
    assert_eq!(events[2..], [StreamEvent::aborted()]);
}

#[test]
fn without_a_pace_more_is_ready_until_the_end() {
    let mut stream = open(&Scripted::new(["hello"]), &AbortSignal::never());
    while stream.more_is_ready() {
        assert!(stream.next().is_some());
    }
    assert_eq!(stream.next(), None);
}

#[test]
fn answers_go_out_in_the_order_in_which_requests_start() {
    let scripted = Scripted::new(["first", "second"]);
    let signal = AbortSignal::never();
    let (mut first, mut second) = (open(&scripted, &signal), open(&scripted, &signal));
    let second = Message::from(collect(&scripted.model(), &mut *second));
    let first = Message::from(collect(&scripted.model(), &mut *first));
    assert_eq!((&*first.text(), &*second.text()), ("first", "second"));
}

#[test]
fn a_function_is_given_the_request_and_its_number() {
    let scripted = Scripted::from_fn(|request, count| {
        format!("{count}: {}", request.transcript.messages()[0].text())
    });
    scripted.push("pushed");
    let texts = [(); 3].map(|()| Message::from(answer(&scripted)).text().into_owned());
    assert_eq!(texts, ["pushed", "1: Hello", "2: Hello"]);
}

#[test]
fn requests_are_kept() {
    let scripted = Scripted::new(["one", "two"]);
    answer(&scripted);
    assert_eq!(scripted.answers_left(), 1);
    let requests = scripted.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].transcript, request(&scripted).transcript);
    scripted.set_answers(["three"]);
    assert_eq!(Message::from(answer(&scripted)).text(), "three");
}

#[test]
fn calls_without_an_id_get_one_each() {
    let call = |answer: Answer| answer.tool_call("look", json!({}));
    let scripted = Scripted::new([call(call(Answer::new())), call(Answer::new())]);
    let ids = |message: AssistantMessage| {
        message.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(answer(&scripted)), ["call-1-1", "call-1-2"]);
    assert_eq!(ids(answer(&scripted)), ["call-2-1"]);
}

#[test]
fn a_session_finds_its_prompt_in_the_cache() {
    let scripted = Scripted::from_fn(|_, _| "four");
    let usage = |prompt: &str, options: &StreamOptions| {
        let mut request = StreamRequest::new(scripted.model(), [Message::user(prompt)]);
        request.options = options.clone();
        let mut stream = scripted.stream(request, &AbortSignal::never()).unwrap();
        let usage = collect(&scripted.model(), &mut *stream).usage;
        assert_eq!(usage.total_tokens, usage.prompt_tokens() + usage.output);
        [usage.input, usage.cache_read, usage.cache_write, usage.output]
    };
    let session = StreamOptions { session_id: Some("s".into()), ..StreamOptions::default() };
    let uncached = StreamOptions { cache_retention: Some(CacheRetention::None), ..session.clone() };
    // The prompt counts as `user:` and its text.
    let (short, long) = ("1234567 the same", "1234567 the same and some more");
    assert_eq!(usage(short, &StreamOptions::default()), [6, 0, 0, 1]);
    assert_eq!(usage(short, &session), [0, 0, 6, 1]);
    assert_eq!(usage(long, &session), [0, 5, 4, 1]);
    assert_eq!(usage(long, &uncached), [9, 0, 0, 1]);
}
