//! Streamable HTTP against a scripted server.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use serde_json::{Value, json};
use steerage::{
    AbortController, AbortSignal, Error, ErrorKind,
    mcp::{
        CallOptions, Client, ClientOptions, Http, HttpServerOptions, Notice, transport::Reconnect,
    },
    testing::server::{End, Gate, Request, Response, Server},
};

use super::{LIMIT, eventually, hello, object};

/// Answers the start of a session; the rest is for `answer`, which gets the method and the id.
fn server(
    answer: impl Fn(&Request, &str, Value) -> Response + Send + Sync + 'static,
) -> (Server, HttpServerOptions) {
    let server = Server::answering(move |request| {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let id = message["id"].clone();
        match (request.method.as_str(), message["method"].as_str().unwrap_or_default()) {
            ("POST", "initialize") => {
                json_answer(&id, hello()).header("mcp-session-id", "session-0123456789")
            }
            ("POST", "tools/call" | "ping" | "x") | ("GET", _) => {
                answer(request, message["method"].as_str().unwrap_or("GET"), id)
            }
            ("POST", _) => Response::new(202),
            _ => Response::new(200),
        }
    })
    .unwrap();
    let mut options = HttpServerOptions::new(format!("{}/mcp", server.url()));
    options.reconnect = Reconnect {
        first_pause: Duration::from_millis(10),
        longest_pause: Duration::from_millis(20),
        most_tries: 3,
    };
    (server, options)
}

