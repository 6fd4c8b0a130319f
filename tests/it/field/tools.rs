//! G: tool calls that hang, race, panic or come with broken arguments.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use expect_test::{Expect, expect};
use serde_json::json;
use steerage::{
    Hooks, ToolDecision,
    message::{AssistantContent, ToolCall},
};

use super::*;

/// A tool that ignores its signal and returns only when the test lets it.
fn stuck(name: &str, began: &Latch) -> (Tool, Sender<()>) {
    let (release, released): (Sender<()>, Receiver<()>) = bounded(0);
    let began = began.clone();
    let run = move || {
        began.open();
        let _ = released.recv();
        "too late".to_owned()
    };
    (tool(name, run), release)
}

fn without_grace(answers: Vec<Answer>, tools: Vec<Tool>) -> Stage {
    Stage::with(
        answers,
        AgentOptions { tools, tool_grace: Duration::ZERO, ..AgentOptions::default() },
    )
}

/// Aborts when the call has ended.
fn abort_after(stage: &Stage, id: &'static str) -> Subscription {
    stage.on(move |event, agent| {
        if matches!(event, AgentEvent::ToolExecutionEnd { call, .. } if call.id == id) {
            agent.abort();
        }
    })
}

/// G1, G2, H9: one call is done, its sibling never returns, the user aborts.
#[test]
fn a_stalled_call_costs_its_sibling_nothing_and_the_abort_no_time() {
    let began = Latch::default();
    let (never, release) = stuck("never", &began);
    let fast = tool("fast", move || {
        began.wait();
        "done".to_owned()
    });
    let stage =
        without_grace(vec![calls(&["fast", "never"]), Answer::from("on")], vec![fast, never]);
    let _aborter = abort_after(&stage, "fast");
    stage.run("go");
    expect![[r#"
        user "go"
        assistant "" calls fast, never
        result of fast: done
        error of never: interrupted while it ran and did not stop: what it has done by now is unknown
        assistant "" (Aborted)
    "#]]
    .assert_eq(&stage.transcript());
    drop(release);
    assert_eq!(stage.run("again").text, "on");
}

/// G2: a call with a time limit.
#[test]
fn a_call_that_ignores_its_time_limit_is_left_alone_and_the_model_told() {
    let (never, _release) = stuck("never", &Latch::default());
    let never = never.time_limit(Duration::from_millis(1));
    let stage = without_grace(vec![calls(&["never"]), Answer::from("I see")], vec![never]);
    assert_eq!(stage.run("go").text, "I see");
    let transcript = stage.transcript();
    assert!(
        transcript.contains("error of never: its time limit of 1 ms has passed"),
        "{transcript}"
    );
}

/// G2: a stream that never ends, of a function that ignores the signal only as far as it must.
#[test]
fn a_stream_that_never_ends_is_left_at_an_abort() {
    let endless = |request: steerage::StreamRequest, signal: &steerage::AbortSignal| {
        let signal = signal.clone();
        let _ = request;
        let start = [steerage::StreamEvent::Start].into_iter();
        let rest = std::iter::from_fn(move || {
            assert!(signal.wait_timeout(LIMIT), "nobody aborted");
            None
        });
        let events: Box<dyn steerage::AssistantStream> =
            Box::new(Silent(Box::new(start.chain(rest))));
        Ok(events)
    };
    let options = AgentOptions { stream: Some(Arc::new(endless)), ..AgentOptions::default() };
    let agent = Agent::new(Scripted::new(["x"]).model(), options).unwrap();
    let events = agent.events();
    let run = agent.prompt("go").unwrap();
    let begun = |event: &AgentEvent| matches!(event, AgentEvent::MessageStart { message } if message.as_assistant().is_some());
    while !events.next_timeout(LIMIT).is_some_and(|event| begun(&event)) {}
    run.abort();
    assert_eq!(finished(&run).end, steerage::RunEnd::Aborted);
}

struct Silent(Box<dyn Iterator<Item = steerage::StreamEvent> + Send>);

impl Iterator for Silent {
    type Item = steerage::StreamEvent;

    fn next(&mut self) -> Option<steerage::StreamEvent> {
        self.0.next()
    }
}

impl steerage::AssistantStream for Silent {}

/// G3: an abort while the second of two calls is prepared.
#[test]
fn an_abort_during_preparation_starts_no_sibling() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counting = |name| {
        let ran = ran.clone();
        tool(name, move || ran.fetch_add(1, Ordering::SeqCst).to_string())
    };
    let options = AgentOptions {
        tools: vec![counting("one"), counting("two")],
        hooks: Hooks::default(),
        ..AgentOptions::default()
    };
    let stage = Stage::with([calls(&["one", "two"])], options);
    let agent = stage.agent.downgrade();
    let hook = move |view: &steerage::agent_loop::BeforeToolCall<'_>, _: &steerage::AbortSignal| {
        if view.call.id == "two" {
            agent.upgrade().unwrap().abort();
        }
        Ok(ToolDecision::Allow)
    };
    stage.agent.configure(|options| options.hooks.before_tool_call = Some(Arc::new(hook))).unwrap();
    stage.run("go");
    expect![[r#"
        user "go"
        assistant "" calls one, two
        error of one: this call was not run: the run was aborted
        error of two: this call was not run: the run was aborted
        assistant "" (Aborted)
    "#]]
    .assert_eq(&stage.transcript());
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

/// G4: a hook stops the run at one call while its sibling is still to run.
#[test]
fn a_run_is_over_only_when_the_siblings_of_a_stopped_call_are() {
    let hook = |view: &steerage::agent_loop::BeforeToolCall<'_>, _: &steerage::AbortSignal| {
        Ok(match view.call.id.as_str() {
            "stop" => ToolDecision::Block { reason: Some("enough".into()), terminate: true },
            _ => ToolDecision::Allow,
        })
    };
    let hooks = Hooks { before_tool_call: Some(Arc::new(hook)), ..Hooks::default() };
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, late) = (is_over.clone(), Arc::new(AtomicBool::new(false)));
    let seen = late.clone();
    let sibling = tool("sibling", move || {
        seen.store(over.load(Ordering::SeqCst), Ordering::SeqCst);
        "ran".to_owned()
    });
    let tools = vec![tool("stop", || "ran".to_owned()), sibling];
    let options = AgentOptions { tools, hooks, ..AgentOptions::default() };
    let stage = Stage::with([calls(&["stop", "sibling"]), Answer::from("on")], options);
    stage.run("go");
    is_over.store(true, Ordering::SeqCst);
    expect![[r#"
        turn
        user "go"
        assistant "" calls stop, sibling
        stop starts
        stop ends
        sibling starts
        sibling ends
        error of stop: enough
        result of sibling: ran
        turn
        assistant "on"
        end"#]]
    .assert_eq(&stage.told());
    assert!(!late.load(Ordering::SeqCst));
}

/// G5: a write and a read of one file in one batch.
#[test]
fn a_batch_with_a_sequential_tool_runs_call_by_call() {
    let file = Arc::new(Mutex::new("old"));
    let (written, read) = (file.clone(), file.clone());
    let write = tool("write", move || {
        *written.lock().unwrap() = "new";
        "written".to_owned()
    });
    let read = tool("read", move || (*read.lock().unwrap()).to_owned());
    let tools = vec![write.sequential(), read];
    let stage = Stage::new([calls(&["write", "read"]), Answer::from("on")], tools);
    stage.run("go");
    expect![[r#"
        turn
        user "go"
        assistant "" calls write, read
        write starts
        write ends
        result of write: written
        read starts
        read ends
        result of read: new
        turn
        assistant "on"
        end"#]]
    .assert_eq(&stage.told());
}

/// G6: the stream goes on after the abort and completes a call.
#[test]
fn a_call_that_is_complete_only_after_the_abort_does_not_run() {
    let ran = Arc::new(AtomicBool::new(false));
    let seen = ran.clone();
    let late = tool("late", move || {
        seen.store(true, Ordering::SeqCst);
        String::new()
    });
    let stage = Stage::new([calls(&["late"]), Answer::from("no")], vec![late]);
    let _aborter = stage.on(|event, agent| {
        if let AgentEvent::MessageUpdate {
            event: steerage::StreamEvent::ToolCallStart { .. },
            ..
        } = event
        {
            agent.abort();
        }
    });
    stage.run("go");
    assert!(!ran.load(Ordering::SeqCst));
    assert_eq!(stage.model.request_count(), 1);
}

/// G7: hooks of parallel calls look at the agent.
#[test]
fn a_hook_sees_the_message_whose_call_it_decides_about() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stage = Stage::new(
        [calls(&["one", "two"]), Answer::from("on")],
        vec![tool("one", String::new), tool("two", String::new)],
    );
    let (agent, list) = (stage.agent.downgrade(), seen.clone());
    let hook = move |view: &steerage::agent_loop::BeforeToolCall<'_>, _: &steerage::AbortSignal| {
        let messages = agent.upgrade().unwrap().messages();
        let last = messages.last().unwrap();
        list.lock().unwrap().push(Arc::ptr_eq(last, view.message));
        Ok(ToolDecision::Allow)
    };
    stage.agent.configure(|options| options.hooks.before_tool_call = Some(Arc::new(hook))).unwrap();
    stage.run("go");
    assert_eq!(*seen.lock().unwrap(), [true, true]);
}

/// What the model is told of a call of `edit`, which wants a path and a list of lines.
#[track_caller]
fn check_refusal(call: ToolCall, expected: Expect) {
    let ran = Arc::new(AtomicBool::new(false));
    let seen = ran.clone();
    let schema = json!({"type": "object", "required": ["path", "lines"], "properties": {
        "path": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}
    }});
    let edit = Tool::with_schema("edit", "Edits", schema, move |_, _| {
        seen.store(true, Ordering::SeqCst);
        Ok("edited")
    });
    let block =
        AssistantContent::ToolCall(ToolCall { id: "c".into(), name: "edit".into(), ..call });
    let stage = Stage::new([Answer::new().block(block), Answer::from("sorry")], vec![edit]);
    assert_eq!(stage.run("go").text, "sorry", "the loop goes on");
    assert!(!ran.load(Ordering::SeqCst), "the tool ran");
    let result = stage.agent.messages()[3].text().into_owned();
    expected.assert_eq(&result);
}

/// G8, D7: arguments that are no JSON.
#[test]
fn arguments_that_are_no_json_are_a_failed_call_with_the_text() {
    let error = "expected `,` at column 13: {\"path\": \"a\" \"lines\"".to_owned();
    check_refusal(
        ToolCall { arguments_error: Some(error), ..ToolCall::default() },
        expect![[
            r#"invalid arguments for tool `edit`: expected `,` at column 13: {"path": "a" "lines""#
        ]],
    );
}

/// G9: a key is missing.
#[test]
fn a_missing_key_is_named() {
    let arguments = json!({"lines": [1]}).as_object().cloned().unwrap();
    check_refusal(
        ToolCall { arguments, ..ToolCall::default() },
        expect![[r#"
        The arguments do not fit the tool "edit". Correct this and call it again:
        - path: missing, but required

        Arguments received:
        {
          "lines": [
            1
          ]
        }"#]],
    );
}

/// G17: foreign code that panics.
#[test]
fn a_panic_of_a_tool_is_an_error_result_and_its_sibling_and_the_agent_go_on() {
    let stage = Stage::new(
        [calls(&["bad", "good"]), Answer::from("on"), calls(&["good"]), Answer::from("and on")],
        vec![tool("bad", || panic!("index out of bounds")), tool("good", || "fine".to_owned())],
    );
    assert_eq!(stage.run("go").text, "on");
    expect![[r#"
        user "go"
        assistant "" calls bad, good
        error of bad: the tool panicked: index out of bounds
        result of good: fine
        assistant "on"
    "#]]
    .assert_eq(&stage.transcript());
    assert_eq!(stage.run("go").text, "and on");
}
