//! Google's two APIs: what recordings do not touch.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{
    AbortSignal, ErrorKind, Message, Model, StreamOptions, StreamRequest, ThinkingBudgets,
    ThinkingLevel,
    message::AssistantMessage,
    provider::ProviderOptions,
    stream::{ToolChoice, collect},
    testing::server::{Request, Response, Server},
};

use crate::apis;

/// A model of Gemini with some fields of its own.
fn model(url: &str, own: Value) -> Model {
    let mut model = json!({
        "id": "gemini-3-pro", "api": "google-generative-ai", "provider": "google", "baseUrl": url,
        "reasoning": true, "input": ["text", "image"]
    });
    for (name, value) in own.as_object().into_iter().flatten() {
        model[name] = value.clone();
    }
    serde_json::from_value(model).unwrap()
}

/// The answer of a server to one request, and the request.
fn ask(
    own: Value,
    messages: Value,
    options: StreamOptions,
    response: Response,
) -> (AssistantMessage, Vec<Request>) {
    let server = Server::start([response]).unwrap();
    let model = Arc::new(model(&server.url(), own));
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let mut request = StreamRequest::new(model.clone(), messages);
    request.options = StreamOptions { max_retries: Some(0), ..options };
    let provider = apis::stream_fn(&model.api, ProviderOptions::default());
    let message = collect(&model, &mut *provider.stream(request, &AbortSignal::never()).unwrap());
    (message, server.requests())
}

/// The body that a request has.
#[track_caller]
fn sent(own: Value, messages: Value, options: StreamOptions) -> Value {
    let (_, requests) = ask(own, messages, options, Response::json(400, "{}"));
    serde_json::from_slice(&requests[0].body).unwrap()
}

/// What comes of a response whose chunks are these.
fn answer(chunks: &[Value]) -> AssistantMessage {
    let frames: Vec<String> = chunks.iter().map(|it| format!("data: {it}\n\n")).collect();
    ask(json!({}), hello(), StreamOptions::default(), Response::events(frames)).0
}

fn hello() -> Value {
    json!([{"role": "user", "content": "Hi"}])
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}}]})
}

fn finish(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason}]})
}

#[track_caller]
fn check_thinking(own: Value, options: StreamOptions, expected: &Value) {
    let body = sent(own, hello(), options);
    assert_eq!(&body["generationConfig"]["thinkingConfig"], expected);
}

fn level(level: ThinkingLevel) -> StreamOptions {
    StreamOptions { reasoning: Some(level), ..StreamOptions::default() }
}

#[test]
fn levels_and_budgets_follow_from_the_id() {
    for id in
        ["gemini-3-pro", "gemini-3.1-flash-lite", "gemini-4-x", "gemini-flash-latest", "gemma-4-9b"]
    {
        let expected = json!({"includeThoughts": true, "thinkingLevel": "LOW"});
        check_thinking(json!({"id": id}), level(ThinkingLevel::Low), &expected);
    }
    for (id, tokens) in [
        ("gemini-2.5-pro", 32_768),
        ("gemini-2.5-flash-lite-x", 24_576),
        ("gemini-3-nano", -1),
        ("x", -1),
    ] {
        let expected = json!({"includeThoughts": true, "thinkingBudget": tokens});
        check_thinking(json!({"id": id}), level(ThinkingLevel::High), &expected);
    }
    let budgets = ThinkingBudgets { high: Some(5), ..ThinkingBudgets::default() };
    let options = StreamOptions { thinking_budgets: Some(budgets), ..level(ThinkingLevel::Max) };
    let own = json!({"id": "gemini-2.5-pro", "thinkingLevelMap": {"max": "max"}});
    check_thinking(own, options, &json!({"includeThoughts": true, "thinkingBudget": 5}));
    check_thinking(json!({"reasoning": false}), level(ThinkingLevel::High), &Value::Null);
}

#[test]
fn a_model_that_always_thinks_is_asked_to_think_the_least() {
    let off = json!({"off": null});
    let own = json!({"id": "gemini-2.5-pro", "thinkingLevelMap": off});
    check_thinking(own, StreamOptions::default(), &json!({"thinkingBudget": 128}));
    let own = json!({"id": "gemini-3-pro", "thinkingLevelMap": off});
    check_thinking(own, StreamOptions::default(), &json!({"thinkingLevel": "MINIMAL"}));
}

