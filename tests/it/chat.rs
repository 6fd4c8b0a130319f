//! The chat example as its user sees it: lines in by a pipe, text out; and the small examples, which run and end.

use std::{
    env, fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use expect_test::{Expect, expect};
use steerage::{
    Message,
    testing::server::{Request, Response, Server},
};

/// A program that takes longer hangs.
const PATIENCE: Duration = Duration::from_mins(2);

/// Runs the chat on lines of a script and compares what it shows, without the greeting.
#[track_caller]
fn check(script: &str, expect: Expect) {
    expect.assert_eq(&chat(&[], script));
}

/// The same against a server, whose address is left out of what is shown.
#[track_caller]
fn check_server(server: &Server, script: &str, expect: Expect) {
    let url = format!("{}/v1", server.url());
    let shown = chat(&["--base-url", &url, "--model", "small"], script);
    expect.assert_eq(&shown.replace(&server.address().to_string(), "SERVER"));
}

fn chat(arguments: &[&str], script: &str) -> String {
    let (shown, code) = run("chat", arguments, script);
    assert_eq!(code, Some(0), "{shown}");
    let (greeting, rest) = shown.split_once('\n').unwrap();
    assert!(greeting.starts_with("You talk to "), "{greeting}");
    rest.to_owned()
}

/// Runs an example to its end; gives what it wrote, errors at the end, and its code.
pub(crate) fn run(name: &str, arguments: &[&str], input: &str) -> (String, Option<i32>) {
    let mut talk = Talk::start(name, arguments);
    talk.type_in(input);
    talk.end()
}

/// An example at work.
pub(crate) struct Talk {
    child: Child,
    /// Gone when the input has ended.
    stdin: Option<ChildStdin>,
    output: Receiver<Vec<u8>>,
    /// What it wrote so far.
    shown: Vec<u8>,
}

impl Talk {
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Talk {
        Talk::start_with(name, arguments, &[])
    }

    fn start_with(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Talk {
        let mut command = Command::new(example(name));
        // Keys of whoever runs the tests are not for them.
        let is_key = |name: &str| name.contains("_KEY") || name.contains("_TOKEN");
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_key)) {
            command.env_remove(name);
        }
        let mut child = command
            .args(arguments)
            .envs(variables.iter().copied())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = child.stdout.take().unwrap();
        let (sender, output) = channel();
        let reader = move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut piece) {
                let _ = sender.send(piece[..length].to_vec());
            }
        };
        thread::Builder::new().spawn(reader).unwrap();
        Talk { child, stdin, output, shown: Vec::new() }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        // A program that needs no input may be gone already.
        let _ = self.stdin.as_mut().unwrap().write_all(text.as_bytes());
    }

    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.shown().contains(text) {
            assert!(self.read(), "{text:?} does not come: {}", self.shown());
        }
    }

    /// Interrupts the program, as Ctrl-C does.
    #[cfg(unix)]
    pub(crate) fn interrupt(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::INT).unwrap();
    }

    #[track_caller]
    pub(crate) fn end(mut self) -> (String, Option<i32>) {
        self.stdin = None;
        while self.read() {}
        let mut shown = self.shown();
        self.child.stderr.take().unwrap().read_to_string(&mut shown).unwrap();
        (shown, self.child.wait().unwrap().code())
    }

    /// Reads on; false at the end of the output.
    fn read(&mut self) -> bool {
        match self.output.recv_timeout(PATIENCE) {
            Ok(piece) => self.shown.extend(piece),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                panic!("it hangs: {}", self.shown());
            }
        }
        true
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }
}

