//! The client against a server in memory.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use steerage::{
    AbortController, AbortSignal, ErrorKind,
    jsonrpc::{Id, Message, RpcError},
    mcp::{
        CallOptions, Client, ClientOptions, ElicitationAnswer, Notice, Progress,
        definition::Root,
        transport::memory::{self, MemoryServer},
    },
};

use super::{LIMIT, hello, object};

/// Connects; the server has answered and heard `initialized`.
fn connect(options: ClientOptions) -> (Client, MemoryServer) {
    let (transport, server) = memory::pair();
    let client = thread::scope(|scope| {
        let play = scope.spawn(|| {
            server.answer("initialize", hello());
            server.receive(LIMIT)
        });
        let client = Client::connect(transport, options, &AbortSignal::never()).unwrap();
        let ready = Message::notification("notifications/initialized", None);
        assert_eq!(play.join().unwrap(), Some(ready));
        client
    });
    (client, server)
}

fn notify(server: &MemoryServer, method: &str, params: Value) {
    server.send(Message::notification(method, Some(params)));
}

/// Waits for a message of the client that is no request.
fn heard(server: &MemoryServer) -> Value {
    server.receive(LIMIT).expect("a message").to_value()
}

fn never() -> AbortSignal {
    AbortSignal::never()
}

#[test]
fn both_sides_introduce_themselves() {
    let (transport, server) = memory::pair();
    let roots = Arc::new(Vec::new);
    let options = ClientOptions { roots: Some(roots), ..ClientOptions::default() };
    thread::scope(|scope| {
        let asked = scope.spawn(|| server.answer("initialize", hello()));
        let client = Client::connect(transport, options, &never()).unwrap();
        let asked = asked.join().unwrap().unwrap();
        assert_eq!(asked["protocolVersion"], "2025-11-25");
        assert_eq!(asked["capabilities"], json!({"roots": {"listChanged": true}}));
        assert_eq!(asked["clientInfo"]["name"], "steerage");
        assert_eq!(client.server().protocol_version, "2025-11-25");
        assert!(client.server().can("tools") && !client.server().can("logging"));
    });
}

#[track_caller]
fn check_refused(answer: Value, expected: &str) {
    let (transport, server) = memory::pair();
    thread::scope(|scope| {
        scope.spawn(|| server.answer("initialize", answer));
        let error = Client::connect(transport, ClientOptions::default(), &never()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.message().contains(expected), "{error}");
    });
    // The connection was closed.
    while server.receive(LIMIT).is_some() {}
}

#[test]
fn a_server_that_introduces_itself_badly_is_refused() {
    let mut strange = hello();
    strange["protocolVersion"] = json!("2026-07-28");
    check_refused(strange, "speaks the revision 2026-07-28");
    let mut nameless = hello();
    nameless["serverInfo"] = json!({});
    check_refused(nameless, "does not name the server");
    check_refused(json!([]), "does not say what the server can do");
}

#[test]
fn fifty_calls_get_their_own_answers_in_whatever_order_they_come() {
    let (client, server) = connect(ClientOptions::default());
    thread::scope(|scope| {
        let calls: Vec<_> = (0..50)
            .map(|number: u32| {
                let client = client.clone();
                scope.spawn(move || {
                    let arguments = object(json!({"number": number}));
                    let result =
                        client.call_tool("t", &arguments, &CallOptions::default(), &never());
                    assert_eq!(result.unwrap().content, [json!({"number": number})]);
                })
            })
            .collect();
        let mut asked: Vec<_> = (0..50).map(|_| server.request().unwrap()).collect();
        asked.sort_by_key(|(_, _, params)| {
            params["arguments"]["number"].as_u64().map(|it| it * 37 % 50)
        });
        for (id, _, params) in asked {
            let result = json!({"content": [params["arguments"]]});
            server.send(Message::Response { id: Some(id), outcome: Ok(result) });
        }
        for call in calls {
            call.join().unwrap();
        }
    });
}

