//! Events that go to a listener together are the same to it as events that come one at a time.
//!
//! With a second listener every event is told alone. So each conversation runs with and without one, and whatever the first
//! does at whichever event, it must see the same, and the same must come of it. The loop below tells each event before it
//! goes on: its hooks and tools say what must not run before which event.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};

use crossbeam_channel::unbounded;
use serde_json::{Value, json};
use steerage::{
    AbortController, Agent, AgentEvent, AgentOptions, Error, ErrorKind, ExecutionMode, Message,
    Model, Run, StreamEvent, Subscription, Tool, ToolPool,
    agent_loop::{Hooks, LoopConfig, LoopContext, ToolDecision, TurnDecision, agent_loop},
    provider::openai_completions::OpenAiCompletions,
    testing::server::{Gate, Request, Response, Server},
};

use crate::robust::{BOUND, check_calls, tool};

/// What a listener does at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Nothing,
    Abort,
    Stop,
    Steer,
    FollowUp,
    Fail,
    /// Takes itself off and puts another in its place.
    HandOver,
}

/// Calls that run at the same time.
const BOTH: [&str; 2] = ["one", "two"];

const ACTS: [Act; 6] = [Act::Abort, Act::Stop, Act::Steer, Act::FollowUp, Act::Fail, Act::HandOver];

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({"choices": [{"delta": delta, "finish_reason": finish}]}))
}

/// A model that calls tools once and is content then. All of a response comes at once.
fn answer(request: &Request, calls: &[&str]) -> Response {
    let said = |text: &str| chunk(&json!({"content": text}), None);
    let mut body = said("Let me") + &said(" see.");
    let has_called = request.text().contains("\"role\":\"tool\"");
    if !has_called {
        for (index, name) in calls.iter().enumerate() {
            let call = json!({"index": index, "id": format!("c{index}"),
                "function": {"name": name, "arguments": "{}"}});
            body += &chunk(&json!({"tool_calls": [call]}), None);
        }
    }
    let reason = if has_called || calls.is_empty() { "stop" } else { "tool_calls" };
    body += &(chunk(&json!({}), Some(reason)) + "data: [DONE]\n\n");
    Response::events([body])
}

/// What the first listener saw, and its successor.
#[derive(Default)]
struct Seen {
    text: String,
    /// The events, hooks and tools alone.
    order: String,
    count: usize,
}

impl Seen {
    /// Notes that something of the host's runs.
    fn runs(&mut self, name: &str) {
        writeln!(self.text, "{name} runs").unwrap();
        writeln!(self.order, "{name} runs").unwrap();
    }

    /// Notes an event with the state that the agent is in at that moment; returns its number.
    fn note(&mut self, event: &AgentEvent, agent: &Agent, is_successor: bool) -> usize {
        let state = agent.state();
        let (streams, messages) = (state.streaming_message.is_some(), state.messages.len());
        let pending = state.pending_tool_calls.len();
        let who = if is_successor { "successor " } else { "" };
        write!(self.text, "{messages} messages, {pending} pending, {streams}: {who}").unwrap();
        self.note_event(event)
    }

    fn note_event(&mut self, event: &AgentEvent) -> usize {
        let call = event.tool_call_id().unwrap_or_default();
        let end = match event {
            AgentEvent::MessageEnd { message } => {
                let reason = message.as_assistant().map(|it| it.stop_reason);
                format!("{} {reason:?}", message.role())
            }
            _ => String::new(),
        };
        let kind = event.type_name();
        writeln!(self.text, "{kind} {call}{end}").unwrap();
        writeln!(self.order, "{kind} {call}{end}").unwrap();
        self.count += 1;
        self.count - 1
    }
}

/// A conversation.
#[derive(Debug, Clone, Default)]
struct Scene {
    calls: Vec<&'static str>,
    is_sequential: bool,
    /// Names of hooks that note when they run.
    hooks: Vec<&'static str>,
}

