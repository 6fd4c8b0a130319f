//! Processes that behave badly, each a few lines of shell.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use serde_json::json;
use steerage::{
    AbortController, AbortSignal, Error, ErrorKind,
    mcp::{CallOptions, Client, ClientOptions, Notice, Stdio, StdioOptions},
};

use super::{LIMIT, eventually, hello, object};

/// A shell that says hello and then does what `rest` says. Its first request has the id 1, the next 2.
fn script(rest: &str) -> StdioOptions {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "result": hello()});
    StdioOptions::new("sh", ["-c", &format!("read a; echo '{hello}'; read b; {rest}")])
}

fn bare(rest: &str) -> StdioOptions {
    StdioOptions::new("sh", ["-c", rest])
}

fn connect(options: StdioOptions) -> Result<Client, Error> {
    Client::connect(Stdio::new(options), ClientOptions::default(), &AbortSignal::never())
}

fn call(client: &Client) -> Result<steerage::mcp::definition::CallResult, Error> {
    client.call_tool("t", &object(json!({})), &CallOptions::default(), &AbortSignal::never())
}

const ANSWER: &str =
    r#"echo '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hi"}]}}'"#;

/// A file that a process writes its number into, and whether such processes are left.
struct Marks(PathBuf);

impl Marks {
    fn new(name: &str) -> Marks {
        let path = std::env::temp_dir().join(format!("steerage-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        Marks(path)
    }

    fn script(&self) -> String {
        format!("echo $$ >> {}", self.0.display())
    }

    fn count(&self) -> usize {
        fs::read_to_string(&self.0).map_or(0, |text| text.lines().count())
    }

    fn alive(&self) -> usize {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let is_alive = |id: &&str| {
            let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            if cfg!(target_os = "linux") {
                !state.is_empty() && !state.contains(") Z ")
            } else {
                Command::new("kill").args(["-0", id]).output().is_ok_and(|it| it.status.success())
            }
        };
        text.lines().filter(is_alive).count()
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_server_that_prints_junk_first_is_understood_and_the_junk_reported() {
    let (told, notices) = mpsc::channel();
    let told = Mutex::new(told);
    let on_notice =
        Arc::new(move |notice: &Notice| drop(told.lock().unwrap().send(notice.clone())));
    let options = ClientOptions { on_notice: Some(on_notice), ..ClientOptions::default() };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "result": hello()});
    let server = bare(&format!(
        "echo 'Starting up: key is s3cr3t-t0ken'; echo '{{\"broken\": '; read a; echo '{hello}'; read b; read c; {ANSWER}"
    ));
    let mut server = server;
    server.env.insert("SOME_TOKEN".to_owned(), "s3cr3t-t0ken".to_owned());
    let client = Client::connect(Stdio::new(server), options, &AbortSignal::never()).unwrap();
    assert_eq!(call(&client).unwrap().content, [json!({"type": "text", "text": "hi"})]);
    let Notice::Fault { text } = notices.recv_timeout(LIMIT).unwrap() else { panic!() };
    assert!(text.ends_with("column 1: Starting up: key is ***"), "{text}");
    assert!(matches!(notices.recv_timeout(LIMIT).unwrap(), Notice::Fault { .. }));
}

#[test]
fn invalid_json_in_place_of_an_answer_ends_in_a_timeout_of_that_call_alone() {
    let rest = r#"read c; echo '{"jsonrpc":"2.0","id":2,"result":'; read c; read d; echo '{"jsonrpc":"2.0","id":3,"result":{}}'; cat"#;
    let client = connect(script(rest)).unwrap();
    let options =
        CallOptions { timeout: Some(Duration::from_millis(100)), ..CallOptions::default() };
    let error = client.request("x", None, &options, &AbortSignal::never()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    client.ping(&AbortSignal::never()).unwrap();
}

#[test]
fn a_server_that_never_answers_times_out_and_is_gone() {
    let marks = Marks::new("mute");
    let server = bare(&format!("{}; cat > /dev/null", marks.script()));
    let options =
        ClientOptions { timeout: Some(Duration::from_millis(300)), ..ClientOptions::default() };
    let error = Client::connect(Stdio::new(server), options, &AbortSignal::never()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    eventually("the process is gone", || marks.count() == 1 && marks.alive() == 0);
}

#[test]
fn an_abort_while_connecting_returns_at_once_and_leaves_no_process() {
    let marks = Marks::new("abort");
    let server = bare(&format!("trap '' TERM; {}; while true; do read a; done", marks.script()));
    let controller = AbortController::new();
    std::thread::scope(|scope| {
        let signal = controller.signal();
        let connect = scope
            .spawn(move || Client::connect(Stdio::new(server), ClientOptions::default(), &signal));
        eventually("the process runs", || marks.count() == 1);
        controller.abort();
        assert_eq!(connect.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    });
    eventually("the process is gone", || marks.alive() == 0);
}

#[test]
fn a_program_that_does_not_exist_or_ends_at_once_says_why() {
    let error = connect(StdioOptions::new("/no/such/program", ["x"])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.message().starts_with("cannot start the MCP server `/no/such/program`: "));
    let mut server = bare("echo \"no config: $MY_API_KEY\" >&2; exit 3");
    server.env.insert("MY_API_KEY".to_owned(), "sk-12345678".to_owned());
    assert_eq!(
        connect(server).unwrap_err().message(),
        "the MCP server sh has ended (exit status: 3); the end of its standard error: no config: ***"
    );
    let mut server = bare("");
    server.cwd = Some("/no/such/folder".into());
    let error = connect(server).unwrap_err();
    assert!(error.message().ends_with("its folder /no/such/folder does not exist"), "{error}");
}

#[test]
fn a_server_that_is_killed_fails_the_call_at_once_and_says_how() {
    let client = connect(script("read c; kill -9 $$")).unwrap();
    let error = call(&client).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(error.message().starts_with("the MCP server sh has ended (signal: 9"), "{error}");
    assert!(client.is_closed());
}

#[test]
fn all_open_calls_fail_when_the_server_dies() {
    let client = connect(script("read c; read d; read e; kill -9 $$")).unwrap();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(|| call(&client))).collect();
        for one in calls {
            assert_eq!(one.join().unwrap().unwrap_err().kind(), ErrorKind::Network);
        }
    });
}

#[test]
fn an_answer_before_the_end_of_the_process_still_counts() {
    let client = connect(script(&format!("read c; {ANSWER}; exit 0"))).unwrap();
    assert_eq!(call(&client).unwrap().content.len(), 1);
    assert!(client.closed().wait_timeout(LIMIT));
}

#[test]
fn a_server_that_closes_its_input_is_given_up() {
    let marks = Marks::new("deaf");
    let rest = format!("exec <&-; {}; while true; do sleep 1; done", marks.script());
    let client = connect(script(&rest)).unwrap();
    eventually("it is deaf", || marks.count() == 1);
    let error = call(&client).unwrap_err();
    assert_eq!(error.message(), "the MCP server sh no longer talks");
    drop(client);
    eventually("the process is gone", || marks.alive() == 0);
}

#[test]
fn a_server_that_closes_its_output_is_given_up() {
    let client = connect(script("read c; exec >&-; cat > /dev/null")).unwrap();
    assert_eq!(call(&client).unwrap_err().message(), "the MCP server sh no longer talks");
}

#[test]
fn a_flood_of_stderr_blocks_nothing_and_only_its_end_is_kept() {
    let flood = "i=0; while [ $i -lt 3000 ]; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx >&2; i=$((i+1)); done; echo the end >&2";
    let options = script(&format!("read c; {flood}; {ANSWER}; cat > /dev/null"));
    let transport = Stdio::new(StdioOptions { max_stderr_bytes: 1_000, ..options });
    let stderr = transport.stderr_reader();
    let client =
        Client::connect(transport, ClientOptions::default(), &AbortSignal::never()).unwrap();
    call(&client).unwrap();
    client.close();
    let kept = stderr();
    assert!(kept.len() <= 1_000 && kept.ends_with("the end"), "{kept}");
}

#[test]
fn ten_megabytes_go_both_ways() {
    let rest = r#"c=$(head -n 1 | wc -c); printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"'; printf '%s' "$c" | tr -d '\n '; head -c 10000000 /dev/zero | tr '\0' x; echo '"}]}}'; cat > /dev/null"#;
    let client = connect(script(rest)).unwrap();
    let arguments = object(json!({"text": "y".repeat(10_000_000)}));
    let result =
        client.call_tool("t", &arguments, &CallOptions::default(), &AbortSignal::never()).unwrap();
    let text = result.content[0]["text"].as_str().unwrap();
    assert_eq!(text.bytes().filter(|it| *it == b'x').count(), 10_000_000);
    let length: usize = text.trim_end_matches('x').parse().unwrap();
    assert!(length > 10_000_000);
}

#[test]
fn a_message_beyond_the_limit_is_dropped_and_reported() {
    let rest = "read c; head -c 100000 /dev/zero | tr '\\0' x; echo; read d; cat > /dev/null";
    let options = StdioOptions { max_message_bytes: 50_000, ..script(rest) };
    let (told, notices) = mpsc::channel();
    let told = Mutex::new(told);
    let on_notice =
        Arc::new(move |notice: &Notice| drop(told.lock().unwrap().send(notice.clone())));
    let client_options = ClientOptions {
        on_notice: Some(on_notice),
        timeout: Some(Duration::from_millis(300)),
        ..ClientOptions::default()
    };
    let client =
        Client::connect(Stdio::new(options), client_options, &AbortSignal::never()).unwrap();
    assert_eq!(call(&client).unwrap_err().kind(), ErrorKind::Limit);
    let Notice::Fault { text } = notices.recv_timeout(LIMIT).unwrap() else { panic!() };
    assert_eq!(text, "a message of the MCP server sh is longer than 50000 bytes and was dropped");
}

#[test]
fn a_server_that_reads_nothing_does_not_hold_an_abort_up() {
    let client = connect(script("while true; do sleep 1; done")).unwrap();
    let controller = AbortController::new();
    let big = object(json!({"text": "y".repeat(1_000_000)}));
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..80)
            .map(|_| {
                let (client, signal, big) = (&client, controller.signal(), &big);
                scope.spawn(move || client.call_tool("t", big, &CallOptions::default(), &signal))
            })
            .collect();
        // Whether they wait for a place or for an answer: all return.
        AbortSignal::never().wait_timeout(Duration::from_millis(200));
        controller.abort();
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
        }
    });
}

