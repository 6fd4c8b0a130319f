//! Tools that ignore the abort or their time limit: they are left alone after the grace period and change nothing any more.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::json;
use steerage::{
    Agent, RunEnd, Tool, ToolPool,
    testing::{Answer, Scripted},
};

use crate::robust::{BOUND, check_calls, options, outcome, tool};

const GRACE: Duration = Duration::from_millis(20);

/// A tool that looks at no signal and returns when it is let go.
struct Stuck {
    tool: Tool,
    has_started: Receiver<()>,
    release: Sender<()>,
    /// Closed when the call is over for good.
    has_ended: Receiver<()>,
}

impl Stuck {
    fn new() -> Stuck {
        let (started, has_started) = bounded::<()>(1);
        let (release, released) = bounded::<()>(0);
        let (ended, has_ended) = bounded::<()>(0);
        let ended = Mutex::new(Some(ended));
        let tool = tool("stuck", move |context| {
            let _ended = ended.lock().unwrap().take();
            let _ = started.send(());
            let _ = released.recv_timeout(BOUND);
            context.update("a late update");
            Ok("a late result")
        });
        Stuck { tool, has_started, release, has_ended }
    }

    /// Lets it return, and waits until it has.
    fn release(self) {
        drop(self.release);
        assert!(self.has_ended.recv_timeout(BOUND).is_err_and(|error| error.is_disconnected()));
    }
}

fn make(answers: Vec<Answer>, tools: Vec<Tool>, pool: &ToolPool) -> Agent {
    let scripted = Scripted::new(answers);
    let mut options = options(&scripted, tools);
    options.tool_grace = GRACE;
    options.tool_pool = pool.clone();
    Agent::new(scripted.model(), options).unwrap()
}

fn results(agent: &Agent) -> Vec<String> {
    let messages = agent.messages();
    check_calls(&messages);
    messages
        .iter()
        .filter(|message| message.as_tool_result().is_some())
        .map(|message| message.text().into_owned())
        .collect()
}

const LEFT_ALONE: &str =
    "interrupted while it ran and did not stop: what it has done by now is unknown";

#[test]
fn a_tool_that_ignores_the_abort_is_left_alone_and_changes_nothing_any_more() {
    let (stuck, pool) = (Stuck::new(), ToolPool::new(2));
    let quick = {
        let has_started = stuck.has_started.clone();
        tool("quick", move |_| {
            has_started.recv_timeout(BOUND)?;
            Ok("quick result")
        })
    };
    let batch = Answer::new().tool_call("stuck", json!({})).tool_call("quick", json!({}));
    let after = (0..3).fold(Answer::new(), |answer, _| answer.tool_call("works", json!({})));
    let answers = vec![batch, after, Answer::from("Done.")];
    let works = tool("works", |_| Ok("works"));
    let agent = make(answers, vec![stuck.tool.clone(), quick, works], &pool);
    let weak = agent.downgrade();
    let subscription = agent.subscribe(move |event, _| {
        if event.type_name() == "tool_execution_end"
            && let Some(agent) = weak.upgrade()
        {
            agent.abort();
        }
        Ok(())
    });
    assert_eq!(outcome(&agent.prompt("Go").unwrap()).end, RunEnd::Aborted);
    assert_eq!(results(&agent), [LEFT_ALONE, "quick result"]);
    drop(subscription);
    // The pool works on, whatever its thread is stuck in.
    let events = agent.events();
    assert_eq!(outcome(&agent.prompt("And now?").unwrap()).text, "Done.");
    assert_eq!(results(&agent)[2..], ["works"; 3]);
    stuck.release();
    assert_eq!(results(&agent).len(), 5);
    drop(agent);
    assert!(events.into_iter().all(|event| event.type_name() != "tool_execution_update"));
}

#[test]
fn a_tool_that_ignores_its_time_limit_is_left_alone_and_the_run_goes_on() {
    let (stuck, pool) = (Stuck::new(), ToolPool::new(1));
    let limited = stuck.tool.clone().time_limit(Duration::from_millis(5));
    let batch = Answer::new().tool_call("stuck", json!({})).tool_call("works", json!({}));
    let answers = vec![batch, Answer::from("Done.")];
    let agent = make(answers, vec![limited, tool("works", |_| Ok("works"))], &pool);
    assert_eq!(outcome(&agent.prompt("Go").unwrap()).text, "Done.");
    let texts = results(&agent);
    assert!(
        texts[0].starts_with("its time limit of 5 ms has passed and it did not stop"),
        "{texts:?}"
    );
    assert_eq!(texts[1], "works");
    stuck.release();
    assert_eq!(results(&agent).len(), 2);
}

#[test]
fn a_stuck_tool_of_one_agent_does_not_keep_the_calls_of_another_from_a_shared_pool() {
    let (stuck, pool) = (Stuck::new(), ToolPool::new(1));
    let calls = |name: &str| vec![Answer::new().tool_call(name, json!({})), Answer::from("Done.")];
    let first = make(calls("stuck"), vec![stuck.tool.clone()], &pool);
    let second = make(calls("works"), vec![tool("works", |_| Ok("works"))], &pool);
    let aborted = first.prompt("Go").unwrap();
    stuck.has_started.recv_timeout(BOUND).unwrap();
    let waiting = second.prompt("Go").unwrap();
    aborted.abort();
    assert_eq!(outcome(&waiting).text, "Done.");
    assert_eq!(outcome(&aborted).end, RunEnd::Aborted);
    assert_eq!(results(&first), [LEFT_ALONE]);
    stuck.release();
}

#[test]
fn a_stuck_tool_that_called_another_leaves_both_alone() {
    let (stuck, pool) = (Stuck::new(), ToolPool::new(1));
    let outer =
        tool("outer", |context| Ok(context.run_tool("stuck", serde_json::Map::new()).result));
    let answers = vec![Answer::new().tool_call("outer", json!({}))];
    let agent = make(answers, vec![outer, stuck.tool.clone()], &pool);
    let run = agent.prompt("Go").unwrap();
    stuck.has_started.recv_timeout(BOUND).unwrap();
    run.abort();
    assert_eq!(outcome(&run).end, RunEnd::Aborted);
    assert_eq!(results(&agent), [LEFT_ALONE]);
    stuck.release();
}

#[test]
fn a_call_that_waits_for_a_thread_never_starts_after_an_abort() {
    let (stuck, pool) = (Stuck::new(), ToolPool::new(1));
    let ran = Arc::new(Mutex::new(false));
    let late = {
        let ran = ran.clone();
        tool("late", move |_| {
            *ran.lock().unwrap() = true;
            Ok("late")
        })
    };
    let batch = Answer::new().tool_call("stuck", json!({})).tool_call("late", json!({}));
    let agent = make(vec![batch], vec![stuck.tool.clone(), late], &pool);
    let run = agent.prompt("Go").unwrap();
    stuck.has_started.recv_timeout(BOUND).unwrap();
    run.abort();
    assert_eq!(outcome(&run).end, RunEnd::Aborted);
    assert_eq!(results(&agent), [LEFT_ALONE, "this call was not run: the run was aborted"]);
    stuck.release();
    drop(agent);
    assert!(!*ran.lock().unwrap());
}
