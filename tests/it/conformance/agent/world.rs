//! A scenario on an agent: everything that is logged, acted and answered.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock},
};

use serde_json::{Map, Value, json};
use steerage::{
    AbortSignal, Agent, AgentEvent, AgentOptions, AssistantStream, Error, ErrorKind, ExecutionMode,
    Hooks, Message, Model, QueueMode, StreamOptions, StreamRequest, Subscription, ThinkingLevel,
    Tool, ToolError, WeakAgent,
    message::{AssistantMessage, ImageContent, ToolCall},
    stream::{Attribution, Identity},
};

use crate::conformance::agent::{
    hooks,
    scripts::{self, Actor, Gates, Responses},
};

pub(super) struct World {
    agent: OnceLock<WeakAgent>,
    pub(super) models: HashMap<String, Arc<Model>>,
    tools: OnceLock<HashMap<String, Tool>>,
    gates: Gates,
    log: Mutex<Vec<Value>>,
    executed: Mutex<Map<String, Value>>,
    responses: Responses,
    subscriptions: Mutex<Vec<Option<Subscription>>>,
    requests: Mutex<u64>,
}

pub(super) fn run(scenario: &Value) -> Value {
    let world = Arc::new(World {
        agent: OnceLock::new(),
        models: scripts::models(scenario),
        tools: OnceLock::new(),
        gates: Gates::default(),
        log: Mutex::default(),
        executed: Mutex::default(),
        responses: Responses::of(scenario),
        subscriptions: Mutex::default(),
        requests: Mutex::default(),
    });
    let tools = scenario["tools"].as_object().into_iter().flatten();
    let tools =
        tools.map(|(key, spec)| (key.clone(), scripts::tool(key, spec, world.clone()))).collect();
    let _ = world.tools.set(tools);
    let agent = make_agent(scenario, &world);
    let _ = world.agent.set(agent.downgrade());
    let recorder = {
        let world = world.clone();
        agent.subscribe(move |event, signal| {
            world.record(event, signal);
            Ok(())
        })
    };
    for rules in scenario["listeners"].as_array().into_iter().flatten() {
        let subscription = listen(&agent, rules.clone(), world.clone());
        world.subscriptions.lock().unwrap().push(Some(subscription));
    }
    for (index, step) in scenario["steps"].as_array().into_iter().flatten().enumerate() {
        world.log(json!({"step": index}));
        world.act(step, None);
        agent.wait_for_idle().unwrap();
        world.log_state(index);
    }
    world.subscriptions.lock().unwrap().clear();
    drop(recorder);
    let log = std::mem::take(&mut *world.log.lock().unwrap());
    let executed = std::mem::take(&mut *world.executed.lock().unwrap());
    json!({"log": log, "executed": executed})
}

fn make_agent(scenario: &Value, world: &Arc<World>) -> Agent {
    let spec = &scenario["agent"];
    let tool_keys = spec["tools"].as_array().cloned().unwrap_or_default();
    let stream = {
        let world = world.clone();
        move |request: StreamRequest, signal: &AbortSignal| world.stream(&request, signal)
    };
    let mut request = StreamOptions {
        session_id: spec["sessionId"].as_str().map(str::to_owned),
        thinking_budgets: spec
            .get("thinkingBudgets")
            .map(|it| serde_json::from_value(it.clone()).unwrap()),
        transport: spec.get("transport").map(|it| serde_json::from_value(it.clone()).unwrap()),
        max_retry_delay_ms: spec["maxRetryDelayMs"].as_u64(),
        ..StreamOptions::default()
    };
    if let Some(name) = spec["attribution"].as_str() {
        let url = "https://app.example".to_owned();
        let attribution = Attribution { name: name.to_owned(), url, categories: Vec::new() };
        request.identity = Some(Identity { attribution: Some(attribution), ..Identity::default() });
    }
    let options = AgentOptions {
        stream: Some(Arc::new(stream)),
        system_prompt: spec["systemPrompt"].as_str().unwrap_or_default().to_owned(),
        tools: world.tools_of(&tool_keys),
        messages: read_or(&spec["messages"], Vec::new()),
        thinking_level: read_or(&spec["thinkingLevel"], ThinkingLevel::Off),
        steering_mode: read_or(&spec["steeringMode"], QueueMode::OneAtATime),
        follow_up_mode: read_or(&spec["followUpMode"], QueueMode::OneAtATime),
        tool_execution: read_or(&spec["toolExecution"], ExecutionMode::Parallel),
        hooks: hooks_of(scenario, world),
        request,
        ..AgentOptions::default()
    };
    let model = world.models[spec["model"].as_str().unwrap_or("m1")].clone();
    Agent::new(model, options).unwrap()
}

fn hooks_of(scenario: &Value, world: &Arc<World>) -> Hooks {
    hooks::of(&scenario["hooks"], world)
}

