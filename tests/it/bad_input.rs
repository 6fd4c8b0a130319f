//! Bad input gets an error that says what happened, where and what to do; nothing is lost and the agent can go on.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;
use steerage::{
    Agent, AgentOptions, ErrorKind, Message, Model, StreamOptions, Tool,
    provider::{
        HttpClient, HttpOptions, ProviderOptions, ProxyChoice,
        openai_completions::OpenAiCompletions,
    },
    testing::server::{Response, Server},
    transcript,
};

use crate::apis;

mod answers;

const GOOD: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// An agent that has talked before.
fn agent(model: Model, options: ProviderOptions) -> Agent {
    let provider = apis::stream_fn(&model.api, options);
    let options = AgentOptions {
        stream: Some(provider),
        messages: vec![Message::user("before")],
        request: StreamOptions { max_retries: Some(0), ..StreamOptions::default() },
        ..AgentOptions::default()
    };
    Agent::new(model, options).unwrap()
}

/// Prompts an agent that must fail, and again with a model that works; what the error says, with hosts and ports hidden.
#[track_caller]
fn check_agent(agent: &Agent, kind: ErrorKind, expected: Expect) {
    let error = agent.prompt("first").unwrap().wait().unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    let port = agent.model().base_url.rsplit(':').next().unwrap_or_default().to_owned();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let said = error.to_string();
    expected.assert_eq(&if port.len() > 1 { said.replace(&port, "PORT") } else { said });
    assert_eq!(agent.error_message().as_deref(), Some(error.message()));

    let server = Server::start([Response::events([GOOD])]).unwrap();
    let good = OpenAiCompletions::new(ProviderOptions::default());
    agent.configure(|options| options.stream = Some(Arc::new(good))).unwrap();
    agent.set_model(Model::openai_compatible("m", server.url()));
    assert_eq!(agent.prompt("second").unwrap().wait().unwrap().text, "ok");
    let messages = agent.messages();
    let texts: Vec<_> = messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["before", "first", "", "second", "ok"]);
    let sent = String::from_utf8(server.requests()[0].body.clone()).unwrap();
    assert!(["before", "first", "second"].iter().all(|text| sent.contains(text)), "{sent}");
}

/// The same with a server that gives this answer.
#[track_caller]
fn check(api: &str, response: Response, kind: ErrorKind, expected: Expect) {
    let server = Server::start([response]).unwrap();
    let model = Model {
        api: api.to_owned(),
        provider: "vendor".to_owned(),
        ..Model::openai_compatible("m", server.url())
    };
    let options =
        ProviderOptions { api_key: Some("sk-wrong-key".into()), ..ProviderOptions::default() };
    check_agent(&agent(model, options), kind, expected);
}

const CHAT: &str = "openai-completions";
const ANTHROPIC: &str = "anthropic-messages";

#[test]
fn a_wrong_key() {
    let error = json!({"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}});
    check(
        CHAT,
        Response::json(401, error.to_string()),
        ErrorKind::Auth,
        expect![[
            r#"127.0.0.1:PORT answered 401 (check the key for `vendor`): Incorrect API key provided {"type":"invalid_request_error"}"#
        ]],
    );
    let error = json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}});
    check(
        ANTHROPIC,
        Response::json(401, error.to_string()),
        ErrorKind::Auth,
        expect![[
            r#"127.0.0.1:PORT answered 401 (check the key for `vendor`): invalid x-api-key {"type":"authentication_error"}"#
        ]],
    );
    check(
        CHAT,
        Response::new(403),
        ErrorKind::Auth,
        expect![
            "127.0.0.1:PORT answered 403 (check what the key for `vendor` may do): the server gave no reason"
        ],
    );
}

#[test]
fn no_key() {
    let server = Server::start([Response::json(401, "{\"error\":\"unauthorized\"}")]).unwrap();
    let model =
        Model { provider: "vendor".to_owned(), ..Model::openai_compatible("m", server.url()) };
    check_agent(
        &agent(model, ProviderOptions::default()),
        ErrorKind::Auth,
        expect![
            "127.0.0.1:PORT answered 401 (no key was sent: set one for `vendor`): unauthorized"
        ],
    );
}

