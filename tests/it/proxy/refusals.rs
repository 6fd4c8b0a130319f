//! What the server does not answer, and what the program is told then.

use std::{
    io::{BufRead, BufReader},
    net::TcpStream,
    process::{Command, Stdio},
    sync::Arc,
};

use expect_test::{Expect, expect};
use steerage::{
    Agent, AgentOptions, Builtin, ErrorKind,
    proxy::stream_proxy,
    testing::{
        Scripted,
        server::{Response, Server as Other},
    },
};

use super::{TOKEN, answer, asking_for, hi, post, raw, serve, server::Server};
use crate::chat::example;

fn scripted() -> (Scripted, Server) {
    let model = Scripted::new(["ok"]);
    let server = serve(model.clone(), model.model());
    (model, server)
}

/// Status and body of the answer to bytes; the model is not asked.
#[track_caller]
fn check(request: &str, expected: Expect) {
    let (model, server) = scripted();
    let answer = raw(&server, request);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    expected.assert_eq(&format!("{} {body}", head.split(' ').nth(1).unwrap_or_default()));
    assert_eq!(model.requests().len(), 0);
}

#[test]
fn requests_that_are_none_are_refused_with_the_reason() {
    let good = asking_for("small");
    check(&post("another", &good), expect![[r#"401 {"error":"the token is not known"}"#]]);
    check(
        &post("token-of-the-programs", &good),
        expect![[r#"401 {"error":"the token is not known"}"#]],
    );
    check(&post("", &good), expect![[r#"401 {"error":"the token is not known"}"#]]);
    check(
        "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        expect![[r#"401 {"error":"the token is not known"}"#]],
    );
    check(
        &post(TOKEN, &good).replace("/api/stream", "/api/streams"),
        expect![[r#"404 {"error":"there is only POST /api/stream"}"#]],
    );
    check(
        &post(TOKEN, &asking_for("large")),
        expect![[r#"404 {"error":"there is no `large` here"}"#]],
    );
    check(
        &post(TOKEN, "{nonsense"),
        expect![[
            r#"400 {"error":"the request to the proxy cannot be read: key must be a string at line 1 column 2"}"#
        ]],
    );
    check(
        &post(TOKEN, "{\"model\":{}}"),
        expect![[
            r#"400 {"error":"the request to the proxy cannot be read: missing field `context` at line 1 column 12"}"#
        ]],
    );
    check(
        &post(TOKEN, &good.replace("\"user\"", "17")),
        expect![[
            r#"400 {"error":"the request to the proxy cannot be read: missing field `role` at line 1 column 348"}"#
        ]],
    );
    let endless = format!(
        "POST /api/stream HTTP/1.1\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n\r\n",
        u64::MAX
    );
    check(&endless, expect![[r#"413 {"error":"the body is longer than 64 MiB"}"#]]);
}

#[test]
fn more_than_can_be_answered_at_once_are_turned_away() {
    let (model, server) = scripted();
    let waiting: Vec<_> = (0..64).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let answer = raw(&server, &post(TOKEN, &asking_for("small")));
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.ends_with(r#"{"error":"too many at once"}"#),
        "{answer}"
    );
    assert_eq!(model.requests().len(), 0);
    drop(waiting);
    // They leave their places when they are seen to be gone.
    while !raw(&server, &post(TOKEN, &asking_for("small"))).starts_with("HTTP/1.1 200 ") {}
    assert_eq!(model.requests().len(), 1);
}

/// How the program sees a refusal.
#[track_caller]
fn check_told(proxy: &steerage::proxy::StreamProxy, port: u16, kind: ErrorKind, expected: Expect) {
    let message = answer(proxy, hi());
    assert_eq!(message.failure.unwrap().kind, kind);
    expected.assert_eq(&message.error_message.unwrap().replace(&port.to_string(), "PORT"));
}

#[test]
fn a_refusal_is_told_as_the_proxys() {
    let (model, server) = scripted();
    let port = server.address().port();
    let wrong = stream_proxy(format!("http://{}", server.address()), "another-token");
    check_told(
        &wrong,
        port,
        ErrorKind::Auth,
        expect![[
            r#"127.0.0.1:PORT answered 401 (check the key for `proxy`): the token is not known"#
        ]],
    );
    check_told(
        &stream_proxy(format!("http://{}/old", server.address()), TOKEN),
        port,
        ErrorKind::InvalidRequest,
        expect![[
            r#"127.0.0.1:PORT answered 404 (check the id, `small`, and the base URL of the model of `proxy`): there is only POST /api/stream"#
        ]],
    );
    assert_eq!(model.requests().len(), 0);
    drop(server);
    let other =
        Other::answering(|_| Response::new(200).header("content-type", "text/html").text("<html>"))
            .unwrap();
    check_told(
        &stream_proxy(other.url(), TOKEN),
        other.address().port(),
        ErrorKind::Protocol,
        expect![
            "the answer ended without its last event: 127.0.0.1:PORT (`proxy`) answered 200 with text/html, which is nothing of the API `proxy`: check the model's base URL (`http://127.0.0.1:PORT`); it begins with: <html>"
        ],
    );
}

/// A token is never part of an error, even if the server sends it back.
#[test]
fn the_token_is_not_in_the_error() {
    let other = Other::answering(|request| {
        let token = request.header("authorization").unwrap();
        Response::json(401, format!(r#"{{"error":"who is {token}?"}}"#))
    });
    let message = answer(&stream_proxy(other.unwrap().url(), TOKEN), hi());
    let text = message.error_message.unwrap();
    assert!(text.contains("who is") && !text.contains(TOKEN), "{text}");
}

/// The example as its user runs it.
#[test]
fn the_program_serves_the_built_in_model() {
    let mut child = Command::new(example("proxy_server"))
        .env("PROXY_TOKEN", TOKEN)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    let agent = Agent::new(
        Builtin::model(),
        AgentOptions {
            stream: Some(Arc::new(stream_proxy(url, TOKEN))),
            ..AgentOptions::default()
        },
    );
    let agent = agent.unwrap();
    agent.prompt("Hello! My name is Ada.").unwrap().wait().unwrap();
    let outcome = agent.prompt("What is my name?").unwrap().wait();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(outcome.unwrap().text, "Your name is Ada.");
}
