//! Tools that the host answers itself: from a frame loop, late, not at all, for several agents, inside other calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crossbeam_channel::{bounded, select, unbounded};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steerage::{
    Agent, AgentEvent, AgentOptions, Run, RunEnd, Tool, ToolPool, ToolResult,
    hosted::{self, Call, Queue},
    testing::{Answer, Scripted},
};

/// No wait of these tests takes that long unless something hangs.
const BOUND: Duration = Duration::from_mins(1);

fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

/// An agent whose model calls these tools at once and then says that it is done.
fn agent_with(calls: &[(&str, Value)], options: AgentOptions) -> Agent {
    let calls = calls.iter().fold(Answer::new(), |answer, (name, arguments)| {
        answer.tool_call(*name, arguments.clone())
    });
    let scripted = Scripted::new([calls, Answer::from("Done."), Answer::from("Again.")]);
    let options = AgentOptions { stream: Some(scripted.clone().into()), ..options };
    Agent::new(scripted.model(), options).unwrap()
}

fn agent(calls: &[(&str, Value)], tools: Vec<Tool>) -> Agent {
    agent_with(calls, AgentOptions { tools, ..AgentOptions::default() })
}

/// Waits for the next call.
#[track_caller]
fn next(calls: &Queue<Call>) -> Call {
    calls.next_timeout(BOUND).expect("no call comes")
}

#[track_caller]
fn ended(run: &Run) -> RunEnd {
    assert!(run.wait_timeout(BOUND).is_some(), "the run hangs");
    run.outcome().unwrap().end
}