#[test]
fn a_level_that_the_vendor_does_not_know_is_refused() {
    let own = json!({"thinkingLevelMap": {"max": "ultra"}});
    let (message, requests) =
        ask(own, hello(), level(ThinkingLevel::Max), Response::json(400, "{}"));
    assert!(requests.is_empty());
    expect!["the model `gemini-3-pro` is to think at the level max, which its thinkingLevelMap gives as `ULTRA`: map it to minimal, low, medium or high"]
        .assert_eq(message.error_message.as_deref().unwrap_or_default());
    assert_eq!(message.failure_kind(), Some(ErrorKind::Configuration));
}

#[test]
fn one_tool_can_be_insisted_on() {
    let messages = json!([{"role": "system", "content": "", "toolsAdded":
        [{"name": "look", "description": "", "parameters": {"type": "object"}}]}, {"role": "user", "content": "Hi"}]);
    let options = StreamOptions {
        tool_choice: Some(ToolChoice::Tool("look".to_owned())),
        ..StreamOptions::default()
    };
    let config = sent(json!({}), messages, options)["toolConfig"]["functionCallingConfig"].clone();
    assert_eq!(config, json!({"mode": "ANY", "allowedFunctionNames": ["look"]}));
}

#[test]
fn a_strict_tool_must_be_possible_where_it_is_insisted_on() {
    let tool = json!({"name": "look", "description": "", "parameters": {"type": "object"},
        "constrainedSampling": {"type": "json_schema", "strict": "require"}});
    let messages = json!([{"role": "system", "content": "", "toolsAdded": [tool]}, {"role": "user", "content": "Hi"}]);
    let body = sent(json!({}), messages.clone(), StreamOptions::default());
    assert_eq!(body["toolConfig"]["functionCallingConfig"]["mode"], "VALIDATED");
    let own = json!({"id": "gemini-2.5-pro"});
    let (message, _) = ask(own, messages, StreamOptions::default(), Response::json(400, "{}"));
    expect!["tool `look` insists on strict mode, but the model has none: take `require` off or change it"]
        .assert_eq(message.error_message.as_deref().unwrap_or_default());
}

#[test]
fn the_id_of_a_tuned_model_is_a_path() {
    for (id, expected) in [
        ("tunedModels/x", "/tunedModels/x:streamGenerateContent?alt=sse"),
        ("models/x", "/models/x:streamGenerateContent?alt=sse"),
        ("x", "/models/x:streamGenerateContent?alt=sse"),
    ] {
        let (_, requests) =
            ask(json!({"id": id}), hello(), StreamOptions::default(), Response::json(400, "{}"));
        assert_eq!(requests[0].path, expected);
    }
}

#[track_caller]
fn check_error(
    chunks: &[Value],
    kind: ErrorKind,
    raw: Option<&str>,
    expected: Expect,
) -> AssistantMessage {
    let message = answer(chunks);
    assert_eq!(message.failure_kind(), Some(kind), "{message:?}");
    assert_eq!(message.raw_stop_reason.as_deref(), raw);
    expected.assert_eq(message.error_message.as_deref().unwrap_or_default());
    message
}

#[test]
fn a_blocked_prompt_keeps_the_reason() {
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3}});
    let message = check_error(
        &[blocked],
        ErrorKind::Refused,
        Some("PROHIBITED_CONTENT"),
        expect![
            "the model refused to answer: the prompt was blocked (PROHIBITED_CONTENT) (`google`, after status 200: change what is asked)"
        ],
    );
    assert_eq!(message.usage.input, 3);
}

#[test]
fn an_end_for_a_reason_keeps_the_content_and_says_why() {
    let said = parts(json!([{"text": "so far"}]));
    let mut end = finish("SAFETY");
    end["candidates"][0]["finishMessage"] = "it is not safe".into();
    let message = check_error(
        &[said.clone(), end],
        ErrorKind::Refused,
        Some("SAFETY"),
        expect![
            "the model refused to answer: SAFETY: it is not safe (`google`, after status 200: change what is asked)"
        ],
    );
    assert_eq!(message.texts().collect::<String>(), "so far");
    let message = check_error(
        &[said, finish("MALFORMED_FUNCTION_CALL")],
        ErrorKind::Protocol,
        Some("MALFORMED_FUNCTION_CALL"),
        expect![
            "the model stopped with MALFORMED_FUNCTION_CALL (`google`, after status 200: ask again, or check that the base URL leads to a server of `google-generative-ai`)"
        ],
    );
    assert!(message.is_retryable());
}

