//! B: servers that speak OpenAI's chat completions, each in its own way.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{ErrorKind, StreamOptions, testing::server::Response};

use super::{
    vendor::{self, Answered, Api, Asking, answer, chunk, described, finish},
    *,
};

/// What a response gives that is made of these deltas and ends for this reason.
#[track_caller]
fn check(deltas: &[Value], reason: &str, expected: Expect) {
    let mut body: String = deltas.iter().cloned().map(chunk).collect::<Vec<_>>().concat();
    body += &finish(reason);
    check_body(&(body + "data: [DONE]\n\n"), expected);
}

/// What a response gives with this body.
#[track_caller]
fn check_body(body: &str, expected: Expect) {
    expected.assert_eq(&described(&answer(Api::Chat, [body])));
}

/// A piece of a call; `index` and `id` may be missing.
fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut piece = json!({"function": {"arguments": arguments}});
    if let Some(index) = index {
        piece["index"] = index.into();
    }
    if let Some(id) = id {
        piece["id"] = id.into();
    }
    if let Some(name) = name {
        piece["function"]["name"] = name.into();
    }
    piece
}

fn calls_of(pieces: &[Value]) -> Value {
    json!({"tool_calls": pieces})
}

/// B1: a call without arguments.
#[test]
fn no_arguments_are_an_empty_object() {
    for arguments in ["", " ", "\n"] {
        let call = piece(Some(0), Some("c1"), Some("now"), arguments);
        check(&[calls_of(&[call])], "tool_calls", expect!["c1: now{} | ToolUse"]);
    }
    let bare = json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "now"}}]});
    check(&[bare], "tool_calls", expect!["c1: now{} | ToolUse"]);
    let null = json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "now", "arguments": null}}]});
    check(&[null], "tool_calls", expect!["c1: now{} | ToolUse"]);
}