fn json_answer(id: &Value, result: Value) -> Response {
    Response::json(200, json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

fn event(id: &Value, result: Value) -> String {
    format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn done() -> Value {
    json!({"content": [{"type": "text", "text": "done"}]})
}

fn connect(options: HttpServerOptions) -> Client {
    let client = ClientOptions::default();
    Client::connect(Http::new(options), client, &AbortSignal::never()).unwrap()
}

fn call(client: &Client) -> Result<Value, Error> {
    let result =
        client.call_tool("t", &object(json!({})), &CallOptions::default(), &AbortSignal::never());
    result.map(|result| result.content[0]["text"].clone())
}

fn no_stream(request: &Request) -> Option<Response> {
    (request.method == "GET").then(|| Response::new(405))
}

fn count(server: &Server, method: &str) -> usize {
    server.requests().iter().filter(|request| request.method == method).count()
}

#[test]
fn every_request_names_session_revision_and_forms() {
    let (server, mut options) =
        server(|request, _, id| no_stream(request).unwrap_or_else(|| json_answer(&id, done())));
    options.headers.push(("x-own".to_owned(), "yes".to_owned()));
    let client = connect(options);
    assert_eq!(call(&client).unwrap(), "done");
    client.close();
    let requests = server.requests();
    assert_eq!(requests[0].header("mcp-session-id"), None);
    assert_eq!(requests[0].header("accept"), Some("application/json, text/event-stream"));
    for request in &requests[1..] {
        assert_eq!(request.header("mcp-session-id"), Some("session-0123456789"));
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
        assert_eq!(request.header("x-own"), Some("yes"));
    }
    let methods: Vec<_> = requests.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["POST", "POST", "GET", "POST", "DELETE"]);
}

#[test]
fn a_stream_that_breaks_is_taken_up_where_it_stood() {
    let (server, options) =
        server(|request, method, id| match (method, request.header("last-event-id")) {
            ("GET", None) => Response::new(405),
            ("GET", Some("e1")) => {
                Response::events(["id: e2\nretry: 5\ndata:\n\n"]).end(End::Destroy)
            }
            ("GET", Some(_)) => Response::events([event(&json!(2), done())]),
            _ => {
                assert_eq!(id, json!(2));
                Response::events(["id: e1\ndata:\n\n"]).end(End::Destroy)
            }
        });
    assert_eq!(call(&connect(options)).unwrap(), "done");
    assert_eq!(count(&server, "GET"), 3);
}

#[track_caller]
fn check_failure(answer: Response, kind: ErrorKind, text: &str) {
    let (server, options) =
        server(move |request, _, _| no_stream(request).unwrap_or_else(|| answer.clone()));
    let error = call(&connect(options)).unwrap_err();
    let host = server.url().replace("http://", "");
    assert_eq!((error.kind(), error.message()), (kind, text.replace("HOST", &host).as_str()));
}

#[test]
fn an_answer_that_is_none_fails_its_request() {
    use ErrorKind::{Auth, InvalidRequest, Network, Overloaded, Protocol, RateLimited};
    check_failure(
        Response::events(["data: {}\n\n"]),
        Network,
        "the MCP server closed the stream without the answer to the request",
    );
    check_failure(
        Response::new(202),
        Protocol,
        "the MCP server at HOST took a request without an answer",
    );
    let html = Response::new(200).header("content-type", "text/html").text("<html>");
    check_failure(html, Protocol, "the MCP server at HOST answered with text/html, not with JSON");
    check_failure(
        Response::json(200, r#"{"jsonrpc":"2.0","id":99,"result":{}}"#),
        Protocol,
        "the MCP server at HOST sent something else than the answer",
    );
    check_failure(
        Response::json(
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad day"}}"#,
        ),
        InvalidRequest,
        "the MCP server at HOST answered with status 400: bad day",
    );
    check_failure(Response::new(401), Auth, "the MCP server at HOST answered with status 401");
    check_failure(
        Response::new(429),
        RateLimited,
        "the MCP server at HOST answered with status 429",
    );
    check_failure(
        Response::new(503).text("x".repeat(9_000)),
        Overloaded,
        &format!("the MCP server at HOST answered with status 503: {}", "x".repeat(500)),
    );
}

#[test]
fn a_refusal_in_any_state_is_an_error_with_its_status() {
    for status in [400, 401, 403, 404, 405, 500] {
        let server = Server::answering(move |_| Response::new(status)).unwrap();
        let options = HttpServerOptions::new(format!("{}/mcp", server.url()));
        let error =
            Client::connect(Http::new(options), ClientOptions::default(), &AbortSignal::never())
                .unwrap_err();
        assert_eq!(error.failure().status, Some(status), "{error}");
        // Nothing is tried a second time.
        assert_eq!(server.requests().len(), 1, "{status}");

        // A server that loses every session is asked for one new session, not for one after the other.
        let (server, options) =
            self::server(move |request, _, _| no_stream(request).unwrap_or(Response::new(status)));
        let error = call(&connect(options)).unwrap_err();
        assert_eq!(error.failure().status, Some(status), "{error}");
        let calls = server.requests().iter().filter(|it| it.text().contains("tools/call")).count();
        assert_eq!(calls, if status == 404 { 2 } else { 1 }, "{status}");
    }
}

#[test]
fn a_redirect_takes_no_key_to_another_place() {
    let other = Server::answering(|request| {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        json_answer(&message["id"], done())
    })
    .unwrap();
    let to = format!("{}/mcp", other.url());
    let (_server, mut options) = server(move |request, _, _| {
        let there = Response::new(307).header("location", &to);
        no_stream(request).unwrap_or(there)
    });
    options.headers = vec![("authorization".to_owned(), "Bearer sk-123456".to_owned())];
    assert_eq!(call(&connect(options)).unwrap(), "done");
    let requests = other.requests();
    assert_eq!(requests.len(), 1);
    for name in ["authorization", "mcp-session-id"] {
        assert_eq!(requests[0].header(name), None, "{name}");
    }
}

#[test]
fn a_message_in_a_list_and_junk_in_a_stream_do_no_harm() {
    let (_server, options) = server(|request, method, id| {
        no_stream(request).unwrap_or_else(|| match method {
            "ping" => Response::events(["data: junk\n\n", "event: other\ndata: {}\n\n", &event(&id, json!({}))]),
            _ => {
                let list = json!([{"jsonrpc": "2.0", "method": "n"}, {"jsonrpc": "2.0", "id": id, "result": done()}]);
                Response::json(200, list.to_string())
            }
        })
    });
    let client = connect(options);
    client.ping(&AbortSignal::never()).unwrap();
    assert_eq!(call(&client).unwrap(), "done");
}

#[test]
fn a_lost_session_is_opened_anew_once_for_all() {
    let sessions = AtomicUsize::new(0);
    let server = Server::answering(move |request| {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let session = request.header("mcp-session-id").map(str::to_owned);
        match message["method"].as_str() {
            Some("initialize") => {
                assert_eq!(session, None);
                let number = sessions.fetch_add(1, Ordering::SeqCst);
                json_answer(&message["id"], hello())
                    .header("mcp-session-id", format!("session-{number}"))
            }
            Some("tools/call") => match session.as_deref() {
                Some("session-0") => Response::new(404),
                Some("session-1") => json_answer(&message["id"], done()),
                _ => Response::new(400),
            },
            Some(_) => Response::new(202),
            None => Response::new(405),
        }
    })
    .unwrap();
    let options = HttpServerOptions::new(format!("{}/mcp", server.url()));
    let client = connect(options);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..50).map(|_| scope.spawn(|| call(&client))).collect();
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap(), "done");
        }
    });
    let starts = server.requests();
    let starts = starts.iter().filter(|it| it.text().contains("\"initialize\"")).count();
    assert_eq!(starts, 2);
}

