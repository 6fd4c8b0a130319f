//! The `Debug` output of everything that holds a key.

use std::sync::Arc;

use serde_json::json;
use steerage::{
    Agent, AgentOptions, Message, Model, Secret, StreamOptions, StreamRequest,
    agent_loop::LoopConfig,
    provider::{
        ClientCertificate, HttpClient, HttpOptions, ProviderOptions, ProxyChoice,
        anthropic::AnthropicMessages, openai_completions::OpenAiCompletions,
    },
    stream::ResponseMeta,
    testing::Scripted,
};

use super::*;

/// A model with the key wherever somebody may put it.
fn model() -> Model {
    let model = json!({
        "id": "m", "api": "openai-completions", "provider": "p",
        "baseUrl": format!("http://user:{KEY}@host.example/v1?api-key={}", encoded()),
        "headers": {"x-api-key": KEY, "Authorization": format!("Bearer {KEY}")},
        "samplingParams": {"api_key": KEY, "nested": {"accessToken": KEY}},
        "samplingParamsByThinkingLevel": {"low": {"auth": {"anything": KEY}}},
        "compat": {"chatTemplateArgs": {"secret": [KEY]}},
        "inputLimits": {"password": KEY},
        "credentials": {"user": KEY}
    });
    serde_json::from_value(model).unwrap()
}

fn options() -> StreamOptions {
    let object = |value: serde_json::Value| value.as_object().cloned();
    StreamOptions {
        api_key: Some(KEY.into()),
        headers: vec![
            ("authorization".into(), Some(format!("Bearer {KEY}"))),
            ("x-goog-api-key".into(), Some(KEY.into())),
            ("Cookie".into(), Some(format!("session={KEY}"))),
        ],
        env: vec![("ANTHROPIC_API_KEY".into(), KEY.into())],
        sampling_params: object(json!({"api_key": KEY, "list": [{"token": KEY}]})),
        metadata: object(json!({"auth": {"value": KEY}})),
        native: object(json!({"apiKey": KEY})),
        ..StreamOptions::default()
    }
}

fn http() -> HttpOptions {
    HttpOptions {
        proxy: ProxyChoice::Url {
            url: Secret::new(format!("http://user:{}@127.0.0.1:1", encoded())),
            except: Vec::new(),
        },
        client_certificate: Some(ClientCertificate { chain: "C".into(), key: KEY.into() }),
        ..HttpOptions::default()
    }
}

#[test]
fn nothing_that_holds_a_key_shows_it() {
    let provider = ProviderOptions { api_key: Some(KEY.into()), ..ProviderOptions::default() };
    let http = http();
    let client = HttpClient::new(HttpOptions { client_certificate: None, ..http.clone() }).unwrap();
    let through_proxy = ProviderOptions { client: client.clone(), ..provider.clone() };
    let mut request = StreamRequest::new(model(), [Message::user("Hi")]);
    request.options = options();
    let scripted = Scripted::new(["hello"]);
    let agent_options = AgentOptions {
        stream: Some(scripted.clone().into()),
        request: options(),
        ..AgentOptions::default()
    };
    let agent = Agent::new(model(), agent_options.clone()).unwrap();
    let run = agent.prompt("Hi").unwrap();
    let outcome = run.wait().unwrap();
    let mut config = LoopConfig::new(model(), Arc::new(scripted.clone()));
    config.request = options();
    let response = ResponseMeta {
        status: 200,
        headers: vec![("set-cookie".into(), format!("session={KEY}"))],
    };
    for (what, text) in [
        ("Secret", format!("{:?} {0}", Secret::new(KEY))),
        ("Model", format!("{:#?}", model())),
        ("StreamOptions", format!("{:#?}", options())),
        ("StreamRequest", format!("{request:#?}")),
        ("ProviderOptions", format!("{provider:?} {through_proxy:?}")),
        ("HttpOptions", format!("{http:?}")),
        ("HttpClient", format!("{client:?} {:?}", client.options())),
        ("AnthropicMessages", format!("{:?}", AnthropicMessages::new(through_proxy.clone()))),
        ("OpenAiCompletions", format!("{:?}", OpenAiCompletions::new(through_proxy))),
        ("AgentOptions", format!("{agent_options:?}")),
        ("Agent", format!("{agent:?} {:?}", agent.downgrade())),
        ("AgentState", format!("{:?}", agent.state())),
        ("Run", format!("{run:?} {outcome:?}")),
        ("LoopConfig", format!("{config:?}")),
        ("Scripted", format!("{scripted:?} {:?}", scripted.requests())),
        ("ResponseMeta", format!("{response:?}")),
    ] {
        shows_no_key(what, &text);
    }
    logged_no_key();
}
