//! What scenarios script: models, tools, responses, gates.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use serde_json::{Map, Value, json};
use steerage::{
    AbortSignal, AssistantStream, Error, ErrorKind, ExecutionMode, Failure, Model, StreamEvent,
    Tool, ToolContext, ToolError, ToolResult, message::ToolCall,
};

/// Runs the actions of a script; the world and the loop have one each.
pub(super) trait Actor: Send + Sync {
    fn act(&self, action: &Value, signal: Option<&AbortSignal>);
    fn gates(&self) -> &Gates;
    fn note_executed(&self, call: &str, arguments: &Map<String, Value>);
}

/// Named gates, opened once.
#[derive(Default)]
pub(super) struct Gates(Mutex<HashMap<String, Gate>>);

struct Gate {
    opener: Option<Sender<()>>,
    opened: Receiver<()>,
}

impl Gates {
    pub(super) fn open(&self, name: &str) {
        self.with(name, |gate| gate.opener = None);
    }

    /// Waits until the gate is open; false if the signal fired first.
    pub(super) fn wait(&self, name: &str, signal: &AbortSignal) -> bool {
        let opened = self.with(name, |gate| gate.opened.clone());
        select! {
            recv(opened) -> _ => true,
            recv(signal.channel()) -> _ => false,
        }
    }

    fn with<T>(&self, name: &str, read: impl FnOnce(&mut Gate) -> T) -> T {
        let mut gates = self.0.lock().unwrap();
        read(gates.entry(name.to_owned()).or_insert_with(|| {
            let (opener, opened) = bounded(0);
            Gate { opener: Some(opener), opened }
        }))
    }
}

/// The scripted models: `m1`, `m2` and those of the scenario.
pub(super) fn models(scenario: &Value) -> HashMap<String, Arc<Model>> {
    let mut models = HashMap::new();
    let mut keys = vec!["m1".to_owned(), "m2".to_owned()];
    let own = scenario["models"].as_object().cloned().unwrap_or_default();
    keys.extend(own.keys().cloned());
    for key in keys {
        let provider = if key == "m2" { "test2" } else { "test" };
        let mut fields = json!({
            "id": key, "name": key, "api": "scripted", "provider": provider, "baseUrl": "", "reasoning": true,
            "input": ["text", "image"], "contextWindow": 100_000, "maxTokens": 1000,
        });
        for (name, value) in own.get(&key).and_then(Value::as_object).into_iter().flatten() {
            fields[name] = value.clone();
        }
        models.insert(key, Arc::new(serde_json::from_value(fields).unwrap()));
    }
    models
}

pub(super) fn tool(key: &str, spec: &Value, actor: Arc<dyn Actor>) -> Tool {
    let text = |name: &str| spec[name].as_str().unwrap_or(key).to_owned();
    let parameters = spec
        .get("parameters")
        .cloned()
        .unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    let script = spec.get("script").cloned().unwrap_or_else(|| json!([]));
    let run = move |arguments: Map<String, Value>, context: &ToolContext| {
        actor.note_executed(context.call_id(), &arguments);
        let entries = match &script {
            Value::Array(entries) => entries,
            by_id => match by_id.get(context.call_id()).or_else(|| by_id.get("*")) {
                Some(Value::Array(entries)) => entries,
                _ => return Ok(ToolResult::text("done")),
            },
        };
        run_script(entries, &arguments, context, &*actor)
    };
    let mut tool =
        Tool::with_schema(text("name"), text("description"), parameters, run).label(text("label"));
    match spec["executionMode"].as_str() {
        Some("sequential") => tool = tool.sequential(),
        Some("parallel") => tool = tool.execution(ExecutionMode::Parallel),
        _ => (),
    }
    if let Some(renames) = spec["rename"].as_object().cloned() {
        tool = tool.prepare_arguments(move |arguments| {
            Ok(arguments
                .into_iter()
                .map(|(name, value)| {
                    (renames.get(&name).and_then(Value::as_str).unwrap_or(&name).to_owned(), value)
                })
                .collect())
        });
    }
    tool
}

