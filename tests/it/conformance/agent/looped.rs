//! A scenario on the low-level loop, without an agent.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use steerage::{
    AbortSignal, AgentEvent, AssistantStream, Error, ErrorKind, Message, StreamFn, StreamRequest,
    Tool,
    agent_loop::{LoopConfig, LoopContext, MessageQueue, agent_loop, agent_loop_continue},
};

use crate::conformance::agent::{
    scripts::{self, Actor, Gates, Responses},
    world::{read_or, request_options},
};

struct Loop {
    log: Mutex<Vec<Value>>,
    executed: Mutex<Map<String, Value>>,
    gates: Gates,
    responses: Responses,
}

pub(super) fn run(scenario: &Value) -> Value {
    let state = Arc::new(Loop {
        log: Mutex::default(),
        executed: Mutex::default(),
        gates: Gates::default(),
        responses: Responses::of(scenario),
    });
    let stream: Arc<dyn StreamFn> = {
        let state = state.clone();
        Arc::new(move |request: StreamRequest, signal: &AbortSignal| state.stream(&request, signal))
    };
    let spec = &scenario["agent"];
    let models = scripts::models(scenario);
    let mut config =
        LoopConfig::new(models[spec["model"].as_str().unwrap_or("m1")].clone(), stream);
    config.steering = queue(scenario.get("steering"));
    config.follow_ups = queue(scenario.get("followUps"));
    let tools: Vec<Tool> = spec["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|key| scripts::tool(key, &scenario["tools"][key], state.clone()))
        .collect();
    let context = || LoopContext {
        messages: read_or::<Vec<Message>>(&spec["messages"], Vec::new())
            .into_iter()
            .map(Arc::new)
            .collect(),
        tools: tools.clone(),
    };
    for step in scenario["steps"].as_array().into_iter().flatten() {
        let mut sink = |event: AgentEvent| {
            state.log.lock().unwrap().push(json!({"event": event.to_json()}));
            Ok(())
        };
        let never = AbortSignal::never();
        let returned = if let Some(prompts) = step.get("prompt") {
            agent_loop(read_or(prompts, Vec::new()), context(), &config, &never, &mut sink)
        } else {
            agent_loop_continue(context(), &config, &never, &mut sink)
        };
        let entry = match returned {
            Ok(messages) => json!({"returned": messages}),
            Err(error) if error.kind() == ErrorKind::EndsWithAssistant => {
                json!({"refused": "continue", "error": "ends-with-assistant"})
            }
            Err(error) if error.kind() == ErrorKind::NothingToContinue => {
                json!({"refused": "continue", "error": "nothing-to-continue"})
            }
            Err(error) => panic!("{error}"),
        };
        state.log.lock().unwrap().push(entry);
    }
    let log = state.log.lock().unwrap().clone();
    let executed = state.executed.lock().unwrap().clone();
    json!({"log": log, "executed": executed})
}

/// A queue that gives one list for each poll.
fn queue(lists: Option<&Value>) -> Option<Arc<dyn MessageQueue>> {
    let lists: Vec<Vec<Message>> = serde_json::from_value(lists?.clone()).unwrap();
    let lists = Mutex::new(lists.into_iter());
    Some(Arc::new(move || -> Vec<Arc<Message>> {
        lists.lock().unwrap().next().unwrap_or_default().into_iter().map(Arc::new).collect()
    }))
}

impl Loop {
    fn stream(
        self: &Arc<Loop>,
        request: &StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        {
            let mut log = self.log.lock().unwrap();
            let number = log.iter().filter(|entry| entry.get("request").is_some()).count();
            log.push(json!({
                "request": number, "model": request.model.id, "messages": request.transcript.messages(),
                "options": request_options(request),
            }));
        }
        self.responses.next(self.clone(), signal)
    }
}

impl Actor for Loop {
    fn act(&self, action: &Value, _signal: Option<&AbortSignal>) {
        match action["open"].as_str() {
            Some(gate) => self.gates.open(gate),
            None => panic!("the loop knows no action {action}"),
        }
    }

    fn gates(&self) -> &Gates {
        &self.gates
    }

    fn note_executed(&self, call: &str, arguments: &Map<String, Value>) {
        self.executed.lock().unwrap().insert(call.to_owned(), Value::Object(arguments.clone()));
    }
}
