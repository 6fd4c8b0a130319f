//! Abort: a run that streams or runs a tool ends at once, from any thread, and what it has so far is kept.

use std::time::{Duration, Instant};

use serde_json::json;
use steerage::{Agent, AgentEvent, AgentOptions, Builtin, RunEnd, Tool, ToolContext};

fn main() -> Result<(), steerage::Error> {
    let parameters = json!({"type": "object"});
    let wait =
        Tool::with_schema("long_task", "A long task", parameters, |_, call: &ToolContext| {
            call.update("it has begun");
            // A tool that takes long waits for the abort instead of sleeping.
            if call.signal().wait_timeout(Duration::from_mins(1)) {
                return Err("the task was called off".into());
            }
            Ok("the task is done")
        });
    let options = AgentOptions {
        stream: Some(Builtin::unpaced().into()),
        tools: vec![wait],
        ..AgentOptions::default()
    };
    let agent = Agent::new(Builtin::model(), options)?;

    // An observer never holds the run up: it is polled, waited on, or iterated as here.
    let events = agent.events();
    let run = agent.prompt("Run a long task.")?;
    for event in events {
        if let AgentEvent::ToolExecutionUpdate { call, .. } = event {
            println!("{} is at work", call.name);
            break;
        }
    }
    let start = Instant::now();
    run.abort();
    let outcome = run.outcome()?;
    assert_eq!(outcome.end, RunEnd::Aborted);
    assert!(start.elapsed() < Duration::from_secs(10), "the tool would have taken a minute");
    for message in outcome.messages.iter().filter(|message| !message.text().is_empty()) {
        println!("{:>10}: {}", message.role(), message.text());
    }

    // The conversation goes on where it was.
    println!("{:>10}: {}", "then", agent.prompt("How are you?")?.wait()?.text);
    Ok(())
}
