//! The built-in model.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{
    Agent, AgentOptions, Builtin, BuiltinOptions, Message, ThinkingLevel, Tool,
    message::{AssistantContent, ImageContent},
    testing::clock::RecordingClock,
};

/// A tool that answers with a text.
fn tool(name: &str, description: &str, parameters: Value, answer: &'static str) -> Tool {
    let required: Vec<String> = parameters.as_object().unwrap().keys().cloned().collect();
    let schema = json!({"type": "object", "properties": parameters, "required": required});
    Tool::with_schema(name, description, schema, move |_, _| Ok(answer))
}

fn tools() -> Vec<Tool> {
    let text = json!({"type": "string"});
    vec![
        tool("calculate", "Works out an expression", json!({"expression": text}), "391"),
        tool("list_files", "Lists the files of a folder", json!({"path": text}), "a.txt\nb.txt"),
        tool("read_file", "Reads a file", json!({"path": text}), "one\ntwo\nthree"),
        tool("current_time", "Tells the time", json!({}), "12:00"),
        tool("long_task", "Works for a while", json!({"steps": {"type": "integer"}}), "done"),
    ]
}

fn agent(tools: Vec<Tool>) -> Agent {
    let options =
        AgentOptions { stream: Some(Builtin::unpaced().into()), tools, ..AgentOptions::default() };
    Agent::new(Builtin::model(), options).unwrap()
}

/// What the model says and calls.
fn shown(messages: &[Arc<Message>]) -> String {
    let mut lines = String::new();
    for message in messages.iter().filter_map(|message| message.as_assistant()) {
        for block in &message.content {
            let written = match block {
                AssistantContent::Text(block) => writeln!(lines, "{}", block.text),
                AssistantContent::Thinking(block) => writeln!(lines, "({})", block.thinking),
                AssistantContent::ToolCall(call) => {
                    writeln!(lines, "> {} {}", call.name, Value::from(call.arguments.clone()))
                }
            };
            written.unwrap();
        }
    }
    lines
}

/// Says things one after another and compares what the model says to the last.
#[track_caller]
fn check_with(tools: Vec<Tool>, says: &[&str], expected: Expect) {
    let agent = agent(tools);
    let mut answer = String::new();
    for text in says {
        answer = shown(&agent.prompt(*text).unwrap().outcome().unwrap().messages);
    }
    expected.assert_eq(&answer);
}

#[track_caller]
fn check(says: &str, expected: Expect) {
    check_with(tools(), &[says], expected);
}

