//! Tools: what they take is a type, what they give is a text, and the calls of one answer run at the same time.

use schemars::JsonSchema;
use serde::Deserialize;
use steerage::{Agent, AgentEvent, AgentOptions, Builtin, Tool};

/// The schema that the model sees is made from this type, the descriptions from its comments.
#[derive(Deserialize, JsonSchema)]
struct Arithmetic {
    a: f64,
    operation: Operation,
    /// The second number. It must not be 0 in a division.
    b: f64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

fn main() -> Result<(), steerage::Error> {
    let calculate = Tool::new("calculate", "Calculates with two numbers", |it: Arithmetic, _| {
        let value = match it.operation {
            Operation::Add => it.a + it.b,
            Operation::Subtract => it.a - it.b,
            Operation::Multiply => it.a * it.b,
            // The model sees the error and can do something about it.
            Operation::Divide if it.b == 0.0 => return Err("division by zero".into()),
            Operation::Divide => it.a / it.b,
        };
        Ok(value.to_string())
    });
    let options = AgentOptions {
        stream: Some(Builtin::unpaced().into()),
        tools: vec![calculate],
        ..AgentOptions::default()
    };
    let agent = Agent::new(Builtin::model(), options)?;
    let _subscription = agent.subscribe(|event, _signal| {
        if let AgentEvent::TurnEnd { tool_results, .. } = event {
            for message in tool_results {
                let is_error = message.as_tool_result().is_some_and(|result| result.is_error);
                println!("{}: {}", if is_error { "failed" } else { "result" }, message.text());
            }
        }
        Ok(())
    });
    let outcome = agent.prompt("What is 17 * 23, and what is 1 / 0?")?.wait()?;
    println!("{}", outcome.text);
    Ok(())
}