fn run_script(
    entries: &[Value],
    arguments: &Map<String, Value>,
    context: &ToolContext,
    actor: &dyn Actor,
) -> Result<ToolResult, ToolError> {
    for entry in entries {
        if let Some(update) = entry.get("update") {
            context.update(serde_json::from_value::<ToolResult>(update.clone())?);
        } else if let Some(gate) = entry["wait"].as_str() {
            if !actor.gates().wait(gate, context.signal()) {
                return Err(entry["onAbort"].as_str().unwrap_or("interrupted").into());
            }
        } else if let Some(result) = entry.get("return") {
            return Ok(serde_json::from_value(result.clone())?);
        } else if entry["echo"] == true {
            return Ok(ToolResult::text(Value::Object(arguments.clone()).to_string()));
        } else if let Some(text) = entry["throw"].as_str() {
            return Err(text.into());
        } else {
            actor.act(entry, Some(context.signal()));
        }
    }
    Ok(ToolResult::text("done"))
}

/// The responses of a scenario, one list for each request.
pub(super) struct Responses(Mutex<VecDeque<Vec<Value>>>);

impl Responses {
    pub(super) fn of(scenario: &Value) -> Responses {
        let lists = scenario["responses"].as_array().cloned().unwrap_or_default();
        Responses(Mutex::new(
            lists.into_iter().map(|list| list.as_array().cloned().unwrap_or_default()).collect(),
        ))
    }

    pub(super) fn next(
        &self,
        actor: Arc<dyn Actor>,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let next = self.0.lock().unwrap().pop_front();
        let entries =
            next.ok_or_else(|| Error::new(ErrorKind::Callback, "no response is scripted"))?;
        if let Some(text) = entries.first().and_then(|entry| entry["throw"].as_str()) {
            return Err(Error::new(ErrorKind::Callback, text));
        }
        Ok(Box::new(Response {
            entries: entries.into(),
            actor,
            signal: signal.clone(),
            calls: HashMap::new(),
            ended: false,
        }))
    }
}

struct Response {
    entries: VecDeque<Value>,
    actor: Arc<dyn Actor>,
    signal: AbortSignal,
    /// The calls begun, which the end of a call is merged over.
    calls: HashMap<u64, Value>,
    ended: bool,
}

impl Iterator for Response {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if self.ended {
                return None;
            }
            if self.signal.is_aborted() {
                return Some(self.abort());
            }
            let entry = self.entries.pop_front()?;
            if let Some(actions) = entry["do"].as_array() {
                for action in actions {
                    self.actor.act(action, Some(&self.signal));
                }
            } else if let Some(gate) = entry["wait"].as_str() {
                if !self.actor.gates().wait(gate, &self.signal) {
                    return Some(self.abort());
                }
            } else {
                return Some(self.event(entry));
            }
        }
    }
}

impl AssistantStream for Response {}

impl Response {
    fn abort(&mut self) -> StreamEvent {
        self.ended = true;
        StreamEvent::Error {
            message: "stream aborted".to_owned(),
            failure: Box::new(Failure::new(ErrorKind::Aborted)),
        }
    }

    fn event(&mut self, mut entry: Value) -> StreamEvent {
        match entry["type"].as_str() {
            Some("error") => {
                let kind = if entry["reason"] == "aborted" {
                    ErrorKind::Aborted
                } else {
                    ErrorKind::Overloaded
                };
                let message = entry["errorMessage"].as_str().unwrap_or_default().to_owned();
                return self.with_usage(
                    &entry,
                    StreamEvent::Error { message, failure: Box::new(Failure::new(kind)) },
                );
            }
            Some("done") => {
                let reason = serde_json::from_value(entry["reason"].clone()).unwrap();
                return self.with_usage(&entry, StreamEvent::Done { reason });
            }
            Some("toolcall_start") => {
                let index = entry["contentIndex"].as_u64().unwrap();
                let call = json!({"id": entry["id"], "name": entry["toolName"], "arguments": {}});
                self.calls.insert(index, call);
            }
            Some("toolcall_end") => {
                let index = entry["contentIndex"].as_u64().unwrap();
                let mut call = self.calls.get(&index).cloned().unwrap_or_else(|| json!({}));
                for (name, value) in entry["toolCall"].as_object().into_iter().flatten() {
                    call[name] = value.clone();
                }
                let call: ToolCall = serde_json::from_value(call).unwrap();
                entry["toolCall"] = serde_json::to_value(call).unwrap();
            }
            _ => (),
        }
        serde_json::from_value(entry).unwrap()
    }

    /// The usage of a terminal event is an event of its own here; the terminal one comes next.
    fn with_usage(&mut self, entry: &Value, event: StreamEvent) -> StreamEvent {
        match entry.get("usage") {
            None => event,
            Some(usage) => {
                let mut rest = entry.clone();
                rest.as_object_mut().unwrap().remove("usage");
                self.entries.push_front(rest);
                serde_json::from_value(json!({"type": "info", "usage": usage})).unwrap()
            }
        }
    }
}