#[test]
fn a_server_that_reads_nothing_holds_no_request_longer_than_its_time() {
    let client = connect(script("exec sleep 600")).unwrap();
    let big = object(json!({"text": "y".repeat(100_000)}));
    std::thread::scope(|scope| {
        // More than may wait for the server to read them.
        let call = || {
            let timeout = Some(Duration::from_millis(200));
            let options = CallOptions { timeout, ..CallOptions::default() };
            client.call_tool("t", &big, &options, &AbortSignal::never())
        };
        let calls: Vec<_> = (0..80).map(|_| scope.spawn(call)).collect();
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap_err().kind(), ErrorKind::Limit);
        }
    });
}

#[test]
fn keys_in_arguments_and_variables_show_in_no_error() {
    let mut options = bare("echo \"$0 $1 $2 $KEY\" >&2");
    options.args.extend(["--api-key", "sk-abcdef-1", "--token=sk-abcdef-2"].map(String::from));
    options.args.insert(2, "first".to_owned());
    options.env.insert("KEY".to_owned(), "sk-abcdef-3".to_owned());
    let shown = format!("{options:?}");
    let error = connect(options).unwrap_err().to_string();
    assert!(error.contains("first --api-key ***"), "{error}");
    assert!(!error.contains("sk-abcdef") && !shown.contains("sk-abcdef"), "{error} {shown}");
}

