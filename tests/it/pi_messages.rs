//! pi's own protocol: what its cases do not touch.

use std::sync::Arc;

use serde_json::{Value, json};
use steerage::{
    AbortSignal, Message, Model, StreamRequest,
    message::AssistantMessage,
    provider::ProviderOptions,
    stream::collect,
    testing::server::{Response, Server},
};

use crate::apis;

fn ask(messages: Vec<Message>, response: Response) -> (AssistantMessage, Value) {
    let server = Server::start([response]).unwrap();
    let model = json!({"id": "m", "api": "pi-messages", "provider": "p", "baseUrl": server.url()});
    let model: Arc<Model> = Arc::new(serde_json::from_value(model).unwrap());
    let request = StreamRequest::new(model.clone(), messages);
    let provider = apis::stream_fn("pi-messages", ProviderOptions::default());
    let message = collect(&model, &mut *provider.stream(request, &AbortSignal::never()).unwrap());
    (message, serde_json::from_slice(&server.requests()[0].body).unwrap())
}

fn frames(frames: &[&str]) -> Response {
    Response::events(frames.iter().map(|it| format!("data: {it}\n\n")).collect::<Vec<_>>())
}

#[test]
fn calls_without_an_id_get_one() {
    let start = r#"{"type":"toolcall_start","contentIndex":0,"toolName":"look"}"#;
    let end = r#"{"type":"toolcall_end","contentIndex":0,"toolCall":{"id":"","name":"look","arguments":{}}}"#;
    let done = r#"{"type":"done","reason":"toolUse"}"#;
    let (message, _) = ask(vec![Message::user("Hi")], frames(&[start, end, done]));
    assert_eq!(message.error_message, None);
    let call = message.tool_calls().next().unwrap();
    assert!(call.id.starts_with("call_") && call.id.ends_with("_0"), "{}", call.id);
}

#[test]
fn half_characters_are_never_seen() {
    let (message, _) = ask(
        vec![Message::user("Hi")],
        frames(&[
            r#"{"type":"text_start","contentIndex":0}"#,
            r#"{"type":"text_delta","contentIndex":0,"delta":"a\ud83d"}"#,
            r#"{"type":"text_delta","contentIndex":0,"delta":"\ude48b"}"#,
            r#"{"type":"done","reason":"stop"}"#,
        ]),
    );
    assert_eq!(message.texts().collect::<String>(), "a🙈b");
}

/// What only this library knows stays here: a gateway gets the fields of the protocol.
#[test]
fn failures_for_programs_and_roles_of_the_host_are_not_sent() {
    let messages = json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "x",
            "failure": {"kind": "network", "retryable": true}},
        {"role": "banner", "content": "for people"},
    ]);
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let (_, body) = ask(messages, frames(&[]));
    let sent = body["context"]["messages"].as_array().unwrap();
    let roles: Vec<&str> = sent.iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant"]);
    assert_eq!((&sent[1]["errorMessage"], sent[1].get("failure")), (&json!("x"), None));
}