/// The results in the transcript, one in a line.
fn results(agent: &Agent) -> String {
    let messages = agent.messages();
    let results = messages.iter().filter_map(|message| message.as_tool_result());
    let told = results.map(|result| {
        let texts: Vec<&str> = result.content.iter().filter_map(|it| it.as_text()).collect();
        let sign = if result.is_error { "failed:" } else { "=" };
        format!("{} {sign} {}", result.tool_name, texts.join(" "))
    });
    told.collect::<Vec<_>>().join("\n")
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[test]
fn a_frame_loop_serves_typed_calls() {
    let (tool, calls) = hosted::tool::<Add>("add", "Adds");
    let agent = agent(&[("add", json!({"a": "1", "b": 2})), ("add", json!({"a": 1}))], vec![tool]);
    let run = agent.prompt("Go").unwrap();
    while !run.is_done() {
        while let Some(call) = calls.try_next() {
            assert_eq!((call.tool_name(), call.arguments().len()), ("add", 2));
            assert!(call.serve(|add: Add| Ok((add.a + add.b).to_string())));
        }
        run.wait_timeout(Duration::from_millis(1));
    }
    let results = results(&agent);
    assert!(results.starts_with("add = 3\nadd failed: "), "{results}");
}

#[test]
fn many_tools_share_a_queue_and_their_calls_wait_there_at_once() {
    // With room for one tool at a time, as calls that wait for the host take none.
    for size in [1, 2] {
        let (dispatcher, calls) = hosted::queue();
        let names = ["look", "jump", "say"];
        let tools = names.map(|name| dispatcher.tool_with_schema(name, "", no_parameters()));
        let options = AgentOptions {
            tools: tools.to_vec(),
            tool_pool: ToolPool::new(size),
            ..AgentOptions::default()
        };
        let agent = agent_with(&names.map(|name| (name, json!({}))), options);
        let run = agent.prompt("Go").unwrap();
        let waiting: Vec<Call> = names.iter().map(|_| next(&calls)).collect();
        for call in waiting.into_iter().rev() {
            call.update("at it");
            let name = call.tool_name().to_owned();
            assert!(call.respond(format!("{name} is done")));
        }
        assert_eq!(ended(&run), RunEnd::Completed);
        let expected = "look = look is done\njump = jump is done\nsay = say is done";
        assert_eq!(results(&agent), expected);
    }
}

#[test]
fn an_answer_after_the_run_has_ended_goes_nowhere() {
    let (tool, calls) = hosted::tool_with_schema("wait", "", no_parameters());
    let agent = agent(&[("wait", json!({}))], vec![tool]);
    let run = agent.prompt("Go").unwrap();
    let call = next(&calls);
    assert!(call.is_wanted() && !call.signal().is_aborted());
    run.abort();
    assert_eq!(ended(&run), RunEnd::Aborted);
    assert!(call.signal().is_aborted() && !call.is_wanted());
    let before = results(&agent);
    call.update("late");
    assert!(!call.respond("too late"));
    assert_eq!(results(&agent), before);
    assert!(before.starts_with("wait failed: "), "{before}");
    assert_eq!(agent.prompt("Again").unwrap().wait().unwrap().text, "Done.");
}

#[test]
fn a_call_that_waits_in_the_queue_says_that_its_run_was_aborted() {
    let (tool, calls) = hosted::tool::<Add>("add", "Adds");
    let (woken, wakes) = unbounded();
    let calls = calls.on_wake(move || {
        let _ = woken.send(());
    });
    let agent = agent(&[("add", json!({"a": 1, "b": 2}))], vec![tool]);
    let run = agent.prompt("Go").unwrap();
    wakes.recv_timeout(BOUND).unwrap();
    run.abort();
    assert_eq!(ended(&run), RunEnd::Aborted);
    let call = next(&calls);
    assert!(!call.is_wanted());
    assert!(!call.serve(|_: Add| -> Result<String, _> { panic!("it is served") }));
}

#[test]
fn an_abort_ends_the_wait_at_once() {
    let (tool, calls) = hosted::tool_with_schema("wait", "", no_parameters());
    let options =
        AgentOptions { tools: vec![tool], tool_grace: BOUND * 2, ..AgentOptions::default() };
    let agent = agent_with(&[("wait", json!({}))], options);
    let run = agent.prompt("Go").unwrap();
    let _call = next(&calls);
    run.abort();
    // The grace period would be longer.
    assert_eq!(ended(&run), RunEnd::Aborted);
}

#[test]
fn a_time_limit_ends_the_wait() {
    let (tool, calls) = hosted::tool_with_schema("wait", "", no_parameters());
    let agent = agent(&[("wait", json!({}))], vec![tool.time_limit(Duration::from_millis(1))]);
    let run = agent.prompt("Go").unwrap();
    let call = next(&calls);
    assert_eq!(ended(&run), RunEnd::Completed);
    assert!(!call.is_wanted() && !call.respond("too late"));
    assert!(
        results(&agent)
            .starts_with("wait failed: aborted or out of time before the host had answered"),
        "{}",
        results(&agent)
    );
}

#[test]
fn two_agents_share_a_queue() {
    let (dispatcher, calls) = hosted::queue();
    let tool = dispatcher.tool_with_schema("echo", "", no_parameters());
    let schema = json!({"type": "object", "properties": {"who": {"type": "string"}}});
    let echo = dispatcher.tool_with_schema("echo", "", schema);
    drop(tool);
    let agents =
        ["ada", "bob"].map(|who| agent(&[("echo", json!({"who": who}))], vec![echo.clone()]));
    let runs = agents.each_ref().map(|agent| agent.prompt("Go").unwrap());
    // Both wait before the first is answered.
    let waiting = [next(&calls), next(&calls)];
    for call in waiting {
        let who = call.arguments()["who"].clone();
        call.respond(who.as_str().unwrap());
    }
    assert_eq!(runs.each_ref().map(ended), [RunEnd::Completed; 2]);
    assert_eq!(agents.each_ref().map(results), ["echo = ada", "echo = bob"]);
    // Nothing is left that could call.
    drop((agents, echo, dispatcher));
    assert!({ calls }.next().is_none());
}

#[test]
fn a_call_without_an_answer_fails() {
    let (dropped, calls) = hosted::tool_with_schema("dropped", "", no_parameters());
    let (failing, failures) = hosted::tool_with_schema("failing", "", no_parameters());
    let agent = agent(&[("dropped", json!({})), ("failing", json!({}))], vec![dropped, failing]);
    let run = agent.prompt("Go").unwrap();
    drop(next(&calls));
    assert!(next(&failures).fail("there is no such door"));
    ended(&run);
    let expected = "dropped failed: the host dropped this call of `dropped` without an answer\n\
                    failing failed: there is no such door";
    assert_eq!(results(&agent), expected);
}

#[test]
fn a_queue_that_is_gone_fails_what_waits_and_what_comes() {
    let (dispatcher, calls) = hosted::queue();
    let early = dispatcher.tool_with_schema("early", "", no_parameters());
    let late = dispatcher.tool_with_schema("late", "", no_parameters()).sequential();
    let (woken, wakes) = unbounded();
    let calls = calls.on_wake(move || {
        let _ = woken.send(());
    });
    let agent = agent(&[("early", json!({})), ("late", json!({}))], vec![early, late]);
    let run = agent.prompt("Go").unwrap();
    wakes.recv_timeout(BOUND).unwrap();
    drop(calls);
    ended(&run);
    let expected = "early failed: the host dropped this call of `early` without an answer\n\
                    late failed: the host does not answer calls of `late` any more";
    assert_eq!(results(&agent), expected);
}

/// Panics when it becomes a result.
struct Bad;

impl From<Bad> for ToolResult {
    fn from(_: Bad) -> ToolResult {
        panic!("no result");
    }
}

#[test]
fn a_tool_that_panics_while_it_updates_fails_alone() {
    let (hosted, calls) = hosted::tool_with_schema("hosted", "", no_parameters());
    let own = Tool::with_schema("own", "", no_parameters(), |_, call| {
        call.update("first");
        call.update(Bad);
        Ok("not reached")
    });
    let agent = agent(&[("hosted", json!({})), ("own", json!({}))], vec![hosted, own]);
    let updates = Arc::new(AtomicUsize::new(0));
    let seen = updates.clone();
    let _subscription = agent.subscribe(move |event, _| {
        if matches!(event, AgentEvent::ToolExecutionUpdate { .. }) {
            seen.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    let run = agent.prompt("Go").unwrap();
    let call = next(&calls);
    let host = thread::Builder::new().spawn(move || {
        call.update("first");
        call.update(Bad);
    });
    assert!(host.unwrap().join().is_err());
    assert_eq!(ended(&run), RunEnd::Completed);
    assert_eq!(updates.load(Ordering::Relaxed), 2);
    let results = results(&agent);
    let expected = "hosted failed: the host panicked over this call of `hosted` without an answer\nown failed: ";
    assert!(results.starts_with(expected) && results.ends_with("no result"), "{results}");
}

#[test]
fn a_tool_calls_a_hosted_one_that_a_frame_loop_answers() {
    let (inner, calls) = hosted::tool::<Add>("add", "Adds");
    let outer = Tool::with_schema("outer", "", no_parameters(), |_, call| {
        let arguments = json!({"a": 1, "b": 2}).as_object().cloned().unwrap_or_default();
        Ok(call.run_tool("add", arguments).result)
    });
    let options = AgentOptions {
        tools: vec![outer, inner],
        tool_pool: ToolPool::new(1),
        ..AgentOptions::default()
    };
    let agent = agent_with(&[("outer", json!({})), ("outer", json!({}))], options);
    let run = agent.prompt("Go").unwrap();
    let waiting = [next(&calls), next(&calls)];
    assert!(waiting.into_iter().all(|call| call.serve(|it: Add| Ok((it.a + it.b).to_string()))));
    assert_eq!(ended(&run), RunEnd::Completed);
    assert_eq!(results(&agent), "outer = 3\nouter = 3");
}

#[cfg(feature = "codemode")]
#[test]
fn a_script_calls_a_hosted_tool_that_a_frame_loop_answers() {
    let (inner, calls) = hosted::tool::<Add>("add", "Adds");
    let code = "const all = await Promise.all([tools.add({a: 1, b: 2}), tools.add({a: 3, b: 4})]); return all.map(Number)";
    let options = AgentOptions {
        tools: vec![steerage::codemode::tool([inner])],
        tool_pool: ToolPool::new(1),
        ..AgentOptions::default()
    };
    let agent = agent_with(&[("codemode", json!({"code": code}))], options);
    let run = agent.prompt("Go").unwrap();
    let waiting = [next(&calls), next(&calls)];
    assert!(waiting.into_iter().all(|call| call.serve(|it: Add| Ok((it.a + it.b).to_string()))));
    assert_eq!(ended(&run), RunEnd::Completed);
    assert_eq!(results(&agent), "codemode = [3,7]");
}

#[test]
fn queues_are_selected_on_and_served_by_several_threads() {
    let (one, ones) = hosted::tool_with_schema("one", "", no_parameters());
    let (two, twos) = hosted::tool_with_schema("two", "", no_parameters());
    let agent = agent(&[("one", json!({})), ("two", json!({}))], vec![one, two]);
    let run = agent.prompt("Go").unwrap();
    let (done, all_done) = bounded(2);
    for _ in 0..2 {
        let (ones, twos, done) = (ones.receiver().clone(), twos.receiver().clone(), done.clone());
        let serve = move || {
            let call = select! {
                recv(ones) -> call => call,
                recv(twos) -> call => call,
            };
            done.send(call.unwrap().respond("served")).unwrap();
        };
        thread::Builder::new().spawn(serve).unwrap();
    }
    assert_eq!(ended(&run), RunEnd::Completed);
    assert!((0..2).all(|_| all_done.recv_timeout(BOUND).unwrap()));
    assert_eq!(results(&agent), "one = served\ntwo = served");
}

#[test]
fn a_wake_callback_that_panics_keeps_no_call_from_its_answer() {
    let (tool, calls) = hosted::tool_with_schema("one", "", no_parameters());
    let calls = calls.on_wake(|| panic!("no window"));
    let agent = agent(&[("one", json!({}))], vec![tool]);
    let run = agent.prompt("Go").unwrap();
    assert!(next(&calls).respond("served"));
    assert_eq!(ended(&run), RunEnd::Completed);
}
