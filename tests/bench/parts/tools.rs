//! Calls of tools that do nothing.

use std::sync::{Arc, Mutex};

use rayon::prelude::*;
use serde_json::{Value, json};
use steerage::{Agent, AgentOptions, StreamEvent, StreamFn, Tool, stream::collect};

use crate::{
    cost::{cost, head, line},
    recorded, sample,
};

const NESTED: usize = 1000;

pub(crate) fn print() {
    let floor = "by hand: parsed, run by rayon";
    head("Calls of a tool that does nothing, in parallel", "µs a call, its turn with it", floor);
    for (count, turns) in [(1, 200), (16, 50), (256, 5)] {
        let mut responses: Vec<_> =
            (0..turns).map(|turn| sample::decoded(&recorded::calls(turn, count))).collect();
        responses.push(sample::decoded(&recorded::text(4, 16)));
        let per_call = |micros: f64| micros / to_f64(turns * count);
        let by_hand = per_call(cost(|| responses.iter().cloned().for_each(handle)));
        let stream = sample::responses(responses.clone(), true);
        let took = per_call(cost(|| run(&stream, vec![sample::echo()])));
        line(&format!("{count} calls in a message"), took, Some(by_hand));
    }
    nested();
}

/// Calls of a tool by a tool, beside the same number of calls by the model.
fn nested() {
    head("1,000 calls by another tool", "µs a call", "1,000 calls in one message");
    let last = sample::decoded(&recorded::text(4, 16));
    let direct = [sample::decoded(&recorded::calls(0, NESTED)), last.clone()];
    let stream = sample::responses(direct.to_vec(), true);
    let floor = cost(|| run(&stream, vec![sample::echo()])) / to_f64(NESTED);
    let many = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let outer = Tool::with_schema("outer", "Calls echo", many, |_, call| {
        let Value::Object(arguments) = json!({"x": 1}) else { return Err("no object".into()) };
        for _ in 0..NESTED {
            assert!(!call.run_tool("echo", arguments.clone()).is_error);
        }
        Ok("done")
    });
    let call = recorded::calls(0, 1).into_iter().map(|event| event.replace("echo", "outer"));
    let first = sample::decoded(&call.collect::<Vec<_>>());
    let stream = sample::responses(vec![first, last], true);
    let took = cost(|| run(&stream, vec![outer.clone(), sample::echo()])) / to_f64(NESTED);
    line("in turn", took, Some(floor));
}

fn run(stream: &Arc<dyn StreamFn>, tools: Vec<Tool>) {
    let options = AgentOptions { stream: Some(stream.clone()), tools, ..AgentOptions::default() };
    let agent = Agent::new(sample::model("anthropic-messages"), options).expect("an agent");
    agent.prompt("go").expect("an idle agent").wait().expect("an answer");
    let messages = agent.messages();
    let mut results = messages.iter().filter_map(|message| message.as_tool_result());
    assert!(results.all(|result| !result.is_error));
}

/// What the calls of a message take without an agent: the events folded, the arguments parsed, the calls run.
fn handle(events: Vec<StreamEvent>) {
    let model = sample::model("anthropic-messages");
    let message = collect(&model, &mut events.into_iter());
    let calls: Vec<_> = message.tool_calls().collect();
    let results = Mutex::new(0);
    calls.par_iter().for_each(|call| {
        assert!(call.arguments["x"].is_i64());
        *results.lock().expect("no panic") += 1;
    });
    assert_eq!(results.into_inner().expect("no panic"), calls.len());
}

fn to_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).expect("a small number"))
}
