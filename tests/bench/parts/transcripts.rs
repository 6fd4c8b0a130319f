//! Operations on transcripts of three sizes.

use std::sync::Arc;

use serde_json::{Value, json};
use steerage::{
    Agent, AgentOptions, Message,
    testing::Scripted,
    transcript::{from_json, resolve_transcript, to_json},
};

use crate::{
    cost::{cost, cost_of, head, line},
    sample,
};

const SIZES: [u32; 3] = [10, 1000, 100_000];

pub(crate) fn print() {
    head("Transcripts", "ns a message", "by hand");
    for size in SIZES {
        let messages = sample::conversation("anthropic-messages", size as usize);
        let per_message = |micros: f64| micros * 1000.0 / f64::from(size);
        let json = to_json(&messages).expect("messages");
        let tree: Value = serde_json::from_str(&json).expect("JSON");
        line(
            &format!("{size} messages: `to_json`; by hand `serde_json::to_string` of a tree"),
            per_message(cost(|| to_json(&messages))),
            Some(per_message(cost(|| serde_json::to_string(&tree)))),
        );
        line(
            &format!("{size} messages: `from_json`; by hand `serde_json::from_str` to a tree"),
            per_message(cost(|| from_json(&json))),
            Some(per_message(cost(|| serde_json::from_str::<Value>(&json)))),
        );
        resolve(size, &messages, per_message);
    }
    head("A message more", "ns", "by hand: `Vec::push`");
    for size in SIZES {
        push(size, &sample::conversation("anthropic-messages", size as usize));
    }
}

/// With a system message in the middle, which makes all of them one.
fn resolve(size: u32, messages: &[Arc<Message>], per_message: impl Fn(f64) -> f64) {
    let mut messages = messages.to_vec();
    let note = sample::message(json!({"role": "system", "content": "Be brief."}));
    messages.insert(messages.len() / 2, note);
    line(
        &format!("{size} messages: `resolve_transcript`; by hand a copy of the pointers"),
        per_message(cost(|| resolve_transcript(&messages, false))),
        Some(per_message(cost(|| messages.clone()))),
    );
}

fn push(size: u32, messages: &[Arc<Message>]) {
    let agent = || {
        let model = Scripted::new(["Hello!"]);
        let options =
            AgentOptions { stream: Some(model.clone().into()), ..AgentOptions::default() };
        let agent = Agent::new(model.model(), options).expect("an agent");
        agent.set_messages(messages.iter().cloned());
        agent
    };
    let shared = agent();
    let new = || Message::user("More");
    let mut by_hand = messages.to_vec();
    let floor = cost_of(new, |message| by_hand.push(Arc::new(message))) * 1000.0;
    let took = cost_of(new, |message| shared.push_message(message)) * 1000.0;
    line(&format!("onto {size} messages"), took, Some(floor));
    let took = cost_of(agent, |agent| {
        let snapshot = agent.messages();
        agent.push_message(new());
        (agent, snapshot)
    });
    line(&format!("onto {size} messages that someone else looks at"), took * 1000.0, None);
}
