//! D: what Anthropic's API, and servers that imitate it, send and refuse.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{
    ErrorKind, ThinkingLevel,
    message::{AssistantContent, ThinkingContent},
    testing::server::Server,
};

use super::{
    vendor::{self, Api, Asking, answer, anthropic_end, described, frames},
    *,
};

fn begin() -> String {
    frames(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 5}}}),
    ])
}

fn block(index: u64, block: &Value, deltas: &[Value]) -> String {
    let mut events =
        vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
    let delta =
        |delta: &Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    events.extend(deltas.iter().map(delta));
    events.push(json!({"type": "content_block_stop", "index": index}));
    frames(&events)
}

fn call(index: u64, id: &str, fragments: &[&str]) -> String {
    let start = json!({"type": "tool_use", "id": id, "name": "edit", "input": {}});
    let deltas: Vec<Value> = fragments
        .iter()
        .map(|text| json!({"type": "input_json_delta", "partial_json": text}))
        .collect();
    block(index, &start, &deltas)
}

/// What a response gives whose content is made of these frames.
#[track_caller]
fn check(content: &str, stop_reason: &str, expected: Expect) {
    let body = begin() + content + &anthropic_end(stop_reason);
    expected.assert_eq(&described(&answer(Api::Anthropic, [body])));
}

