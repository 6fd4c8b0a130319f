//! What goes wrong for users of libraries like this one, each as the smallest input that shows it.
//!
//! An id such as `G1` names the case; [`every_case_is_accounted_for`](cases) lists them all.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use steerage::{
    AbortController, Agent, AgentEvent, AgentOptions, Message, RunOutcome, Subscription, Tool,
    message::StopReason,
    testing::{Answer, Scripted},
};

mod aborts;
mod accepted;
mod anthropic;
mod cases;
mod chat_completions;
mod history;
mod queues;
mod retry;
mod schema;
mod tools;
mod transport;
mod turns;
mod vendor;

/// How long a test waits for something that must happen.
const LIMIT: Duration = Duration::from_secs(30);

/// Opens once; whoever waits goes on then.
#[derive(Clone, Default)]
struct Latch(AbortController);

impl Latch {
    fn open(&self) {
        self.0.abort();
    }

    #[track_caller]
    fn wait(&self) {
        assert!(self.0.signal().wait_timeout(LIMIT), "it did not happen");
    }
}

/// An agent with a scripted model, and what it told.
struct Stage {
    agent: Agent,
    model: Scripted,
    told: Arc<Mutex<Vec<String>>>,
    _teller: Subscription,
}

impl Stage {
    fn new<A: Into<Answer>>(answers: impl IntoIterator<Item = A>, tools: Vec<Tool>) -> Stage {
        Stage::with(answers, AgentOptions { tools, ..AgentOptions::default() })
    }

    fn with<A: Into<Answer>>(answers: impl IntoIterator<Item = A>, options: AgentOptions) -> Stage {
        let model = Scripted::new(answers);
        let options = AgentOptions { stream: Some(model.clone().into()), ..options };
        let agent = Agent::new(model.model(), options).expect("an agent");
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = told.clone();
        let teller = agent.subscribe(move |event, _| {
            lines.lock().unwrap().extend(line(event));
            Ok(())
        });
        Stage { agent, model, told, _teller: teller }
    }

    /// Does something at events, on the thread of a listener.
    fn on(&self, act: impl Fn(&AgentEvent, &Agent) + Send + 'static) -> Subscription {
        let agent = self.agent.downgrade();
        self.agent.subscribe(move |event, _| {
            if let Some(agent) = agent.upgrade() {
                act(event, &agent);
            }
            Ok(())
        })
    }

    /// Runs a prompt to its end.
    #[track_caller]
    fn run(&self, prompt: &str) -> RunOutcome {
        finished(&self.agent.prompt(prompt).expect("a run"))
    }

    fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }

    fn transcript(&self) -> String {
        shown(&self.agent.messages())
    }
}

/// What came of a run; it must end.
#[track_caller]
fn finished(run: &steerage::Run) -> RunOutcome {
    let ended = run.wait_timeout(LIMIT);
    assert!(ended.is_some(), "the run does not end");
    run.outcome().expect("an outcome")
}

fn line(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::TurnStart => "turn".to_owned(),
        AgentEvent::MessageEnd { message } => message_line(message),
        AgentEvent::ToolExecutionStart { call } => format!("{} starts", call.id),
        AgentEvent::ToolExecutionEnd { call, .. } => format!("{} ends", call.id),
        AgentEvent::AgentEnd { .. } => "end".to_owned(),
        _ => return None,
    })
}

fn message_line(message: &Message) -> String {
    let text = message.text();
    match message {
        Message::Assistant(assistant) => {
            let calls: Vec<&str> = assistant.tool_calls().map(|call| call.id.as_str()).collect();
            let calls = if calls.is_empty() {
                String::new()
            } else {
                format!(" calls {}", calls.join(", "))
            };
            let stop = match assistant.stop_reason {
                StopReason::Stop | StopReason::ToolUse => String::new(),
                other => format!(" ({other:?})"),
            };
            format!("assistant {text:?}{calls}{stop}")
        }
        Message::ToolResult(result) => {
            let kind = if result.is_error { "error" } else { "result" };
            format!("{kind} of {}: {text}", result.tool_call_id)
        }
        _ => format!("{} {text:?}", message.role()),
    }
}

/// The messages but those that tell of tools, one line for each.
fn shown(messages: &[Arc<Message>]) -> String {
    let visible = messages.iter().filter(|message| message.as_system().is_none());
    visible.map(|message| message_line(message) + "\n").collect()
}

/// An answer with calls, each of which is named as its tool.
fn calls(names: &[&str]) -> Answer {
    names.iter().fold(Answer::new(), |answer, name| {
        answer.tool_call_with_id(*name, *name, serde_json::json!({}))
    })
}

fn tool(name: &str, run: impl Fn() -> String + Send + Sync + 'static) -> Tool {
    let schema = serde_json::json!({"type": "object", "properties": {}});
    Tool::with_schema(name, "For a test", schema, move |_, _| Ok(run()))
}

/// A tool that runs until its run is aborted, and then says so. `began` opens when it begins.
fn patient(name: &str, began: &Latch) -> Tool {
    let schema = serde_json::json!({"type": "object", "properties": {}});
    let began = began.clone();
    Tool::with_schema(name, "For a test", schema, move |_, context| {
        began.open();
        if context.signal().wait_timeout(LIMIT) {
            return Err::<String, _>("interrupted".into());
        }
        Ok("the signal never fired".to_owned())
    })
}
