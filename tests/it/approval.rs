//! Approval: rules, questions, answers for always, and aborts that come at the same time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crossbeam_channel::bounded;
use serde_json::{Value, json};
use steerage::{
    AbortSignal, Agent, AgentOptions, Message, Run, RunEnd, Tool, ToolDecision, ToolHints,
    agent_loop::BeforeToolCall,
    approval::{self, Ask, Gate, GateOptions, Rule, Scope, Verdict},
    hosted::Queue,
    message::{AssistantMessage, ToolCall},
    testing::{Answer, Scripted},
};

/// No wait of these tests takes that long unless something hangs.
const BOUND: Duration = Duration::from_mins(1);

/// What a gate of these rules says without asking; `ask` where it would ask.
fn decide(rules: &[Rule], tool: &Tool, arguments: Value) -> String {
    let options = GateOptions { rules: rules.to_vec(), ..GateOptions::default() };
    let (gate, asks) = approval::gate(options);
    drop(asks);
    match decide_with(&gate, tool, arguments) {
        ToolDecision::Allow => "allow".to_owned(),
        ToolDecision::Block { reason, .. } => match reason.unwrap() {
            reason if reason.contains("nobody is there to ask") => "ask".to_owned(),
            reason => format!("deny: {reason}"),
        },
    }
}

fn decide_with(gate: &Gate, tool: &Tool, arguments: Value) -> ToolDecision {
    let arguments = arguments.as_object().cloned().unwrap();
    let call = ToolCall {
        id: "1".to_owned(),
        name: tool.name().to_owned(),
        arguments: arguments.clone(),
        ..ToolCall::default()
    };
    let message = Arc::new(Message::Assistant(AssistantMessage::default()));
    let view = BeforeToolCall {
        message: &message,
        call: &call,
        tool,
        arguments: &arguments,
        context: &[],
    };
    gate.decide(&view, &AbortSignal::never())
}

fn tool(name: &str, ran: &Arc<AtomicUsize>) -> Tool {
    let ran = ran.clone();
    Tool::with_schema(name, "", json!({"type": "object"}), move |_, _| {
        ran.fetch_add(1, Ordering::SeqCst);
        Ok("ran")
    })
}

/// An agent behind a gate, whose model makes these batches of calls and then says that it is done.
struct Stage {
    agent: Agent,
    gate: Gate,
    asks: Queue<Ask>,
    ran: Arc<AtomicUsize>,
}

impl Stage {
    fn new(batches: &[&[(&str, Value)]], options: GateOptions) -> Stage {
        let (gate, asks) = approval::gate(options);
        let mut answers: Vec<Answer> = Vec::new();
        for batch in batches {
            let calls = batch.iter().fold(Answer::new(), |answer, (name, arguments)| {
                answer.tool_call(*name, arguments.clone())
            });
            answers.push(calls);
        }
        answers.push(Answer::from("Done."));
        let scripted = Scripted::new(answers);
        let ran = Arc::default();
        let mut options = AgentOptions {
            stream: Some(scripted.clone().into()),
            tools: vec![tool("run", &ran), tool("read", &ran)],
            ..AgentOptions::default()
        };
        options.hooks.before_tool_call = Some(gate.hook());
        let agent = Agent::new(scripted.model(), options).unwrap();
        Stage { agent, gate, asks, ran }
    }

    fn start(&self) -> Run {
        self.agent.prompt("Go").unwrap()
    }

    #[track_caller]
    fn ask(&self) -> Ask {
        self.asks.next_timeout(BOUND).expect("no question comes")
    }

    /// The results in the transcript, in lines.
    fn results(&self) -> String {
        let messages = self.agent.messages();
        let results = messages.iter().filter(|message| message.as_tool_result().is_some());
        results.map(|message| message.text()).collect::<Vec<_>>().join("\n")
    }

    fn ran(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }
}

#[track_caller]
fn ended(run: &Run) -> RunEnd {
    assert!(run.wait_timeout(BOUND).is_some(), "the run hangs");
    run.outcome().unwrap().end
}