/// The program of an example. `cargo test` builds them all, but not if only some targets were asked for.
pub(crate) fn example(name: &str) -> PathBuf {
    static BUILD: Once = Once::new();
    let tests = env::current_exe().unwrap();
    let target = tests.ancestors().nth(2).unwrap();
    let program = target.join("examples").join(format!("{name}{}", env::consts::EXE_SUFFIX));
    if !program.exists() {
        BUILD.call_once(|| {
            let cargo = env::var_os("CARGO").expect("build the examples first");
            let mut build = Command::new(cargo);
            build.args(["build", "--all-features", "--examples", "--target-dir"]);
            build.arg(target.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
            assert!(build.status().unwrap().success(), "the examples do not build");
        });
    }
    program
}

/// A folder for the files of one test, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("steerage-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An answer of a server that speaks chat completions.
fn says(text: &str) -> Response {
    let delta = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"small\",\
             \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let text = serde_json::to_string(text).unwrap();
    Response::events([
        delta(&format!("{{\"role\":\"assistant\",\"content\":{text}}}"), "null"),
        delta("{}", "\"stop\""),
        "data: [DONE]\n\n".to_owned(),
    ])
}

/// Answers with the texts that the user said, so that what the server got can be seen.
fn repeats(request: &Request) -> Response {
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let said = messages.iter().filter(|message| message["role"] == "user").map(|message| {
        match &message["content"] {
            serde_json::Value::String(text) => text.clone(),
            blocks => blocks[0]["text"].as_str().unwrap().to_owned(),
        }
    });
    says(&said.collect::<Vec<_>>().join(" | "))
}

#[test]
fn lines_of_a_script_are_asked_one_after_another() {
    check(
        "My name is Ada.\nWhat is my name?\n",
        expect![[r#"
        > My name is Ada.
        Your name is Ada. I will remember that.
        > What is my name?
        Your name is Ada.
    "#]],
    );
}

#[test]
fn tools_show_their_calls_and_results() {
    check(
        "What is 2 * (3 + 4)?\nWhat is 1 / 0?\nRead ../secret.txt\n",
        expect![[r#"
            > What is 2 * (3 + 4)?
            I use `calculate`.
            * calculate {"expression":"2 * (3 + 4)"}
              calculate = 14
            `calculate` says: 14
            > What is 1 / 0?
            I use `calculate`.
            * calculate {"expression":"1 / 0"}
              calculate failed: a division by zero
            `calculate` failed: a division by zero
            > Read ../secret.txt
            I use `read_file`.
            * read_file {"path":"../secret.txt"}
              read_file failed: No such file or directory (os error 2)
            `read_file` failed: No such file or directory (os error 2)
        "#]],
    );
}

#[test]
fn tools_see_no_file_outside_the_working_directory() {
    let folder = Folder::new();
    let file = folder.file("secret.txt");
    fs::write(&file, "secret").unwrap();
    let shown = chat(&[], &format!("Read {file}\nRead src/../.rustfmt.toml\n"));
    expect![[r#"
        > Read FILE
        I use `read_file`.
        * read_file {"path":"FILE"}
          read_file failed: that is outside the working directory
        `read_file` failed: that is outside the working directory
        > Read src/../.rustfmt.toml
        I use `read_file`.
        * read_file {"path":"src/../.rustfmt.toml"}
          read_file = use_small_heuristics = "Max"
        `read_file` says: use_small_heuristics = "Max"
    "#]]
    .assert_eq(&shown.replace(&file, "FILE"));
}

/// Types `line` while a task of three steps is at work, and gives what is shown but for the line itself, which stands
/// wherever the task was.
fn while_it_works(line: &str) -> String {
    let mut talk = Talk::start("chat", &[]);
    talk.type_in("Run a long task with 3 steps.\n");
    talk.wait_for("step 1 of 3");
    talk.type_in(line);
    let (shown, code) = talk.end();
    assert_eq!(code, Some(0));
    let is_told = |it: &&str| !it.starts_with("> ") && !it.starts_with('(');
    let lines: Vec<&str> = shown.lines().skip(1).filter(is_told).collect();
    lines.join("\n") + "\n"
}

#[test]
fn a_long_task_shows_its_progress_and_a_follow_up_waits_for_it() {
    expect![[r#"
        I use `long_task`.
        * long_task {"steps":3}
          long_task: step 1 of 3
          long_task: step 2 of 3
          long_task: step 3 of 3
          long_task = all 3 steps are done
        `long_task` says: all 3 steps are done
        >> What did I say first?
        You said first: "Run a long task with 3 steps."
    "#]]
    .assert_eq(&while_it_works("+What did I say first?\n"));
}

#[test]
fn a_script_steers_with_a_mark() {
    expect![[r#"
        I use `long_task`.
        * long_task {"steps":3}
          long_task: step 1 of 3
          long_task: step 2 of 3
          long_task: step 3 of 3
          long_task = all 3 steps are done
        >> What is 2 + 2?
        You wrote that while I was working, so it comes first now.

        `long_task` says: all 3 steps are done

        I use `calculate`.
        * calculate {"expression":"2 + 2"}
          calculate = 4
        `calculate` says: 4
    "#]]
    .assert_eq(&while_it_works("!What is 2 + 2?\n"));
}

#[test]
fn a_line_without_a_mark_waits_in_a_script() {
    expect![[r#"
        I use `long_task`.
        * long_task {"steps":3}
          long_task: step 1 of 3
          long_task: step 2 of 3
          long_task: step 3 of 3
          long_task = all 3 steps are done
        `long_task` says: all 3 steps are done
        I use `calculate`.
        * calculate {"expression":"2 + 2"}
          calculate = 4
        `calculate` says: 4
    "#]]
    .assert_eq(&while_it_works("What is 2 + 2?\n"));
}

#[test]
fn a_script_may_abort_and_go_on() {
    let mut talk = Talk::start("chat", &[]);
    talk.type_in("/abort\nRun a long task with 100 steps.\n");
    talk.wait_for("step 2 of 100");
    talk.type_in("/abort\nHow are you?\n");
    let (shown, code) = talk.end();
    assert_eq!(code, Some(0));
    assert!(shown.contains("(there is nothing to abort)"), "{shown}");
    assert!(shown.contains("long_task failed: stopped in step"), "{shown}");
    let end = "(aborted; /retry asks again)\n> How are you?\nWell, thank you. How can I help?\n";
    assert!(shown.ends_with(end), "{shown}");
}

#[test]
fn thinking_is_shown_when_it_is_on() {
    check(
        "/think lots\n/think high\nHow are you?\n",
        expect![[r#"
        > /think lots
        error: `lots` is no thinking level: use off, minimal, low, medium, high, xhigh or max
        > /think high
        (it thinks: high)
        > How are you?
        (thinks) The user says: "How are you?". I have calculate, current_time, list_files, read_file, long_task. Now I can answer.
        Well, thank you. How can I help?
    "#]],
    );
}

#[test]
fn a_conversation_is_saved_and_loaded() {
    let folder = Folder::new();
    let file = folder.file("saved.json");
    let shown = chat(&[], &format!("My name is Ada.\n/save {file}\n"));
    let again = chat(&[], &format!("/load {file}\nWhat is my name?\n/save {file}\n"));
    let (saved, _) = steerage::transcript::from_json(&fs::read_to_string(&file).unwrap()).unwrap();
    let roles: Vec<&str> = saved.iter().map(Message::role).collect();
    expect![[r#"
        > My name is Ada.
        Your name is Ada. I will remember that.
        > /save FILE
        (3 messages are in FILE)
        > /load FILE
        (3 messages are loaded from FILE)
        > What is my name?
        Your name is Ada.
        > /save FILE
        (5 messages are in FILE)
        ["system", "user", "assistant", "user", "assistant"]
    "#]]
    .assert_eq(&format!("{shown}{again}{roles:?}\n").replace(&file, "FILE"));
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_file_that_cannot_be_loaded_leaves_the_conversation_as_it_is() {
    let folder = Folder::new();
    let file = folder.file("half.json");
    chat(&[], &format!("Hello\n/save {file}\n"));
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let script = format!("My name is Ada.\n/load {file}\n/load\nWhat is my name?\n");
    expect![[r#"
        > My name is Ada.
        Your name is Ada. I will remember that.
        > /load FILE
        error: FILE was not loaded: the transcript is cut off at line 2 and the rest is missing: take an older copy, or mend it there; the conversation stays as it is
        > /load
        error: /load needs a file
        > What is my name?
        Your name is Ada.
    "#]].assert_eq(&chat(&[], &script).replace(&file, "FILE"));
}

#[test]
fn a_file_that_cannot_be_read_or_written_is_an_error_of_one_line() {
    let folder = Folder::new();
    let file = folder.file("no/such/folder");
    let shown = chat(&[], &format!("/load {file}\n/save {file}\nHow are you?\n"));
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with(&format!("error: {file} was not loaded: ")), "{shown}");
    assert!(lines[3].starts_with(&format!("error: {file} was not written: ")), "{shown}");
    assert_eq!(lines[5], "Well, thank you. How can I help?");
}

#[test]
fn a_server_gets_the_whole_conversation() {
    let server = Server::answering(repeats).unwrap();
    check_server(
        &server,
        "one\ntwo\n",
        expect![[r#"
        > one
        one
        > two
        one | two
    "#]],
    );
    assert!(server.requests().iter().all(|it| it.header("authorization").is_none()));
}

#[test]
fn a_wrong_key_is_an_error_of_one_line_and_the_chat_goes_on() {
    let body = r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#;
    let server = Server::start([Response::json(401, body), says("Now I know you.")]).unwrap();
    check_server(
        &server,
        "Hello\n/retry\n",
        expect![[r#"
            > Hello
            error: SERVER answered 401 (no key was sent: set one for `server`): Incorrect API key provided {"code":"invalid_api_key"} (nothing is lost: /retry asks again)
            > /retry
            Now I know you.
        "#]],
    );
}

#[test]
fn an_unknown_model_is_an_error_of_one_line_and_another_is_chosen() {
    let server = Server::answering(|request| {
        if request.text().contains("\"model\":\"big\"") {
            return repeats(request);
        }
        let body = r#"{"error":{"message":"model 'small' not found","type":"not_found_error"}}"#;
        Response::json(404, body)
    })
    .unwrap();
    check_server(
        &server,
        "Hello\n/model big\nHello again\n",
        expect![[r#"
            > Hello
            error: SERVER answered 404 (check the id, `small`, and the base URL of the model of `server`): model 'small' not found {"type":"not_found_error"} (nothing is lost: /retry asks again)
            > /model big
            (the model is big at http://SERVER/v1)
            > Hello again
            Hello | Hello again
        "#]],
    );
}

#[test]
fn a_page_instead_of_an_answer_is_an_error_of_one_line() {
    let page = "<!DOCTYPE html>\n<html>\n<title>Welcome</title>\n<body>It works!</body></html>\n";
    let page = Response::new(200).header("content-type", "text/html").text(page);
    let server = Server::start([page, says("Here I am.")]).unwrap();
    check_server(
        &server,
        "Hello\nAre you there?\n",
        expect![[r#"
            > Hello
            error: the response ended without a finish reason: SERVER (`server`) answered 200 with text/html, which is nothing of the API `openai-completions`: check the model's base URL (`http://SERVER/v1`); it begins with: <!DOCTYPE html> <html> <title>Welcome</title> <body>It works!</body></html> (nothing is lost: /retry asks again)
            > Are you there?
            Here I am.
        "#]],
    );
}

#[test]
fn an_address_that_is_none_is_an_error_of_one_line() {
    let shown = chat(&["--base-url", "not a url"], "Hello\nHello\n");
    expect![[r#"
        > Hello
        error: the base URL of the model `default` cannot be used: `not a url` is no URL that can be asked: it does not begin with http:// or https:// (nothing is lost: /retry asks again)
        > Hello
        error: the base URL of the model `default` cannot be used: `not a url` is no URL that can be asked: it does not begin with http:// or https:// (nothing is lost: /retry asks again)
    "#]].assert_eq(&shown);
}

#[test]
fn another_provider_is_chosen_and_the_conversation_goes_on() {
    let script = "My name is Ada.\n/model builtin/builtin-2\n\
        /model anthropic/claude-sonnet-4-6\nWhat is my name?\n/model builtin/builtin-1\n/retry\n";
    check(
        script,
        expect![[r#"
            > My name is Ada.
            Your name is Ada. I will remember that.
            > /model builtin/builtin-2
            error: the provider `builtin` has no model `builtin-2` (did you mean `builtin-1`?); add one that is missing with Models::add_model
            > /model anthropic/claude-sonnet-4-6
            (the model is claude-sonnet-4-6 of anthropic at https://api.anthropic.com)
            > What is my name?
            error: there is no key for the provider `anthropic`: set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN), or StreamOptions::api_key (nothing is lost: /retry asks again)
            > /model builtin/builtin-1
            (the model is builtin-1, the model that is part of the crate)
            > /retry
            Your name is Ada.
        "#]],
    );
}

#[test]
fn a_vendor_is_reached_elsewhere() {
    let body =
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
    let server = Server::start([Response::json(401, body)]).unwrap();
    let mut talk = Talk::start_with(
        "chat",
        &["--provider", "anthropic", "--base-url", &server.url()],
        &[("ANTHROPIC_API_KEY", "sk-ant-wrong")],
    );
    talk.type_in("Hello\n");
    let (shown, _) = talk.end();
    let shown = shown.replace(&server.address().to_string(), "SERVER");
    expect![[r#"
        You talk to claude-sonnet-4-6 of anthropic at http://SERVER. /help says what you can do.
        > Hello
        error: SERVER answered 401 (check the key for `anthropic`): invalid x-api-key {"type":"authentication_error"} (nothing is lost: /retry asks again)
    "#]].assert_eq(&shown);
    assert_eq!(server.requests()[0].header("x-api-key"), Some("sk-ant-wrong"));
    assert!(server.requests()[0].text().contains("claude-"));
}

#[test]
fn a_server_gets_the_key_of_the_environment() {
    let server = Server::start([says("Hello!")]).unwrap();
    let url = server.url();
    let key = ("OPENAI_API_KEY", "sk-of-mine");
    let mut talk = Talk::start_with("chat", &["--base-url", &url], &[key]);
    talk.type_in("Hello\n/model\n");
    assert!(!talk.end().0.contains("sk-of-mine"));
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer sk-of-mine"));
}

#[test]
fn a_model_that_calls_tools_for_ever_is_stopped() {
    let call = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":\
        {\"name\":\"calculate\",\"arguments\":\"{\\\"expression\\\":\\\"1+1\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n";
    let server = Server::answering(move |_| Response::events([call, "data: [DONE]\n\n"])).unwrap();
    let shown = chat(&["--base-url", &server.url()], "Go\n");
    let end = "  calculate = 2\n(it has asked often enough for one run; /retry goes on)\n";
    assert!(shown.ends_with(end), "{shown}");
    assert_eq!(server.requests().len(), 50);
}

#[test]
fn the_command_line_is_checked() {
    let shown = |arguments: &[&str]| {
        let (shown, code) = run("chat", arguments, "");
        format!("{code:?} {}", shown.lines().next().unwrap())
    };
    let all = [
        &["--help"][..],
        &["--modle", "x"],
        &["--model"],
        &["--base-url="],
        &["--provider", "nobody"],
        &["--provider", "ollama"],
    ]
    .map(shown);
    expect![[r#"
        Some(0) A chat in the terminal.
        Some(2) error: there is no option `--modle` (see --help)
        Some(2) error: --model needs a value (see --help)
        Some(2) error: --base-url needs a value (see --help)
        Some(2) error: there is no provider `nobody`; add one with Models::add
        Some(2) error: say which model of ollama with --model"#]]
    .assert_eq(&all.join("\n"));
}

#[test]
fn the_conversation_of_the_readme_is_a_real_one() {
    let readme = include_str!("../../README.md");
    let (_, shown) = readme.split_once("```text\n").unwrap();
    let (shown, _) = shown.split_once("```\n").unwrap();
    let script: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    assert_eq!(run("chat", &[], &(script.join("\n") + "\n")).0, shown);
}

/// The examples beside the chat.
const SMALL: [&str; 8] =
    ["abort", "code_mode", "custom_messages", "hello", "hosted", "low_level", "steer", "tools"];

#[test]
#[allow(clippy::too_many_lines)]
fn the_small_examples_run_and_end() {
    let mut all = String::new();
    for name in SMALL {
        let (shown, code) = run(name, &[], "");
        assert_eq!(code, Some(0), "{name}: {shown}");
        all.extend(["== ", name, "\n", &shown]);
    }
    expect![[r#"
        == abort
        long_task is at work
              user: Run a long task.
         assistant: I use `long_task`.
        toolResult: the task was called off
              then: Well, thank you. How can I help?
        == code_mode

        -- with read_file
        read_file: january.csv
        read_file: february.csv
        read_file: march.csv
        read_file: april.csv
        The numbers add up to 15108.

        -- with codemode
        codemode: const files = ["january.csv","february.csv","march.csv","april.csv"];
        const texts = await Promise.all(files.map((file) => tools.read_file({ path: file })));
        let total = 0;
        for (const line of texts.join("\n").split("\n")) {
          const number = line.match(/-?\d+(\.\d+)?\s*$/);
          if (number) total += Number(number[0]);
        }
        return { files: files.length, total: Math.round(total * 100) / 100 };
        `codemode` says: {"files":4,"total":15108}

        single calls: 3027 tokens
        one script:   1062 tokens
        == custom_messages
        Your open file is report.
        file, note, user, assistant
        == hello
        Your name is Ada. I will remember that.
        Your name is Ada.
        (5 messages, 37 tokens)
        == hosted
        > Go through the door
        I go to the door.
        * move_to {"x":3,"y":1}
          move_to = the player is at (3, 1)
        I break it down.
        * break_down {"x":3,"y":1}
          break_down failed: that would wake the guard
        The door stays closed, and I stand before it.
        == low_level
        My ship is the Seagull.
          Your ship is the Seagull. I will remember that.
          (it came in 10 updates)
        What is my ship?
          Your ship is the Seagull.
          (it came in 7 updates)
        What is your system prompt?
          I was told: "You are a pirate."
          (it came in 7 updates)
        7 messages
        == steer
              user: How many red ones are there?
         assistant: I count the red ones.
        toolResult: 3
              user: No, count the blue ones instead.
         assistant: Right, the blue ones.
        toolResult: 4
         assistant: There are 4 blue ones.
              user: Thank you!
         assistant: You are welcome.
        == tools
        result: 391
        failed: division by zero
        That gave:
        - `calculate` (17, multiply, 23): 391
        - `calculate` (1, divide, 0) failed: division by zero
    "#]]
    .assert_eq(&all);
}

#[test]
fn every_example_is_tried() {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = entries.map(|entry| stem(entry.unwrap().path())).collect();
    names.sort();
    // Those have tests of their own.
    names.retain(|name| {
        !matches!(
            name.as_str(),
            "chat" | "coding_agent" | "mcp" | "mcp_conformance" | "proxy_server"
        )
    });
    assert_eq!(names, SMALL);
}
