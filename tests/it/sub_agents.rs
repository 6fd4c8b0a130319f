//! Agents as tools of agents.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use expect_test::{Expect, expect};
use serde_json::{Map, Value, json};
use steerage::{
    AbortController, Agent, AgentEvent, AgentOptions, CallLimits, Error, RunEnd, RunOutcome, Tool,
    ToolPool, Usage, agent_tool,
    message::ToolResultMessage,
    testing::{Answer, Scripted, ScriptedOptions},
};

const BOUND: Duration = Duration::from_mins(1);

/// A scripted model whose output costs a dollar a token.
fn dear<A: Into<Answer>>(answers: impl IntoIterator<Item = A>) -> Scripted {
    let mut options = ScriptedOptions::default();
    options.model.cost.output = 1e6;
    Scripted::with_options(options, answers)
}

fn options(model: &Scripted, tools: Vec<Tool>) -> AgentOptions {
    AgentOptions { stream: Some(model.clone().into()), tools, ..AgentOptions::default() }
}

fn calls(name: &str, count: usize) -> Answer {
    (0..count).fold(Answer::new(), |answer, _| answer.tool_call(name, json!({"prompt": "Go on"})))
}

#[track_caller]
fn finished(agent: &Agent) -> RunOutcome {
    let run = agent.prompt("Go").unwrap();
    assert!(run.wait_timeout(BOUND).is_some(), "the run hangs");
    run.outcome().unwrap()
}

fn results(outcome: &RunOutcome) -> Vec<&ToolResultMessage> {
    outcome.messages.iter().filter_map(|message| message.as_tool_result()).collect()
}

fn text(result: &ToolResultMessage) -> String {
    steerage::Message::ToolResult(result.clone()).text().into_owned()
}

/// Agents above an agent that answers; each asks `wide` of the next at once.
fn tower(deep: usize, wide: usize, pool: &ToolPool) -> Agent {
    let below = (deep > 1).then(|| tower_tool(deep - 1, wide, pool)).into_iter().collect();
    let model = Scripted::new([calls("sub", wide), Answer::from("Done.")]);
    let options = AgentOptions { tool_pool: pool.clone(), ..options(&model, below) };
    Agent::new(model.model(), options).unwrap()
}

fn tower_tool(deep: usize, wide: usize, pool: &ToolPool) -> Tool {
    // All agents of a level share one model, which looks at what was asked already.
    let model = Scripted::from_fn(move |request, _| {
        let messages = request.transcript.messages();
        let asked = messages.iter().any(|message| message.as_tool_result().is_some());
        if asked || deep == 1 { Answer::from("Done.") } else { calls("sub", wide) }
    });
    let below = (deep > 1).then(|| tower_tool(deep - 1, wide, pool)).into_iter().collect();
    let options = AgentOptions { tool_pool: pool.clone(), ..options(&model, below) };
    agent_tool("sub", "goes on", model.model(), options).unwrap()
}

#[test]
fn four_deep_and_eight_wide_on_a_pool_of_one() {
    let outcome = finished(&tower(4, 8, &ToolPool::new(1)));
    assert_eq!(outcome.text, "Done.");
    assert!(results(&outcome).iter().all(|result| !result.is_error));
    let said = |index: usize| {
        let mut answers = outcome.messages.iter().filter_map(|message| message.as_assistant());
        answers.nth(index).unwrap().usage.output
    };
    // 73 agents ask and answer, 512 answer.
    assert_eq!(outcome.usage.output, 73 * said(0) + 585 * said(1));
}

#[test]
fn a_result_holds_transcript_and_usage_and_the_run_sums_them() {
    let sub = dear(["Forty-two."]);
    let tool = agent_tool("sub", "thinks", sub.model(), options(&sub, Vec::new())).unwrap();
    let model = dear([calls("sub", 1), Answer::from("It is 42.")]);
    let agent = Agent::new(model.model(), options(&model, vec![tool])).unwrap();
    let outcome = finished(&agent);
    let results = results(&outcome);
    let of_sub = results[0].usage.clone().unwrap();
    assert_eq!(of_sub.cost.total.to_string(), "3");
    let own = outcome.messages.iter().filter_map(|message| message.as_assistant());
    let mut sum = Usage::default();
    own.for_each(|message| sum.add(&message.usage));
    sum.add(&of_sub);
    assert_eq!(outcome.usage, sum);
    let roles: Vec<&Value> = results[0].details.as_ref().unwrap()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant"]);
}

/// The types of the events that a sub-agent's updates hold, with those that they hold themselves.
fn told(event: &Map<String, Value>) -> String {
    let inner = &event.get("partialResult").unwrap_or(&Value::Null)["details"]["event"];
    let name = event["type"].as_str().unwrap();
    match inner.as_object() {
        Some(inner) => format!("{name} > {}", told(inner)),
        None => name.to_owned(),
    }
}