#[test]
fn the_first_rule_that_fits_decides() {
    let reads = ToolHints { read_only: Some(true), ..ToolHints::default() };
    let tool = |name: &str| Tool::with_schema(name, "", json!({"type": "object"}), |_, _| Ok(""));
    let rules = [
        Rule::deny("write")
            .argument("path", |path| path.as_str().is_some_and(|it| it.starts_with("/etc")))
            .reason("not the system"),
        Rule::allow("write"),
        Rule::deny("mcp__*__drop"),
        Rule::allow("mcp__*").hints(|hints| hints.read_only == Some(true)),
        Rule::ask("mcp__files__*"),
        Rule::deny("mcp__*"),
        Rule::allow("a*b*c"),
        Rule::allow("both").argument("x", |x| *x == 1).argument("y", |y| *y == 2),
    ];
    let ruled = "deny: the rules of this program do not allow this call";
    for (tool, arguments, expected) in [
        (tool("write"), json!({"path": "/etc/passwd"}), "deny: not the system"),
        (tool("write"), json!({"path": "notes"}), "allow"),
        (tool("write"), json!({}), "allow"),
        (tool("write2"), json!({}), "ask"),
        (tool("mcp__db__drop").hints(reads), json!({}), ruled),
        (tool("mcp__db__list").hints(reads), json!({}), "allow"),
        (tool("mcp__db__list"), json!({}), ruled),
        (tool("mcp__files__x"), json!({}), "ask"),
        (tool("abc"), json!({}), "allow"),
        (tool("a-b-b-c"), json!({}), "allow"),
        (tool("ac"), json!({}), "ask"),
        (tool("abca"), json!({}), "ask"),
        (tool("both"), json!({"x": 1, "y": 2}), "allow"),
        (tool("both"), json!({"x": 1, "y": 3}), "ask"),
        (tool("other"), json!({}), "ask"),
    ] {
        assert_eq!(decide(&rules, &tool, arguments.clone()), expected, "{tool:?} {arguments}");
    }
}

#[test]
fn what_no_rule_fits_becomes_what_the_options_say() {
    for (otherwise, expected) in [(Verdict::Allow, "ran"), (Verdict::Deny, "the rules of this")] {
        let options = GateOptions { otherwise, ..GateOptions::default() };
        let stage = Stage::new(&[&[("run", json!({}))]], options);
        assert_eq!(ended(&stage.start()), RunEnd::Completed);
        assert!(stage.results().starts_with(expected), "{}", stage.results());
        assert!(stage.asks.is_empty());
    }
}

#[test]
fn a_person_allows_denies_and_says_nothing() {
    let stage = Stage::new(
        &[&[("run", json!({"n": 1})), ("run", json!({"n": 2})), ("run", json!({"n": 3}))]],
        GateOptions::default(),
    );
    let run = stage.start();
    let ask = stage.ask();
    assert_eq!((ask.tool_name(), ask.label(), &ask.arguments()["n"]), ("run", "run", &json!(1)));
    assert!(ask.is_wanted() && ask.allow());
    assert!(stage.ask().deny("I do not like it"));
    drop(stage.ask());
    assert_eq!(ended(&run), RunEnd::Completed);
    let unanswered = "nobody decided about this call, so it was not run";
    assert_eq!(stage.results(), format!("ran\nI do not like it\n{unanswered}"));
}

#[test]
fn a_question_that_nobody_answers_in_time_is_a_denial() {
    let options = GateOptions { timeout: Some(Duration::from_millis(1)), ..GateOptions::default() };
    let stage = Stage::new(&[&[("run", json!({}))]], options);
    let run = stage.start();
    let ask = stage.ask();
    assert_eq!(ended(&run), RunEnd::Completed);
    assert!(!ask.is_wanted() && !ask.allow());
    assert_eq!(stage.results(), "nobody approved this call within 1ms");
    assert_eq!(stage.ran(), 0);
}

#[test]
fn a_test_that_panics_refuses_the_call() {
    let rules = vec![Rule::allow("run").when(|_| panic!("no idea"))];
    let stage =
        Stage::new(&[&[("run", json!({}))]], GateOptions { rules, ..GateOptions::default() });
    ended(&stage.start());
    assert_eq!((stage.results().as_str(), stage.ran()), ("no idea", 0));
}

#[test]
fn an_answer_for_always_counts_for_its_scope() {
    let batch: &[(&str, Value)] = &[
        ("run", json!({"n": 1})),
        ("run", json!({"n": 2})),
        ("run", json!({"n": 1})),
        ("run", json!({"n": 3})),
        ("read", json!({"n": 1})),
    ];
    let stage = Stage::new(&[batch], GateOptions::default());
    let run = stage.start();
    assert!(stage.ask().allow_always(Scope::SameArguments));
    assert!(stage.ask().deny_always(Scope::SameArguments, "never 2"));
    // The third call is settled by the answer to the first.
    let ask = stage.ask();
    assert_eq!(ask.arguments()["n"], 3);
    assert!(ask.deny_always(Scope::Tool, "no more runs"));
    let ask = stage.ask();
    assert_eq!(ask.tool_name(), "read");
    assert!(ask.allow());
    ended(&run);
    assert_eq!(stage.results(), "ran\nnever 2\nran\nno more runs\nran");
}