#[test]
fn a_sum_goes_to_a_tool_that_takes_expressions() {
    check(
        "What is 17 * 23?",
        expect![[r#"
        I use `calculate`.
        > calculate {"expression":"17 * 23"}
        `calculate` says: 391
    "#]],
    );
    check(
        "what's (1.5 + 2) * -3 ?",
        expect![[r#"
        I use `calculate`.
        > calculate {"expression":"(1.5 + 2) * -3"}
        `calculate` says: 391
    "#]],
    );
    check(
        "Please divide 7 by 2",
        expect![[r#"
        I use `calculate`.
        > calculate {"expression":"7 / 2"}
        `calculate` says: 391
    "#]],
    );
    check(
        "subtract 2 from 10",
        expect![[r#"
        I use `calculate`.
        > calculate {"expression":"10 - 2"}
        `calculate` says: 391
    "#]],
    );
    check(
        "seventeen apples on 2026-01-31",
        expect![[r#"
        You said: "seventeen apples on 2026-01-31". I am only the small built-in model; say "help" to see what I understand.
    "#]],
    );
}

#[test]
fn a_sum_goes_to_a_tool_that_takes_two_numbers() {
    let number = json!({"type": "number"});
    let add = || tool("add", "Adds", json!({"a": number, "b": number}), "3");
    let multiply = || tool("multiply", "Multiplies", json!({"a": number, "b": number}), "6");
    check_with(
        vec![add(), multiply()],
        &["2 times 3 and 1.5 + 1"],
        expect![[r#"
        I use `multiply` and `add`, at the same time.
        > multiply {"a":2,"b":3}
        > add {"a":1.5,"b":1}
        That gave:
        - `multiply` (2, 3): 6
        - `add` (1.5, 1): 3
    "#]],
    );
    let op = json!({"enum": ["add", "subtract", "divide"]});
    let operate = tool("arithmetic", "x", json!({"op": op, "x": number, "y": number}), "3");
    check_with(
        vec![operate],
        &["what is 9 / 3"],
        expect![[r#"
        I use `arithmetic`.
        > arithmetic {"op":"divide","x":9,"y":3}
        `arithmetic` says: 3
    "#]],
    );
}

#[test]
fn a_sum_without_a_tool_is_worked_out_by_the_model() {
    check_with(
        vec![],
        &["What is 2 + 2, and 7 divided by 2?"],
        expect![[r#"
        2 + 2 = 4
        7 / 2 = 3.5
    "#]],
    );
    check_with(
        vec![],
        &["What is 2 + 2 * 3?"],
        expect![[r#"
        I have no tool that can work out sums.
    "#]],
    );
}

#[test]
fn numbers_in_a_path_are_no_sum() {
    check(
        "Read /data/run-13914-3/4*2.txt.",
        expect![[r#"
        I use `read_file`.
        > read_file {"path":"/data/run-13914-3/4*2.txt"}
        That gave:
        - `read_file` (/data/run-13914-3/4*2.txt), 3 lines:
            one
            two
            three
    "#]],
    );
}

#[test]
fn files_are_listed_and_read() {
    check(
        "List the files in src.",
        expect![[r#"
        I use `list_files`.
        > list_files {"path":"src"}
        That gave:
        - `list_files` (src), 2 lines:
            a.txt
            b.txt
    "#]],
    );
    check(
        "ls",
        expect![[r#"
        I use `list_files`.
        > list_files {"path":"."}
        That gave:
        - `list_files` (.), 2 lines:
            a.txt
            b.txt
    "#]],
    );
    check(
        "Read Cargo.toml and src/lib.rs, please",
        expect![[r#"
        I use `read_file` twice, at the same time.
        > read_file {"path":"Cargo.toml"}
        > read_file {"path":"src/lib.rs"}
        That gave:
        - `read_file` (Cargo.toml), 3 lines:
            one
            two
            three
        - `read_file` (src/lib.rs), 3 lines:
            one
            two
            three
    "#]],
    );
    check(
        "Show me what is in ./notes",
        expect![[r#"
        I use `read_file`.
        > read_file {"path":"./notes"}
        That gave:
        - `read_file` (./notes), 3 lines:
            one
            two
            three
    "#]],
    );
}

#[test]
fn several_wishes_are_several_calls_of_one_message() {
    check(
        "What time is it, what is 17*23, and read README.",
        expect![[r#"
        I use `calculate`, `read_file` and `current_time`, at the same time.
        > calculate {"expression":"17 * 23"}
        > read_file {"path":"README"}
        > current_time {}
        That gave:
        - `calculate` (17 * 23): 391
        - `read_file` (README), 3 lines:
            one
            two
            three
        - `current_time`: 12:00
    "#]],
    );
}

#[test]
fn what_comes_then_waits_for_what_is_before() {
    check(
        "Run two long tasks with 3 steps, then tell me the time.",
        expect![[r#"
        I use `long_task` twice, at the same time.
        > long_task {"steps":3}
        > long_task {"steps":3}
        That gave:
        - `long_task` (3): done
        - `long_task` (3): done

        I use `current_time`.
        > current_time {}
        `current_time` says: 12:00
    "#]],
    );
}

#[test]
fn a_tool_of_the_host_is_used_when_it_is_named() {
    let city = json!({"city": {"type": "string"}});
    let weather = || vec![tool("get_weather", "Tells the weather", city.clone(), "rain")];
    check_with(
        weather(),
        &["How is the weather in Oslo?"],
        expect![[r#"
        I use `get_weather`.
        > get_weather {"city":"Oslo"}
        `get_weather` says: rain
    "#]],
    );
    check_with(
        weather(),
        &[r#"get_weather {"city": "Rome", "days": 2}"#],
        expect![[r#"
        I use `get_weather`.
        > get_weather {"city":"Rome","days":2}
        `get_weather` says: rain
    "#]],
    );
    check_with(
        weather(),
        &["How are you?"],
        expect![[r#"
        Well, thank you. How can I help?
    "#]],
    );
}

#[test]
fn a_failure_of_a_tool_is_told() {
    let broken = Tool::with_schema("current_time", "Tells the time", json!({}), |_, _| {
        Err::<String, _>("the clock stands still".into())
    });
    check_with(
        vec![broken],
        &["What time is it?"],
        expect![[r#"
        I use `current_time`.
        > current_time {}
        `current_time` failed: the clock stands still
    "#]],
    );
}

#[test]
fn without_a_fitting_tool_it_says_so() {
    check_with(
        vec![],
        &["What time is it?"],
        expect![[r#"
        I have no tool that can tell the time.
    "#]],
    );
}

#[test]
fn it_knows_the_conversation() {
    let before = ["My name is Ada.", "Hello!"];
    let ask = |question| [&before[..], &[question]].concat();
    check_with(
        vec![],
        &ask("What is my name?"),
        expect![[r#"
        Your name is Ada.
    "#]],
    );
    check_with(
        vec![],
        &ask("What did I say first?"),
        expect![[r#"
        You said first: "My name is Ada."
    "#]],
    );
    check_with(
        vec![],
        &ask("What did I say before?"),
        expect![[r#"
        You said before: "Hello!"
    "#]],
    );
    check_with(
        vec![],
        &ask("How many messages are there?"),
        expect![[r#"
        There are 5 messages so far.
    "#]],
    );
    check_with(
        vec![],
        &ask("What is my age?"),
        expect![[r#"
        You have not told me your age.
    "#]],
    );
}

#[test]
fn it_knows_itself() {
    check(
        "help",
        expect![[r#"
        I am a small model without a network. I understand:
        - What is 17 * 23, and what is 2 + 2?
        - List the files in src.
        - Read Cargo.toml and README.md.
        - What time is it?
        - Run two long tasks, then tell me the time.
        - My name is Ada. / What is my name?
        - What did I say first? / How many messages are there?
        - Which tools do you have? / What is your system prompt?
        - Tell me a story.
        - fail (to see an error)
        I use your other tools when you name them, with what follows, or with arguments in JSON.
    "#]],
    );
    check_with(
        vec![],
        &["Which tools do you have?"],
        expect![[r#"
        I have no tools.
    "#]],
    );
    check_with(
        vec![],
        &["What is your system prompt?"],
        expect![[r#"
        I was given no instructions.
    "#]],
    );
    check_with(
        vec![],
        &["colourless green ideas"],
        expect![[r#"
        You said: "colourless green ideas". I am only the small built-in model; say "help" to see what I understand.
    "#]],
    );
}

#[test]
fn images_are_counted() {
    let image =
        |kind: &str| ImageContent { data: String::new(), mime_type: format!("image/{kind}") };
    let prompt = ("Look!", vec![image("png"), image("jpeg")]);
    let outcome = agent(vec![]).prompt(prompt).unwrap().wait().unwrap();
    expect!["You sent 2 images (image/png, image/jpeg). I cannot see, but I got them."]
        .assert_eq(&outcome.text);
}

#[test]
fn it_thinks_as_hard_as_it_shall() {
    let agent = agent(tools());
    let say = |level| {
        agent.set_thinking_level(level);
        shown(&agent.prompt("What time is it?").unwrap().wait().unwrap().messages)
    };
    expect![[r#"
        (The user says: "What time is it?". I have calculate, list_files, read_file, current_time, long_task.)
        I use `current_time`.
        > current_time {}
        (The user says: "What time is it?". I have calculate, list_files, read_file, current_time, long_task.)
        `current_time` says: 12:00
    "#]].assert_eq(&say(ThinkingLevel::Minimal));
    expect![[r#"
        (The user says: "What time is it?". I have calculate, list_files, read_file, current_time, long_task. `current_time` fits.)
        I use `current_time`.
        > current_time {}
        (The user says: "What time is it?". I have calculate, list_files, read_file, current_time, long_task. There is something to tell from the tools. Now I can answer.)
        `current_time` says: 12:00
    "#]].assert_eq(&say(ThinkingLevel::High));
}

#[test]
fn what_comes_while_it_works_is_obeyed() {
    let agent_of_tool: Arc<Mutex<Option<Agent>>> = Arc::default();
    let (seen, steers) = (agent_of_tool.clone(), Mutex::new(vec!["Stop, read a.txt instead."]));
    let slow = Tool::with_schema("long_task", "Works", json!({"type": "object"}), move |_, _| {
        let agent = seen.lock().unwrap().clone().unwrap();
        if let Some(text) = steers.lock().unwrap().pop() {
            agent.steer(text);
        }
        Ok("done")
    });
    let mut all = tools();
    all[4] = slow;
    let agent = agent(all);
    *agent_of_tool.lock().unwrap() = Some(agent.clone());
    agent.follow_up("Thanks!");
    let prompt = "Run a long task, then tell me the time.";
    let messages = agent.prompt(prompt).unwrap().wait().unwrap().messages;
    *agent_of_tool.lock().unwrap() = None;
    expect![[r#"
        I use `long_task`.
        > long_task {}
        You wrote that while I was working, so it comes first now.

        I use `read_file`.
        > read_file {"path":"a.txt"}
        That gave:
        - `read_file` (a.txt), 3 lines:
            one
            two
            three
        You are welcome.
    "#]]
    .assert_eq(&shown(&messages));
}

#[test]
fn it_fails_when_asked_to() {
    let outcome = agent(vec![]).prompt("fail").unwrap().outcome().unwrap();
    assert_eq!(outcome.error_message.as_deref(), Some("the built-in model was asked to fail"));
}

#[test]
fn ids_of_calls_do_not_repeat() {
    let agent = agent(tools());
    for _ in 0..2 {
        agent.prompt("What time is it? What is 17 * 23?").unwrap().wait().unwrap();
    }
    let messages = agent.messages();
    let answers = messages.iter().filter_map(|message| message.as_assistant());
    let ids: Vec<&str> =
        answers.flat_map(|answer| answer.tool_calls().map(|call| call.id.as_str())).collect();
    assert_eq!(ids, ["call-1", "call-2", "call-3", "call-4"]);
}

#[test]
fn it_talks_at_a_pace() {
    let clock = Arc::new(RecordingClock::default());
    let options = BuiltinOptions { clock: clock.clone(), ..BuiltinOptions::default() };
    let stream = Some(Builtin::with_options(options).into());
    let agent = Agent::new(Builtin::model(), AgentOptions { stream, ..AgentOptions::default() });
    agent.unwrap().prompt("Tell me a story.").unwrap().wait().unwrap();
    let seconds = clock.pauses().iter().sum::<std::time::Duration>().as_secs();
    assert!((5..30).contains(&seconds), "a story of {seconds} seconds");
}

#[test]
fn strange_texts_are_answered() {
    let odd = [
        "",
        "   ",
        "(((",
        "1 +",
        "+ 1 2",
        "{",
        "`",
        "then then then ",
        "İ my İ is ",
        "my  is x",
        "“",
    ];
    for text in odd {
        let outcome = agent(tools()).prompt(text).unwrap().wait().unwrap();
        assert!(!outcome.text.is_empty(), "{text:?}");
    }
}
