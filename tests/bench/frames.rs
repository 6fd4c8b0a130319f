//! What an agent takes of a frame: a loop at 60 Hz that reads the events of a streaming agent, serves its four hosted tools
//! and answers its questions.
//!
//! `cargo bench --bench frames` prints the median, the 99th percentile and the worst of the time that the calls of one frame
//! take together. The promise: a frame never spends more than 1 ms in them.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use steerage::{
    Agent, AgentOptions, Error, Events, Run,
    approval::{self, Ask, GateOptions, Rule},
    hosted::{self, Call, Queue},
    testing::{Answer, Scripted, ScriptedOptions},
};

/// Ten seconds at 60 Hz.
const FRAMES: u32 = 600;
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);
/// How many events a frame takes at most; what is left merges until the next one.
const EVENTS: usize = 64;
/// Far faster than vendors stream: about eight pieces in a frame.
const TOKENS_PER_SECOND: f64 = 2000.0;
const TOOLS: [&str; 4] = ["move_to", "look", "say", "take"];

#[derive(Deserialize, JsonSchema)]
struct Place {
    x: i32,
    y: i32,
}

/// What the frame loop reads.
struct Scene {
    /// Without a handle to its agent a run is aborted.
    _agent: Agent,
    run: Run,
    events: Events,
    calls: Queue<Call>,
    asks: Queue<Ask>,
}

/// What it has seen.
#[derive(Default)]
struct Seen {
    bytes: usize,
    calls: usize,
    asks: usize,
}

fn main() -> Result<(), Error> {
    let scene = scene()?;
    let mut seen = Seen::default();
    let mut times = Vec::new();
    let start = Instant::now();
    for frame in 1..=FRAMES {
        let begin = Instant::now();
        scene.frame(&mut seen);
        times.push(begin.elapsed());
        // The rest of the frame is the game's.
        scene.run.wait_timeout((FRAME * frame).saturating_sub(start.elapsed()));
    }
    assert!(!scene.run.is_done(), "the agent has ended before the frames");
    scene.run.abort();
    println!(
        "{FRAMES} frames: {} bytes of text, {} calls, {} questions",
        seen.bytes, seen.calls, seen.asks
    );
    times.sort();
    for (name, percent) in [("median", 50), ("99th percentile", 99), ("worst", 100)] {
        let time = times[(times.len() - 1) * percent / 100];
        println!("{name:>15}: {:8.1} us", time.as_secs_f64() * 1e6);
    }
    let late = times.iter().filter(|time| **time > Duration::from_millis(1)).count();
    println!("{late} frames took more than 1 ms");
    Ok(())
}

/// An agent that streams, calls all its tools at once, and so on without an end.
fn scene() -> Result<Scene, Error> {
    let options = ScriptedOptions {
        tokens_per_second: Some(TOKENS_PER_SECOND),
        ..ScriptedOptions::default()
    };
    let model = Scripted::with_options(options, [answer()]);
    for _ in 0..FRAMES {
        model.push(answer());
    }
    let (dispatcher, calls) = hosted::queue();
    let (gate, asks) = approval::gate(GateOptions {
        rules: vec![Rule::ask("take"), Rule::allow("*")],
        ..GateOptions::default()
    });
    let mut options = AgentOptions {
        stream: Some(model.clone().into()),
        tools: TOOLS.map(|name| dispatcher.tool::<Place>(name, "Acts in the game")).into(),
        ..AgentOptions::default()
    };
    options.hooks.before_tool_call = Some(gate.hook());
    let agent = Agent::new(model.model(), options)?;
    let events = agent.events();
    let run = agent.prompt("Play")?;
    Ok(Scene { _agent: agent, run, events, calls, asks })
}

fn answer() -> Answer {
    let text = "I walk on and tell what I see there. ".repeat(40);
    TOOLS.iter().fold(Answer::new().text(text), |answer, name| {
        answer.tool_call(*name, json!({"x": 3, "y": 4}))
    })
}

impl Scene {
    /// All that one frame calls of the crate.
    fn frame(&self, seen: &mut Seen) {
        for event in self.events.drain(EVENTS) {
            seen.bytes += event.text_delta().map_or(0, str::len);
        }
        while let Some(ask) = self.asks.try_next() {
            seen.asks += 1;
            ask.allow();
        }
        while let Some(call) = self.calls.try_next() {
            seen.calls += 1;
            call.update("on the way");
            call.serve(|to: Place| Ok(format!("at {}, {}", to.x, to.y)));
        }
    }
}