const HOOKS: [&str; 6] =
    ["before", "after", "finish_turn", "prepare_next_turn", "prepare_request", "transform"];

/// Hooks that do nothing but note that they run.
fn hooks(names: &[&str], seen: &Arc<Mutex<Seen>>) -> Hooks {
    let note = |name: &'static str| {
        let seen = names.contains(&name).then(|| seen.clone())?;
        Some(move || seen.lock().unwrap().runs(name))
    };
    let mut hooks = Hooks::default();
    if let Some(note) = note("before") {
        hooks.before_tool_call = Some(Arc::new(move |_, _| {
            note();
            Ok(ToolDecision::Allow)
        }));
    }
    if let Some(note) = note("after") {
        hooks.after_tool_call = Some(Arc::new(move |_, _| {
            note();
            Ok(None)
        }));
    }
    if let Some(note) = note("finish_turn") {
        hooks.finish_turn = Some(Arc::new(move |_, _| {
            note();
            Ok(TurnDecision::Proceed)
        }));
    }
    if let Some(note) = note("prepare_next_turn") {
        hooks.prepare_next_turn = Some(Arc::new(move |_, _| {
            note();
            Ok(None)
        }));
    }
    if let Some(note) = note("prepare_request") {
        hooks.prepare_request = Some(Arc::new(move |_, _| {
            note();
            Ok(None)
        }));
    }
    if let Some(note) = note("transform") {
        hooks.transform_context = Some(Arc::new(move |messages, _| {
            note();
            Ok(messages)
        }));
    }
    hooks
}

/// Subscribes a listener that does something at one event.
fn listen(
    agent: &Agent,
    (act, at): (Act, usize),
    seen: &Arc<Mutex<Seen>>,
    run: &Arc<Mutex<Option<Run>>>,
) {
    let own: Arc<Mutex<Option<Subscription>>> = Arc::default();
    let (weak, seen, run, place) = (agent.downgrade(), seen.clone(), run.clone(), own.clone());
    let subscription = agent.subscribe(move |event, _| {
        let agent = weak.upgrade().unwrap();
        if seen.lock().unwrap().note(event, &agent, false) != at {
            return Ok(());
        }
        match act {
            Act::Nothing => (),
            Act::Abort => agent.abort(),
            Act::Stop => run.lock().unwrap().as_ref().unwrap().stop_after_turn(),
            Act::Steer => drop(agent.steer("Left")),
            Act::FollowUp => drop(agent.follow_up("More")),
            Act::Fail => return Err("the listener fails".into()),
            Act::HandOver => {
                let (weak, seen) = (weak.clone(), seen.clone());
                let successor = agent.subscribe(move |event, _| {
                    seen.lock().unwrap().note(event, &weak.upgrade().unwrap(), true);
                    Ok(())
                });
                successor.keep();
                drop(place.lock().unwrap().take());
            }
        }
        Ok(())
    });
    // It lies where the listener finds it.
    *own.lock().unwrap() = Some(subscription);
}

/// Runs a conversation in which the listener does something at one event; returns what it saw and what came of it.
fn play(scene: &Scene, act: Act, at: usize, is_alone: bool) -> Seen {
    let calls = scene.calls.clone();
    let server = Server::answering(move |request| answer(request, &calls)).unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mode =
        if scene.is_sequential { ExecutionMode::Sequential } else { ExecutionMode::Parallel };
    let options = AgentOptions {
        hooks: hooks(&scene.hooks, &seen),
        tool_execution: mode,
        stream: Some(Arc::new(OpenAiCompletions::default())),
        tools: tools(scene, &seen),
        // One after another, so that the order of the events is always the same.
        tool_pool: ToolPool::new(1),
        ..AgentOptions::default()
    };
    let agent = Agent::new(Model::openai_compatible("m", server.url()), options).unwrap();
    let run: Arc<Mutex<Option<Run>>> = Arc::default();
    listen(&agent, (act, at), &seen, &run);
    if !is_alone {
        agent.subscribe(|_, _| Ok(())).keep();
    }
    let started = {
        let mut run = run.lock().unwrap();
        run.insert(agent.prompt("Hi").unwrap()).clone()
    };
    assert!(started.wait_timeout(BOUND).is_some(), "{scene:?}, {act:?} at {at}: it hangs");
    let messages = agent.messages();
    if act != Act::Fail {
        check_calls(&messages);
    }
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    let (end, requests) = (started.outcome().unwrap().end, server.requests().len());
    writeln!(seen.text, "{end:?} after {requests} requests").unwrap();
    for message in &*messages {
        writeln!(seen.text, "{}: {}", message.role(), said(message, scene)).unwrap();
    }
    writeln!(seen.text, "queued: {}", agent.queued().len()).unwrap();
    seen
}

