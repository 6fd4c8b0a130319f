//! What a program asks arrives as it was asked, and keys stay where they are.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use steerage::{
    Error, ErrorKind, Message, Model, Secret, StreamOptions, StreamRequest, ThinkingBudgets,
    ThinkingLevel,
    provider::{ProviderOptions, openai_completions::OpenAiCompletions},
    proxy::stream_proxy,
    stream::{CacheRetention, ToolChoice, Transport},
    testing::{
        Scripted,
        server::{Response, Server as Vendor},
    },
};

use super::{TOKEN, answer, asking_for, client, described, hi, post, raw, serve};
use crate::apis;

/// The key of the server at the vendor.
const KEY: &str = "sk-of-the-server-4711";

fn messages() -> Vec<Message> {
    let messages = json!([
        {"role": "system", "content": "Be brief.", "sections": {"b": "2", "a": null}, "timestamp": 1, "toolsAdded": [
            {"name": "look", "description": "Looks", "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}},
        ]},
        {"role": "user", "content": [
            {"type": "text", "text": "What is it?"},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        ], "timestamp": 2},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "s=="},
            {"type": "text", "text": "Let me look.", "textSignature": "t"},
            {"type": "toolCall", "id": "c1", "name": "look", "arguments": {"z": 1, "a": [2]}, "thoughtSignature": "q"},
        ], "api": "x", "provider": "y", "model": "z", "usage": {"input": 1}, "stopReason": "toolUse", "timestamp": 3},
        {"role": "toolResult", "toolCallId": "c1", "toolName": "look", "content": [
            {"type": "text", "text": "a cat"},
            {"type": "image", "data": "/9j/4AA=", "mimeType": "image/jpeg"},
        ], "isError": false, "details": {"k": "v"}, "timestamp": 4},
    ]);
    serde_json::from_value(messages).unwrap()
}

#[test]
fn messages_with_images_calls_and_signatures_arrive_whole() {
    let model = Scripted::new(["ok"]);
    let server = serve(model.clone(), model.model());
    let request = StreamRequest::new(described(), messages());
    let asked = request.transcript.clone();
    assert_eq!(answer(&client(&server), request).texts().collect::<String>(), "ok");
    let arrived = &model.requests()[0];
    // As texts, so that the order of the fields counts.
    let text = |it: &[Arc<Message>]| serde_json::to_string(it).unwrap();
    assert_eq!(text(arrived.transcript.messages()), text(asked.messages()));
    assert_eq!(arrived.model.id, model.model().id);
}

#[test]
fn options_arrive_and_those_that_are_no_business_of_the_server_do_not() {
    let model = Scripted::new(["ok"]);
    let server = serve(model.clone(), model.model());
    let mut request = hi();
    let given = StreamOptions {
        reasoning: Some(ThinkingLevel::High),
        thinking_budgets: Some(ThinkingBudgets { low: Some(7), ..ThinkingBudgets::default() }),
        temperature: Some(0.25),
        max_tokens: Some(99),
        tool_choice: Some(ToolChoice::Tool("look".to_owned())),
        headers: vec![("x-a".to_owned(), Some("1".to_owned())), ("x-b".to_owned(), None)],
        sampling_params: json!({"z": 1, "a": 2}).as_object().cloned(),
        cache_retention: Some(CacheRetention::None),
        session_id: Some("s1".to_owned()),
        transport: Some(Transport::WebsocketCached),
        max_retry_delay_ms: Some(5),
        metadata: json!({"user_id": "u"}).as_object().cloned(),
        disable_continuation: true,
        ..StreamOptions::default()
    };
    let local = StreamOptions {
        api_key: Some(Secret::new("sk-of-nobody-here")),
        env: vec![("OPENAI_API_KEY".to_owned(), "sk-of-nobody-here".to_owned())],
        timeout: Some(Duration::from_secs(20)),
        max_retries: Some(0),
        ..given.clone()
    };
    request.options = local;
    request.options.headers.push(("Authorization".to_owned(), Some("Bearer sk-other".to_owned())));
    request.options.headers.push(("host".to_owned(), Some("elsewhere".to_owned())));
    answer(&client(&server), request);
    let arrived = model.requests()[0].options.clone();
    assert_eq!(format!("{arrived:#?}"), format!("{given:#?}"));
}

