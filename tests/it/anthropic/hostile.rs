//! Servers that mean ill, or are broken beyond what anyone foresaw: an error soon, never a hang, a panic or all memory.

use steerage::provider::{HttpClient, HttpOptions};

use super::*;

/// Asks a server whose answer must fail, with limits that a test can reach.
#[track_caller]
fn check(response: Response, kind: ErrorKind, text: &str) {
    let options = HttpOptions { max_body_bytes: 4 << 20, ..HttpOptions::default() };
    let provider = AnthropicMessages::new(ProviderOptions {
        client: HttpClient::new(options).expect("valid options"),
        max_event_bytes: 100 << 10,
        clock: Arc::new(Hurried),
        ..ProviderOptions::default()
    });
    let outcome = ask_with(&provider, [response], model(), hello(), StreamOptions::default());
    assert_eq!(outcome.failure().kind, kind, "{}", outcome.error_text());
    assert!(outcome.error_text().contains(text), "{}", outcome.error_text());
}

/// Asks a server whose answer is odd, but whole.
#[track_caller]
fn whole(list: Vec<Value>) -> AssistantMessage {
    let outcome = answer(events(list));
    assert_eq!(outcome.message.error_message, None);
    outcome.message
}

#[test]
fn an_event_without_end() {
    let line = format!("event: content_block_delta\ndata: {}", "x".repeat(120 << 10));
    check(Response::events([line]), ErrorKind::Limit, "102400 bytes");
}

#[test]
fn a_body_without_end() {
    let delta = frame(&block_delta(0, json!({"type": "text_delta", "text": "x".repeat(90 << 10)})));
    let mut list = vec![frame(&message_start()), frame(&block_start(0, json!({"type": "text"})))];
    list.extend(vec![delta; 50]);
    check(Response::events(list), ErrorKind::Limit, "4194304 bytes");
}

#[test]
fn blocks_without_end() {
    let begin = frame(&block_start(0, json!({"type": "text"})));
    let list = vec![begin.repeat(500); 21];
    check(Response::events(list), ErrorKind::Limit, "10000 blocks");
}

#[test]
fn an_event_as_deep_as_it_is_long() {
    for name in ["content_block_delta", "content_block_start", "message_start", "message_delta"] {
        for part in ["[", "{\"a\":"] {
            let deep = part.repeat((90 << 10) / part.len());
            let deep = format!("event: {name}\ndata: {{\"delta\":{deep}\n\n");
            check(Response::events([deep]), ErrorKind::Protocol, "cannot be read");
        }
    }
    let deep = format!("event: error\ndata: {}\n\n", "[".repeat(90 << 10));
    check(Response::events([deep]), ErrorKind::Overloaded, "broke off");
}

#[test]
fn a_signature_in_many_pieces_is_told_once() {
    let mut list =
        vec![message_start(), block_start(0, json!({"type": "thinking", "thinking": ""}))];
    let piece = block_delta(0, json!({"type": "signature_delta", "signature": "abc"}));
    list.extend(vec![piece; 2000]);
    let whole_list =
        list.iter().cloned().chain([block_stop(0), message_delta("end_turn"), message_stop()]);
    let outcome = answer(events(whole_list));
    assert!(outcome.events.len() < 20, "{} events", outcome.events.len());
    assert_eq!(signature(&outcome.message).len(), 6000);
    // A stream that breaks off has lost nothing either.
    assert_eq!(signature(&answer(events(list)).message).len(), 6000);
}

fn signature(message: &AssistantMessage) -> &str {
    match message.content.as_slice() {
        [AssistantContent::Thinking(thinking)] => thinking.thinking_signature.as_deref().unwrap(),
        other => panic!("not one block of thinking: {other:?}"),
    }
}

#[test]
fn numbers_of_blocks_that_no_counter_holds() {
    let odd = |index: Value| {
        let mut list = text_events("ok");
        for event in &mut list[1..4] {
            event["index"] = index.clone();
        }
        only_text(&whole(list)).to_owned()
    };
    for index in [json!(u64::MAX), json!(-1), json!(1.5), json!("0"), json!(null), json!([1])] {
        assert_eq!(odd(index), "ok");
    }
}

#[test]
fn events_in_an_order_that_makes_no_sense() {
    let text = |text: &str| block_delta(0, json!({"type": "text_delta", "text": text}));
    let message = whole(vec![
        block_stop(7),
        text("before any block"),
        message_start(),
        message_start(),
        block_start(0, json!({"type": "text"})),
        text("a"),
        block_start(0, json!({"type": "text"})),
        text("b"),
        block_stop(0),
        block_stop(0),
        text("after its end"),
        message_delta("end_turn"),
        message_stop(),
    ]);
    let texts: Vec<_> = message.texts().collect();
    assert_eq!(texts, ["a", "b"]);
}

#[test]
fn what_comes_after_the_end_changes_nothing() {
    let mut list = text_events("ok");
    list.push(block_start(1, json!({"type": "text"})));
    list.push(block_delta(1, json!({"type": "text_delta", "text": "more"})));
    let message = answer(events(list)).message;
    assert_eq!(message.stop_reason, StopReason::Stop);
}

#[test]
fn counts_that_add_up_to_too_much() {
    let all = json!({
        "input_tokens": u64::MAX, "output_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX,
        "cache_creation_input_tokens": 1e300, "cache_creation": {"ephemeral_1h_input_tokens": u64::MAX}
    });
    let mut list = text_events("ok");
    list[0]["message"]["usage"] = all.clone();
    list[4]["usage"] = all;
    assert_eq!(whole(list).usage.total_tokens, u64::MAX);
    let mut list = text_events("ok");
    list[0]["message"]["usage"] = json!({"input_tokens": -3, "output_tokens": "many"});
    list[4]["usage"] = json!([]);
    assert_eq!(whole(list).usage.total_tokens, 0);
}

#[test]
fn fields_of_the_wrong_kind() {
    for (place, odd) in [
        (0, json!({"type": "message_start", "message": 7})),
        (1, json!({"type": "content_block_start", "index": 0, "content_block": [1]})),
        (2, json!({"type": "content_block_delta", "index": 0, "delta": "text"})),
        (2, json!({"type": "content_block_delta", "index": 0, "delta": {"type": 3, "text": {}}})),
        (3, json!({"type": "content_block_stop"})),
    ] {
        let mut list = text_events("ok");
        list.insert(place + 1, odd);
        let message = answer(events(list)).message;
        assert_eq!(message.stop_reason, StopReason::Stop, "{message:?}");
    }
}

#[test]
fn bytes_that_are_no_text() {
    let mut bytes = frame(&block_start(0, json!({"type": "text"}))).into_bytes();
    bytes.extend(b"event: \xff\xfe\ndata: \xc3\x28\n\n");
    let rest: String = text_events("ok").iter().skip(2).map(frame).collect();
    bytes.extend(rest.into_bytes());
    let first = frame(&message_start()).into_bytes();
    let message = answer(Response::events([first, bytes])).message;
    assert_eq!(only_text(&message), "ok");
}

#[test]
fn a_failure_that_is_as_deep_as_it_is_long() {
    check(Response::json(500, "[".repeat(60 << 10)), ErrorKind::Overloaded, "500");
    check(Response::json(400, "{\"error\":".repeat(9000)), ErrorKind::InvalidRequest, "400");
    check(
        Response::json(400, format!("{}1{}", "{\"error\":".repeat(100), "}".repeat(100))),
        ErrorKind::InvalidRequest,
        "400",
    );
}
