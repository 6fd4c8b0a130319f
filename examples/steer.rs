//! Steering: say something while the agent works. A steering message is read before the next request to the model, a
//! follow-up when the agent would stop.

use serde_json::json;
use steerage::{
    Agent, AgentEvent, AgentOptions, Tool,
    testing::{Answer, Scripted},
};

fn main() -> Result<(), steerage::Error> {
    // A model that gives these answers, one for each request.
    let model = Scripted::new([
        Answer::new().text("I count the red ones.").tool_call("count", json!({"colour": "red"})),
        Answer::new().text("Right, the blue ones.").tool_call("count", json!({"colour": "blue"})),
        Answer::from("There are 4 blue ones."),
        Answer::from("You are welcome."),
    ]);
    let parameters = json!({"type": "object", "properties": {"colour": {"type": "string"}}});
    let count = Tool::with_schema("count", "Counts things", parameters, |arguments, _context| {
        Ok(arguments["colour"].as_str().unwrap_or_default().len().to_string())
    });
    let agent = Agent::new(
        model.model(),
        AgentOptions { stream: Some(model.into()), tools: vec![count], ..AgentOptions::default() },
    )?;

    // What the agent holds keeps a weak handle, or it would keep the agent alive.
    let user = agent.downgrade();
    let _subscription = agent.subscribe(move |event, _signal| {
        match event {
            AgentEvent::ToolExecutionStart { call } if call.arguments["colour"] == "red" => {
                if let Some(agent) = user.upgrade() {
                    agent.steer("No, count the blue ones instead.");
                    agent.follow_up("Thank you!");
                }
            }
            AgentEvent::MessageEnd { message } if message.role() != "system" => {
                println!("{:>10}: {}", message.role(), message.text());
            }
            _ => (),
        }
        Ok(())
    });
    agent.prompt("How many red ones are there?")?.wait()?;
    Ok(())
}