#[test]
fn events_are_forwarded_through_all_levels() {
    let agent = tower(3, 1, &ToolPool::new(1));
    let events = agent.events();
    finished(&agent);
    let mut lines: Vec<String> =
        std::iter::from_fn(|| events.try_next()).map(|event| told(&event.to_json())).collect();
    lines.retain(|line| line.matches("tool_execution_update").count() == 2);
    lines.dedup();
    expect![[r#"
        tool_execution_update > tool_execution_update > agent_start
        tool_execution_update > tool_execution_update > turn_start
        tool_execution_update > tool_execution_update > message_start
        tool_execution_update > tool_execution_update > message_end
        tool_execution_update > tool_execution_update > message_start
        tool_execution_update > tool_execution_update > message_update
        tool_execution_update > tool_execution_update > message_end
        tool_execution_update > tool_execution_update > turn_end
        tool_execution_update > tool_execution_update > agent_end"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn an_abort_reaches_the_third_level() {
    let (began, ended) = (AbortController::new(), Arc::new(AtomicUsize::new(0)));
    let (begins, ends) = (began.clone(), ended.clone());
    let waits =
        Tool::with_schema("waits", "waits", json!({"type": "object"}), move |_, context| {
            begins.abort();
            assert!(context.signal().wait_timeout(BOUND), "the abort did not come");
            ends.fetch_add(1, Ordering::SeqCst);
            Ok("stopped")
        });
    let third = Scripted::new([Answer::new().tool_call("waits", json!({}))]);
    let third = agent_tool("sub", "waits", third.model(), options(&third, vec![waits])).unwrap();
    let second = Scripted::new([calls("sub", 1)]);
    let second = agent_tool("sub", "asks", second.model(), options(&second, vec![third])).unwrap();
    let first = Scripted::new([calls("sub", 1)]);
    let agent = Agent::new(first.model(), options(&first, vec![second])).unwrap();
    let run = agent.prompt("Go").unwrap();
    assert!(began.signal().wait_timeout(BOUND), "the third level did not begin");
    run.abort();
    assert!(run.wait_timeout(BOUND).is_some(), "the run hangs");
    let outcome = run.outcome().unwrap();
    assert_eq!((outcome.end, ended.load(Ordering::SeqCst)), (RunEnd::Aborted, 1));
    let results = results(&outcome);
    assert_eq!(results.len(), 1);
    assert_eq!(
        (results[0].is_error, text(results[0])),
        (true, "the agent gave no answer: it was aborted".to_owned())
    );
}

/// What the only result says of a run whose sub-agent has `answers` and a tool that it calls.
#[track_caller]
fn check_limited<A: Into<Answer>>(
    answers: impl IntoIterator<Item = A>,
    limit: impl FnOnce(&mut AgentOptions),
    end: RunEnd,
    expected: Expect,
) {
    let noop = Tool::with_schema("noop", "nothing", json!({"type": "object"}), |_, _| Ok(()));
    let sub = dear(answers);
    let tool = agent_tool("sub", "works", sub.model(), options(&sub, vec![noop])).unwrap();
    let model = dear([calls("sub", 1), Answer::from("On."), Answer::from("On.")]);
    let mut options = options(&model, vec![tool]);
    limit(&mut options);
    let outcome = finished(&Agent::new(model.model(), options).unwrap());
    let lines: Vec<_> = results(&outcome)
        .iter()
        .map(|result| format!("{}{}", if result.is_error { "error: " } else { "" }, text(result)))
        .collect();
    expected.assert_eq(&lines.join("\n"));
    assert_eq!(outcome.end, end);
}

fn works() -> [Answer; 4] {
    std::array::from_fn(|_| Answer::new().text("Working.").tool_call("noop", json!({})))
}

#[test]
fn the_cost_budget_of_the_run_holds_below_it() {
    let limit = |options: &mut AgentOptions| options.max_cost = Some(20.0);
    check_limited(
        works(),
        limit,
        RunEnd::OutOfBudget,
        expect![
            "error: Working.\n[the agent stopped here: it used up what it may cost before it was done]"
        ],
    );
}

#[test]
fn turns_and_sizes_of_the_run_hold_below_it() {
    let limit = |options: &mut AgentOptions| options.max_requests = Some(2);
    check_limited(
        works(),
        limit,
        RunEnd::Completed,
        expect![
            "error: Working.\n[the agent stopped here: it used up its turns before it was done]"
        ],
    );
    let limit = |options: &mut AgentOptions| {
        options.call_limits = CallLimits { argument_bytes: Some(30), ..CallLimits::default() };
    };
    let long = Answer::new().tool_call("noop", json!({"text": "much too long for this limit"}));
    let says = Answer::with(|request, _| {
        Answer::from(request.transcript.messages().last().unwrap().text().as_ref())
    });
    check_limited(
        [long, says],
        limit,
        RunEnd::Completed,
        expect![
            "the arguments for tool `noop` take 39 bytes and 30 are allowed: send less at once, in several calls"
        ],
    );
}

#[test]
fn a_sub_agent_that_fails_is_an_error_result() {
    check_limited::<Answer>(
        [],
        |_| (),
        RunEnd::Completed,
        expect![
            "error: the agent gave no answer: it failed: the scripted model has no answer left for request 1: give it one more"
        ],
    );
}

#[test]
fn options_that_make_no_agent_make_no_tool() {
    let model = Scripted::new(["x"]);
    let options = AgentOptions { max_requests: Some(0), ..options(&model, Vec::new()) };
    let refused: Result<Tool, Error> = agent_tool("sub", "works", model.model(), options);
    assert!(refused.is_err_and(|error| error.message().contains("max_requests is 0")));
}

#[test]
fn a_deadline_of_the_run_ends_the_agents_below() {
    let waits = Tool::with_schema("waits", "waits", json!({"type": "object"}), |_, context| {
        assert!(context.signal().wait_timeout(BOUND), "the deadline did not come");
        Ok("stopped")
    });
    let sub = Scripted::new([Answer::new().tool_call("waits", json!({}))]);
    let tool = agent_tool("sub", "waits", sub.model(), options(&sub, vec![waits])).unwrap();
    let model = Scripted::new([calls("sub", 1)]);
    let deadline = Some(Duration::from_millis(20));
    let options = AgentOptions { deadline, ..options(&model, vec![tool]) };
    let agent = Agent::new(model.model(), options).unwrap();
    let events = agent.events();
    assert_eq!(finished(&agent).end, RunEnd::Aborted);
    let ends = std::iter::from_fn(|| events.try_next())
        .filter(|event| matches!(event, AgentEvent::AgentEnd { .. }));
    assert_eq!(ends.count(), 1);
}