#[test]
fn answers_that_nobody_waits_for_harm_nothing() {
    let (client, server) = connect(ClientOptions::default());
    let answer = |id: Id, text: &str| {
        server.send(Message::Response { id: Some(id), outcome: Ok(json!({"text": text})) });
    };
    let ask = |signal: &AbortSignal| client.request("x", None, &CallOptions::default(), signal);
    // One that is cancelled, and answered after that.
    let controller = AbortController::new();
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&controller.signal()));
        assert_eq!(heard(&server)["method"], "x");
        controller.abort();
        assert_eq!(asked.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    });
    assert_eq!(heard(&server)["method"], "notifications/cancelled");
    answer(2_u64.into(), "too late");
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&never()));
        let id = heard(&server)["id"].as_u64().unwrap();
        server.send(Message::Response { id: None, outcome: Err(RpcError::new(-32700, "what?")) });
        for wrong in ["3", "x", ""] {
            answer(Id::from_value(json!(wrong)).unwrap(), "of another type");
        }
        for wrong in [json!(-3), json!(3.5), json!(1e300), json!(u64::MAX), json!(0)] {
            answer(Id::from_value(wrong).unwrap(), "of another number");
        }
        notify(&server, "notifications/progress", json!({"progressToken": "3", "progress": "x"}));
        notify(&server, "notifications/progress", json!([1]));
        notify(&server, "notifications/cancelled", json!({"requestId": id}));
        notify(&server, "notifications/cancelled", json!(7));
        answer(id.into(), "right");
        answer(id.into(), "once more");
        assert_eq!(asked.join().unwrap().unwrap()["text"], "right");
    });
}

#[test]
fn an_aborted_request_returns_at_once_and_is_cancelled() {
    let (client, server) = connect(ClientOptions::default());
    let controller = AbortController::new();
    thread::scope(|scope| {
        let call = scope.spawn(|| {
            client.call_tool("t", &object(json!({})), &CallOptions::default(), &controller.signal())
        });
        let (id, _, _) = server.request().unwrap();
        controller.abort();
        assert_eq!(call.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
        let cancelled = heard(&server);
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(Id::from_value(cancelled["params"]["requestId"].clone()), Some(id.clone()));
        // The answer that comes all the same harms nothing.
        server.send(Message::Response { id: Some(id), outcome: Ok(json!({"content": []})) });
        scope.spawn(|| server.answer("ping", json!({})));
        client.ping(&never()).unwrap();
    });
}

#[test]
fn nothing_is_sent_for_a_request_that_is_aborted_already() {
    let (client, server) = connect(ClientOptions::default());
    let controller = AbortController::new();
    controller.abort();
    assert_eq!(client.ping(&controller.signal()).unwrap_err().kind(), ErrorKind::Aborted);
    drop(client);
    assert_eq!(server.receive(LIMIT), None);
}

#[test]
fn a_request_without_a_sign_of_life_times_out_and_is_cancelled() {
    let (client, server) = connect(ClientOptions::default());
    let options =
        CallOptions { timeout: Some(Duration::from_millis(20)), ..CallOptions::default() };
    let error = client.request("slow", None, &options, &never()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(error.message(), "the MCP server did not answer `slow` within 0.02 s");
    assert_eq!(heard(&server)["method"], "slow");
    assert_eq!(heard(&server)["method"], "notifications/cancelled");
}

#[test]
fn progress_renews_the_time_limit_but_not_the_whole_one() {
    let (client, server) = connect(ClientOptions::default());
    let (told, progress) = mpsc::channel();
    let server = &server;
    thread::scope(|scope| {
        scope.spawn(move || {
            let (_, _, params) = server.request().unwrap();
            let token = params["_meta"]["progressToken"].clone();
            for step in 1.. {
                notify(
                    server,
                    "notifications/progress",
                    json!({"progressToken": token, "progress": step, "total": 9, "message": "at it"}),
                );
                // Each step waits for the one before, so the quiet time is never up.
                let Ok(()) = progress.recv() else { return };
            }
        });
        let seen = std::sync::Mutex::new(Vec::new());
        let on_progress = |progress: &Progress| {
            seen.lock().unwrap().push(progress.clone());
            never().wait_timeout(Duration::from_millis(5));
            let _ = told.send(());
        };
        let options = CallOptions {
            timeout: Some(LIMIT),
            max_time: Some(Duration::from_millis(400)),
            on_progress: Some(&on_progress),
        };
        let error = client.request("slow", None, &options, &never()).unwrap_err();
        assert_eq!(error.message(), "the MCP server did not answer `slow` within 0.4 s");
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 1);
        let first = Progress { progress: 1.0, total: Some(9.0), message: Some("at it".into()) };
        assert_eq!(seen[0], first);
        drop(told);
    });
}

#[test]
fn a_connection_that_goes_fails_every_open_request_at_once() {
    let (told, notices) = mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let on_notice =
        Arc::new(move |notice: &Notice| drop(told.lock().unwrap().send(notice.clone())));
    let (client, server) =
        connect(ClientOptions { on_notice: Some(on_notice), ..ClientOptions::default() });
    thread::scope(|scope| {
        let calls: Vec<_> = (0..5).map(|_| scope.spawn(|| client.ping(&never()))).collect();
        for _ in 0..5 {
            server.request().unwrap();
        }
        server.close("it fell over");
        for call in calls {
            let error = call.join().unwrap().unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::Network, "it fell over"));
        }
    });
    assert!(client.is_closed());
    assert_eq!(client.ping(&never()).unwrap_err().message(), "it fell over");
    let closed = Notice::Closed { text: "it fell over".to_owned() };
    assert_eq!(notices.recv_timeout(LIMIT).unwrap(), closed);
}

