//! What calls and runs may take, and calls that touch the same thing.

use std::{
    sync::{Arc, Barrier, Mutex},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use expect_test::{Expect, expect};
use serde_json::{Map, Value, json};
use steerage::{
    Agent, AgentEvent, AgentOptions, CallLimits, ErrorKind, Hooks, Run, RunEnd, RunOutcome, Tool,
    ToolPool, ToolResult,
    message::Content,
    testing::{Answer, Scripted, ScriptedOptions},
};

const BOUND: Duration = Duration::from_mins(1);

fn agent(model: &Scripted, tools: Vec<Tool>, options: AgentOptions) -> Agent {
    let options = AgentOptions { stream: Some(model.clone().into()), tools, ..options };
    Agent::new(model.model(), options).unwrap()
}

#[track_caller]
fn outcome(run: &Run) -> RunOutcome {
    assert!(run.wait_timeout(BOUND).is_some(), "the run hangs");
    run.outcome().unwrap()
}

/// The ids of calls at work and what ends them.
type Gates = Vec<(String, Sender<()>)>;

/// A tool whose calls say when they begin and end when they are told to.
struct Held {
    began: Receiver<String>,
    says: Sender<String>,
    gates: Arc<Mutex<Gates>>,
}

impl Held {
    fn new() -> Held {
        let (says, began) = unbounded();
        Held { began, says, gates: Arc::default() }
    }

    fn tool(&self, name: &str) -> Tool {
        let (says, gates) = (self.says.clone(), self.gates.clone());
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let run = move |_: Map<String, Value>, context: &steerage::ToolContext| {
            let (open, gate) = unbounded();
            gates.lock().unwrap().push((context.call_id().to_owned(), open));
            says.send(context.call_id().to_owned()).unwrap();
            let aborted = context.signal().channel().clone();
            crossbeam_channel::select! {
                recv(gate) -> _ => Ok("done"),
                recv(aborted) -> _ => Ok("stopped"),
            }
        };
        Tool::with_schema(name, "waits", schema, run)
    }

    /// Names the path of a call as what it touches.
    fn touching(&self, name: &str) -> Tool {
        self.tool(name).resources(|arguments| {
            arguments["path"].as_str().map(str::to_owned).into_iter().collect()
        })
    }

    /// The next calls that begin, sorted.
    #[track_caller]
    fn begin(&self, expected: &str) {
        let count = expected.split_whitespace().count();
        let mut ids: Vec<String> = (0..count)
            .map(|_| self.began.recv_timeout(BOUND).expect("a call did not begin"))
            .collect();
        ids.sort();
        assert_eq!(ids.join(" "), expected);
        assert!(self.began.try_recv().is_err(), "more calls began");
    }

    fn end(&self, id: &str) {
        let mut gates = self.gates.lock().unwrap();
        let index = gates.iter().position(|(of, _)| of == id).unwrap();
        gates.remove(index).1.send(()).unwrap();
    }
}

/// Calls with the ids `a`, `b` and so on, each of a tool with a path.
fn batch(calls: &[(&str, &str)]) -> Scripted {
    let answer = calls.iter().zip('a'..).fold(Answer::new(), |answer, ((name, path), id)| {
        answer.tool_call_with_id(id.to_string(), *name, json!({"path": path}))
    });
    Scripted::new([answer, Answer::from("Done.")])
}

/// G5: calls that touch the same thing wait for each other in their order, the others do not.
#[test]
fn calls_that_touch_the_same_run_in_order_and_the_rest_beside_them() {
    let held = Held::new();
    let tools = vec![held.touching("write"), held.touching("read"), held.tool("look")];
    let model = batch(&[
        ("write", "x"),
        ("read", "x"),
        ("look", "x"),
        ("write", "y"),
        ("write", "x"),
        ("read", "y"),
    ]);
    let agent = agent(&model, tools, AgentOptions::default());
    let run = agent.prompt("Go").unwrap();
    held.begin("a c d");
    held.end("d");
    held.begin("f");
    held.end("a");
    held.begin("b");
    held.end("f");
    held.end("b");
    held.begin("e");
    held.end("c");
    held.end("e");
    let results = outcome(&run);
    let ids: Vec<_> = results
        .messages
        .iter()
        .filter_map(|message| message.as_tool_result())
        .map(|result| result.tool_call_id.as_str())
        .collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e", "f"]);
}

#[test]
fn a_call_that_touches_several_things_waits_for_all_of_them() {
    let held = Held::new();
    let both = held.tool("both").resources(|_| vec!["x".to_owned(), "y".to_owned()]);
    let model = batch(&[("one", "x"), ("one", "y"), ("both", ""), ("one", "y"), ("one", "z")]);
    let agent = agent(&model, vec![held.touching("one"), both], AgentOptions::default());
    let run = agent.prompt("Go").unwrap();
    held.begin("a b e");
    held.end("b");
    held.end("e");
    held.begin("");
    held.end("a");
    held.begin("c");
    held.end("c");
    held.begin("d");
    held.end("d");
    assert_eq!(outcome(&run).text, "Done.");
}

#[test]
fn an_abort_ends_calls_that_wait_for_their_turn_at_once() {
    let held = Held::new();
    let model = batch(&[("write", "x"), ("write", "x"), ("write", "x")]);
    let agent = agent(&model, vec![held.touching("write")], AgentOptions::default());
    let run = agent.prompt("Go").unwrap();
    held.begin("a");
    run.abort();
    let ended = outcome(&run);
    assert_eq!(ended.end, RunEnd::Aborted);
    let texts: Vec<_> = ended
        .messages
        .iter()
        .filter(|message| message.as_tool_result().is_some())
        .map(|message| message.text())
        .collect();
    let not_run = "this call was not run: the run was aborted";
    assert_eq!(texts, ["stopped", not_run, not_run]);
    held.begin("");
}

/// A call that does not stop at its time limit holds what it touches no longer than its grace.
#[test]
fn a_stuck_call_does_not_hold_the_next_for_ever() {
    let (release, gate) = unbounded::<()>();
    let stuck = Tool::with_schema("stuck", "hangs", json!({"type": "object"}), move |_, _| {
        let _ = gate.recv();
        Ok(())
    });
    let stuck = stuck.time_limit(Duration::from_millis(1)).resources(|_| vec!["x".to_owned()]);
    let next = Tool::with_schema("next", "does it", json!({"type": "object"}), |_, _| Ok("done"));
    let next = next.resources(|_| vec!["x".to_owned()]);
    let model = batch(&[("stuck", ""), ("next", "")]);
    let options = AgentOptions {
        tool_grace: Duration::ZERO,
        tool_pool: ToolPool::new(1),
        ..AgentOptions::default()
    };
    let agent = agent(&model, vec![stuck, next], options);
    let ended = outcome(&agent.prompt("Go").unwrap());
    assert_eq!(ended.messages[3].text(), "done");
    drop(release);
}

#[test]
fn resources_that_panic_refuse_the_call() {
    let held = Held::new();
    let tool = held.tool("odd").resources(|_| panic!("no path"));
    let agent = agent(&batch(&[("odd", "x")]), vec![tool], AgentOptions::default());
    let ended = outcome(&agent.prompt("Go").unwrap());
    let result = ended.messages[2].as_tool_result().unwrap();
    assert!(result.is_error);
    assert!(ended.messages[2].text().contains("no path"), "{}", ended.messages[2].text());
}

#[test]
fn calls_at_once_are_limited_for_a_tool_and_for_the_agent() {
    let held = Held::new();
    let one = CallLimits { at_once: Some(1), ..CallLimits::default() };
    let tools = vec![held.tool("slow").call_limits(one), held.tool("fast")];
    let model = batch(&[("slow", ""), ("slow", ""), ("fast", ""), ("fast", ""), ("fast", "")]);
    let three = CallLimits { at_once: Some(3), ..CallLimits::default() };
    let options = AgentOptions { call_limits: three, ..AgentOptions::default() };
    let agent = agent(&model, tools, options);
    let run = agent.prompt("Go").unwrap();
    held.begin("a c d");
    held.end("d");
    held.begin("e");
    held.end("a");
    held.begin("b");
    for id in ["b", "c", "e"] {
        held.end(id);
    }
    assert_eq!(outcome(&run).text, "Done.");
}

/// Calls that end while a listener is at work make room all the same.
#[test]
fn a_busy_listener_does_not_keep_held_calls_from_starting() {
    let held = Held::new();
    let one = CallLimits { at_once: Some(1), ..CallLimits::default() };
    let model = batch(&[("slow", ""), ("slow", "")]);
    let agent = agent(&model, vec![held.tool("slow").call_limits(one)], AgentOptions::default());
    let (open, gate) = unbounded::<()>();
    let _subscription = agent.subscribe(move |event, _| {
        if matches!(event, AgentEvent::ToolExecutionEnd { call, .. } if call.id == "a") {
            gate.recv_timeout(BOUND)?;
        }
        Ok(())
    });
    let run = agent.prompt("Go").unwrap();
    held.begin("a");
    held.end("a");
    held.begin("b");
    held.end("b");
    open.send(()).unwrap();
    assert_eq!(outcome(&run).text, "Done.");
}

/// Wide batches of short calls over few resources, on pools of all sizes.
#[test]
fn many_calls_over_few_resources_all_run() {
    for size in [1, 2, 8] {
        let answer = (0..64).fold(Answer::new(), |answer, index| {
            answer.tool_call("touch", json!({"path": (index % 5).to_string()}))
        });
        let model = Scripted::new([answer, Answer::from("Done.")]);
        let order: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let seen = order.clone();
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let run = move |arguments: Map<String, Value>, context: &steerage::ToolContext| {
            let path = arguments["path"].as_str().unwrap().to_owned();
            seen.lock().unwrap().push((path, context.call_id().to_owned()));
            Ok(())
        };
        let tool = Tool::with_schema("touch", "touches", schema, run)
            .resources(|arguments| vec![arguments["path"].to_string()]);
        let options = AgentOptions { tool_pool: ToolPool::new(size), ..AgentOptions::default() };
        let agent = agent(&model, vec![tool], options);
        let ended = outcome(&agent.prompt("Go").unwrap());
        let asked: Vec<String> = ended
            .messages
            .iter()
            .filter_map(|message| message.as_tool_result())
            .map(|result| result.tool_call_id.clone())
            .collect();
        let place = |id: &str| asked.iter().position(|asked| asked == id).unwrap();
        let order = order.lock().unwrap();
        assert_eq!(order.len(), 64);
        for path in 0..5 {
            let of_path = order.iter().filter(|(of, _)| *of == path.to_string());
            let places: Vec<usize> = of_path.map(|(_, id)| place(id)).collect();
            assert!(places.is_sorted(), "{places:?}");
        }
    }
}

/// The result of one call with these limits, as the model sees it, and what the hook got.
fn cut(result: ToolResult, limit: usize, place: Option<&str>) -> (ToolResult, Vec<ToolResult>) {
    let whole: Arc<Mutex<Vec<ToolResult>>> = Arc::default();
    let (kept, place) = (whole.clone(), place.map(str::to_owned));
    let hooks = Hooks {
        on_result_cut: Some(Arc::new(move |cut, _| {
            kept.lock().unwrap().push(cut.result.clone());
            Ok(place.clone())
        })),
        ..Hooks::default()
    };
    let model = batch(&[("say", "")]);
    let tool =
        Tool::with_schema("say", "says", json!({"type": "object"}), move |_, _| Ok(result.clone()));
    let call_limits = CallLimits { result_bytes: Some(limit), ..CallLimits::default() };
    let options = AgentOptions { hooks, call_limits, ..AgentOptions::default() };
    let ended = outcome(&agent(&model, vec![tool], options).prompt("Go").unwrap());
    let content = ended.messages[2].as_tool_result().unwrap().content.clone();
    let whole = whole.lock().unwrap().clone();
    (ToolResult { content, ..ToolResult::default() }, whole)
}

fn texts(result: &ToolResult) -> String {
    let text = |block: &Content| match block {
        Content::Text(text) => text.text.clone(),
        Content::Image(_) => "(image)".to_owned(),
    };
    result.content.iter().map(text).collect::<Vec<_>>().join("|")
}

#[track_caller]
fn check_cut(result: ToolResult, limit: usize, place: Option<&str>, expected: Expect) {
    let (seen, whole) = cut(result.clone(), limit, place);
    assert_eq!(whole.iter().map(|whole| &whole.content).collect::<Vec<_>>(), [&result.content]);
    expected.assert_eq(&texts(&seen));
}

#[test]
fn a_long_result_is_cut_in_the_middle_and_the_host_gets_the_whole() {
    let letters: String = ('a'..='z').cycle().take(260).collect();
    check_cut(
        ToolResult::text(letters.clone()),
        100,
        None,
        expect![[r#"
        abcdefghijklmnopqrs
        [... the middle of this result of 260 bytes is left out ...]
        hijklmnopqrstuvwxyz"#]],
    );
    let place = Some("the whole is in call.log");
    check_cut(
        ToolResult::text(letters.clone()),
        100,
        place,
        expect![[r#"
        abcdef
        [... the middle of this result of 260 bytes is left out; the whole is in call.log ...]
        uvwxyz"#]],
    );
    // No character is cut in two, and a limit that leaves no room leaves the note.
    check_cut(
        ToolResult::text("ä".repeat(130)),
        84,
        None,
        expect![[r#"
        äääää
        [... the middle of this result of 260 bytes is left out ...]
        äääää"#]],
    );
    check_cut(
        ToolResult::text(letters),
        1,
        None,
        expect![[r#"

        [... the middle of this result of 260 bytes is left out ...]
    "#]],
    );
}

#[test]
fn blocks_of_a_long_result_are_cut_as_one_text_and_images_stay() {
    let image =
        steerage::message::ImageContent { data: "AA==".into(), mime_type: "image/png".into() };
    let mut result = ToolResult::text("1234567890".repeat(4));
    result.content.push(Content::text("gone ".repeat(20)));
    result.content.push(Content::Image(image));
    result.content.push(Content::text("abcdefghij".repeat(4)));
    check_cut(
        result,
        100,
        None,
        expect![[r#"
        1234567890123456789
        [... the middle of this result of 180 bytes is left out ...]
        |(image)|bcdefghijabcdefghij"#]],
    );
}

#[test]
fn a_result_within_its_limit_stays_as_it_is() {
    let (seen, whole) = cut(ToolResult::text("12345"), 5, None);
    assert_eq!((texts(&seen), whole.len()), ("12345".to_owned(), 0));
}

#[test]
fn a_call_with_long_arguments_does_not_run() {
    let held = Held::new();
    let model = batch(&[("say", "a path that is too long"), ("say", "x")]);
    let limits = CallLimits { argument_bytes: Some(20), ..CallLimits::default() };
    let agent = agent(&model, vec![held.tool("say").call_limits(limits)], AgentOptions::default());
    let run = agent.prompt("Go").unwrap();
    held.begin("b");
    held.end("b");
    let ended = outcome(&run);
    expect!["the arguments for tool `say` take 34 bytes and 20 are allowed: send less at once, in several calls"]
        .assert_eq(&ended.messages[2].text());
}

#[test]
fn a_run_ends_softly_when_it_has_cost_enough() {
    let mut dear = ScriptedOptions::default();
    dear.model.cost.output = 1e6;
    let asks = || Answer::new().text("Once more.").tool_call("noop", json!({}));
    let model = Scripted::with_options(dear, [asks(), asks(), Answer::from("Done.")]);
    let noop = || Tool::with_schema("noop", "nothing", json!({"type": "object"}), |_, _| Ok(()));
    let first_turn = 5.0;
    for (max_cost, end, turns) in [
        (Some(first_turn), RunEnd::OutOfBudget, 1),
        (Some(first_turn + 0.5), RunEnd::OutOfBudget, 2),
        (Some(1000.0), RunEnd::Completed, 3),
        (None, RunEnd::Completed, 3),
    ] {
        model.set_answers([asks(), asks(), Answer::from("Done.")]);
        let before = model.request_count();
        let options = AgentOptions { max_cost, ..AgentOptions::default() };
        let ended = agent(&model, vec![noop()], options).prompt("Go").unwrap().wait().unwrap();
        assert_eq!((ended.end, model.request_count() - before), (end, turns), "{max_cost:?}");
    }
}

#[test]
fn what_tools_report_counts_towards_the_budget() {
    let tool = Tool::with_schema("dear", "costs", json!({"type": "object"}), |_, _| {
        let mut usage = steerage::Usage::default();
        usage.cost.total = 2.0;
        Ok(ToolResult { usage: Some(usage), ..ToolResult::text("done") })
    });
    let options = AgentOptions { max_cost: Some(4.0), ..AgentOptions::default() };
    let model = batch(&[("dear", ""), ("dear", "")]);
    let ended = outcome(&agent(&model, vec![tool], options).prompt("Go").unwrap());
    assert_eq!(ended.end, RunEnd::OutOfBudget);
    assert_eq!(ended.usage.cost.total.to_string(), "4");
}

#[test]
fn a_budget_below_nothing_is_refused() {
    let model = Scripted::new(["x"]);
    for max_cost in [-1.0, f64::NAN] {
        let options = AgentOptions {
            stream: Some(model.clone().into()),
            max_cost: Some(max_cost),
            ..AgentOptions::default()
        };
        let error = Agent::new(model.model(), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
    }
}

#[test]
fn free_calls_still_run_at_the_same_time() {
    let together = Arc::new(Barrier::new(3));
    let tool = Tool::with_schema("meet", "meets", json!({"type": "object"}), move |_, _| {
        together.wait();
        Ok(())
    })
    .resources(|arguments| vec![arguments["path"].to_string()]);
    let model = batch(&[("meet", "a"), ("meet", "b"), ("meet", "c")]);
    let ended = outcome(&agent(&model, vec![tool], AgentOptions::default()).prompt("Go").unwrap());
    assert_eq!(ended.text, "Done.");
}
