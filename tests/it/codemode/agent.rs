//! The tool as an agent has it: nested calls take the way of direct ones.

use std::sync::{Arc, Mutex, mpsc};

use serde_json::{Value, json};
use steerage::{
    Agent, AgentEvent, AgentOptions, Builtin, Hooks, Message, Tool, ToolDecision, ToolPool,
    ToolResult, Usage,
    agent_loop::ResultChanges,
    codemode::{self, CodeModeOptions},
    message::{AssistantMessage, ToolResultMessage},
    testing::{Answer, Scripted},
};

fn read() -> Tool {
    let parameters = json!({
        "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
    });
    Tool::with_schema("read", "Reads a file", parameters, |arguments, _| {
        Ok(format!("contents of {}", arguments["path"].as_str().unwrap()))
    })
}

fn size() -> Tool {
    let parameters = json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
    });
    Tool::with_schema("size", "Gives a number back", parameters, |arguments, _| {
        Ok(json!({"size": arguments["n"]}))
    })
    .output_schema(json!({"type": "object", "properties": {"size": {"type": "integer"}}}))
}

/// An agent whose model runs one script.
fn agent(script: &str, options: AgentOptions) -> Agent {
    let model = Scripted::new([
        Answer::new().tool_call("codemode", json!({"code": script})),
        Answer::new().text("done"),
    ]);
    Agent::new(model.model(), AgentOptions { stream: Some(model.clone().into()), ..options })
        .unwrap()
}

fn with_tools(tools: Vec<Tool>) -> AgentOptions {
    AgentOptions { tools: vec![codemode::tool(tools)], ..AgentOptions::default() }
}

/// The result of the script.
fn run(agent: &Agent) -> ToolResultMessage {
    agent.prompt("go").unwrap().wait().unwrap();
    let messages = agent.messages();
    let found = messages.iter().find_map(|message| match &**message {
        Message::ToolResult(result) => Some(result.clone()),
        _ => None,
    });
    found.unwrap()
}

fn text(result: &ToolResultMessage) -> String {
    let texts: Vec<&str> = result.content.iter().filter_map(|block| block.as_text()).collect();
    texts.join("\n")
}