#[test]
fn a_refusal_keeps_the_code_of_the_server() {
    let (client, server) = connect(ClientOptions::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let (id, _, _) = server.request().unwrap();
            let outcome = Err(RpcError::new(-32002, "no such resource"));
            server.send(Message::Response { id: Some(id), outcome });
        });
        let error = client.read_resource("a:b", &never()).unwrap_err();
        assert_eq!(error.failure().code.as_deref(), Some("-32002"));
        assert_eq!(
            error.message(),
            "the MCP server refused `resources/read`: no such resource (code -32002)"
        );
    });
}

#[test]
fn lists_are_read_to_their_last_page_and_a_bad_tool_spoils_no_other() {
    let (client, server) = connect(ClientOptions::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let schema = json!({"type": "object"});
            let first = json!([{"name": "a", "inputSchema": schema}, {"name": "b"}, {}]);
            server.answer("tools/list", json!({"tools": first, "nextCursor": "2"}));
            let second = json!([{"name": "c", "inputSchema": schema}]);
            let asked = server.answer("tools/list", json!({"tools": second, "nextCursor": ""}));
            assert_eq!(asked, Some(json!({"cursor": "2"})));
        });
        let list = client.list_tools(&never()).unwrap();
        let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(list.faults[0], "the tool `b` cannot be used: missing field `inputSchema`");
        assert_eq!(list.faults.len(), 2);
    });
}

#[test]
fn a_list_whose_pages_repeat_is_an_error() {
    let (client, server) = connect(ClientOptions::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                server.answer("prompts/list", json!({"prompts": [], "nextCursor": "x"}));
            }
        });
        let error = client.list_prompts(&never()).unwrap_err();
        assert!(error.message().ends_with("its pages repeat"), "{error}");
    });
}

fn ask(server: &MemoryServer, id: u64, method: &str, params: Value) {
    server.send(Message::Request {
        id: id.into(),
        method: method.to_owned(),
        params: Some(params),
    });
}

