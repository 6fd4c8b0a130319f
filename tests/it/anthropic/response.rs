//! What comes back.

use serde_json::json;
use steerage::{
    AbortController, ErrorKind, StreamEvent, StreamOptions,
    message::{AssistantContent, StopReason, ThinkingContent},
    testing::server::{End, Response},
};

use super::*;

#[track_caller]
fn check_kind(response: Response, kind: ErrorKind, retryable: bool) {
    let outcome = ask(
        [response],
        model(),
        hello(),
        StreamOptions { max_retries: Some(0), ..StreamOptions::default() },
    );
    assert_eq!(outcome.message.stop_reason, StopReason::Error);
    let failure = outcome.failure();
    assert_eq!((failure.kind, failure.retryable), (kind, retryable), "{}", outcome.error_text());
}

fn stream_error(kind: &str, message: &str) -> Response {
    let head = frame(&message_start());
    Response::events([head, format!("event: error\ndata: {}\n\n", error(kind, message))])
}

#[test]
fn an_error_event_after_200_tells_its_kind() {
    use ErrorKind::{Auth, ContextOverflow, InvalidRequest, Overloaded, Quota, RateLimited};
    for (kind, message, expected, retryable) in [
        ("overloaded_error", "Overloaded", Overloaded, true),
        ("api_error", "Internal server error", Overloaded, true),
        ("rate_limit_error", "Slow down", RateLimited, true),
        ("authentication_error", "invalid x-api-key", Auth, false),
        ("billing_error", "no credit", Quota, false),
        ("invalid_request_error", "messages: roles must alternate", InvalidRequest, false),
        ("invalid_request_error", "prompt is too long: 250000 tokens", ContextOverflow, false),
        ("brand_new_error", "who knows", InvalidRequest, false),
    ] {
        check_kind(stream_error(kind, message), expected, retryable);
    }
}

#[test]
fn an_error_event_without_a_type_is_a_failure_of_the_server() {
    check_kind(
        Response::events(["event: error\ndata: upstream exploded\n\n"]),
        ErrorKind::Overloaded,
        true,
    );
}

#[test]
fn an_error_event_keeps_text_code_and_request_id() {
    let outcome = answer(stream_error("overloaded_error", "Too busy today"));
    assert!(outcome.error_text().contains("Too busy today"), "{}", outcome.error_text());
    let failure = outcome.failure();
    assert_eq!(failure.code.as_deref(), Some("overloaded_error"));
    assert_eq!(failure.request_id.as_deref(), Some("req_1"));
}

#[test]
fn a_status_tells_its_kind() {
    use ErrorKind::{Auth, ContextOverflow, InvalidRequest, Overloaded, RateLimited};
    for (status, kind, message, expected, retryable) in [
        (529, "overloaded_error", "Overloaded", Overloaded, true),
        (500, "api_error", "Internal server error", Overloaded, true),
        (429, "rate_limit_error", "This would exceed your tokens per minute", RateLimited, true),
        (401, "authentication_error", "invalid x-api-key", Auth, false),
        (403, "permission_error", "not for you", Auth, false),
        (404, "not_found_error", "model: claude-test", InvalidRequest, false),
        (400, "invalid_request_error", "max_tokens: too large", InvalidRequest, false),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 9 tokens > 8 maximum",
            ContextOverflow,
            false,
        ),
        (413, "request_too_large", "Request exceeds the maximum size", ContextOverflow, false),
    ] {
        check_kind(Response::json(status, error(kind, message)), expected, retryable);
    }
}

#[test]
fn a_stream_cut_before_message_stop_may_be_tried_again() {
    let mut cut = text_events("half");
    cut.pop();
    check_kind(events(cut), ErrorKind::Protocol, true);
    check_kind(events([message_start()]), ErrorKind::Protocol, true);
    check_kind(events([]), ErrorKind::Protocol, true);
}

#[test]
fn an_error_event_ends_the_stream_though_the_connection_stays_open() {
    let outcome = answer(stream_error("api_error", "gone").end(End::Hang));
    assert_eq!(outcome.failure().kind, ErrorKind::Overloaded);
}

#[test]
fn a_stop_reason_of_the_future_keeps_its_name_and_the_content() {
    let mut list = text_events("all of it");
    list[4] = message_delta("some_new_reason");
    let outcome = answer(events(list));
    assert_eq!(outcome.message.stop_reason, StopReason::Error);
    assert_eq!(outcome.message.raw_stop_reason.as_deref(), Some("some_new_reason"));
    assert_eq!(only_text(&outcome.message), "all of it");
    assert_eq!(outcome.failure().code.as_deref(), Some("some_new_reason"));
}

