//! Runs of the loop on one thread, for instruction counts: `check` in this folder runs it under callgrind.
//!
//! The responses are in memory. A request is built as for the vendor, with what was kept from the one before, and then not
//! sent; its response is decoded from recorded bytes. No tool runs, since tools run on threads of their own: a hook refuses
//! each call, after its arguments were checked. So the number of instructions depends on the code alone.

use std::{env, hint::black_box, sync::Arc};

use serde_json::json;
use steerage::{
    AbortSignal, AgentEvent, AssistantStream, Hooks, Message, Model, StreamEvent, StreamFn,
    StreamRequest, Tool, ToolDecision,
    agent_loop::{LoopConfig, LoopContext, agent_loop},
    provider::{ProviderOptions, anthropic::AnthropicMessages},
    testing::wire,
};

#[path = "../recorded.rs"]
mod recorded;

/// How the body of a response arrives: in pieces of this size.
const PIECE: usize = 16 << 10;

fn main() {
    let named: Vec<String> = env::args().skip(1).filter(|it| it != "--bench").collect();
    for work in ["W1", "W3a", "W5"] {
        if named.is_empty() || named.iter().any(|name| name == work) {
            let (config, context) = conversation(bodies(work));
            println!("{work}: {} bytes of deltas", black_box(measured(&config, context)));
        }
    }
}

fn bodies(work: &str) -> Vec<Vec<u8>> {
    let last = recorded::text(4, 16);
    let responses: Vec<Vec<String>> = match work {
        "W1" => vec![recorded::text(20_000, 16)],
        "W3a" => (0..100).map(|turn| recorded::calls(turn, 1)).chain([last]).collect(),
        _ => vec![recorded::long_arguments(20_000), last],
    };
    responses.iter().map(|events| events.concat().into_bytes()).collect()
}

/// What callgrind counts.
#[inline(never)]
fn measured(config: &LoopConfig, context: LoopContext) -> usize {
    let mut bytes = 0;
    let mut count = |event: AgentEvent| {
        if let AgentEvent::MessageUpdate {
            event: StreamEvent::TextDelta { delta, .. } | StreamEvent::ToolCallDelta { delta, .. },
            ..
        } = event
        {
            bytes += delta.len();
        }
        Ok(())
    };
    let prompt = vec![Message::user("go")];
    let added = agent_loop(prompt, context, config, &AbortSignal::never(), &mut count);
    let added = added.expect("no error");
    let last = added.last().and_then(|message| message.as_assistant());
    assert!(last.is_some_and(|last| !last.is_failed()), "{last:?}");
    bytes
}

fn conversation(bodies: Vec<Vec<u8>>) -> (LoopConfig, LoopContext) {
    let model = Model {
        id: "mock".to_owned(),
        api: "anthropic-messages".to_owned(),
        provider: "mock".to_owned(),
        base_url: "http://localhost".to_owned(),
        context_window: 1_000_000,
        max_tokens: 4096,
        ..Model::default()
    };
    let options = ProviderOptions { api_key: Some("k".into()), ..ProviderOptions::default() };
    let provider = AnthropicMessages::new(options);
    let stream = move |request: StreamRequest, signal: &AbortSignal| {
        let messages = request.transcript.messages();
        let turn = messages.iter().filter(|it| it.as_assistant().is_some()).count();
        // Builds the body; it is sent when the first event is asked for, which nobody does.
        drop(provider.stream(request.clone(), signal)?);
        let events = wire::decode(&request, bodies[turn].chunks(PIECE), true)?;
        Ok(Box::new(events.into_iter()) as Box<dyn AssistantStream>)
    };
    let stream: Arc<dyn StreamFn> = Arc::new(stream);
    let hooks = Hooks {
        before_tool_call: Some(Arc::new(|_, _| Ok(ToolDecision::block("echo")))),
        ..Hooks::default()
    };
    let config = LoopConfig { hooks, ..LoopConfig::new(model, stream) };
    let parameters = json!({"type": "object", "required": ["x"],
        "properties": {"x": {"type": "integer"}, "s": {"type": "string"}}});
    let tool = Tool::with_schema("echo", "Echo x", parameters, |_, _| Ok(String::new()));
    (
        config,
        LoopContext {
            messages: vec![Arc::new(Message::system("You are a helpful assistant."))],
            tools: vec![tool],
        },
    )
}
