//! What a model is shown of a transcript: complete, ordered, and without what only other models understand.

use std::{fmt::Write, sync::Arc};

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{
    Message, Modality, Model,
    message::{AssistantContent, AssistantMessage, Content, StopReason},
    transcript::{ToolChangeSupport, hand_over, place_tools, resolve_transcript, update_text},
};

fn model() -> Model {
    Model { input: vec![Modality::Text], ..Model::openai_compatible("m", "http://localhost") }
}

fn read(messages: Value) -> Vec<Arc<Message>> {
    serde_json::from_value::<Vec<Message>>(messages).unwrap().into_iter().map(Arc::new).collect()
}

/// A response of the model that the tests hand over to.
fn says(content: Value) -> Value {
    json!({"role": "assistant", "api": "openai-completions", "provider": "local", "model": "m", "content": content,
        "stopReason": "stop"})
}

fn calls(ids: &[&str]) -> Value {
    says(
        ids.iter()
            .map(|id| json!({"type": "toolCall", "id": id, "name": "t", "arguments": {}}))
            .collect(),
    )
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "t", "content": [{"type": "text", "text": text}]})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn system(text: &str) -> Value {
    json!({"role": "system", "content": text})
}

fn ended(mut message: Value, reason: &str) -> Value {
    message["stopReason"] = reason.into();
    message
}

fn of_other_model(mut message: Value) -> Value {
    message["model"] = "other".into();
    message
}

fn render(messages: &[Arc<Message>]) -> String {
    let mut text = String::new();
    for message in messages {
        let line = match &**message {
            Message::Assistant(it) => format!("assistant {}", render_blocks(it)),
            Message::ToolResult(it) => {
                let error = if it.is_error { " (error)" } else { "" };
                format!("result of {}: {}{error}", it.tool_call_id, contents(&it.content))
            }
            Message::User(it) => match &it.content {
                steerage::message::MessageContent::Text(text) => format!("user {text}"),
                steerage::message::MessageContent::Blocks(blocks) => {
                    format!("user {}", contents(blocks))
                }
            },
            other => format!("{} {}", other.role(), other.text()),
        };
        writeln!(text, "{line}").unwrap();
    }
    text
}

fn render_blocks(message: &AssistantMessage) -> String {
    let blocks = message.content.iter().map(|block| match block {
        AssistantContent::Text(it) => format!("text {} {:?}", it.text, it.text_signature),
        AssistantContent::Thinking(it) => {
            format!("thinking {} {:?}", it.thinking, it.thinking_signature)
        }
        AssistantContent::ToolCall(it) => format!("call {} {:?}", it.id, it.thought_signature),
    });
    blocks.collect::<Vec<_>>().join(" | ").replace("None", "-")
}

fn contents(blocks: &[Content]) -> String {
    let blocks = blocks.iter().map(|it| it.as_text().unwrap_or("<image>"));
    blocks.collect::<Vec<_>>().join(" | ")
}

#[track_caller]
fn check(messages: Value, expected: Expect) {
    check_for(&model(), messages, expected);
}

#[track_caller]
fn check_for(model: &Model, messages: Value, expected: Expect) {
    let messages = read(messages);
    expected.assert_eq(&render(&hand_over(&messages, model, &mut |id, _| format!("<{id}>"))));
}