#[test]
fn an_unknown_model() {
    let error =
        json!({"error": {"message": "The model `m` does not exist", "code": "model_not_found"}});
    check(
        CHAT,
        Response::json(404, error.to_string()),
        ErrorKind::InvalidRequest,
        expect![[
            r#"127.0.0.1:PORT answered 404 (check the id, `m`, and the base URL of the model of `vendor`): The model `m` does not exist {"code":"model_not_found"}"#
        ]],
    );
    let error =
        json!({"type": "error", "error": {"type": "not_found_error", "message": "model: m"}});
    check(
        ANTHROPIC,
        Response::json(404, error.to_string()),
        ErrorKind::InvalidRequest,
        expect![[
            r#"127.0.0.1:PORT answered 404 (check the id, `m`, and the base URL of the model of `vendor`): model: m {"type":"not_found_error"}"#
        ]],
    );
}

#[test]
fn a_page_where_json_should_be() {
    let page =
        "<!doctype html>\n<html><head><title>Welcome</title></head><body>Sign in</body></html>";
    let html = |status| Response::new(status).header("content-type", "text/html").text(page);
    check(
        CHAT,
        html(200),
        ErrorKind::Protocol,
        expect![[r#"
            the response ended without a finish reason: 127.0.0.1:PORT (`vendor`) answered 200 with text/html, which is nothing of the API `openai-completions`: check the model's base URL (`http://127.0.0.1:PORT`); it begins with: <!doctype html>
            <html><head><title>Welcome</title></head><body>Sign in</body></html>"#]],
    );
    check(
        ANTHROPIC,
        html(200),
        ErrorKind::Protocol,
        expect![[r#"
            the answer ended without a stop reason: 127.0.0.1:PORT (`vendor`) answered 200 with text/html, which is nothing of the API `anthropic-messages`: check the model's base URL (`http://127.0.0.1:PORT`); it begins with: <!doctype html>
            <html><head><title>Welcome</title></head><body>Sign in</body></html>"#]],
    );
    check(
        CHAT,
        html(404),
        ErrorKind::InvalidRequest,
        expect![[r#"
            127.0.0.1:PORT answered 404 (check the id, `m`, and the base URL of the model of `vendor`): <!doctype html>
            <html><head><title>Welcome</title></head><body>Sign in</body></html>"#]],
    );
    check(
        ANTHROPIC,
        html(502),
        ErrorKind::Overloaded,
        expect![[r#"
            127.0.0.1:PORT answered 502 (`vendor`: ask again later): <!doctype html>
            <html><head><title>Welcome</title></head><body>Sign in</body></html>"#]],
    );
}

#[test]
fn a_server_of_another_api() {
    check(
        CHAT,
        Response::json(200, "{\"hello\":\"world\"}"),
        ErrorKind::Protocol,
        expect![[
            r#"the response ended without a finish reason: 127.0.0.1:PORT (`vendor`) answered 200 with application/json, which is nothing of the API `openai-completions`: check the model's base URL (`http://127.0.0.1:PORT`); it begins with: {"hello":"world"}"#
        ]],
    );
    check(
        ANTHROPIC,
        Response::events([GOOD]),
        ErrorKind::Protocol,
        expect![
            "the answer ended without a stop reason: 127.0.0.1:PORT (`vendor`) answered 200 with events, which is nothing of the API `anthropic-messages`: check the model's base URL (`http://127.0.0.1:PORT`)"
        ],
    );
    check(
        CHAT,
        Response::new(204),
        ErrorKind::Protocol,
        expect![
            "the response ended without a finish reason: 127.0.0.1:PORT (`vendor`) answered 204 with no body, which is nothing of the API `openai-completions`: check the model's base URL (`http://127.0.0.1:PORT`)"
        ],
    );
}

/// What a model at this address gives.
#[track_caller]
fn check_url(url: &str, kind: ErrorKind, expected: Expect) {
    let model = Model::openai_compatible("m", url);
    check_agent(&agent(model, ProviderOptions::default()), kind, expected);
}

#[test]
fn an_address_that_is_none() {
    check_url(
        "",
        ErrorKind::Configuration,
        expect!["the model `m` has no base URL: set it to where the model's server is"],
    );
    check_url(
        "localhost/v1",
        ErrorKind::Configuration,
        expect![
            "the base URL of the model `m` cannot be used: `localhost/v1` is no URL that can be asked: it does not begin with http:// or https://"
        ],
    );
    check_url(
        "http://",
        ErrorKind::Configuration,
        expect![
            "the base URL of the model `m` cannot be used: `http://` is no URL that can be asked: it names no host"
        ],
    );
    check_url(
        "ws://localhost/v1",
        ErrorKind::Configuration,
        expect![
            "the base URL of the model `m` cannot be used: `ws://localhost/v1` is no URL that can be asked: the scheme `ws` is neither http nor https"
        ],
    );
    check_url(
        "http://local host/v1",
        ErrorKind::Configuration,
        expect![
            "the base URL of the model `m` cannot be used: `http://local host/v1` is no URL that can be asked: invalid uri character"
        ],
    );
}

#[test]
fn a_server_that_is_not_there() {
    // No port that the system hands out, so nobody listens there.
    let model = Model::openai_compatible("m", "http://127.0.0.1:1/v1");
    let agent = agent(model, ProviderOptions::default());
    let error = agent.prompt("first").unwrap().wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(error.is_retryable());
    let begin = "cannot connect to 127.0.0.1:1: connection refused";
    assert!(error.message().starts_with(begin), "{error}");
    assert_eq!(agent.messages()[1].text(), "first");
}

#[test]
fn a_proxy_that_is_none() {
    let proxy = ProxyChoice::Url { url: "not a proxy".into(), except: Vec::new() };
    let error = HttpClient::new(HttpOptions { proxy, ..HttpOptions::default() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    expect!["the proxy in the options is no URL of a known kind: write it as http://host:port, or with https, socks4, socks4a, socks5 or socks5h"].assert_eq(error.message());
}

#[test]
fn a_schema_that_is_none() {
    let server = Server::start([Response::events([GOOD])]).unwrap();
    let agent = agent(Model::openai_compatible("m", server.url()), ProviderOptions::default());
    for (schema, expected) in [
        (
            json!("none"),
            expect![
                "the parameters of tool `look` are no usable schema: the schema cannot be used: #: expected a schema (an object or a boolean), got string"
            ],
        ),
        (
            json!({"type": "string"}),
            expect![
                "the parameters of tool `look` are no usable schema: the schema cannot be used: #: arguments are an object, but no object matches"
            ],
        ),
    ] {
        let tool = Tool::with_schema("look", "Looks", schema, |_, _| Ok("seen"));
        let error = agent.set_tools(vec![tool.clone()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        expected.assert_eq(error.message());
        let error = agent.configure(|options| options.tools = vec![tool]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
    }
    assert!(agent.state().tools.is_empty());
    assert_eq!(agent.prompt("go").unwrap().wait().unwrap().text, "ok");
}

#[test]
fn a_transcript_that_was_cut_in_half() {
    let server = Server::start([Response::events([GOOD])]).unwrap();
    let agent = agent(Model::openai_compatible("m", server.url()), ProviderOptions::default());
    let saved = transcript::to_json(&[Message::user("one"), Message::user("two")]).unwrap();
    let error = transcript::from_json(&saved[..saved.len() / 2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    expect!["the transcript is cut off at line 2 and the rest is missing: take an older copy, or mend it there"]
        .assert_eq(error.message());
    assert_eq!(agent.messages().len(), 1, "the agent has what it had");
    assert_eq!(agent.prompt("go").unwrap().wait().unwrap().text, "ok");
}

#[test]
fn a_prompt_of_nothing() {
    let server = Server::start([Response::events([GOOD])]).unwrap();
    let agent = agent(Model::openai_compatible("m", server.url()), ProviderOptions::default());
    let error = agent.prompt(Vec::<Message>::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NothingToContinue);
    expect!["the prompt holds no message: give one, or resume from the transcript"]
        .assert_eq(error.message());
    assert_eq!(agent.prompt("go").unwrap().wait().unwrap().text, "ok");
}
