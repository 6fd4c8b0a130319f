//! Listeners and observers of a stream of text.

use std::thread;

use steerage::{Agent, AgentOptions, stream::collect};

use crate::{
    cost::{cost, head, line},
    recorded, sample,
};

const DELTAS: usize = 20_000;

pub(crate) fn print() {
    let events = sample::decoded(&recorded::text(DELTAS, 16));
    let model = sample::model("anthropic-messages");
    let floor = per_delta(cost(|| collect(&model, &mut events.clone().into_iter())));
    head(
        "Listeners and observers of 20,000 text deltas from memory",
        "µs a delta",
        "folded, without an agent",
    );
    for at_once in [true, false] {
        let stream = sample::responses(vec![events.clone()], at_once);
        let how = if at_once { "all at once" } else { "one by one" };
        let agent = || {
            let options = AgentOptions { stream: Some(stream.clone()), ..AgentOptions::default() };
            Agent::new(model.clone(), options).expect("an agent")
        };
        for (listeners, observers) in [(0, 0), (1, 0), (8, 0), (0, 1), (0, 8), (8, 8)] {
            let what =
                format!("{how}: {listeners} listeners, {observers} observers that nobody reads");
            let run = || run(&agent(), listeners, observers);
            line(&what, per_delta(cost(run)), Some(floor));
        }
        for observers in [1, 8] {
            let what = format!("{how}: {observers} observers that threads read");
            line(&what, per_delta(cost(|| run_read(agent(), observers))), Some(floor));
        }
    }
}

fn run(agent: &Agent, listeners: usize, observers: usize) {
    let _listeners: Vec<_> = (0..listeners).map(|_| agent.subscribe(|_, _| Ok(()))).collect();
    let _observers: Vec<_> = (0..observers).map(|_| agent.events()).collect();
    agent.prompt("go").expect("an idle agent").wait().expect("an answer");
}

fn run_read(agent: Agent, observers: usize) {
    thread::scope(|scope| {
        for _ in 0..observers {
            let events = agent.events();
            scope.spawn(move || events.into_iter().count());
        }
        run(&agent, 0, 0);
        drop(agent);
    });
}

fn per_delta(micros: f64) -> f64 {
    micros / f64::from(u32::try_from(DELTAS).expect("a small number"))
}