#[test]
fn a_full_context_window_is_an_overflow() {
    let mut list = text_events("cut");
    list[4] = message_delta("model_context_window_exceeded");
    assert!(answer(events(list)).failure().is_overflow());
}

#[test]
fn a_refusal_is_an_outcome_of_its_own() {
    for reason in ["refusal", "sensitive"] {
        let mut list = text_events("I would rather");
        list[4] = message_delta(reason);
        list[4]["delta"]["stop_details"] = json!({"explanation": "This was declined."});
        let outcome = answer(events(list));
        assert_eq!(outcome.failure().kind, ErrorKind::Refused);
        assert!(!outcome.failure().retryable);
        assert!(outcome.error_text().contains("This was declined."));
        assert_eq!(outcome.message.raw_stop_reason.as_deref(), Some(reason));
        assert_eq!(only_text(&outcome.message), "I would rather");
        assert_eq!(outcome.message.usage.output, 7);
    }
}

#[test]
fn raw_line_breaks_and_bad_escapes_in_arguments_are_mended() {
    for (pieces, expected) in [
        (&["{\"text\":\"a\nb\"}"][..], json!({"text": "a\nb"})),
        (&["{\"text\":\"a\tb", "\"}"], json!({"text": "a\tb"})),
        (&[r#"{"text":"\U0001F600"}"#], json!({"text": r"\U0001F600"})),
        (&[r#"{"path":"C:\d"#, r#"ir"}"#], json!({"path": r"C:\dir"})),
    ] {
        let outcome = answer(events(call_events(pieces)));
        assert_eq!(json!(outcome.calls()[0].arguments), expected);
        assert_eq!(outcome.calls()[0].arguments_error, None);
    }
}

#[test]
fn arguments_beyond_mending_are_an_error_of_the_call_and_show_their_text() {
    for pieces in [&[r#"{"text":"say "hi""}"#][..], &[r#"code":"x"}"#], &[r#"{"text":"cut"#]] {
        let outcome = answer(events(call_events(pieces)));
        let call = outcome.calls()[0];
        assert_eq!(outcome.message.stop_reason, StopReason::ToolUse);
        assert!(call.arguments.is_empty());
        let error = call.arguments_error.as_deref().unwrap_or_default();
        assert!(error.contains(pieces[0]), "{error}");
    }
}

#[test]
fn fragments_of_arguments_are_joined_before_they_are_parsed() {
    let outcome = answer(events(call_events(&["{\"a", "\":", "[1,", "2]", "}"])));
    assert_eq!(json!(outcome.calls()[0].arguments), json!({"a": [1, 2]}));
}

#[test]
fn arguments_that_only_the_beginning_of_a_call_tells_are_kept() {
    let mut list = call_events(&[]);
    list[1]["content_block"]["input"] = json!({"path": "a"});
    let outcome = answer(events(list));
    assert_eq!(json!(outcome.calls()[0].arguments), json!({"path": "a"}));
}

#[test]
fn a_call_without_an_id_gets_one() {
    let mut list = call_events(&["{}"]);
    list[1]["content_block"] = json!({"type": "tool_use", "id": null, "name": "edit"});
    let outcome = answer(events(list));
    let id = &outcome.calls()[0].id;
    assert!(!id.is_empty() && id.len() <= 64, "{id}");
    assert!(id.chars().all(|it| it.is_ascii_alphanumeric() || it == '_' || it == '-'), "{id}");
}

#[test]
fn a_signature_survives_a_block_that_nobody_ends() {
    let outcome = answer(events([
        message_start(),
        block_start(0, json!({"type": "thinking", "thinking": ""})),
        block_delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        block_delta(0, json!({"type": "signature_delta", "signature": "sig"})),
        message_delta("end_turn"),
        message_stop(),
    ]));
    let expected = ThinkingContent {
        thinking: "hm".to_owned(),
        thinking_signature: Some("sig".to_owned()),
        redacted: false,
    };
    assert_eq!(outcome.message.content, [AssistantContent::Thinking(expected)]);
    let ends = |event: &StreamEvent| matches!(event, StreamEvent::ThinkingEnd { .. });
    assert_eq!(outcome.events.iter().filter(|it| ends(it)).count(), 1);
}

#[test]
fn every_open_block_ends_before_the_response_is_done() {
    let outcome = answer(events([
        message_start(),
        block_start(3, json!({"type": "text", "text": ""})),
        block_start(1, json!({"type": "tool_use", "id": "t", "name": "edit", "input": {}})),
        block_delta(3, json!({"type": "text_delta", "text": "a"})),
        block_delta(1, json!({"type": "input_json_delta", "partial_json": "{\"x\":1}"})),
        message_delta("tool_use"),
        message_stop(),
    ]));
    let tail: Vec<_> = outcome.events.iter().rev().take(3).rev().collect();
    assert!(matches!(
        tail[..],
        [
            StreamEvent::TextEnd { content_index: 0, .. },
            StreamEvent::ToolCallEnd { content_index: 1, .. },
            StreamEvent::Done { .. }
        ]
    ));
}

#[test]
fn a_character_cut_into_two_deltas_comes_out_whole() {
    let halves = [
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83d"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude48b"}}"#,
    ];
    let list = text_events("");
    let mut chunks: Vec<String> = list.iter().map(frame).collect();
    chunks.splice(2..3, halves.map(|data| format!("event: content_block_delta\ndata: {data}\n\n")));
    let outcome = answer(Response::events(chunks));
    assert_eq!(only_text(&outcome.message), "a🙈b");
    for event in &outcome.events {
        if let StreamEvent::TextDelta { delta, .. } = event {
            assert!(!delta.contains('\u{fffd}'), "{delta:?}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_harm_one_character_only() {
    let mut chunks: Vec<Vec<u8>> =
        text_events("a?b").iter().map(|it| frame(it).into_bytes()).collect();
    for byte in &mut chunks[2] {
        if *byte == b'?' {
            *byte = 0xff;
        }
    }
    assert_eq!(only_text(&answer(Response::events(chunks)).message), "a\u{fffd}b");
}

#[test]
fn a_block_may_begin_with_text() {
    let mut list = text_events(" world");
    list[1]["content_block"]["text"] = json!("hello");
    let outcome = answer(events(list));
    assert_eq!(only_text(&outcome.message), "hello world");
    let end = outcome.events.iter().find_map(|event| match event {
        StreamEvent::TextEnd { content, .. } => content.as_deref(),
        _ => None,
    });
    assert_eq!(end, Some("hello world"));
}

#[test]
fn keep_alives_without_data_mean_nothing() {
    let mut body: Vec<String> = text_events("ok").iter().map(frame).collect();
    body.insert(1, "data:\n\n".to_owned());
    body.insert(2, "data: \n\n".to_owned());
    body.insert(3, ": ping\n\n".to_owned());
    assert_eq!(only_text(&answer(Response::events(body)).message), "ok");
}

#[test]
fn fields_without_a_space_after_the_colon_are_read() {
    let body = text_events("ok").iter().map(frame).collect::<String>();
    let body = body.replace("event: ", "event:").replace("data: ", "data:");
    assert_eq!(only_text(&answer(Response::events([body])).message), "ok");
}

#[test]
fn a_complete_response_does_not_wait_for_a_connection_that_stays_open() {
    let outcome = answer(ok().end(End::Hang));
    assert_eq!(outcome.message.stop_reason, StopReason::Stop);
    assert_eq!(only_text(&outcome.message), "ok");
}

#[test]
fn a_broken_stream_names_its_request() {
    let outcome = answer(events([message_start()]).header("request-id", "req_9"));
    assert_eq!(outcome.failure().request_id.as_deref(), Some("req_9"));
}

#[test]
fn an_abort_ends_a_stream_that_waits() {
    let text: String = text_events("some")[..3].iter().map(frame).collect();
    let controller = AbortController::new();
    let server = Server::start([Response::events([text]).end(End::Hang)]).unwrap();
    let request = StreamRequest {
        model: model_at(&server, model()),
        transcript: hello(),
        options: StreamOptions::default(),
    };
    let stream = provider().stream(request, &controller.signal()).unwrap();
    let mut last = None;
    for event in stream {
        if matches!(event, StreamEvent::TextDelta { .. }) {
            controller.abort();
        }
        last = Some(event);
    }
    let stopped = last.and_then(|event| event.stop_reason());
    assert_eq!(stopped, Some(StopReason::Aborted));
}

#[test]
fn dropping_a_stream_cancels_its_request() {
    let text: String = text_events("some")[..3].iter().map(frame).collect();
    let server = Server::start([Response::events([text]).end(End::Hang)]).unwrap();
    let request = StreamRequest {
        model: model_at(&server, model()),
        transcript: hello(),
        options: StreamOptions::default(),
    };
    let mut stream = provider().stream(request, &AbortSignal::never()).unwrap();
    assert_eq!(stream.next(), Some(StreamEvent::Start));
    drop(stream);
    assert!(server.wait_for_closed(1, Duration::from_secs(30)));
}

#[test]
fn another_model_that_answers_is_named_and_paid_for() {
    let fallbacks = json!({"allowedFallbackModels": [
        {"provider": "anthropic", "model": "claude-cheap", "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}}
    ]});
    let run = |answering: &str| {
        let mut list = text_events("ok");
        list[0]["message"]["model"] = json!(answering);
        list[0]["message"]["usage"] = json!({"input_tokens": 1_000_000, "output_tokens": 0});
        ask(
            [events(list)],
            model_with(json!({"compat": fallbacks})),
            hello(),
            StreamOptions::default(),
        )
    };
    let cheap = run("claude-cheap");
    assert_eq!(cheap.message.response_model.as_deref(), Some("claude-cheap"));
    assert!((cheap.message.usage.cost.input - 1.0).abs() < 1e-9);
    let unlisted = run("claude-test-20300101");
    assert_eq!(unlisted.message.response_model.as_deref(), Some("claude-test-20300101"));
    assert!((unlisted.message.usage.cost.input - 3.0).abs() < 1e-9);
    assert_eq!(run("claude-test").message.response_model, None);
    let header = cheap.requests[0].header("anthropic-beta");
    assert_eq!(header, Some("server-side-fallback-2026-07-01"));
    assert_eq!(cheap.body()["fallbacks"], json!([{"model": "claude-cheap"}]));
}

#[test]
fn a_switch_of_models_is_fine_before_content_and_an_error_after_it() {
    let switch = |index: u64| {
        [block_start(index, json!({"type": "fallback", "from": {"model": "a"}})), block_stop(index)]
    };
    let mut before = text_events("ok");
    before.splice(1..1, switch(0));
    assert_eq!(only_text(&answer(events(before)).message), "ok");
    let mut after = text_events("ok");
    after.splice(4..4, switch(1));
    let outcome = answer(events(after));
    assert_eq!(outcome.failure().kind, ErrorKind::Protocol);
    assert_eq!(only_text(&outcome.message), "ok");
}

#[test]
fn a_bill_with_a_key_of_ones_own_adds_what_the_vendor_takes() {
    let bill = |usage: Value| {
        let mut list = text_events("ok");
        list[4]["usage"] = usage;
        let model = model_with(json!({"provider": "openrouter"}));
        ask([events(list)], model, hello(), StreamOptions::default()).message.usage.cost
    };
    let own = bill(
        json!({"cost": 0.01, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.2}}),
    );
    assert!(own.total_from_provider && (own.total - 0.21).abs() < 1e-9);
    let parts = json!({"upstream_inference_cost": null, "upstream_inference_prompt_cost": 0.1, "upstream_inference_completions_cost": 0.3});
    let own = bill(json!({"cost": 0.0, "is_byok": true, "cost_details": parts}));
    assert!(own.total_from_provider && (own.total - 0.4).abs() < 1e-9);
    assert!(!bill(json!({"cost": -1.0})).total_from_provider);
    assert!(!bill(json!({"cost": 0.01, "is_byok": true})).total_from_provider);
    assert!(!bill(json!({"cost": 0.01})).total_from_provider);
}

#[test]
fn usage_with_fields_of_the_wrong_kind_is_read_as_far_as_it_goes() {
    let mut list = text_events("ok");
    list[0]["message"]["usage"] =
        json!({"input_tokens": 10.0, "output_tokens": "many", "cache_read_input_tokens": -3});
    list[4]["usage"] = json!([]);
    let usage = answer(events(list)).message.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read), (10, 0, 0));
}

#[test]
fn a_status_529_is_tried_again() {
    let busy = || Response::json(529, error("overloaded_error", "Overloaded"));
    let outcome = ask([busy(), busy(), ok()], model(), hello(), StreamOptions::default());
    assert_eq!(only_text(&outcome.message), "ok");
    assert_eq!(outcome.requests.len(), 3);
}
