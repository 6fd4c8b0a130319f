//! A frame loop with an agent: it moves the player itself when the model asks for it, and approves what the rules leave
//! open. The world belongs to the main thread, and no frame waits.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use steerage::{
    Agent, AgentOptions,
    approval::{self, GateOptions, Rule},
    hosted,
    render::Renderer,
    testing::{Answer, Scripted},
};

#[derive(Deserialize, JsonSchema)]
struct Place {
    x: i32,
    y: i32,
}

fn main() -> Result<(), steerage::Error> {
    // A model that gives these answers, one for each request.
    let model = Scripted::new([
        Answer::new().text("I go to the door.").tool_call("move_to", json!({"x": 3, "y": 1})),
        Answer::new().text("I break it down.").tool_call("break_down", json!({"x": 3, "y": 1})),
        Answer::from("The door stays closed, and I stand before it."),
    ]);
    let (dispatcher, calls) = hosted::queue();
    let (gate, asks) = approval::gate(GateOptions {
        rules: vec![Rule::allow("move_to")],
        ..GateOptions::default()
    });
    let mut options = AgentOptions {
        stream: Some(model.clone().into()),
        tools: vec![
            dispatcher.tool::<Place>("move_to", "Moves the player"),
            dispatcher.tool::<Place>("break_down", "Breaks a door down"),
        ],
        ..AgentOptions::default()
    };
    options.hooks.before_tool_call = Some(gate.hook());
    let agent = Agent::new(model.model(), options)?;

    let (events, mut renderer) = (agent.events(), Renderer::default());
    let mut player = (0, 0);
    let run = agent.prompt("Go through the door")?;
    while !(run.is_done() && events.is_empty()) {
        for event in events.drain(64) {
            print!("{}", renderer.event(&event));
        }
        while let Some(ask) = asks.try_next() {
            // A game shows a window here and keeps the question until a button is pressed.
            ask.deny("that would wake the guard");
        }
        while let Some(call) = calls.try_next() {
            call.serve(|to: Place| {
                player = (to.x, to.y);
                Ok(format!("the player is at {player:?}"))
            });
        }
        // The frame is drawn, and the next one comes in a moment.
        run.wait_timeout(Duration::from_millis(16));
    }
    assert_eq!(player, (3, 1));
    Ok(())
}