fn tools(scene: &Scene, seen: &Arc<Mutex<Seen>>) -> Vec<Tool> {
    // Of calls at work at the same time it is not certain when they run.
    let is_certain = scene.calls != BOTH || scene.is_sequential;
    let make = |name: &'static str| {
        let seen = seen.clone();
        tool(name, move |_| {
            if is_certain {
                seen.lock().unwrap().runs(name);
            }
            Ok(name)
        })
    };
    vec![make("one"), make("two")]
}

/// The same with the loop, which knows no listeners; returns the order alone.
fn play_loop(scene: &Scene, act: Act, at: usize) -> String {
    let calls = scene.calls.clone();
    let server = Server::answering(move |request| answer(request, &calls)).unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let model = Model::openai_compatible("m", server.url());
    let mut config = LoopConfig::new(model, Arc::new(OpenAiCompletions::default()));
    config.hooks = hooks(&scene.hooks, &seen);
    config.pool = ToolPool::new(1);
    if scene.is_sequential {
        config.tool_execution = ExecutionMode::Sequential;
    }
    let (controller, stop) = (AbortController::new(), config.stop.clone());
    let mut sink = |event: AgentEvent| {
        if seen.lock().unwrap().note_event(&event) == at {
            match act {
                Act::Abort => controller.abort(),
                Act::Stop => stop.stop_after_turn(),
                Act::Fail => return Err(Error::new(ErrorKind::Callback, "the listener fails")),
                _ => (),
            }
        }
        Ok(())
    };
    // An agent has told the model of its tools before.
    let tools = tools(scene, &seen);
    let stream = Some(config.stream.clone());
    let options = AgentOptions { stream, tools: tools.clone(), ..AgentOptions::default() };
    let agent = Agent::new(config.model.clone(), options).unwrap();
    let context = LoopContext { messages: agent.messages().to_vec(), tools };
    let prompts = vec![Message::user("Hi")];
    let _ = agent_loop(prompts, context, &config, &controller.signal(), &mut sink);
    std::mem::take(&mut seen.lock().unwrap().order)
}

fn said(message: &Message, scene: &Scene) -> String {
    // Calls at work at the same time may have run or not when the first of them is told.
    if message.role() == "toolResult" && scene.calls == BOTH && !scene.is_sequential {
        return "a result".to_owned();
    }
    let failure = message.as_assistant().and_then(|it| it.error_message.clone());
    failure.unwrap_or_else(|| message.text().into_owned())
}

fn check(scene: &Scene, acts: &[Act]) {
    let seen = play(scene, Act::Nothing, 0, true);
    assert_eq!(seen.text, play(scene, Act::Nothing, 0, false).text, "{scene:?}");
    for act in acts {
        for at in 0..seen.count {
            let (together, alone) = (play(scene, *act, at, true), play(scene, *act, at, false));
            assert_eq!(together.text, alone.text, "{scene:?}, {act:?} at {at}");
            if matches!(act, Act::Abort | Act::Stop | Act::Fail) {
                let expected = play_loop(scene, *act, at);
                let head = together.order.get(..expected.len());
                // An agent closes a run that broke; the loop just ends.
                let is_same = if *act == Act::Fail {
                    head == Some(&*expected)
                } else {
                    together.order == expected
                };
                assert!(
                    is_same,
                    "{scene:?}, {act:?} at {at}: expected\n{expected}got\n{}",
                    together.order
                );
            }
        }
    }
}

