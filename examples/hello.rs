//! The smallest program with an agent: ask, and show the answer as it comes.
//!
//! `Builtin` is a model that is part of the crate and needs no key. For a model of a vendor, replace it and
//! `Builtin::model()`; the rest stays.

use std::io::Write;

use steerage::{Agent, AgentOptions, Builtin};

fn main() -> Result<(), steerage::Error> {
    let options = AgentOptions {
        stream: Some(Builtin::new().into()),
        system_prompt: "You are a helpful assistant.".to_owned(),
        ..AgentOptions::default()
    };
    let agent = Agent::new(Builtin::model(), options)?;

    // Called with every event of a run, in order, on a thread of its own; the run waits until it returns.
    let _subscription = agent.subscribe(|event, _signal| {
        if let Some(text) = event.text_delta() {
            print!("{text}");
            std::io::stdout().flush()?;
        }
        Ok(())
    });

    agent.prompt("Hello! My name is Ada.")?.wait()?;
    println!();
    let outcome = agent.prompt("What is my name?")?.wait()?;
    println!();
    println!("({} messages, {} tokens)", agent.messages().len(), outcome.usage.total_tokens);
    Ok(())
}
