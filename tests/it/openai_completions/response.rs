//! What comes of responses.

use steerage::{
    ErrorKind,
    message::{AssistantContent, StopReason},
};

use super::*;

fn call(fields: Value) -> Value {
    delta(json!({"tool_calls": [fields]}))
}

/// The calls of a message: id, name, arguments.
fn calls(message: &AssistantMessage) -> Vec<(String, String, Value)> {
    let calls = message.tool_calls();
    calls.map(|it| (it.id.clone(), it.name.clone(), Value::Object(it.arguments.clone()))).collect()
}

#[test]
fn no_two_calls_have_one_id() {
    let named = |id: &str, index: u64| {
        call(json!({"index": index, "id": id, "function": {"name": "f", "arguments": "{}"}}))
    };
    let list = [named("a_2", 0), named("a", 1), named("a", 2), named("a", 3), finish("tool_calls")];
    let message = answer(chunks(list)).message;
    let ids: Vec<_> = message.tool_calls().map(|it| it.id.clone()).collect();
    assert_eq!(ids, ["a_2", "a", "a_3", "a_4"]);
}

#[test]
fn an_id_that_comes_late_is_kept_apart_too() {
    let list = [
        call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}})),
        call(json!({"index": 1, "function": {"name": "g", "arguments": ""}})),
        call(json!({"index": 1, "id": "a", "function": {"arguments": "{\"x\":1}"}})),
        finish("tool_calls"),
    ];
    let calls = calls(&answer(chunks(list)).message);
    assert_eq!(calls[0], ("a".to_owned(), "f".to_owned(), json!({})));
    assert_eq!((&*calls[1].1, &calls[1].2), ("g", &json!({"x": 1})));
    assert_ne!(calls[1].0, "a");
}

#[test]
fn fields_of_the_wrong_kind_are_left_out() {
    for odd in [
        json!({"choices": {}}),
        json!({"choices": "none"}),
        json!({"choices": [7]}),
        json!({"choices": [{"delta": []}]}),
        json!({"choices": [{"delta": "x"}]}),
        json!({"choices": [{"delta": {"tool_calls": {}}}]}),
        json!({"choices": [{"delta": {"tool_calls": [3, null, "x"]}}]}),
        json!({"choices": [{"delta": {"content": 5, "reasoning": [1], "refusal": {}}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": 7}]}),
        json!({"choices": [], "usage": "none"}),
        json!({"id": 7, "model": [], "choices": []}),
    ] {
        let list = [odd.clone(), delta(json!({"content": "ok"})), finish("stop")];
        let outcome = answer(chunks(list));
        assert_eq!(outcome.message.error_message, None, "{odd}");
        assert_eq!(outcome.text(), "ok", "{odd}");
    }
    let piece =
        json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}, "custom": []});
    let list = [call(piece), call(json!({"index": 0, "function": 5})), finish("tool_calls")];
    assert_eq!(calls(&answer(chunks(list)).message), [("c".into(), "f".into(), json!({}))]);
}

#[test]
fn the_end_mark_ends_the_response_though_the_connection_stays_open() {
    use steerage::testing::server::End;
    let response = chunks([delta(json!({"content": "ok"})), finish("stop")]).end(End::Hang);
    assert_eq!(answer(response).message.stop_reason, StopReason::Stop);
}

#[test]
fn a_finish_reason_of_the_future_keeps_its_name_and_the_content() {
    let outcome = answer(chunks([delta(json!({"content": "so"})), finish("bored")]));
    assert_eq!(outcome.failure().kind, ErrorKind::Protocol);
    assert_eq!(outcome.message.raw_stop_reason.as_deref(), Some("bored"));
    assert_eq!(outcome.text(), "so");
}

#[test]
fn a_key_that_the_server_repeats_is_taken_out() {
    let options =
        || StreamOptions { api_key: Some("sk-secret-1".into()), ..StreamOptions::default() };
    let says = json!({"error": {"message": "no such key: sk-secret-1"}}).to_string();
    for response in [
        Response::json(401, says.clone()),
        Response::json(400, format!("<p>{says}</p>")),
        Response::events([format!("data: {says}\n\n")]),
        Response::events(["data: {sk-secret-1\n\n"]),
    ] {
        let outcome = ask([response], model(json!({})), hello(), options());
        assert!(!outcome.error_text().contains("secret"), "{}", outcome.error_text());
        let events = format!("{:?}", outcome.events);
        assert!(!events.contains("secret"), "{events}");
    }
}

#[test]
fn half_characters_are_never_seen() {
    // What JSON of a server in JavaScript may hold, and no text of Rust.
    let raw = |delta: &str| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
    let both = |name: &str| {
        let piece = |text: &str| raw(&format!("{{\"{name}\":\"{text}\"}}"));
        [piece("a\\ud83d"), piece("\\ude48b\\ud83d"), piece("c"), piece("\\ud83d")]
    };
    let arguments = |text: &str| {
        raw(&format!(
            "{{\"tool_calls\":[{{\"index\":0,\"id\":\"c\",\"function\":{{\"name\":\"f\",\"arguments\":\"{text}\"}}}}]}}"
        ))
    };
    let mut frames: Vec<String> = both("reasoning").into_iter().chain(both("content")).collect();
    frames.push(arguments("{\\\"x\\\":\\\"\\ud83d"));
    frames.push(arguments("\\ude48\\\"}"));
    frames.push(
        "data: {\"choices\":[{\"finish_reason\":\"tool_calls\"}],\"other\":\"\\ud83d\"}\n\n"
            .to_owned(),
    );
    let message = answer(Response::events(frames)).message;
    assert_eq!(message.error_message, None);
    assert_eq!(message.texts().collect::<String>(), "a🙈b\u{fffd}c");
    let thinking = message.content.iter().find_map(|block| match block {
        AssistantContent::Thinking(it) => Some(it.thinking.as_str()),
        _ => None,
    });
    assert_eq!(thinking, Some("a🙈b\u{fffd}c"));
    assert_eq!(calls(&message)[0].2, json!({"x": "🙈"}));
}

#[test]
fn half_a_character_in_an_error_does_not_hide_the_error() {
    let frame = "data: {\"error\":{\"message\":\"too many \\ud83d\",\"code\":\"context_length_exceeded\"}}\n\n";
    assert_eq!(answer(Response::events([frame])).failure().kind, ErrorKind::ContextOverflow);
    let body =
        "{\"error\":{\"message\":\"too many \\ud83d\",\"code\":\"context_length_exceeded\"}}";
    assert_eq!(answer(Response::json(400, body)).failure().kind, ErrorKind::ContextOverflow);
}