#[test]
fn the_server_may_ask_too() {
    let options = ClientOptions {
        roots: Some(Arc::new(|| vec![Root { uri: "file:///w".to_owned(), name: None }])),
        sampling: Some(Arc::new(|question, _| Ok(json!({"echo": question.params})))),
        elicitation: Some(Arc::new(|question, _| {
            Ok(ElicitationAnswer::Accept(question.defaults()))
        })),
        ..ClientOptions::default()
    };
    let (_client, server) = connect(options);
    ask(&server, 1, "ping", json!({}));
    assert_eq!(heard(&server)["result"], json!({}));
    ask(&server, 2, "roots/list", json!({}));
    assert_eq!(heard(&server)["result"], json!({"roots": [{"uri": "file:///w"}]}));
    ask(&server, 3, "sampling/createMessage", json!({"maxTokens": 5}));
    assert_eq!(heard(&server)["result"], json!({"echo": {"maxTokens": 5}}));
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer", "default": 3}, "b": {"type": "string"}}});
    ask(&server, 4, "elicitation/create", json!({"message": "?", "requestedSchema": schema}));
    assert_eq!(heard(&server)["result"], json!({"action": "accept", "content": {"a": 3}}));
    ask(&server, 5, "elicitation/create", json!({"mode": "url", "message": "?", "url": "x:"}));
    assert_eq!(heard(&server)["error"]["code"], -32602);
    ask(&server, 6, "tasks/list", json!({}));
    assert_eq!(heard(&server)["error"]["code"], -32601);
}

#[test]
fn what_nobody_answers_is_not_offered() {
    let (_client, server) = connect(ClientOptions::default());
    ask(&server, 1, "sampling/createMessage", json!({}));
    assert_eq!(heard(&server)["error"]["code"], -32601);
}

#[test]
fn a_callback_that_panics_is_an_error_for_the_server() {
    let sampling = Arc::new(|_: &_, _: &_| panic!("no model"));
    let (_client, server) =
        connect(ClientOptions { sampling: Some(sampling), ..ClientOptions::default() });
    ask(&server, 1, "sampling/createMessage", json!({}));
    assert_eq!(heard(&server)["error"], json!({"code": -32603, "message": "no model"}));
}

#[test]
fn a_server_that_cancels_its_request_fires_the_signal_of_the_callback() {
    let sampling = Arc::new(|_: &_, signal: &AbortSignal| {
        assert!(signal.wait_timeout(LIMIT));
        Err(RpcError::new(1, "stopped"))
    });
    let (_client, server) =
        connect(ClientOptions { sampling: Some(sampling), ..ClientOptions::default() });
    ask(&server, 9, "sampling/createMessage", json!({}));
    notify(&server, "notifications/cancelled", json!({"requestId": 9}));
    assert_eq!(heard(&server)["error"]["message"], "stopped");
}

#[test]
fn a_flood_of_requests_from_the_server_is_refused_beyond_a_limit() {
    let sampling = Arc::new(|_: &_, signal: &AbortSignal| {
        signal.wait_timeout(LIMIT);
        Err(RpcError::new(1, "stopped"))
    });
    let (client, server) =
        connect(ClientOptions { sampling: Some(sampling), ..ClientOptions::default() });
    for id in 0..40 {
        ask(&server, id, "sampling/createMessage", json!({}));
    }
    for _ in 0..8 {
        assert_eq!(heard(&server)["error"]["code"], -32000);
    }
    drop(client);
}

#[test]
fn the_listener_hears_what_the_server_says_unasked() {
    let (told, notices) = mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let on_notice =
        Arc::new(move |notice: &Notice| drop(told.lock().unwrap().send(notice.clone())));
    let (_client, server) =
        connect(ClientOptions { on_notice: Some(on_notice), ..ClientOptions::default() });
    let expect = |method: &str, params: Value, expected: Notice| {
        notify(&server, method, params);
        assert_eq!(notices.recv_timeout(LIMIT).unwrap(), expected);
    };
    expect("notifications/tools/list_changed", json!({}), Notice::ToolsChanged);
    expect("notifications/resources/list_changed", json!({}), Notice::ResourcesChanged);
    expect("notifications/prompts/list_changed", json!({}), Notice::PromptsChanged);
    let updated = Notice::ResourceUpdated { uri: "a:b".to_owned() };
    expect("notifications/resources/updated", json!({"uri": "a:b"}), updated);
    let log = json!({"level": "error", "logger": "db", "data": {"x": 1}});
    let expected = Notice::Log {
        level: steerage::mcp::definition::LogLevel::Error,
        logger: Some("db".to_owned()),
        data: json!({"x": 1}),
    };
    expect("notifications/message", log, expected);
    let other = Notice::Other { method: "x/y".to_owned(), params: json!({"z": 1}) };
    expect("x/y", json!({"z": 1}), other);
}