/// D4, D6: arguments in no piece, and in several.
#[test]
fn the_pieces_of_arguments_are_parsed_as_one_text() {
    check(&call(0, "t", &[]), "tool_use", expect!["t: edit{} | ToolUse"]);
    check(&call(0, "t", &["", ""]), "tool_use", expect!["t: edit{} | ToolUse"]);
    check(
        &call(0, "t", &["{\"text\": \"a", "b\", \"n", "\": 1}"]),
        "tool_use",
        expect![[r#"t: edit{"text":"ab","n":1} | ToolUse"#]],
    );
}

/// G15, D6: two calls whose events come in turn.
#[test]
fn blocks_that_come_in_turn_keep_their_own_pieces() {
    let start = |index: u64, id: &str| json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": id, "name": id, "input": {}}});
    let piece = |index: u64, text: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let content = frames(&[
        start(0, "a"),
        start(1, "b"),
        piece(1, "{\"y\""),
        piece(0, "{\"x\""),
        piece(1, ":2}"),
        stop(1),
        piece(0, ":1}"),
        stop(0),
    ]);
    check(&content, "tool_use", expect![[r#"a: a{"x":1} | b: b{"y":2} | ToolUse"#]]);
}

/// D7: arguments that are nearly JSON, and one that lost its beginning (D15).
#[test]
fn arguments_are_mended_or_fail_their_call() {
    for (text, expected) in [
        ("{\"text\":\"a\nb\tc\"}", expect![[r#"t: edit{"text":"a\nb\tc"} | ToolUse"#]]),
        ("{\"text\":\"\\U0001F600\"}", expect![[r#"t: edit{"text":"\\U0001F600"} | ToolUse"#]]),
        ("{\"text\":\"say \"hi\" now\"}", expect!["t: edit{} (broken) | ToolUse"]),
        ("code\":\"x\"}", expect!["t: edit{} (broken) | ToolUse"]),
    ] {
        check(&call(0, "t", &[text]), "tool_use", expected);
    }
}

/// D7, D15: the loop goes on after a call whose arguments cannot be read.
#[test]
fn the_model_is_shown_arguments_that_cannot_be_read() {
    let broken = begin() + &call(0, "t", &["code\":\"x\"}"]) + &anthropic_end("tool_use");
    let server = Server::start(
        [broken, Api::Anthropic.text("once more")]
            .map(|body| steerage::testing::server::Response::events([body])),
    )
    .unwrap();
    let options = AgentOptions {
        stream: Some(Api::Anthropic.provider(steerage::provider::ProviderOptions::default())),
        tools: vec![tool("edit", || panic!("the tool ran"))],
        ..AgentOptions::default()
    };
    let agent = Agent::new(Api::Anthropic.model(&server.url()), options).unwrap();
    assert_eq!(finished(&agent.prompt("go").unwrap()).text, "once more");
    let body: Value = serde_json::from_slice(&server.requests()[1].body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[1]["content"][0]["input"], json!({}));
    let result = &messages[2]["content"][0];
    assert_eq!(result["is_error"], true);
    assert!(result["content"].as_str().unwrap().contains(r#"code":"x"}"#), "{result}");
}

/// D8, D9, D10: thinking has to come back just as it came.
#[test]
fn thinking_comes_back_byte_for_byte_and_in_its_place() {
    let content = block(
        0,
        &json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": " I think\n"}),
            json!({"type": "signature_delta", "signature": "S1"}),
        ],
    ) + &block(1, &json!({"type": "redacted_thinking", "data": "R=="}), &[])
        + &block(
            2,
            &json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": "So: "})],
        )
        + &block(
            3,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
            &[json!({"type": "signature_delta", "signature": "S2"})],
        )
        + &call(4, "t", &["{}"]);
    let body = begin() + &content + &anthropic_end("tool_use");
    let answered = Message::from(answer(Api::Anthropic, [body]));
    let saved = serde_json::to_value(&answered).unwrap();
    let result = json!({"role": "toolResult", "toolCallId": "t", "toolName": "edit", "isError": false, "content": [{"type": "text", "text": "ok"}]});
    let sent = vendor::ask_about(
        Api::Anthropic,
        json!([{"role": "user", "content": "go"}, saved, result]),
        Asking::default(),
    );
    let sent: Value = serde_json::from_slice(&sent.requests[0].body).unwrap();
    assert_eq!(
        sent["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": " I think\n", "signature": "S1"},
            {"type": "redacted_thinking", "data": "R=="},
            {"type": "text", "text": "So: "},
            {"type": "thinking", "thinking": "", "signature": "S2"},
            {"type": "tool_use", "id": "t", "name": "edit", "input": {}}
        ])
    );
}

/// D9: the stream breaks off before the block ends.
#[test]
fn a_signature_is_kept_when_the_stream_ends_early() {
    let thinking = block(
        0,
        &json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": "so"}),
            json!({"type": "signature_delta", "signature": "S1"}),
        ],
    );
    let open = thinking.split("event: content_block_stop").next().unwrap();
    let message = answer(Api::Anthropic, [begin() + open]);
    let expected = AssistantContent::Thinking(ThinkingContent {
        thinking: "so".into(),
        thinking_signature: Some("S1".into()),
        redacted: false,
    });
    assert_eq!(message.content, [expected]);
}

/// D12: reasons that this version knows, and one that it does not.
#[test]
fn every_stop_reason_keeps_the_content_and_the_vendor_s_word() {
    let text = block(
        0,
        &json!({"type": "text", "text": ""}),
        &[json!({"type": "text_delta", "text": "hm"})],
    );
    for (reason, kind) in [
        ("pause_turn", None),
        ("stop_sequence", None),
        ("refusal", Some(ErrorKind::Refused)),
        ("sensitive", Some(ErrorKind::Refused)),
        ("model_context_window_exceeded", Some(ErrorKind::ContextOverflow)),
        ("of_the_future", Some(ErrorKind::Protocol)),
    ] {
        let message = answer(Api::Anthropic, [begin() + &text + &anthropic_end(reason)]);
        assert_eq!(message.failure.as_ref().map(|it| it.kind), kind, "{reason}");
        assert_eq!(message.raw_stop_reason.as_deref(), Some(reason));
        assert_eq!(message.texts().collect::<String>(), "hm");
    }
}

/// D14: combinations that the API refuses.
#[test]
fn thinking_goes_without_temperature_and_leaves_room_for_the_answer() {
    let options = steerage::StreamOptions {
        temperature: Some(0.5),
        reasoning: Some(ThinkingLevel::High),
        max_tokens: Some(500),
        ..steerage::StreamOptions::default()
    };
    let asking = Asking { options, model: json!({"maxTokens": 4000}), ..Asking::default() };
    let sent =
        vendor::ask_about(Api::Anthropic, json!([{"role": "user", "content": "go"}]), asking);
    let sent: Value = serde_json::from_slice(&sent.requests[0].body).unwrap();
    assert_eq!(sent.get("temperature"), None);
    let budget = sent["thinking"]["budget_tokens"].as_u64().unwrap();
    assert!(sent["max_tokens"].as_u64().unwrap() > budget, "{sent}");
}