/// Names and states of the nested calls.
fn nested(result: &ToolResultMessage) -> String {
    let calls = result.details.as_ref().unwrap()["nestedCalls"].as_array().unwrap().clone();
    let told = calls.iter().map(|call| {
        let part = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", part("name"), part("arguments"), part("status"))
    });
    told.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_script_gets_text_or_structured_content_and_returns_json() {
    let script = "const [a, b] = await Promise.all([tools.read({path: 'x'}), tools.size({n: 3})]);\n\
                  console.log(a); return b.size + 1";
    let result = run(&agent(script, with_tools(vec![read(), size()])));
    assert_eq!(text(&result), "contents of x\n4");
    assert!(!result.is_error);
    assert_eq!(nested(&result), "read {\"path\":\"x\"} ok\nsize {\"n\":3} ok");
}

#[test]
fn nested_arguments_are_coerced_and_validated() {
    let script = "const a = await tools.size({n: '7'});\n\
                  try { await tools.size({n: 'many'}) } catch (e) { return [a.size, e.message.includes('size')] }";
    let result = run(&agent(script, with_tools(vec![size()])));
    assert_eq!(text(&result), "[7,true]");
    assert_eq!(nested(&result), "size {\"n\":\"7\"} ok\nsize {\"n\":\"many\"} error");
}

#[test]
fn hooks_see_block_and_change_nested_calls() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let hooks = Hooks {
        before_tool_call: Some(Arc::new(move |view, _| {
            noted.lock().unwrap().push(format!(
                "{} {}",
                view.call.name,
                Value::Object(view.arguments.clone())
            ));
            let secret = view.arguments.get("path").is_some_and(|path| path == "secret");
            Ok(if secret { ToolDecision::block("not that one") } else { ToolDecision::Allow })
        })),
        after_tool_call: Some(Arc::new(|view, _| {
            Ok((view.call.name == "read").then(|| ResultChanges {
                content: Some(vec![steerage::message::Content::text("changed")]),
                ..ResultChanges::default()
            }))
        })),
        ..Hooks::default()
    };
    let script = "const a = await tools.read({path: 'x'});\n\
                  try { await tools.read({path: 'secret'}) } catch (e) { return [a, e.message] }";
    let result = run(&agent(script, AgentOptions { hooks, ..with_tools(vec![read()]) }));
    assert_eq!(text(&result), r#"["changed","not that one"]"#);
    assert_eq!(
        seen.lock().unwrap()[1..],
        [r#"read {"path":"x"}"#.to_owned(), r#"read {"path":"secret"}"#.to_owned()]
    );
}

#[test]
fn a_failing_script_is_an_error_result_with_its_output() {
    let script = "console.log('so far');\nthrow new RangeError('no')";
    let result = run(&agent(script, with_tools(vec![])));
    assert!(result.is_error);
    assert_eq!(
        text(&result),
        "so far\nthe script failed: RangeError: no\n    at <anonymous> (codemode.js:2:11)"
    );
}

#[test]
fn progress_of_nested_tools_arrives_as_updates_that_name_the_tool() {
    let slow = Tool::with_schema("slow", "", json!({"type": "object"}), |_, context| {
        context.update("half");
        Ok("whole")
    });
    let agent = agent("return tools.slow()", with_tools(vec![slow]));
    let (sender, updates) = mpsc::channel();
    let _subscription = agent.subscribe(move |event, _| {
        if let AgentEvent::ToolExecutionUpdate { call, partial_result } = event {
            let details = partial_result.details.clone().unwrap();
            let text = partial_result.content[0].as_text().unwrap().to_owned();
            sender.send((call.name.clone(), details["tool"].clone(), text)).unwrap();
        }
        Ok(())
    });
    assert_eq!(text(&run(&agent)), "\"whole\"");
    assert_eq!(updates.recv().unwrap(), ("codemode".to_owned(), json!("slow"), "half".to_owned()));
}

#[test]
fn scripts_on_a_pool_of_one_thread_do_not_wait_for_each_other() {
    let script =
        "return (await Promise.all([1, 2, 3, 4].map(n => tools.size({n})))).map(it => it.size)";
    let code = json!({"code": script});
    let model = Scripted::new([
        Answer::new()
            .tool_call("codemode", code.clone())
            .tool_call("codemode", code.clone())
            .tool_call("codemode", code),
        Answer::new().text("done"),
    ]);
    let options = AgentOptions {
        stream: Some(model.clone().into()),
        tool_pool: ToolPool::new(1),
        ..with_tools(vec![size()])
    };
    let agent = Agent::new(model.model(), options).unwrap();
    agent.prompt("go").unwrap().wait().unwrap();
    let messages = agent.messages();
    let results = messages.iter().filter_map(|message| message.as_tool_result());
    assert_eq!(results.map(text).collect::<Vec<_>>(), ["[1,2,3,4]"; 3]);
}

#[test]
fn an_abort_reaches_the_script_and_its_calls() {
    let (started, waiting) = mpsc::channel();
    let (told, aborted) = mpsc::channel();
    let stuck = Tool::with_schema("stuck", "", json!({"type": "object"}), move |_, context| {
        started.send(()).unwrap();
        context.signal().wait();
        told.send(()).unwrap();
        Ok("late")
    });
    let agent = agent("await tools.stuck(); return 1", with_tools(vec![stuck]));
    let run = agent.prompt("go").unwrap();
    waiting.recv().unwrap();
    agent.abort();
    assert!(run.wait().is_err());
    aborted.recv().unwrap();
}

#[test]
fn stored_values_live_from_script_to_script_unless_the_script_fails() {
    let call = |code: &str| Answer::new().tool_call("codemode", json!({"code": code}));
    let model = Scripted::new([
        call("store('a', [1]); store('b', 2); return load('a')"),
        call("store('a', 'lost'); throw 1"),
        call("store('b', undefined); return [load('a'), load('b'), load('c')]"),
        Answer::new().text("done"),
    ]);
    let options = AgentOptions { stream: Some(model.clone().into()), ..with_tools(vec![]) };
    let agent = Agent::new(model.model(), options).unwrap();
    agent.prompt("go").unwrap().wait().unwrap();
    let messages = agent.messages();
    let results = messages.iter().filter_map(|message| message.as_tool_result());
    assert_eq!(
        results.map(text).collect::<Vec<_>>(),
        ["[1]", "the script failed: 1", "[[1],null,null]"]
    );
}

#[test]
fn a_code_mode_tool_does_not_offer_itself() {
    let script = "return [ALL_TOOLS.map(it => it.name), 'codemode' in tools]";
    let tools = vec![codemode::tool([]), read()];
    assert_eq!(text(&run(&agent(script, with_tools(tools)))), r#"[["read"],false]"#);
}

#[test]
fn many_tools_are_held_back_behind_a_search() {
    let options = CodeModeOptions { declare_at_most: 1, ..CodeModeOptions::default() };
    let tool = codemode::tool_with([read(), size()], options);
    assert!(
        tool.description().contains("search_tools(args: { query: string; }): Promise<string>;")
    );
    assert!(!tool.description().contains("read(args"));
    let options = AgentOptions { tools: vec![tool], ..AgentOptions::default() };
    let script =
        "text(await tools.search_tools({query: 'file reading'})); return tools.read({path: 'x'})";
    assert_eq!(
        text(&run(&agent(script, options))),
        "```ts\ndeclare const tools: {\n  /** Reads a file */\n  read(args: { path: string; }): Promise<string>;\n};\n```\n\
         \"contents of x\""
    );
}

#[test]
fn long_output_is_cut_in_the_middle_as_the_script_asks() {
    let script = "// @options: {\"max_output_tokens\": 3}\ntext('abcdefghijklmnopqrstuvwxyz')";
    let result = run(&agent(script, with_tools(vec![])));
    assert_eq!(text(&result), "abcdefgh\n[14 characters left out]\nwxyz");
}

#[test]
fn images_are_content() {
    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let camera = Tool::with_schema("camera", "", json!({"type": "object"}), |_, _| {
        Ok(steerage::message::ImageContent { data: PIXEL.into(), mime_type: "image/png".into() })
    });
    let script =
        "const [block] = await tools.camera(); text('before'); image(block); text('after')";
    let result = run(&agent(script, with_tools(vec![camera])));
    let told: Vec<Value> = result
        .content
        .iter()
        .map(|block| serde_json::to_value(block).unwrap()["type"].clone())
        .collect();
    assert_eq!(told, ["text", "image", "text"]);
}

#[test]
fn the_model_is_told_what_a_result_with_images_is() {
    let tool = codemode::tool([read()]);
    let told = tool.description();
    assert!(told.contains("image(x): shows you an image"), "{told}");
    assert!(told.contains("{type: \"image\", data, mimeType}"), "{told}");
}

#[test]
fn the_built_in_model_reads_by_script_what_it_cannot_read_directly() {
    let options =
        AgentOptions { stream: Some(Builtin::unpaced().into()), ..with_tools(vec![read()]) };
    let agent = Agent::new(Builtin::model(), options).unwrap();
    let outcome = agent.prompt("Read a.txt and b.txt.").unwrap().wait().unwrap();
    assert_eq!(
        outcome.text,
        "That gave:\n- `codemode` (const files = [\"a.txt\",\"b.txt\"];\nconst texts = await Promise…), 4 lines:\n    \
         a.txt:\n    contents of a.txt\n    b.txt:\n    contents of b.txt"
    );
}

#[test]
fn with_tools_of_its_own_the_built_in_model_writes_a_script_for_totals_only() {
    let tools = vec![read(), codemode::tool([read()])];
    let options =
        AgentOptions { stream: Some(Builtin::unpaced().into()), tools, ..AgentOptions::default() };
    let agent = Agent::new(Builtin::model(), options).unwrap();
    let calls = |prompt: &str| {
        let outcome = agent.prompt(prompt).unwrap().wait().unwrap();
        let messages = outcome.messages.iter().filter_map(|message| message.as_assistant());
        let names = messages.flat_map(AssistantMessage::tool_calls).map(|call| call.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(calls("Read a.txt and b.txt."), ["read", "read"]);
    assert_eq!(calls("Read a.txt and b.txt and add up the numbers."), ["codemode"]);
}

#[test]
fn what_nested_calls_cost_is_the_cost_of_the_script() {
    let costly = Tool::with_schema("costly", "", json!({"type": "object"}), |_, _| {
        let usage = Usage { input: 3, output: 1, total_tokens: 4, ..Usage::default() };
        Ok(ToolResult { usage: Some(usage), ..ToolResult::text("x") })
    });
    let script = "await Promise.all([tools.costly(), tools.costly()])";
    let result = run(&agent(script, with_tools(vec![costly])));
    assert_eq!(result.usage.unwrap().total_tokens, 8);
}

#[test]
fn a_tool_that_ignores_the_end_of_the_script_holds_nothing_up() {
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let deaf = Tool::with_schema("deaf", "", json!({"type": "object"}), move |_, _| {
        let _ = gate.lock().unwrap().recv();
        Ok("late")
    });
    let result = run(&agent("tools.deaf(); await null; return 1", with_tools(vec![deaf])));
    assert_eq!(text(&result), "1");
    // Whether its thread has begun to run it or not.
    assert!(nested(&result).starts_with("deaf "), "{}", nested(&result));
    drop(release);
}

#[test]
fn a_nested_call_can_be_answered_by_another_thread_while_the_script_waits() {
    // What a host does whose world lives on its main thread.
    let (ask, asked) = mpsc::channel::<mpsc::Sender<String>>();
    let ask = Mutex::new(ask);
    let hosted = Tool::with_schema("world", "", json!({"type": "object"}), move |_, _| {
        let (answer, answered) = mpsc::channel();
        ask.lock().unwrap().send(answer)?;
        Ok(answered.recv()?)
    });
    let agent =
        agent("return (await tools.world()) + (await tools.world())", with_tools(vec![hosted]));
    let run = agent.prompt("go").unwrap();
    for name in ["a", "b"] {
        asked.recv().unwrap().send(name.to_owned()).unwrap();
    }
    run.wait().unwrap();
    let messages = agent.messages();
    let result = messages.iter().find_map(|message| message.as_tool_result()).unwrap();
    assert_eq!(text(result), "\"ab\"");
}
