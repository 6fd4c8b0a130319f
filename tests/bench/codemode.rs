//! What code mode costs: the start of an engine with everything frozen, and a nested call beside a direct one.
//!
//! `cargo bench --bench codemode --features codemode` prints medians. The promise: an engine starts in less than 5 ms.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use steerage::{
    AbortSignal, Agent, AgentOptions, Tool, ToolError,
    codemode::{self, Sandbox, ScriptCall, ScriptHost, ScriptTool},
    testing::{Answer, Scripted},
};

const STARTS: usize = 200;
const CALLS: usize = 1000;
const ROUNDS: usize = 9;

struct Nothing;

impl ScriptHost for Nothing {
    fn tools(&self) -> Vec<ScriptTool> {
        Vec::new()
    }

    fn call(&self, _: &ScriptCall, _: &AbortSignal) -> Result<Value, ToolError> {
        Ok(Value::Null)
    }
}

fn main() {
    let sandbox = Sandbox::default();
    let start = median(STARTS, || {
        let execution = sandbox.execute("return 1", Arc::new(Nothing), &AbortSignal::never());
        assert_eq!(execution.result, Ok(Some(json!(1))));
    });
    show("a script that does nothing, engine included", start);

    let direct = median(ROUNDS, || run(vec![tool()], direct_calls()));
    show("1,000 direct calls, in one batch", direct);
    let at_once = "await Promise.all(Array.from({length: 1000}, (_, n) => tools.next({n})))";
    show("1,000 nested calls, at once", median(ROUNDS, || run(script_tools(), script(at_once))));
    let in_turn = "for (let n = 0; n < 1000; n++) await tools.next({n})";
    show("1,000 nested calls, in turn", median(ROUNDS, || run(script_tools(), script(in_turn))));
}

fn tool() -> Tool {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Tool::with_schema("next", "Adds one", parameters, |arguments, _| {
        Ok((arguments["n"].as_i64().unwrap_or_default() + 1).to_string())
    })
}

fn script_tools() -> Vec<Tool> {
    vec![codemode::tool([tool()])]
}

fn direct_calls() -> Answer {
    (0..CALLS).fold(Answer::new(), |answer, n| answer.tool_call("next", json!({"n": n})))
}

fn script(code: &str) -> Answer {
    Answer::new().tool_call("codemode", json!({"code": code}))
}

fn run(tools: Vec<Tool>, answer: Answer) {
    let model = Scripted::new([answer, Answer::new().text("done")]);
    let options =
        AgentOptions { stream: Some(model.clone().into()), tools, ..AgentOptions::default() };
    let agent = Agent::new(model.model(), options).unwrap();
    agent.prompt("go").unwrap().wait().unwrap();
    let messages = agent.messages();
    let results = messages.iter().filter_map(|message| message.as_tool_result());
    assert!(results.clone().count() > 0 && results.clone().all(|result| !result.is_error));
}

fn median(rounds: usize, mut body: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let began = Instant::now();
            body();
            began.elapsed()
        })
        .collect();
    times.sort();
    times[rounds / 2]
}

fn show(what: &str, time: Duration) {
    println!("{what:<50} {:>9.2} ms", time.as_secs_f64() * 1000.0);
}