#[test]
fn a_missing_result_is_made_up_before_the_next_turn() {
    check(
        json!([
            user("a"),
            calls(&["c1", "c2"]),
            result("c2", "two"),
            user("b"),
            calls(&["c3"]),
            calls(&["c4"])
        ]),
        expect![[r#"
            user a
            assistant call c1 - | call c2 -
            result of c2: two
            result of c1: No result was recorded for this call. It may have run or not. (error)
            user b
            assistant call c3 -
            result of c3: No result was recorded for this call. It may have run or not. (error)
            assistant call c4 -
            result of c4: No result was recorded for this call. It may have run or not. (error)
        "#]],
    );
}

#[test]
fn a_failed_response_goes_with_its_results() {
    check(
        json!([
            user("a"),
            ended(calls(&["c1"]), "aborted"),
            result("c1", "one"),
            ended(says(json!([{"type": "text", "text": "par"}])), "error"),
            user("b"),
        ]),
        expect![[r#"
            user a
            user b
        "#]],
    );
}

#[test]
fn late_duplicates_and_results_without_a_call_are_left_out() {
    check(
        json!([
            result("c0", "orphan"),
            calls(&["c1"]),
            result("c1", "one"),
            result("c1", "again"),
            user("a"),
            result("c1", "late"),
            calls(&["c2"]),
            user("b"),
            result("c2", "too late"),
        ]),
        expect![[r#"
            assistant call c1 -
            result of c1: one
            user a
            assistant call c2 -
            result of c2: No result was recorded for this call. It may have run or not. (error)
            user b
        "#]],
    );
}

#[test]
fn one_id_for_two_calls_takes_two_results() {
    check(
        json!([calls(&["c", "c"]), result("c", "one"), result("c", "two")]),
        expect![[r#"
            assistant call c - | call c -
            result of c: one
            result of c: two
        "#]],
    );
}

#[test]
fn an_empty_id_gets_one_together_with_its_result() {
    check(
        json!([user("a"), calls(&["", ""]), result("", "one"), result("", "two")]),
        expect![[r#"
            user a
            assistant call call_1_0 - | call call_1_1 -
            result of call_1_0: one
            result of call_1_1: two
        "#]],
    );
}

#[test]
fn system_messages_wait_for_the_results() {
    check(
        json!([
            system("s"),
            calls(&["c1", "c2"]),
            system("between"),
            result("c1", "one"),
            result("c2", "two"),
            system("after"),
            calls(&["c3"]),
            system("held"),
            user("a"),
        ]),
        expect![[r#"
            system s
            assistant call c1 - | call c2 -
            result of c1: one
            result of c2: two
            system between
            system after
            assistant call c3 -
            result of c3: No result was recorded for this call. It may have run or not. (error)
            system held
            user a
        "#]],
    );
}

#[test]
fn what_another_model_signed_is_left_out_and_its_ids_are_adapted() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
        {"type": "text", "text": "hi", "textSignature": "s"},
        {"type": "toolCall", "id": "c|1", "name": "t", "arguments": {}, "thoughtSignature": "s"},
    ]);
    check(
        json!([of_other_model(says(content)), result("c|1", "one")]),
        expect![[r#"
            assistant text hi - | call <c|1> -
            result of <c|1>: one
        "#]],
    );
}

#[test]
fn own_thinking_stays_if_it_says_something() {
    let content = json!([
        {"type": "thinking", "thinking": "unsigned"},
        {"type": "thinking", "thinking": " ", "thinkingSignature": ""},
        {"type": "thinking", "thinking": "", "thinkingSignature": "s"},
        {"type": "thinking", "thinking": "", "redacted": true},
        {"type": "text", "text": "hi", "textSignature": "t"},
    ]);
    check(
        json!([says(content)]),
        expect![[r#"
            assistant thinking unsigned - | thinking  Some("s") | thinking  - | text hi Some("t")
        "#]],
    );
}

#[test]
fn a_run_of_images_is_one_line_for_a_model_without_eyes() {
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let content = json!([{"type": "text", "text": "see"}, image, image, {"type": "text", "text": "and"}, image]);
    let messages = json!([
        {"role": "user", "content": content},
        calls(&["c"]),
        {"role": "toolResult", "toolCallId": "c", "content": [image, image]},
    ]);
    check(
        messages.clone(),
        expect![[r#"
            user see | [An image was left out: the model takes text only.] | and | [An image was left out: the model takes text only.]
            assistant call c -
            result of c: [An image in this result was left out: the model takes text only.]
        "#]],
    );
    check_for(
        &Model::openai_compatible("m", "http://localhost"),
        messages,
        expect![[r#"
            user see | <image> | <image> | and | <image>
            assistant call c -
            result of c: <image> | <image>
        "#]],
    );
}

#[test]
fn what_needs_no_change_is_shared() {
    let messages = read(json!([system("s"), user("a"), calls(&["c"]), result("c", "one")]));
    let ready = hand_over(&messages, &model(), &mut |id, _| id.to_owned());
    assert!(messages.iter().zip(&ready).all(|(before, after)| Arc::ptr_eq(before, after)));
}

#[test]
fn system_messages_collapse_into_the_first_place_where_an_api_takes_but_one() {
    let messages = read(json!([
        user("a"),
        {"role": "system", "content": "one", "sections": {"x": "X"}},
        {"role": "system", "content": "two", "sections": {"x": null}},
    ]));
    assert_eq!(render(&resolve_transcript(&messages, false)), "system one\n\ntwo\nuser a\n");
    assert_eq!(resolve_transcript(&messages, true), messages);
}

#[test]
fn tools_are_declared_in_place_after_the_last_change_that_is_no_addition() {
    let tool = |name: &str| json!({"name": name, "description": "", "parameters": {}});
    let messages = read(json!([
        {"role": "system", "content": "", "toolsAdded": [tool("a")]},
        {"role": "system", "content": "", "toolsAdded": [tool("b")]},
        {"role": "system", "content": "", "toolsRemoved": [{"name": "a"}]},
        {"role": "system", "content": "", "toolsAdded": [tool("c")]},
    ]));
    let place = |support| {
        let placement = place_tools(&messages, support);
        let names: Vec<String> = placement.top_level.into_iter().map(|tool| tool.name).collect();
        (placement.folded, names.join(" "))
    };
    assert_eq!(place(ToolChangeSupport::None), (4, "b c".to_owned()));
    assert_eq!(place(ToolChangeSupport::Additions), (3, "b".to_owned()));
    assert_eq!(place(ToolChangeSupport::Changes), (0, String::new()));
}

#[test]
fn an_update_says_what_became_of_each_section() {
    let messages = read(
        json!([{"role": "system", "content": "note", "sections": {"env": "E", "rules": null}}]),
    );
    let text = update_text(messages[0].as_system().unwrap());
    let parts: Vec<&str> = text.split("\n\n").collect();
    assert_eq!((parts[0], parts[2]), ("note", "E"));
    assert!(parts[1].contains("\"env\"") && parts[3].contains("\"rules\""));
}

#[test]
fn an_overflow_is_known_by_kind_by_text_and_by_count() {
    let overflows = |message: Value| {
        let message: AssistantMessage = serde_json::from_value(message).unwrap();
        message.is_context_overflow(1000)
    };
    let failed = |text: &str| ended(json!({"content": [], "errorMessage": text}), "error");
    assert!(overflows(failed("400: This model's maximum context length is 8192 tokens")));
    assert!(!overflows(failed("429: Rate limit reached: too many tokens per minute")));
    let mut typed = failed("something else");
    typed["failure"] = json!({"kind": "contextOverflow"});
    assert!(overflows(typed));
    assert!(overflows(
        json!({"content": [], "usage": {"input": 900, "cacheRead": 200}, "stopReason": "stop"})
    ));
    assert!(overflows(
        json!({"content": [], "usage": {"input": 990, "output": 0}, "stopReason": "length"})
    ));
    assert!(!overflows(
        json!({"content": [], "usage": {"input": 990, "output": 1}, "stopReason": "length"})
    ));
}

#[test]
fn a_short_answer_at_the_cap_is_recoverable() {
    let message =
        AssistantMessage { stop_reason: StopReason::Length, ..AssistantMessage::default() };
    assert!(message.is_recoverable_length(1));
    assert!(!message.is_recoverable_length(0));
}