#[test]
fn an_answer_for_always_opens_no_other_rule_and_can_be_forgotten() {
    let rules = vec![
        Rule::deny("run").argument("n", |n| *n == 6).reason("never 6"),
        Rule::ask("run").argument("n", |n| *n == 7),
    ];
    let batch: &[(&str, Value)] =
        &[("run", json!({"n": 1})), ("run", json!({"n": 2})), ("run", json!({"n": 6}))];
    let late: &[(&str, Value)] = &[("run", json!({"n": 7}))];
    let again: &[(&str, Value)] = &[("run", json!({"n": 2}))];
    let stage = Stage::new(&[batch, late, again], GateOptions { rules, ..GateOptions::default() });
    let run = stage.start();
    assert!(stage.ask().allow_always(Scope::Tool));
    let ask = stage.ask();
    assert_eq!(ask.arguments()["n"], 7);
    stage.gate.forget();
    assert!(ask.deny("not 7"));
    assert!(stage.ask().deny("not any more"));
    ended(&run);
    assert_eq!(stage.results(), "ran\nran\nnever 6\nnot 7\nnot any more");
}

#[test]
fn an_answer_for_always_settles_questions_that_wait() {
    let (gate, asks) = approval::gate(GateOptions::default());
    let deciders: Vec<_> = (0..3)
        .map(|_| {
            let gate = gate.clone();
            let decide = move || decide_with(&gate, &tool("run", &Arc::default()), json!({}));
            thread::Builder::new().spawn(decide).unwrap()
        })
        .collect();
    let mut waiting: Vec<Ask> = (0..3).map(|_| asks.next_timeout(BOUND).unwrap()).collect();
    assert!(waiting.pop().unwrap().allow_always(Scope::Tool));
    let decisions: Vec<ToolDecision> =
        deciders.into_iter().map(|decider| decider.join().unwrap()).collect();
    assert_eq!(decisions, [ToolDecision::Allow, ToolDecision::Allow, ToolDecision::Allow]);
    assert!(waiting.into_iter().all(|ask| !ask.is_wanted() && !ask.deny("too late")));
}

#[test]
fn calls_inside_other_calls_are_asked_about_too() {
    let (gate, asks) =
        approval::gate(GateOptions { rules: vec![Rule::allow("outer")], ..GateOptions::default() });
    let outer = Tool::with_schema("outer", "", json!({"type": "object"}), |_, call| {
        Ok(call.run_tool("run", serde_json::Map::new()).result)
    });
    let scripted =
        Scripted::new([Answer::new().tool_call("outer", json!({})), Answer::from("Done.")]);
    let ran = Arc::default();
    let mut options = AgentOptions {
        stream: Some(scripted.clone().into()),
        tools: vec![outer, tool("run", &ran)],
        ..AgentOptions::default()
    };
    options.hooks.before_tool_call = Some(gate.hook());
    let agent = Agent::new(scripted.model(), options).unwrap();
    let run = agent.prompt("Go").unwrap();
    let ask = asks.next_timeout(BOUND).unwrap();
    assert_eq!(ask.tool_name(), "run");
    assert!(ask.deny("not inside"));
    assert_eq!(ended(&run), RunEnd::Completed);
    assert!(agent.messages().iter().any(|message| message.text() == "not inside"));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[test]
fn an_abort_ends_the_question_and_an_answer_after_it_runs_nothing() {
    for round in 0..20 {
        let stage =
            Stage::new(&[&[("run", json!({})), ("read", json!({}))]], GateOptions::default());
        let run = stage.start();
        let ask = stage.ask();
        run.abort();
        if round % 2 == 0 {
            assert_eq!(ended(&run), RunEnd::Aborted);
            assert!(!ask.is_wanted() && !ask.allow());
        } else {
            // Whether it comes in time or not.
            ask.allow();
            assert_eq!(ended(&run), RunEnd::Aborted);
        }
        assert_eq!(stage.ran(), 0);
        assert_eq!(stage.results().lines().count(), 2, "{}", stage.results());
        assert!(stage.asks.is_empty());
    }
}

#[test]
fn an_approval_before_an_abort_lets_the_call_run() {
    let stage = Stage::new(&[&[("run", json!({}))]], GateOptions::default());
    let agent = stage.agent.downgrade();
    let _subscription = stage.agent.subscribe(move |event, _| {
        if event.type_name() == "tool_execution_end" {
            agent.upgrade().unwrap().abort();
        }
        Ok(())
    });
    let run = stage.start();
    assert!(stage.ask().allow());
    assert_eq!(ended(&run), RunEnd::Aborted);
    assert_eq!((stage.results().as_str(), stage.ran()), ("ran", 1));
}

#[test]
fn an_approval_and_an_abort_at_the_same_time_leave_one_result() {
    for _ in 0..50 {
        let stage = Stage::new(&[&[("run", json!({}))]], GateOptions::default());
        let run = stage.start();
        let ask = stage.ask();
        let (go, gone) = bounded::<()>(0);
        let allow = thread::Builder::new().spawn(move || {
            let _ = gone.recv();
            ask.allow()
        });
        drop(go);
        run.abort();
        let was_in_time = allow.unwrap().join().unwrap();
        let end = ended(&run);
        let results = stage.results();
        assert_eq!(results.lines().count(), 1, "{results}");
        match stage.ran() {
            0 => assert_eq!(end, RunEnd::Aborted),
            ran => assert!(ran == 1 && was_in_time, "{results}"),
        }
    }
}
