//! The work with an agent of this crate and one listener that counts.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use schemars::JsonSchema;
use serde::Deserialize;
use steerage::{
    Agent, AgentEvent, AgentOptions, Events, Modality, Model, StreamEvent, StreamFn, Subscription,
    Tool,
    provider::{ProviderOptions, anthropic::AnthropicMessages},
};

use crate::{
    child::{ABORTS, Failure, Mode, PROMPT, SILENCE, SYSTEM, TALLY, Task},
    clock::{self, pause},
};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    x: i64,
    #[serde(rename = "s")]
    _text: Option<String>,
}

/// An agent at the end of its work, with who listened.
pub(crate) struct Done {
    _agent: Agent,
    _subscription: Subscription,
    _unread: Option<Events>,
}

pub(crate) fn run(task: &Task, is_observed: bool) -> Result<Vec<Done>, Failure> {
    let options = ProviderOptions { api_key: Some("k".into()), ..ProviderOptions::default() };
    let stream: Arc<dyn StreamFn> = Arc::new(AnthropicMessages::new(options));
    match task.mode {
        Mode::Run | Mode::Delay => Ok(vec![prompt(agent(task, &stream)?, task.mode, is_observed)?]),
        Mode::Parallel(count) => thread::scope(|scope| {
            let work = || prompt(agent(task, &stream)?, task.mode, is_observed);
            let start = |_| thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, work);
            let threads: Vec<_> = (0..count).map(start).collect();
            threads.into_iter().map(|it| it?.join().expect("no panic")).collect()
        }),
        Mode::Abort => {
            abort(&agent(task, &stream)?)?;
            Ok(Vec::new())
        }
    }
}

fn agent(task: &Task, stream: &Arc<dyn StreamFn>) -> Result<Agent, Failure> {
    let model = Model {
        id: task.model.clone(),
        api: "anthropic-messages".to_owned(),
        provider: "mock".to_owned(),
        base_url: task.url.clone(),
        input: vec![Modality::Text],
        context_window: 1_000_000,
        max_tokens: 4096,
        ..Model::default()
    };
    let echo = Tool::new("echo", "Echo x", |arguments: Echo, _| Ok(TALLY.echo(arguments.x)));
    let options = AgentOptions {
        stream: Some(stream.clone()),
        system_prompt: SYSTEM.to_owned(),
        tools: vec![echo],
        ..AgentOptions::default()
    };
    Ok(Agent::new(model, options)?)
}

fn prompt(agent: Agent, mode: Mode, is_observed: bool) -> Result<Done, Failure> {
    let unread = is_observed.then(|| agent.events());
    let subscription = agent.subscribe(move |event, _| {
        if let Some(delta) = event.text_delta() {
            TALLY.text(delta, mode);
        } else if let AgentEvent::MessageUpdate {
            event: StreamEvent::ToolCallDelta { delta, .. },
            ..
        } = event
        {
            TALLY.arguments(delta);
        }
        Ok(())
    });
    agent.prompt(PROMPT)?.wait()?;
    Ok(Done { _agent: agent, _subscription: subscription, _unread: unread })
}

fn abort(agent: &Agent) -> Result<(), Failure> {
    let (first, seen) = mpsc::channel();
    let _subscription = agent.subscribe(move |event, _| {
        if let Some(delta) = event.text_delta() {
            TALLY.text(delta, Mode::Abort);
            let _ = first.send(());
        }
        Ok(())
    });
    for _ in 0..ABORTS {
        let run = agent.prompt(PROMPT)?;
        seen.recv()?;
        pause(SILENCE);
        let asked = clock::now();
        run.abort();
        let end = run.wait();
        TALLY.aborted(asked, clock::now());
        assert!(end.is_err(), "the stream was aborted");
    }
    Ok(())
}