/// E1, E4, E8: ends without parts, an end in every chunk, calls without arguments.
#[test]
fn odd_chunks_are_understood() {
    let mut stop = parts(json!([{"text": "a"}]));
    stop["candidates"][0]["finishReason"] = "STOP".into();
    let message = answer(&[stop.clone(), stop, finish("STOP")]);
    assert_eq!(message.texts().collect::<String>(), "aa");
    assert_eq!(message.error_message, None);
    let message = answer(&[
        parts(
            json!([{"functionCall": {"name": "look", "args": null}}, {"functionCall": {}}, {"functionCall": 1}]),
        ),
        json!({"candidates": []}),
        json!({"candidates": null}),
        finish("STOP"),
    ]);
    assert_eq!(message.tool_calls().count(), 2);
    assert!(message.tool_calls().all(|call| call.arguments.is_empty() && !call.id.is_empty()));
}

/// E2.
#[test]
fn an_answer_without_an_end_is_none() {
    let message = check_error(
        &[parts(json!([{"text": "a"}]))],
        ErrorKind::Protocol,
        None,
        expect![
            "the answer ended without a finish reason (`google`, after status 200: ask again, or check that the base URL leads to a server of `google-generative-ai`)"
        ],
    );
    assert!(message.is_retryable());
}

/// E6: parallel calls stay in one message, each with the signature that it came with.
#[test]
fn signatures_go_back_where_they_came_from() {
    let call = |id: &str, signature: Option<&str>| {
        let mut call = json!({"type": "toolCall", "id": id, "name": "look", "arguments": {}});
        if let Some(signature) = signature {
            call["thoughtSignature"] = signature.into();
        }
        call
    };
    let says = |model: &str| {
        json!({"role": "assistant", "api": "google-generative-ai", "provider": "google", "model": model,
            "content": [call("a", Some("c2ln")), call("b", None), call("c", Some("no base64"))], "stopReason": "toolUse"})
    };
    let contents = |model: &str| {
        let messages = json!([{"role": "user", "content": "Hi"}, says(model)]);
        sent(json!({}), messages, StreamOptions::default())["contents"][1].to_string()
    };
    expect![[r#"{"role":"model","parts":[{"functionCall":{"name":"look","args":{},"id":"a"},"thoughtSignature":"c2ln"},{"functionCall":{"name":"look","args":{},"id":"b"}},{"functionCall":{"name":"look","args":{},"id":"c"}}]}"#]].assert_eq(&contents("gemini-3-pro"));
    expect![[r#"{"role":"model","parts":[{"functionCall":{"name":"look","args":{},"id":"a"}},{"functionCall":{"name":"look","args":{},"id":"b"}},{"functionCall":{"name":"look","args":{},"id":"c"}}]}"#]].assert_eq(&contents("other"));
}

#[test]
fn half_characters_are_never_seen() {
    let frame = |text: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}}}]}}\n\n"
        )
    };
    let end = format!("data: {}\n\n", finish("STOP"));
    let frames = [frame("a\\ud83d"), frame("\\ude48b"), end];
    let (message, _) = ask(json!({}), hello(), StreamOptions::default(), Response::events(frames));
    assert_eq!(message.texts().collect::<String>(), "a🙈b");
}

/// E9: a signature on plain text makes it no thinking, and goes back with it.
#[test]
fn a_signed_text_is_text() {
    let signed = json!([{"text": "a", "thoughtSignature": "c2ln"}]);
    let message = answer(&[parts(signed), finish("STOP")]);
    assert_eq!(message.texts().collect::<String>(), "a");
    assert_eq!(message.content.len(), 1, "{message:?}");
    let said = json!([{"role": "user", "content": "Hi"},
        serde_json::to_value(Message::Assistant(message)).unwrap()]);
    let body = sent(json!({}), said, StreamOptions::default());
    let back = json!([{"text": "a", "thoughtSignature": "c2ln"}]);
    assert_eq!(body["contents"][1]["parts"], back);
}

/// E11: what looks like a schema in a result stays text.
#[test]
fn a_result_is_wrapped_text() {
    let call = json!({"type": "toolCall", "id": "a", "name": "look", "arguments": {}});
    let messages = json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "api": "google-generative-ai", "provider": "google",
            "model": "gemini-3-pro", "content": [call], "stopReason": "toolUse"},
        {"role": "toolResult", "toolCallId": "a", "toolName": "look", "isError": false,
            "content": [{"type": "text", "text": "{\"$ref\":\"#/x\"}"}]},
    ]);
    let body = sent(json!({}), messages, StreamOptions::default());
    let response = &body["contents"][2]["parts"][0]["functionResponse"]["response"];
    assert_eq!(*response, json!({"output": "{\"$ref\":\"#/x\"}"}));
}