fn listen(agent: &Agent, rules: Value, world: Arc<World>) -> Subscription {
    let mut counts: HashMap<&'static str, u64> = HashMap::new();
    agent.subscribe(move |event, signal| {
        let count = counts.entry(event.type_name()).or_default();
        *count += 1;
        for rule in rules.as_array().into_iter().flatten() {
            if !matches(rule, event, *count) {
                continue;
            }
            for action in rule["do"].as_array().into_iter().flatten() {
                world.act(action, Some(signal));
            }
            if let Some(text) = rule["throw"].as_str() {
                return Err(text.into());
            }
        }
        Ok(())
    })
}

fn matches(rule: &Value, event: &AgentEvent, count: u64) -> bool {
    let role = match event {
        AgentEvent::MessageStart { message } | AgentEvent::MessageEnd { message } => message.role(),
        AgentEvent::MessageUpdate { .. } | AgentEvent::TurnEnd { .. } => "assistant",
        _ => "",
    };
    rule["on"] == event.type_name()
        && rule["nth"].as_u64().is_none_or(|nth| nth == count)
        && rule["id"].as_str().is_none_or(|id| event.tool_call_id() == Some(id))
        && rule["role"].as_str().is_none_or(|wanted| wanted == role)
}

impl World {
    pub(super) fn log(&self, entry: Value) {
        self.log.lock().unwrap().push(entry);
    }

    pub(super) fn agent(&self) -> Agent {
        self.agent
            .get()
            .and_then(WeakAgent::upgrade)
            .expect("the agent lives as long as its scenario")
    }

    pub(super) fn tools_of(&self, keys: &[Value]) -> Vec<Tool> {
        let tools = self.tools.get().expect("the tools are made first");
        keys.iter().filter_map(|key| tools.get(key.as_str()?).cloned()).collect()
    }

    fn stream(
        self: &Arc<World>,
        request: &StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let number = {
            let mut requests = self.requests.lock().unwrap();
            *requests += 1;
            *requests - 1
        };
        let mut options = request_options(request);
        options.entry("transport").or_insert(json!("auto"));
        self.log(json!({
            "request": number, "model": request.model.id, "messages": request.transcript.messages(), "options": options,
        }));
        self.responses.next(self.clone(), signal)
    }

    fn record(&self, event: &AgentEvent, signal: &AbortSignal) {
        let state = self.agent().state();
        let mut picture = Map::new();
        picture.insert("isStreaming".into(), json!(state.is_streaming));
        picture.insert("messages".into(), json!(state.messages.len()));
        if let Some(message) = &state.streaming_message {
            picture.insert("streaming".into(), json!(message.role()));
        }
        if !state.pending_tool_calls.is_empty() {
            picture.insert("pending".into(), json!(state.pending_tool_calls));
        }
        if let Some(error) = &state.error_message {
            picture.insert("error".into(), json!(error));
        }
        let mut entry = json!({"event": event.to_json(), "state": picture});
        if signal.is_aborted() {
            entry["aborted"] = json!(true);
        }
        self.log(entry);
    }

    fn log_state(&self, step: usize) {
        let agent = self.agent();
        let state = agent.state();
        let mut entry = json!({
            "after": step, "isStreaming": state.is_streaming, "messages": state.messages.len(),
            "systemPrompt": state.system_prompt, "transcript": *state.messages,
            "tools": state.tools.iter().map(Tool::name).collect::<Vec<_>>(), "queued": agent.peek_queued_messages(),
        });
        if let Some(error) = &state.error_message {
            entry["error"] = json!(error);
        }
        if let Some(message) = &state.streaming_message {
            entry["streaming"] = json!(message.role());
        }
        if !state.pending_tool_calls.is_empty() {
            entry["pending"] = json!(state.pending_tool_calls);
        }
        self.log(entry);
    }

    fn refuse(&self, action: &str, error: &Error) {
        let kind = match error.kind() {
            ErrorKind::Busy => "busy",
            ErrorKind::NothingToContinue => "nothing-to-continue",
            ErrorKind::EndsWithAssistant => "ends-with-assistant",
            other => panic!("{action} was refused with {other:?}: {error}"),
        };
        self.log(json!({"refused": action, "error": kind}));
    }

    fn prompt(&self, prompt: &Value, images: Option<&Value>) {
        let agent = self.agent();
        let started = match prompt {
            Value::String(text) => match images {
                Some(images) => {
                    agent.prompt((text.clone(), read_or::<Vec<ImageContent>>(images, Vec::new())))
                }
                None => agent.prompt(text.clone()),
            },
            Value::Array(_) => agent.prompt(read_or::<Vec<Message>>(prompt, Vec::new())),
            message => agent.prompt(serde_json::from_value::<Message>(message.clone()).unwrap()),
        };
        match started {
            // How the run ended stands in the log.
            Ok(run) => drop(run.outcome()),
            Err(error) => self.refuse("prompt", &error),
        }
    }

