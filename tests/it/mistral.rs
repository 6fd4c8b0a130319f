//! Mistral's API: what recordings do not touch.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{
    AbortSignal, ErrorKind, Message, Model, StreamOptions, StreamRequest,
    message::AssistantMessage,
    provider::ProviderOptions,
    stream::{ToolChoice, collect},
    testing::server::{Response, Server},
};

use crate::apis;

fn model(url: &str) -> Model {
    let model = json!({
        "id": "m", "api": "mistral-conversations", "provider": "mistral", "baseUrl": url,
        "input": ["text", "image"]
    });
    serde_json::from_value(model).unwrap()
}

/// The body that a request has.
#[track_caller]
fn sent(messages: Value, options: StreamOptions) -> Value {
    let server = Server::start([Response::json(400, "{}")]).unwrap();
    let model = model(&server.url());
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let mut request = StreamRequest::new(model.clone(), messages);
    request.options = StreamOptions { max_retries: Some(0), ..options };
    let provider = apis::stream_fn(&model.api, ProviderOptions::default());
    collect(&model, &mut *provider.stream(request, &AbortSignal::never()).unwrap());
    serde_json::from_slice(&server.requests()[0].body).unwrap()
}

/// What comes of a response whose chunks are these.
fn answer(chunks: &[Value]) -> AssistantMessage {
    let frames: Vec<String> = chunks.iter().map(|it| format!("data: {it}\n\n")).collect();
    let server = Server::start([Response::events(frames)]).unwrap();
    let model = Arc::new(model(&server.url()));
    let request = StreamRequest::new(model.clone(), [Message::user("Hi")]);
    let provider = apis::stream_fn(&model.api, ProviderOptions::default());
    collect(&model, &mut *provider.stream(request, &AbortSignal::never()).unwrap())
}

fn delta(delta: Value) -> Value {
    json!({"id": "r", "choices": [{"delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"id": "r", "choices": [{"delta": {}, "finish_reason": reason}]})
}

/// C10: ids of other models' calls have nine letters and digits, and stay apart.
#[test]
fn ids_of_other_models_have_the_vendors_form() {
    let call = |id: &str| json!({"type": "toolCall", "id": id, "name": "look", "arguments": {}});
    let ids = ["abc-def|ghi", "abcdefghi", "call_1|fc_1", "call_2|fc_2", "toolu_01ABCDEFGHIJKLMN"];
    let says = json!({"role": "assistant", "api": "a", "provider": "p", "model": "o",
        "content": ids.map(call), "stopReason": "toolUse"});
    let result = |id: &str| json!({"role": "toolResult", "toolCallId": id, "toolName": "look", "content": []});
    let mut messages = vec![json!({"role": "user", "content": "Hi"}), says];
    messages.extend(ids.map(result));
    let body = sent(messages.into(), StreamOptions::default());
    let messages = body["messages"].as_array().unwrap();
    let calls: Vec<&str> = messages[1]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    let results: Vec<&str> =
        messages[2..].iter().map(|it| it["tool_call_id"].as_str().unwrap()).collect();
    assert_eq!(calls, results);
    expect!["abcdefghi btmpHdr8u isdsPrWqn 4VWEYm6u7 B4RuNrNp5"].assert_eq(&calls.join(" "));
}

#[test]
fn one_tool_can_be_insisted_on() {
    let choice = |choice: ToolChoice| {
        let options = StreamOptions { tool_choice: Some(choice), ..StreamOptions::default() };
        sent(json!([{"role": "user", "content": "Hi"}]), options)["tool_choice"].clone()
    };
    let expected = json!({"type": "function", "function": {"name": "look"}});
    assert_eq!(choice(ToolChoice::Tool("look".to_owned())), expected);
    assert_eq!(choice(ToolChoice::Any), "any");
}

#[test]
fn pieces_of_calls_find_their_call() {
    let piece = |index: Option<u64>, id: &str, text: Value| json!({"index": index, "id": id, "function": {"name": "look", "arguments": text}});
    let message = answer(&[
        delta(
            json!({"tool_calls": [piece(Some(0), "aaaaaaaaa", "{\"n\":".into()), piece(Some(1), "null", "{\"n\":".into())]}),
        ),
        delta(
            json!({"tool_calls": [piece(Some(1), "", "2}".into()), piece(Some(0), "", "1}".into())]}),
        ),
        delta(json!({"tool_calls": [piece(None, "bbbbbbbbb", Value::Null)]})),
        delta(
            json!({"tool_calls": [piece(None, "bbbbbbbbb", "{\"n\":3}".into()), piece(Some(9), "aaaaaaaaa", json!({"n": 4})), 7]}),
        ),
        finish("tool_calls"),
    ]);
    assert_eq!(message.error_message, None);
    let calls: Vec<(&str, &Value)> =
        message.tool_calls().map(|call| (call.id.as_str(), &call.arguments["n"])).collect();
    let numbers: Vec<&Value> = calls.iter().map(|it| it.1).collect();
    assert_eq!(numbers, [&json!(1), &json!(2), &json!(3), &json!(4)]);
    assert!(calls.iter().all(|(id, _)| id.len() == 9), "{calls:?}");
    let mut ids: Vec<&str> = calls.iter().map(|it| it.0).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[track_caller]
fn check_error(chunks: &[Value], kind: ErrorKind, expected: Expect) {
    let message = answer(chunks);
    assert_eq!(message.failure_kind(), Some(kind), "{message:?}");
    expected.assert_eq(message.error_message.as_deref().unwrap_or_default());
}

#[test]
fn errors_within_a_stream_are_told() {
    check_error(
        &[
            json!({"object": "error", "message": "Service tier capacity exceeded", "type": "rate_limited", "code": "3505"}),
        ],
        ErrorKind::RateLimited,
        expect![[
            r#"the server broke off the answer: Service tier capacity exceeded {"object":"error","type":"rate_limited","code":"3505"} (`mistral`, after status 200: wait, then ask again)"#
        ]],
    );
    check_error(
        &[json!({"error": {"message": "no"}})],
        ErrorKind::Overloaded,
        expect![
            "the server broke off the answer: no (`mistral`, after status 200: ask again later)"
        ],
    );
    check_error(
        &[json!({"hello": 1})],
        ErrorKind::Protocol,
        expect![
            "the server sent a data event that cannot be read: it has no choices (`mistral`, after status 200: ask again, or check that the base URL leads to a server of `mistral-conversations`)"
        ],
    );
    check_error(
        &[finish("odd")],
        ErrorKind::Protocol,
        expect![
            "the server ended the response with finish reason `odd` (`mistral`, after status 200: ask again, or check that the base URL leads to a server of `mistral-conversations`)"
        ],
    );
}