/// B2: pieces without an index.
#[test]
fn calls_without_an_index_are_told_apart_by_id_and_name() {
    check(
        &[calls_of(&[
            piece(None, Some("a"), Some("f"), "{}"),
            piece(None, Some("b"), Some("g"), "{}"),
        ])],
        "tool_calls",
        expect!["a: f{} | b: g{} | ToolUse"],
    );
    check(
        &[
            calls_of(&[piece(None, Some("a"), Some("f"), "{\"x\"")]),
            calls_of(&[piece(None, None, None, ":1}")]),
            calls_of(&[piece(None, Some("b"), Some("g"), "{\"y\"")]),
            calls_of(&[piece(None, None, None, ":2}")]),
        ],
        "tool_calls",
        expect![[r#"a: f{"x":1} | b: g{"y":2} | ToolUse"#]],
    );
    check(
        &[
            calls_of(&[piece(Some(0), Some("a"), Some("f"), "{\"x\"")]),
            calls_of(&[piece(None, None, None, ":1}")]),
            calls_of(&[piece(None, Some("b"), Some("g"), "{\"y\"")]),
            calls_of(&[piece(Some(1), None, None, ":2}")]),
        ],
        "tool_calls",
        expect![[r#"a: f{"x":1} | b: g{"y":2} | ToolUse"#]],
    );
}

/// B3: every call has the index 0.
#[test]
fn the_same_index_with_another_id_and_a_name_is_another_call() {
    check(
        &[
            calls_of(&[piece(Some(0), Some("a"), Some("f"), "{}")]),
            calls_of(&[piece(Some(0), Some("b"), Some("f"), "{\"x\":")]),
            calls_of(&[piece(Some(0), None, None, "1}")]),
        ],
        "tool_calls",
        expect![[r#"a: f{} | b: f{"x":1} | ToolUse"#]],
    );
}

/// B5, G15: pieces of two calls in turn, with ids on the first ones only.
#[test]
fn the_index_tells_which_call_a_piece_belongs_to() {
    check(
        &[
            calls_of(&[piece(Some(0), Some("a"), Some("f"), "{\"x\"")]),
            calls_of(&[piece(Some(1), Some("b"), Some("g"), "{\"y\"")]),
            calls_of(&[piece(Some(0), None, None, ":1}")]),
            calls_of(&[piece(Some(1), None, None, ":2}")]),
        ],
        "tool_calls",
        expect![[r#"a: f{"x":1} | b: g{"y":2} | ToolUse"#]],
    );
}

/// B6: calls, and a reason that denies them.
#[test]
fn calls_are_run_whatever_the_finish_reason_says_but_length() {
    for (reason, ran) in [("stop", true), ("tool_calls", true), ("length", false)] {
        let call = chunk(calls_of(&[piece(Some(0), Some("look"), Some("look"), "{}")]));
        let (message, results) = through_an_agent(&[call + &finish(reason)]);
        assert_eq!(results, usize::from(ran), "{reason}: {message}");
    }
}

/// B31: a server that never says how the response ended, after a call that may be half.
#[test]
fn a_call_of_a_response_that_was_not_finished_does_not_run() {
    let call = chunk(calls_of(&[piece(Some(0), Some("look"), Some("look"), "{\"a\"")]));
    let (transcript, ran) = through_an_agent(&[call]);
    assert_eq!(ran, 0, "{transcript}");
}

/// Asks through an agent with the tool `look`; the transcript, and how often the tool ran.
#[track_caller]
fn through_an_agent(bodies: &[String]) -> (String, usize) {
    let responses = bodies.iter().map(|body| Response::events([body.as_str()]));
    let last = Response::events([Api::Chat.text("done")]);
    let server = steerage::testing::server::Server::start(responses.chain([last])).unwrap();
    let ran = Arc::new(Mutex::new(0));
    let count = ran.clone();
    let look = tool("look", move || {
        *count.lock().unwrap() += 1;
        "seen".to_owned()
    });
    let options = AgentOptions {
        stream: Some(Api::Chat.provider(steerage::provider::ProviderOptions::default())),
        tools: vec![look],
        ..AgentOptions::default()
    };
    let agent = Agent::new(Api::Chat.model(&server.url()), options).unwrap();
    finished(&agent.prompt("go").unwrap());
    let ran = *ran.lock().unwrap();
    (shown(&agent.messages()), ran)
}

/// B7, B11, B15: chunks that lack what chunks have.
#[test]
fn chunks_may_lack_anything() {
    let text = chunk(json!({"content": "hi"})) + &finish("stop") + "data: [DONE]\n\n";
    for first in [
        json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
        json!({"prompt_filter_results": []}),
        json!({"choices": null}),
        json!({"usage": {}}),
        json!({"usage": null, "choices": []}),
        json!({"choices": [{"delta": null}]}),
        json!({"choices": [{}]}),
        json!({"choices": [{"delta": {"content": null, "tool_calls": null}}]}),
        json!({}),
    ] {
        check_body(&format!("data: {first}\n\n{text}"), expect![[r#""hi" | Stop"#]]);
    }
}

/// B9, B10: an error after a good status.
#[test]
fn an_error_in_a_stream_keeps_kind_code_type_and_parameter() {
    let error = json!({"message": "too long", "code": "context_length_exceeded", "type": "invalid_request_error", "param": "messages"});
    for body in [json!({"error": error}), json!({"error": error, "choices": []})] {
        let message = answer(Api::Chat, [format!("data: {body}\n\n")]);
        let failure = message.failure.clone().unwrap();
        assert_eq!(failure.kind, ErrorKind::ContextOverflow);
        assert_eq!(failure.code.as_deref(), Some("context_length_exceeded"));
        let text = message.error_message.unwrap();
        for part in ["too long", "context_length_exceeded", "invalid_request_error", "messages"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

/// B13: what comes after the finish reason.
#[test]
fn usage_that_comes_last_is_read() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}});
    let body = chunk(json!({"content": "hi"})) + &finish("stop") + &format!("data: {usage}\n\n");
    for end in ["data: [DONE]\n\n", ""] {
        let message = answer(Api::Chat, [body.clone() + end]);
        assert_eq!((message.usage.input, message.usage.output), (7, 2));
        assert_eq!(message.stop_reason, StopReason::Stop);
    }
}

/// B17: the last words come with the reason.
#[test]
fn content_beside_the_finish_reason_counts() {
    let last = json!({"choices": [{"delta": {"content": "!"}, "finish_reason": "stop"}]});
    check_body(
        &(chunk(json!({"content": "hi"})) + &format!("data: {last}\n\n")),
        expect![[r#""hi!" | Stop"#]],
    );
}

/// B19: two names for one thing.
#[test]
fn reasoning_is_read_from_either_field_and_never_twice() {
    check(
        &[json!({"reasoning": "r"}), json!({"content": "hi"})],
        "stop",
        expect![[r#"thinks "r" | "hi" | Stop"#]],
    );
    check(
        &[json!({"reasoning_content": "r"}), json!({"content": "hi"})],
        "stop",
        expect![[r#"thinks "r" | "hi" | Stop"#]],
    );
    check(
        &[json!({"reasoning_content": "r", "reasoning": "r"}), json!({"content": "hi"})],
        "stop",
        expect![[r#"thinks "r" | "hi" | Stop"#]],
    );
}

/// B28: no end mark.
#[test]
fn a_finish_reason_is_an_end_without_an_end_mark_and_no_finish_reason_is_none() {
    check_body(&(chunk(json!({"content": "hi"})) + &finish("stop")), expect![[r#""hi" | Stop"#]]);
    check_body(
        &chunk(json!({"content": "hi"})),
        expect![[
            r#""hi" | Protocol, retryable: the response ended without a finish reason (`openai`, after status 200: ask again, or check that the base URL leads to a server of `openai-completions`)"#
        ]],
    );
}

/// B21, B29: ids that are missing or the same.
#[test]
fn each_call_has_an_id_of_its_own() {
    let unnamed =
        |index| json!({"index": index, "id": null, "function": {"name": "f", "arguments": "{}"}});
    for deltas in [
        vec![calls_of(&[unnamed(0), unnamed(1)])],
        vec![calls_of(&[
            piece(Some(0), Some(""), Some("f"), "{}"),
            piece(Some(1), Some(""), Some("f"), "{}"),
        ])],
        vec![
            calls_of(&[piece(Some(0), Some("a"), Some("f"), "{}")]),
            calls_of(&[piece(Some(1), Some("a"), Some("g"), "{}")]),
        ],
    ] {
        let body: String = deltas.into_iter().map(chunk).collect::<Vec<_>>().concat();
        let message = answer(Api::Chat, [body + &finish("tool_calls")]);
        let ids: Vec<&str> = message.tool_calls().map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), 2, "{}", described(&message));
        assert!(ids[0] != ids[1] && ids.iter().all(|id| !id.is_empty()), "{ids:?}");
    }
}

/// B23: text after arguments that are complete, and arguments that are never complete.
#[test]
fn broken_arguments_fail_their_call_and_not_the_response() {
    for (arguments, expected) in [
        ("{\"a\":1", expect!["c: f{} (broken) | ToolUse"]),
        ("{\"a\":1}}", expect!["c: f{} (broken) | ToolUse"]),
        ("code\":\"x\"}", expect!["c: f{} (broken) | ToolUse"]),
        ("[1]", expect!["c: f{} (broken) | ToolUse"]),
        ("{\"a\":\"b\nc\"}", expect![[r#"c: f{"a":"b\nc"} | ToolUse"#]]),
    ] {
        check(
            &[calls_of(&[piece(Some(0), Some("c"), Some("f"), arguments)])],
            "tool_calls",
            expected,
        );
    }
}

/// The body that a transcript becomes, for a server of this kind.
#[track_caller]
fn sent(compat: Value, messages: Value) -> Value {
    let request = Asking {
        model: json!({"compat": compat, "provider": "local"}),
        options: StreamOptions::default(),
        ..Asking::default()
    };
    let Answered { requests, .. } = vendor::ask_about(Api::Chat, messages, request);
    serde_json::from_slice(&requests[0].body).unwrap()
}

/// B20: a call with broken arguments in the history.
#[test]
fn broken_arguments_of_the_past_go_out_as_an_empty_object() {
    let call = json!({"type": "toolCall", "id": "c", "name": "f", "arguments": {}, "argumentsError": "`{` ends too early"});
    let body = sent(
        json!({}),
        json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "stopReason": "toolUse", "content": [call]},
            {"role": "toolResult", "toolCallId": "c", "toolName": "f", "isError": true, "content": [{"type": "text", "text": "no"}]}
        ]),
    );
    assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["arguments"], "{}");
}

/// B14, B25, B26: what some servers refuse.
#[test]
fn what_a_server_refuses_can_be_switched_off() {
    let history = json!([
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": [{"type": "text", "text": "Fo"}, {"type": "text", "text": "ur."}]},
        {"role": "user", "content": "and 3+3?"}
    ]);
    let body = sent(json!({}), history.clone());
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert!(body["messages"][2]["content"].is_string(), "{body}");
    let strict = json!({"supportsUsageInStreaming": false, "supportsDeveloperRole": false});
    let body = sent(strict, history);
    assert_eq!(body.get("stream_options"), None);
    assert_eq!(body["messages"][0]["role"], "system");
}