    fn call_tool(&self, call: &Value, signal: Option<&AbortSignal>) {
        let call: ToolCall = serde_json::from_value(call.clone()).unwrap();
        let never = AbortSignal::never();
        let outcome = self.agent().run_tool_call(&call, signal.unwrap_or(&never));
        self.log(
            json!({"callTool": call.id, "result": outcome.result, "isError": outcome.is_error}),
        );
    }

    fn set(&self, name: &str, value: &Value) {
        let agent = self.agent();
        match name {
            "setTools" => agent.set_tools(self.tools_of(value.as_array().unwrap())).unwrap(),
            "setModel" => agent.set_model(self.models[value.as_str().unwrap()].clone()),
            "setThinkingLevel" => {
                agent.set_thinking_level(serde_json::from_value(value.clone()).unwrap());
            }
            "setSteeringMode" => {
                agent.set_steering_mode(serde_json::from_value(value.clone()).unwrap());
            }
            "setFollowUpMode" => {
                agent.set_follow_up_mode(serde_json::from_value(value.clone()).unwrap());
            }
            "setToolExecution" => {
                agent.set_tool_execution(serde_json::from_value(value.clone()).unwrap());
            }
            "setMessages" => {
                agent.set_messages(serde_json::from_value::<Vec<Message>>(value.clone()).unwrap());
            }
            "setSessionId" => {
                let session = value.as_str().map(str::to_owned);
                agent.configure(|options| options.request.session_id = session).unwrap();
            }
            other => panic!("unknown action {other}"),
        }
    }
}

impl Actor for World {
    fn act(&self, action: &Value, signal: Option<&AbortSignal>) {
        let fields = action.as_object().expect("an action is an object");
        let (name, value) =
            fields.iter().find(|(name, _)| *name != "images").expect("an action has a name");
        let agent = self.agent();
        let message = || serde_json::from_value::<Message>(value.clone()).unwrap();
        match name.as_str() {
            "steer" => drop(agent.steer(message())),
            "followUp" => drop(agent.follow_up(message())),
            "abort" => agent.abort(),
            "clearSteering" => agent.clear_steering_queue(),
            "clearFollowUp" => agent.clear_follow_up_queue(),
            "clearAll" => agent.clear_all_queues(),
            "pushMessage" => agent.push_message(message()),
            "reset" => {
                if let Err(error) = agent.reset() {
                    self.refuse("reset", &error);
                }
            }
            "prompt" => self.prompt(value, action.get("images")),
            "continue" => match agent.resume() {
                Ok(run) => drop(run.outcome()),
                Err(error) => self.refuse("continue", &error),
            },
            "peek" => self.log(
                json!({"peek": agent.peek_queued_messages(), "has": agent.has_queued_messages()}),
            ),
            "open" => self.gates.open(value.as_str().unwrap()),
            "unsubscribe" => {
                let index = usize::try_from(value.as_u64().unwrap()).unwrap();
                let subscription = self.subscriptions.lock().unwrap()[index].take();
                drop(subscription);
            }
            "waitForIdle" => agent.wait_for_idle().unwrap(),
            "note" => self.log(json!({"note": value})),
            "callTool" => self.call_tool(value, signal),
            other => self.set(other, value),
        }
    }

    fn gates(&self) -> &Gates {
        &self.gates
    }

    fn note_executed(&self, call: &str, arguments: &Map<String, Value>) {
        self.executed.lock().unwrap().insert(call.to_owned(), Value::Object(arguments.clone()));
    }
}

/// The options of a request that are set, as the recordings name them.
pub(super) fn request_options(request: &StreamRequest) -> Map<String, Value> {
    let options = &request.options;
    let mut set = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            set.insert(name.to_owned(), value);
        }
    };
    put("reasoning", json!(options.reasoning));
    put("sessionId", json!(options.session_id));
    put("apiKey", json!(options.api_key.as_ref().map(|key| key.expose().to_owned())));
    put("transport", json!(options.transport));
    put("thinkingBudgets", json!(options.thinking_budgets));
    put("maxRetryDelayMs", json!(options.max_retry_delay_ms));
    let attribution = options.identity.as_ref().and_then(|identity| identity.attribution.as_ref());
    put("attribution", json!(attribution.map(|attribution| &attribution.name)));
    set
}

pub(super) fn read_or<T: serde::de::DeserializeOwned>(value: &Value, default: T) -> T {
    if value.is_null() { default } else { serde_json::from_value(value.clone()).unwrap() }
}

pub(super) fn stop_of(message: &Message) -> Value {
    json!(message.as_assistant().map(|message: &AssistantMessage| message.stop_reason))
}

pub(super) fn thrown(step: &Value) -> Result<(), ToolError> {
    step["throw"].as_str().map_or(Ok(()), |text| Err(text.into()))
}
