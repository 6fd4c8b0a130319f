//! The hooks of a scenario: each logs, acts, fails or returns as it is scripted.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use steerage::{
    AbortSignal, Hooks, Message, Secret, ToolDecision, TurnDecision,
    agent_loop::{ContextChanges, NextTurn, ResultChanges},
};

use crate::conformance::agent::{
    scripts::Actor,
    world::{World, read_or, stop_of, thrown},
};

/// How often a hook was called, which picks its step.
struct Counter(Mutex<usize>);

impl Counter {
    fn step(&self, spec: &Value) -> Value {
        let mut count = self.0.lock().unwrap();
        *count += 1;
        spec.get(*count - 1).cloned().unwrap_or_default()
    }
}

pub(super) fn of(spec: &Value, world: &Arc<World>) -> Hooks {
    let mut hooks = Hooks::default();
    tool_hooks(spec, world, &mut hooks);
    turn_hooks(spec, world, &mut hooks);
    request_hooks(spec, world, &mut hooks);
    hooks
}

fn act_on(world: &World, step: &Value, signal: &AbortSignal) {
    for action in step["do"].as_array().into_iter().flatten() {
        world.act(action, Some(signal));
    }
}

fn by_id(spec: &Value, id: &str) -> Value {
    spec.get(id).or_else(|| spec.get("*")).cloned().unwrap_or_default()
}

fn tool_hooks(spec: &Value, world: &Arc<World>, hooks: &mut Hooks) {
    if let Some(spec) = spec.get("beforeToolCall").cloned() {
        let world = world.clone();
        hooks.before_tool_call = Some(Arc::new(move |call, signal| {
            world.log(json!({
                "hook": "beforeToolCall", "id": call.call.id, "args": call.arguments,
                "contextMessages": call.context.len(), "stateMessages": world.agent().messages().len(),
            }));
            let step = by_id(&spec, &call.call.id);
            act_on(&world, &step, signal);
            thrown(&step)?;
            let decision = &step["return"];
            if decision["block"] != true {
                return Ok(ToolDecision::Allow);
            }
            let reason = decision["reason"].as_str().map(str::to_owned);
            Ok(ToolDecision::Block { reason, terminate: decision["terminate"] == true })
        }));
    }
    if let Some(spec) = spec.get("afterToolCall").cloned() {
        let world = world.clone();
        hooks.after_tool_call = Some(Arc::new(move |call, signal| {
            world.log(json!({
                "hook": "afterToolCall", "id": call.call.id, "args": call.arguments, "result": call.result,
                "isError": call.is_error, "contextMessages": call.context.len(),
                "stateMessages": world.agent().messages().len(),
            }));
            let step = by_id(&spec, &call.call.id);
            act_on(&world, &step, signal);
            thrown(&step)?;
            let Some(changes) = step.get("return") else { return Ok(None) };
            Ok(Some(ResultChanges {
                content: changes
                    .get("content")
                    .map(|it| serde_json::from_value(it.clone()).unwrap()),
                details: changes.get("details").cloned(),
                structured_content: changes.get("structuredContent").cloned(),
                usage: changes.get("usage").map(|it| serde_json::from_value(it.clone()).unwrap()),
                is_error: changes["isError"].as_bool(),
                terminate: changes["terminate"].as_bool(),
            }))
        }));
    }
}

fn turn_hooks(spec: &Value, world: &Arc<World>, hooks: &mut Hooks) {
    if let Some(spec) = spec.get("finishTurn").cloned() {
        let (world, counter) = (world.clone(), Counter(Mutex::default()));
        hooks.finish_turn = Some(Arc::new(move |turn, signal| {
            world.log(json!({
                "hook": "finishTurn", "stop": stop_of(turn.message), "results": turn.tool_results.len(),
                "contextMessages": turn.context.len(), "newMessages": turn.new_messages.len(),
            }));
            let step = counter.step(&spec);
            act_on(&world, &step, signal);
            thrown(&step)?;
            Ok(match step["return"]["action"].as_str() {
                Some("end") => TurnDecision::End,
                Some("continue") => TurnDecision::Continue,
                _ => TurnDecision::Proceed,
            })
        }));
    }
    if let Some(spec) = spec.get("prepareNextTurn").cloned() {
        let (world, counter) = (world.clone(), Counter(Mutex::default()));
        hooks.prepare_next_turn = Some(Arc::new(move |turn, signal| {
            world.log(json!({
                "hook": "prepareNextTurn", "stop": stop_of(turn.message), "results": turn.tool_results.len(),
                "contextMessages": turn.context.len(), "newMessages": turn.new_messages.len(),
            }));
            let step = counter.step(&spec);
            act_on(&world, &step, signal);
            thrown(&step)?;
            Ok(step.get("return").map(|given| NextTurn {
                changes: changes(&world, given),
                messages: read_or(&given["messages"], Vec::new()),
            }))
        }));
    }
}