#[test]
fn the_key_of_the_server_never_reaches_the_program() {
    let refusing =
        format!(r#"{{"error":{{"message":"the key {KEY} is blocked","code":"invalid_api_key"}}}}"#);
    let hi = apis::hi("openai-completions");
    let failing = format!("data: {{\"error\":{{\"message\":\"{KEY} has no money\"}}}}\n\n");
    let vendor = Vendor::start([
        Response::events([hi]).header("x-echo", KEY),
        Response::json(401, refusing),
        Response::events([failing]),
    ])
    .unwrap();
    let model = json!({"id": "small", "api": "openai-completions", "provider": "mine", "baseUrl": vendor.url()});
    let model: Arc<Model> = Arc::new(serde_json::from_value(model).unwrap());
    let options = ProviderOptions { api_key: Some(Secret::new(KEY)), ..ProviderOptions::default() };
    let server = serve(OpenAiCompletions::new(options), model);
    let said: Vec<String> =
        (0..3).map(|_| raw(&server, &post(TOKEN, &asking_for("small")))).collect();
    for (answer, ending) in
        said.iter().zip(["\"type\":\"done\"", "\"type\":\"error\"", "\"type\":\"error\""])
    {
        assert!(answer.contains(ending) && !answer.contains("4711"), "{answer}");
    }
    assert_eq!(vendor.requests().len(), 3);
    for request in vendor.requests() {
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {KEY}")));
        assert!(!request.text().contains(TOKEN));
    }
}

/// Who could name the address of the model would be sent the key.
#[test]
fn the_address_that_a_program_names_is_not_asked() {
    let (vendor, thief) = (
        Vendor::start([Response::events([apis::hi("openai-completions")])]).unwrap(),
        Vendor::start([]).unwrap(),
    );
    let at = |url: String| -> Arc<Model> {
        let model =
            json!({"id": "small", "api": "openai-completions", "provider": "mine", "baseUrl": url});
        Arc::new(serde_json::from_value(model).unwrap())
    };
    let options = ProviderOptions { api_key: Some(Secret::new(KEY)), ..ProviderOptions::default() };
    let server = serve(OpenAiCompletions::new(options), at(vendor.url()));
    let request = StreamRequest::new(at(thief.url()), [Message::user("Hi")]);
    assert_eq!(answer(&client(&server), request).texts().collect::<String>(), "Hi");
    assert_eq!((vendor.requests().len(), thief.connections()), (1, 0));
}

#[test]
fn tokens_are_asked_for_anew_and_their_failures_are_events() {
    let model = Scripted::new(["one", "two"]);
    let server = serve(model.clone(), model.model());
    let tokens = Mutex::new(vec!["wrong", TOKEN, TOKEN]);
    let proxy = client(&server).with_token_from(move |_| match tokens.lock().unwrap().pop() {
        Some(token) => Ok(Secret::new(token)),
        None => Err(Error::new(ErrorKind::Auth, "sign in again")),
    });
    let kinds: Vec<Option<ErrorKind>> =
        (0..4).map(|_| answer(&proxy, hi()).failure.map(|it| it.kind)).collect();
    assert_eq!(kinds, [None, None, Some(ErrorKind::Auth), Some(ErrorKind::Auth)]);
    assert_eq!(answer(&proxy, hi()).error_message.as_deref(), Some("sign in again"));
    let proxy = client(&server).with_token_from(|_| panic!("no keyring"));
    let message = answer(&proxy, hi());
    assert_eq!(message.failure.unwrap().kind, ErrorKind::Callback);
    assert_eq!(
        message.error_message.as_deref(),
        Some("the source of the proxy's token panicked: no keyring")
    );
}

#[test]
fn an_address_that_is_none_is_told_as_the_proxys() {
    let message = answer(&stream_proxy("not a url", TOKEN), hi());
    assert_eq!(message.failure.unwrap().kind, ErrorKind::Configuration);
    let text = message.error_message.unwrap();
    assert!(text.starts_with("the address of the proxy cannot be used"), "{text}");
}

/// A context in the form that callers of the reference have: prompt and tools beside the messages.
#[test]
fn prompt_and_tools_may_stand_beside_the_messages() {
    let model = Scripted::new(["ok"]);
    let server = serve(model.clone(), model.model());
    let mut body: Value = serde_json::from_str(&asking_for("small")).unwrap();
    body["context"]["systemPrompt"] = "Be brief.".into();
    body["context"]["tools"] =
        json!([{"name": "look", "description": "", "parameters": {"type": "object"}}]);
    raw(&server, &post(TOKEN, &body.to_string()));
    let requests = model.requests();
    let first = serde_json::to_value(&*requests[0].transcript.messages()[0]).unwrap();
    assert_eq!((&first["role"], &first["content"]), (&json!("system"), &json!("Be brief.")));
    assert_eq!(first["toolsAdded"][0]["name"], "look");
}
