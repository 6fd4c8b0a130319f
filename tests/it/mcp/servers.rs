//! The servers of a configuration as tools of an agent. The servers are a few lines of shell.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use expect_test::{Expect, expect};
use serde_json::{Map, Value, json};
use steerage::{
    AbortController, AbortSignal, Agent, AgentEvent, AgentOptions, ErrorKind, Tool, ToolOutcome,
    mcp::{ClientOptions, Config, ServerState, Servers, ServersOptions, config::Server},
    message::{Content, ToolCall},
    testing::{Answer, Scripted},
};

use super::{LIMIT, eventually, hello};

/// A server that lists the tools in the file `tools` and answers calls as `call` says; `$id` is the id of the request.
fn server(tools: &str, call: &str) -> Value {
    let hello = hello();
    let script = format!(
        r#"say() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
        while read -r line; do
            id=${{line#*\"id\":}}; id=${{id%%,*}}
            case "$line" in
                *'"initialize"'*) say '{hello}' ;;
                *'"tools/list"'*) say "{{\"tools\":[$({tools})]}}" ;;
                *'"tools/call"'*) {call} ;;
            esac
        done"#
    );
    json!({"command": "sh", "args": ["-c", script]})
}

fn list(names: &[&str]) -> String {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}}).to_string();
    format!("echo '{}'", names.iter().map(tool).collect::<Vec<_>>().join(","))
}

fn says(text: &str) -> String {
    format!("say '{}'", json!({"content": [{"type": "text", "text": text}]}))
}

fn connect(config: Value) -> Servers {
    let config = Config::from_value(&json!({"mcpServers": config})).unwrap();
    let options =
        ServersOptions { restart_pause: Duration::from_millis(50), ..ServersOptions::default() };
    Servers::connect(config, options, &AbortSignal::never()).unwrap()
}

fn agent(servers: &Servers) -> Agent {
    let scripted = Scripted::new([""; 0]);
    let model = scripted.model();
    let options = AgentOptions {
        stream: Some(scripted.into()),
        tools: servers.tools(),
        ..AgentOptions::default()
    };
    Agent::new(model, options).unwrap()
}

fn call(agent: &Agent, tool: &str) -> ToolOutcome {
    let call = ToolCall { id: "1".into(), name: tool.into(), ..ToolCall::default() };
    agent.run_tool_call(&call, &AbortSignal::never())
}

fn text(outcome: &ToolOutcome) -> String {
    outcome.result.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("|")
}

fn names(tools: &[Tool]) -> Vec<&str> {
    tools.iter().map(Tool::name).collect()
}