fn request_hooks(spec: &Value, world: &Arc<World>, hooks: &mut Hooks) {
    if let Some(spec) = spec.get("prepareRequest").cloned() {
        let (world, counter) = (world.clone(), Counter(Mutex::default()));
        hooks.prepare_request = Some(Arc::new(move |context, signal| {
            world.log(json!({
                "hook": "prepareRequest", "model": context.model.id, "thinkingLevel": context.thinking_level,
                "contextMessages": context.messages.len(),
            }));
            let step = counter.step(&spec);
            act_on(&world, &step, signal);
            thrown(&step)?;
            Ok(step.get("return").map(|given| changes(&world, given)))
        }));
    }
    if let Some(spec) = spec.get("transformContext").cloned() {
        let (world, counter) = (world.clone(), Counter(Mutex::default()));
        hooks.transform_context = Some(Arc::new(move |messages, signal| {
            world.log(json!({"hook": "transformContext", "messages": messages.len()}));
            let step = counter.step(&spec);
            act_on(&world, &step, signal);
            thrown(&step)?;
            Ok(match step.get("return") {
                Some(given) => transform(messages, given),
                None => messages,
            })
        }));
    }
    if let Some(spec) = spec.get("getApiKey").cloned() {
        let (world, counter) = (world.clone(), Counter(Mutex::default()));
        hooks.get_api_key = Some(Arc::new(move |provider, signal| {
            world.log(json!({"hook": "getApiKey", "provider": provider}));
            let step = counter.step(&spec);
            act_on(&world, &step, signal);
            thrown(&step)?;
            Ok(step["return"].as_str().map(Secret::from))
        }));
    }
    if let Some(spec) = spec.get("convertToLlm").cloned() {
        hooks.convert_to_llm = Some(Arc::new(move |messages, _| {
            Ok(messages.into_iter().filter_map(|message| convert(message, &spec)).collect())
        }));
    }
}

fn convert(message: Arc<Message>, spec: &Value) -> Option<Arc<Message>> {
    match (&*message, spec[message.role()].as_str()) {
        (_, Some("drop")) => None,
        (Message::Custom(custom), Some("user")) => {
            let text = custom.fields()["text"].as_str().unwrap_or_default().to_owned();
            Some(Arc::new(Message::user(text)))
        }
        (Message::Custom(_), _) => None,
        _ => Some(message),
    }
}

fn transform(messages: Vec<Arc<Message>>, given: &Value) -> Vec<Arc<Message>> {
    let (systems, others): (Vec<_>, Vec<_>) =
        messages.into_iter().partition(|message| message.as_system().is_some());
    let keep =
        given["keepLast"].as_u64().map_or(others.len(), |keep| usize::try_from(keep).unwrap());
    let skipped = others.len().saturating_sub(keep);
    let appended: Vec<Message> = read_or(&given["append"], Vec::new());
    systems
        .into_iter()
        .chain(others.into_iter().skip(skipped))
        .chain(appended.into_iter().map(Arc::new))
        .collect()
}

fn changes(world: &World, given: &Value) -> ContextChanges {
    let messages = given["context"].get("messages").map(|messages| {
        let messages: Vec<Message> = serde_json::from_value(messages.clone()).unwrap();
        messages.into_iter().map(Arc::new).collect()
    });
    ContextChanges {
        model: given["model"].as_str().map(|key| world.models[key].clone()),
        thinking_level: given["thinkingLevel"].as_str().map(|level| level.parse().unwrap()),
        messages,
        tools: given["context"]["tools"].as_array().map(|keys| world.tools_of(keys)),
    }
}