fn scene(calls: &[&'static str]) -> Scene {
    Scene { calls: calls.to_vec(), ..Scene::default() }
}

#[test]
fn an_answer_without_calls_is_told_alike() {
    check(&scene(&[]), &ACTS);
}

#[test]
fn calls_are_told_alike() {
    check(&scene(&BOTH), &ACTS);
}

#[test]
fn calls_that_run_one_after_another_are_told_alike() {
    check(&Scene { is_sequential: true, ..scene(&BOTH) }, &ACTS);
}

#[test]
fn a_call_that_is_refused_is_told_alike() {
    check(&scene(&["one", "none"]), &ACTS);
}

#[test]
fn hooks_run_between_the_same_events() {
    check(&Scene { hooks: HOOKS.to_vec(), ..scene(&["one"]) }, &ACTS);
    for hook in HOOKS {
        check(&Scene { hooks: vec![hook], ..scene(&["one"]) }, &[Act::Abort]);
    }
}

/// Plays a response whose bytes stop coming after two deltas and, if `tail` is given, a frame that nobody is told of. All
/// listeners must be told of both deltas while the server is silent, whatever they do at the start of the message.
fn check_silence(act: Act, listeners: usize, tail: Option<&str>) {
    let gate = Gate::new();
    let said = |text: &str| chunk(&json!({"content": text}), None);
    let first = said("Let me") + &said(" see.") + tail.unwrap_or_default();
    let rest = chunk(&json!({}), Some("stop")) + "data: [DONE]\n\n";
    let response = Response::events([first]).chunk_behind(&gate, rest);
    let server = Server::start([response]).unwrap();
    let stream = Some(Arc::new(OpenAiCompletions::default()) as _);
    let options = AgentOptions { stream, ..AgentOptions::default() };
    let agent = Agent::new(Model::openai_compatible("m", server.url()), options).unwrap();
    let run: Arc<Mutex<Option<Run>>> = Arc::default();
    let (sender, told) = unbounded();
    for index in 0..listeners {
        let (run, sender) = (run.clone(), sender.clone());
        let listener = agent.subscribe(move |event, _| {
            match event {
                AgentEvent::MessageStart { message }
                    if message.role() == "assistant" && act == Act::Stop =>
                {
                    run.lock().unwrap().as_ref().unwrap().stop_after_turn();
                }
                AgentEvent::MessageUpdate {
                    event: StreamEvent::TextDelta { delta, .. }, ..
                } => sender.send((index, delta.clone())).unwrap(),
                _ => (),
            }
            Ok(())
        });
        listener.keep();
    }
    {
        // The listener that stops the run waits until it is known.
        let mut run = run.lock().unwrap();
        *run = Some(agent.prompt("Hi").unwrap());
    }
    let what = format!("{act:?} with {listeners} listeners and {tail:?}");
    let mut seen: Vec<_> = (0..2 * listeners)
        .map(|_| told.recv_timeout(BOUND).unwrap_or_else(|_| panic!("{what}: held back")))
        .collect();
    seen.sort_by_key(|(index, _)| *index);
    let expected = |index| ["Let me", " see."].map(|delta| (index, delta.to_owned()));
    assert_eq!(seen, (0..listeners).flat_map(expected).collect::<Vec<_>>(), "{what}");
    gate.open();
    agent.wait_for_idle().unwrap();
}

#[test]
fn nothing_is_held_back_while_the_server_is_silent() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
    let usage = format!("data: {usage}\n\n");
    for listeners in 1..=3 {
        for act in [Act::Nothing, Act::Stop] {
            for tail in [None, Some(": a comment\n\n"), Some(&*usage)] {
                check_silence(act, listeners, tail);
            }
        }
    }
}
