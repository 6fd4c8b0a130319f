//! The agent in the hands of hosts as they are: aborted anywhere, nested, dropped, panicking, many, forked.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use steerage::{
    Agent, AgentOptions, Message, Run, RunOutcome, Tool, ToolContext, ToolError, ToolResult,
    testing::Scripted,
};

mod aborts;
mod deadlocks;
mod graces;
mod handles;
mod hosts;
mod many;
mod nesting;
mod panics;
mod process;
mod processes;
mod random;
#[cfg(feature = "providers")]
mod together;

/// No wait of these tests takes that long unless something hangs.
const BOUND: Duration = Duration::from_mins(1);

/// A tool without parameters.
fn tool<R: Into<ToolResult>>(
    name: &str,
    run: impl Fn(&ToolContext) -> Result<R, ToolError> + Send + Sync + 'static,
) -> Tool {
    let schema = json!({"type": "object", "properties": {}});
    Tool::with_schema(
        name,
        "does it",
        schema,
        move |_: Map<String, Value>, context: &ToolContext| run(context).map(Into::into),
    )
}

fn options(scripted: &Scripted, tools: Vec<Tool>) -> AgentOptions {
    AgentOptions { stream: Some(scripted.clone().into()), tools, ..AgentOptions::default() }
}

fn agent(scripted: &Scripted, tools: Vec<Tool>) -> Agent {
    Agent::new(scripted.model(), options(scripted, tools)).unwrap()
}

#[track_caller]
fn outcome(run: &Run) -> RunOutcome {
    assert!(run.wait_timeout(BOUND).is_some(), "the run hangs");
    run.outcome().unwrap()
}

/// Every call of a message that did not fail has one result, which comes right after the message, in order; there are no
/// others.
#[track_caller]
fn check_calls(messages: &[Arc<Message>]) {
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        match &**message {
            Message::ToolResult(result) => {
                let expected = (!open.is_empty()).then(|| open.remove(0));
                assert_eq!(expected.as_ref(), Some(&result.tool_call_id), "in {messages:#?}");
            }
            Message::Assistant(assistant) => {
                assert!(open.is_empty(), "{open:?} have no result in {messages:#?}");
                if !assistant.is_failed() {
                    open.extend(assistant.tool_calls().map(|call| call.id.clone()));
                }
            }
            _ => assert!(open.is_empty(), "{open:?} have no result in {messages:#?}"),
        }
    }
    assert!(open.is_empty(), "{open:?} have no result in {messages:#?}");
}