/// A file in the folder for such things, gone at the end.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("steerage-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        File(path)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[track_caller]
fn check_config(servers: Value, expected: Expect) {
    let config = Config::from_value(&json!({"mcpServers": servers})).unwrap();
    let line = |(name, entry): &(String, steerage::mcp::config::Entry)| match &entry.server {
        Ok(server) => format!("{name}: {server:?}"),
        Err(fault) => format!("{name}: ! {fault}"),
    };
    expected.assert_eq(&config.servers.iter().map(line).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_faulty_entry_says_what_is_wrong_with_it_and_never_a_value() {
    check_config(
        json!({
            "a b": {"command": "x"}, "none": {}, "list": [], "sse": {"type": "sse", "url": "https://x"},
            "ws": {"type": "ws", "url": "wss://x"}, "ftp": {"url": "ftp://x"}, "args": {"command": "x", "args": "y"},
            "env": {"command": "x", "env": {"KEY": 1}}, "time": {"command": "x", "timeout": 0},
            "port": {"url": "http://x", "oauth": {"callbackPort": 70000}}, "on": {"command": "x", "enabled": "yes"},
        }),
        expect![[r#"
            a b: ! its name may have letters, digits, `_` and `-` only
            none: ! it needs a `command` (a program) or a `url` (streamable HTTP)
            list: ! it is no object
            sse: ! the old transport `sse` is not spoken: use the server's streamable HTTP address
            ws: ! its type `ws` is neither `stdio` nor `http`
            ftp: ! its `url` begins neither with http:// nor with https://
            args: ! `args` is no list of texts
            env: ! `KEY` in `env` is no text
            time: ! `timeout` is no number of seconds above zero
            port: ! in `oauth` `callbackPort` is no port
            on: ! `enabled` is neither true nor false"#]],
    );
}

#[test]
fn a_good_entry_is_kept_and_shows_no_key() {
    check_config(
        json!({
            "files": {"command": "npx", "args": ["-y", "pkg"], "env": {"API_KEY": "sk-123456", "A": "1"}, "x": 1},
            "shop": {"url": "https://shop.example/mcp?key=sk-123456", "command": "ignored",
                "headers": {"Authorization": "Bearer sk-123456", "x-a": "b"}, "oauth": {"clientSecret": "sk-123456"}},
        }),
        expect![[r#"
            files: Stdio(StdioOptions { command: "npx", args: 2, env: ["A", "API_KEY"], inherit_env: false, cwd: None, .. })
            shop: Http { host: "shop.example", headers: ["Authorization", "x-a"], oauth: OAuthEntry { client_id: None, client_secret: Some(Secret(..)), scope: None, client_name: None, callback_port: None, metadata_url: None } }"#]],
    );
}

#[test]
fn variables_are_filled_in_from_the_environment() {
    let variables = |name: &str| match name {
        "TOKEN" => Some("sk-123456".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let config = json!({
        "a": {
            "command": "${CMD:-sh}", "args": ["-c", "${a#b} $X $${TOKEN} ${A-B} ${EMPTY}|${EMPTY:-e}|${", "${TOKEN}x${TOKEN}"],
            "env": {"A_KEY": "Bearer ${TOKEN}"}, "cwd": "${DIR:-}", "description": "${NONE}",
        },
        "b": {"url": "https://${HOST:-x.example}/${TOKEN}", "headers": {"h": "${TOKEN}"}, "oauth": {"clientSecret": "${TOKEN}"}},
        "off": {"command": "${NONE}", "enabled": false},
        "lacks": {"command": "x", "args": ["${TOKEN}", "${NONE}"]},
    });
    let config = Config::from_value_with(&config, &variables).unwrap();
    let server =
        |name: &str| config.servers.iter().find(|(it, _)| it == name).unwrap().1.server.clone();
    let Ok(Server::Stdio(options)) = server("a") else { panic!() };
    assert_eq!((options.command.as_str(), &options.env["A_KEY"][..]), ("sh", "Bearer sk-123456"));
    assert_eq!(options.args[1..], ["${a#b} $X ${TOKEN} ${A-B} |e|${", "sk-123456xsk-123456"]);
    let Ok(Server::Http { url, headers, oauth }) = server("b") else { panic!() };
    assert_eq!((url.as_str(), headers[0].1.as_str()), ("https://x.example/sk-123456", "sk-123456"));
    assert_eq!(oauth.client_secret.unwrap().expose(), "sk-123456");
    assert!(server("off").is_ok());
    assert_eq!(
        server("lacks").unwrap_err(),
        "the environment variable `NONE` is not set: set it, or write `${NONE:-default}`"
    );
    assert!(!format!("{config:?}").contains("sk-123456"), "{config:?}");
}

#[test]
fn a_configuration_that_is_none_says_so_with_its_file() {
    let file = File::new("broken.json", "{");
    let error = Config::from_file(&file.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.message().contains("broken.json cannot be used: EOF"), "{error}");
    assert!(Config::from_value(&json!([])).is_err());
}

#[test]
fn servers_that_fail_stop_no_other_and_are_reported() {
    let mut off = server(&list(&["t"]), "");
    off["enabled"] = json!(false);
    let servers = connect(json!({
        "good": server(&list(&["t", "u"]), &says("hi")),
        "ends": {"command": "sh", "args": ["-c", "echo 'no such table' >&2; exit 1"]},
        "none": {"command": "/no/such/program", "description": "  Does nothing.\nAt all."},
        "old": {"type": "sse", "url": "https://x.example"},
        "off": off,
    }));
    let reports = servers.reports();
    let states: Vec<_> = reports.iter().map(|it| (it.name.as_str(), it.state, it.tools)).collect();
    assert_eq!(
        states,
        [
            ("good", ServerState::Connected, 2),
            ("ends", ServerState::Down, 0),
            ("none", ServerState::Down, 0),
            ("old", ServerState::Invalid, 0),
            ("off", ServerState::Disabled, 0),
        ]
    );
    assert!(reports[1].faults[0].ends_with("standard error: no such table"), "{reports:?}");
    assert_eq!(reports[2].summary, "Does nothing.");
    assert_eq!(names(&servers.tools()), ["mcp__good__t", "mcp__good__u"]);
    assert_eq!(text(&call(&agent(&servers), "mcp__good__u")), "hi");
}

#[test]
fn a_tool_keeps_what_its_server_says_of_it() {
    let tool = json!({
        "name": "x.y", "title": "X", "description": "Does x.",
        "inputSchema": {"$schema": "s", "required": ["a"], "properties": {"a": {"type": "integer"}}},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    });
    let servers = connect(json!({"s-1": server(&format!("echo '{tool}'"), "")}));
    let tool = &servers.tools()[0];
    assert_eq!(
        (tool.name(), tool.label_text(), tool.description()),
        ("mcp__s_1__x_y", "X", "Does x.")
    );
    let parameters =
        json!({"required": ["a"], "properties": {"a": {"type": "integer"}}, "type": "object"});
    assert_eq!(tool.parameters(), &parameters);
    assert_eq!(tool.output(), Some(&json!({"type": "object"})));
    let hints = tool.said_hints();
    assert_eq!(
        (hints.read_only, hints.destructive, hints.open_world),
        (Some(true), None, Some(false))
    );
}

#[test]
fn a_result_keeps_its_data_its_failure_and_where_it_is_from() {
    let result =
        json!({"content": [], "structuredContent": {"n": 1}, "isError": true, "_meta": {"m": 2}});
    let servers = connect(json!({"s": server(&list(&["t"]), &format!("say '{result}'"))}));
    let outcome = call(&agent(&servers), "mcp__s__t");
    assert!(outcome.is_error);
    assert_eq!(text(&outcome), "{\n  \"n\": 1\n}");
    assert_eq!(outcome.result.structured_content, Some(json!({"n": 1})));
    let details = json!({"mcp": {"server": "s", "tool": "t", "meta": {"m": 2}}});
    assert_eq!(outcome.result.details, Some(details));
}

#[test]
fn a_long_text_is_cut_for_the_model_and_whole_for_the_host() {
    let call_it = r#"say "{\"content\":[{\"type\":\"text\",\"text\":\"$(head -c 30000 /dev/zero | tr '\0' x)\"}]}""#;
    let servers = connect(json!({"s": server(&list(&["t"]), call_it)}));
    let outcome = call(&agent(&servers), "mcp__s__t");
    let shown = text(&outcome);
    assert!(
        shown.len() < 21_000 && shown.contains("9520 bytes in its middle are left out"),
        "{shown}"
    );
    let details = outcome.result.details.unwrap();
    assert_eq!(details["mcp"]["wholeText"].as_str().unwrap().len(), 30_000);
}

#[test]
fn a_server_that_dies_is_started_again_by_the_next_call() {
    let marks = File::new("deaths", "");
    let die = format!(
        "echo x >> {0}; if [ $(wc -l < {0}) = 1 ]; then kill -9 $$; fi; {1}",
        marks.path(),
        says("alive")
    );
    let servers = connect(json!({"s": server(&list(&["t"]), &die)}));
    let agent = agent(&servers);
    let outcome = call(&agent, "mcp__s__t");
    assert!(outcome.is_error);
    let told = text(&outcome);
    assert!(told.contains("nobody knows whether it took effect"), "{told}");
    assert!(told.contains("signal: 9"), "{told}");
    assert_eq!(servers.reports()[0].state, ServerState::Down);
    assert_eq!(text(&call(&agent, "mcp__s__t")), "alive");
    assert_eq!(servers.reports()[0].state, ServerState::Connected);
}

#[test]
fn a_server_that_is_killed_in_mid_call_fails_that_call_alone() {
    let id = File::new("killed", "");
    let first = format!(
        "if [ -s {0} ]; then {1}; else echo $$ > {0}; exec sleep 600; fi",
        id.path(),
        says("again")
    );
    let gate = File::new("gate", "");
    let other = format!("while [ ! -s {} ]; do sleep 0.01; done; {}", gate.path(), says("other"));
    let servers = connect(
        json!({"s": server(&list(&["t"]), &first), "other": server(&list(&["t"]), &other)}),
    );
    let agent = agent(&servers);
    std::thread::scope(|scope| {
        let killed = scope.spawn(|| call(&agent, "mcp__s__t"));
        let other = scope.spawn(|| call(&agent, "mcp__other__t"));
        let number = || fs::read_to_string(&id.0).unwrap().trim().to_owned();
        eventually("the call is under way", || !number().is_empty());
        std::process::Command::new("kill").args(["-9", &number()]).status().unwrap();
        let told = text(&killed.join().unwrap());
        assert!(told.contains("nobody knows whether it took effect"), "{told}");
        assert!(told.contains("signal: 9"), "{told}");
        assert!(!other.is_finished());
        fs::write(&gate.0, "x").unwrap();
        assert_eq!(text(&other.join().unwrap()), "other");
    });
    assert_eq!(text(&call(&agent, "mcp__s__t")), "again");
}

#[test]
fn a_panic_while_connecting_keeps_nobody_from_the_next_try() {
    let config = json!({"s": server(&list(&["t"]), &says("hi"))});
    let config = Config::from_value(&config).unwrap();
    let first = AtomicBool::new(true);
    let client = move |_: &str| {
        assert!(!first.swap(false, Ordering::SeqCst), "of the host");
        ClientOptions::default()
    };
    let options = ServersOptions { client: Arc::new(client), ..ServersOptions::default() };
    let servers = Servers::connect(config, options, &AbortSignal::never()).unwrap();
    let report = &servers.reports()[0];
    assert_eq!(
        (report.state, report.faults.join("|").contains("of the host")),
        (ServerState::Down, true)
    );
    servers.client("s", &AbortSignal::never()).unwrap();
}

#[test]
fn a_server_that_dies_again_and_again_is_given_a_pause() {
    let servers = connect(json!({"s": server(&list(&["t"]), "exit 7")}));
    let agent = agent(&servers);
    for _ in 0..2 {
        let told = text(&call(&agent, "mcp__s__t"));
        assert!(told.contains("was lost while the call was under way"), "{told}");
    }
    let told = text(&call(&agent, "mcp__s__t"));
    assert!(told.contains("it is not started again before 1 s from now"), "{told}");
    eventually("it is started again", || {
        text(&call(&agent, "mcp__s__t")).contains("was lost while")
    });
}

#[test]
fn the_tools_of_an_agent_follow_those_of_its_servers() {
    let tools = File::new("tools", "");
    let set = |names: &[&str]| {
        let tool =
            |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}}).to_string();
        fs::write(&tools.0, names.iter().map(tool).collect::<Vec<_>>().join(",")).unwrap();
    };
    set(&["a", "b"]);
    let change = r#"printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'"#;
    let servers = connect(json!({
        "s": server(&format!("cat {}", tools.path()), &format!("{change}; {}", says("done"))),
        "other": server(&list(&["x"]), ""),
    }));
    let agent = agent(&servers);
    let own =
        Tool::with_schema("own", "Own", json!({"type": "object"}), |_: Map<_, _>, _| Ok("own"));
    agent.configure(|options| options.tools.insert(0, own)).unwrap();
    let following = servers.follow(&agent);
    assert_eq!(names(&agent.state().tools), ["own", "mcp__s__a", "mcp__s__b", "mcp__other__x"]);
    set(&["b", "c"]);
    call(&agent, "mcp__s__a");
    eventually("the list has changed", || {
        names(&agent.state().tools) == ["own", "mcp__s__b", "mcp__s__c", "mcp__other__x"]
    });
    assert_eq!(servers.tools_now(&agent.state().tools).map(|tools| tools.len()), None);
    drop(following);
    set(&["d"]);
    call(&agent, "mcp__s__b");
    eventually("the servers know", || names(&servers.tools()) == ["mcp__s__d", "mcp__other__x"]);
    assert_eq!(agent.state().tools.len(), 4);
    assert_eq!(servers.tools_now(&agent.state().tools).map(|tools| tools.len()), Some(3));
}

#[test]
fn an_unusable_schema_spoils_its_tool_alone() {
    let bad = json!({"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"$ref": 7, "allOf": 3}}}});
    let worse = json!({"name": "worse", "inputSchema": []});
    let tools = format!("echo '{worse},{bad},{}'", json!({"name": "fine", "inputSchema": {}}));
    let servers = connect(json!({"s": server(&tools, "")}));
    let tools = servers.tools();
    assert!(names(&tools).contains(&"mcp__s__fine"), "{tools:?}");
    assert!(!names(&tools).contains(&"mcp__s__worse"), "{tools:?}");
    assert!(servers.reports()[0].faults[0].starts_with("the tool `worse` cannot be used"));
    agent(&servers);
}

#[test]
fn progress_reaches_the_agent_as_updates() {
    let progress = r#"printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":3,"total":9,"message":"reading"}}\n' "$id""#;
    let servers =
        connect(json!({"s": server(&list(&["t"]), &format!("{progress}; {}", says("hi")))}));
    let updates = Arc::new(Mutex::new(Vec::new()));
    let model = Scripted::new([Answer::new().tool_call("mcp__s__t", json!({})), "done".into()]);
    let options = AgentOptions {
        stream: Some(model.clone().into()),
        tools: servers.tools(),
        ..AgentOptions::default()
    };
    let agent = Agent::new(model.model(), options).unwrap();
    let seen = updates.clone();
    let _subscription = agent.subscribe(move |event, _| {
        if let AgentEvent::ToolExecutionUpdate { partial_result, .. } = event {
            seen.lock().unwrap().extend(
                partial_result.content.iter().filter_map(Content::as_text).map(str::to_owned),
            );
        }
        Ok(())
    });
    agent.prompt("go").unwrap().wait().unwrap();
    assert_eq!(*updates.lock().unwrap(), ["3 of 9: reading"]);
}

#[test]
fn an_abort_ends_a_call_at_once() {
    let servers = connect(json!({"s": server(&list(&["t"]), ":")}));
    let agent = agent(&servers);
    let controller = AbortController::new();
    std::thread::scope(|scope| {
        let signal = controller.signal();
        let agent = &agent;
        let running = scope.spawn(move || {
            let call = ToolCall { id: "1".into(), name: "mcp__s__t".into(), ..ToolCall::default() };
            agent.run_tool_call(&call, &signal)
        });
        AbortSignal::never().wait_timeout(Duration::from_millis(50));
        controller.abort();
        assert!(running.join().unwrap().is_error);
    });
    assert_eq!(servers.reports()[0].state, ServerState::Connected);
}

#[test]
fn an_abort_while_connecting_returns_at_once() {
    let config =
        Config::from_value(&json!({"mute": {"command": "sh", "args": ["-c", "cat > /dev/null"]}}));
    let controller = AbortController::new();
    std::thread::scope(|scope| {
        let signal = controller.signal();
        let connect = scope
            .spawn(move || Servers::connect(config.unwrap(), ServersOptions::default(), &signal));
        controller.abort();
        assert_eq!(connect.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    });
}

#[test]
fn closed_servers_are_gone_and_stay_so() {
    let servers = connect(json!({"s": server(&list(&["t"]), &says("hi"))}));
    let agent = agent(&servers);
    let client = servers.client("s", &AbortSignal::never()).unwrap();
    servers.close();
    assert!(client.closed().wait_timeout(LIMIT));
    let told = text(&call(&agent, "mcp__s__t"));
    assert!(told.contains("it was closed"), "{told}");
    let error = servers.client("nobody", &AbortSignal::never()).unwrap_err();
    assert_eq!(error.message(), "no MCP server of the configuration is called `nobody`");
}

#[test]
fn a_server_that_wants_a_sign_in_gets_one_by_the_port_of_its_entry() {
    use steerage::{
        Error,
        auth::MemoryStore,
        mcp::servers::sign_in,
        testing::server::{Response, Server},
    };
    let server = Server::answering(|request| match request.path.as_str() {
        "/mcp" => Response::new(401).header("www-authenticate", "Bearer"),
        "/register" => Response::json(201, r#"{"client_id":"c"}"#),
        _ => Response::new(404),
    })
    .unwrap();
    let config =
        json!({"shop": {"url": format!("{}/mcp", server.url()), "oauth": {"scope": "buy"}}});
    let (pages, page) = std::sync::mpsc::channel();
    let pages = Mutex::new(pages);
    let open = Arc::new(move |page: &str| {
        pages.lock().unwrap().send(page.to_owned()).unwrap();
        Err(Error::new(ErrorKind::Refused, "the user turned away"))
    });
    let authorization = Some(sign_in(Arc::new(MemoryStore::default()), open));
    let options = ServersOptions { authorization, ..ServersOptions::default() };
    let config = Config::from_value(&config).unwrap();
    let servers = Servers::connect(config, options, &AbortSignal::never()).unwrap();
    let page = page.recv_timeout(LIMIT).unwrap();
    assert!(page.starts_with(&format!("{}/authorize?", server.url())), "{page}");
    assert!(
        page.contains("&scope=buy") && page.contains("redirect_uri=http%3A%2F%2F127.0.0.1%3A"),
        "{page}"
    );
    assert_eq!(servers.reports()[0].faults, ["the user turned away"]);
}