#[test]
fn an_abort_ends_a_call_at_once_closes_its_connection_and_is_told() {
    let (server, options) =
        server(|request, _, _| no_stream(request).unwrap_or_else(Response::hang));
    let client = connect(options);
    let controller = AbortController::new();
    std::thread::scope(|scope| {
        let signal = controller.signal();
        let client = &client;
        let running = scope.spawn(move || {
            client.call_tool("t", &object(json!({})), &CallOptions::default(), &signal)
        });
        eventually("the call is there", || {
            server.requests().iter().any(|it| it.text().contains("tools/call"))
        });
        controller.abort();
        assert_eq!(running.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    });
    assert!(server.wait_for_closed(1, LIMIT));
    eventually("it was told", || {
        let requests = server.requests();
        let told = requests.iter().find(|it| it.text().contains("notifications/cancelled"));
        told.is_some_and(|it| it.text().contains("\"requestId\":2"))
    });
}

#[test]
fn what_the_server_says_unasked_comes_by_its_own_stream() {
    let gate = Gate::new();
    let hold = gate.clone();
    let (_server, options) = server(move |request, _, id| {
        if request.method != "GET" {
            return json_answer(&id, done());
        }
        match request.header("last-event-id") {
            None => {
                let first = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
                Response::events([format!("id: 7\ndata: {first}\n\n")]).end(End::Destroy)
            }
            Some(id) => {
                assert_eq!(id, "7");
                let next = r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#;
                Response::events([format!("data: {next}\n\n")]).chunk_behind(&hold, "")
            }
        }
    });
    let (told, notices) = mpsc::channel();
    let told = Mutex::new(told);
    let on_notice =
        Arc::new(move |notice: &Notice| drop(told.lock().unwrap().send(notice.clone())));
    let client = ClientOptions { on_notice: Some(on_notice), ..ClientOptions::default() };
    let client = Client::connect(Http::new(options), client, &AbortSignal::never()).unwrap();
    assert_eq!(notices.recv_timeout(LIMIT).unwrap(), Notice::ToolsChanged);
    assert_eq!(notices.recv_timeout(LIMIT).unwrap(), Notice::PromptsChanged);
    gate.open();
    client.close();
}

#[test]
fn a_message_beyond_the_limit_fails_its_request() {
    let (_server, mut options) = server(|request, _, id| {
        no_stream(request).unwrap_or_else(|| json_answer(&id, json!({"x": "y".repeat(10_000)})))
    });
    options.max_message_bytes = 5_000;
    assert_eq!(call(&connect(options)).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn no_key_shows_up_in_an_error() {
    let (_server, mut options) = server(|request, _, _| {
        no_stream(request).unwrap_or_else(|| {
            let token = request.header("authorization").unwrap_or_default();
            let session = request.header("mcp-session-id").unwrap_or_default();
            Response::new(403).text(format!("who is {token} in {session}?"))
        })
    });
    options.headers.push(("authorization".to_owned(), "Bearer sk-123456789".to_owned()));
    let debug = format!("{options:?}");
    let error = call(&connect(options)).unwrap_err();
    assert!(error.message().ends_with("status 403: who is *** in ***?"), "{error}");
    assert!(!debug.contains("sk-123456789"), "{debug}");
}