#[test]
fn what_the_server_started_goes_with_it() {
    let marks = Marks::new("children");
    // A child that keeps no pipe and hears no request to end, and one that keeps them all.
    let children = format!(
        "(trap '' TERM; {0}; sleep 600) <&- >&- 2>&- & (sh -c '{0}; sleep 601') &",
        marks.script().replace("$$", "$(exec sh -c \"echo \\$PPID\")")
    );
    let rest = format!("{children} cat > /dev/null");
    let client = connect(script(&rest)).unwrap();
    eventually("the children run", || marks.count() == 2);
    client.close();
    assert_eq!(marks.alive(), 0);
}

#[test]
fn a_dropped_client_ends_a_server_that_does_not_want_to() {
    let marks = Marks::new("stubborn");
    let rest = format!("trap '' TERM HUP INT; {}; while true; do sleep 1; done", marks.script());
    let mut options = script(&rest);
    options.close_timeout = Duration::from_millis(200);
    let client = connect(options).unwrap();
    eventually("it runs", || marks.count() == 1);
    drop(client);
    eventually("the process is gone", || marks.alive() == 0);
}

#[test]
fn the_environment_is_reduced_unless_all_of_it_is_asked_for() {
    let report = r#"read c; echo "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"text\":\"[$CARGO_PKG_NAME][$MINE][$HOME]\"}]}}"; cat > /dev/null"#;
    let text = |inherit_env: bool| {
        let mut options = StdioOptions { inherit_env, ..script(report) };
        options.env.insert("MINE".to_owned(), "yes".to_owned());
        call(&connect(options).unwrap()).unwrap().content[0]["text"].as_str().unwrap().to_owned()
    };
    let home = std::env::var("HOME").unwrap_or_default();
    assert_eq!(text(false), format!("[][yes][{home}]"));
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    assert_eq!(text(true), format!("[{package}][yes][{home}]"));
}
