//! Models, messages and stream functions to measure with.

use std::sync::Arc;

use serde_json::{Value, json};
use steerage::{
    AbortSignal, AssistantStream, Error, Message, Model, StreamEvent, StreamFn, StreamRequest,
    Tool, testing::wire,
};

pub(crate) fn model(api: &str) -> Model {
    Model {
        id: "mock".to_owned(),
        api: api.to_owned(),
        provider: "mock".to_owned(),
        base_url: "http://localhost".to_owned(),
        context_window: 1_000_000,
        max_tokens: 4096,
        ..Model::default()
    }
}

/// A tool that does nothing.
pub(crate) fn echo() -> Tool {
    let parameters = json!({"type": "object", "required": ["x"],
        "properties": {"x": {"type": "integer"}}});
    Tool::with_schema("echo", "Echo x", parameters, |_, _| Ok("echo"))
}

/// A conversation that begins with a prompt and goes on with turns of one call each.
pub(crate) fn conversation(api: &str, messages: usize) -> Vec<Arc<Message>> {
    let declared =
        json!([{"name": "echo", "description": "Echo x", "parameters": {"type": "object"}}]);
    let system = json!({"role": "system", "content": "You are a helpful assistant.", "toolsAdded": declared});
    let first = [system, json!({"role": "user", "content": "go"})];
    let turns = (0..messages.div_ceil(2)).flat_map(|turn| turn_of(api, turn));
    first.into_iter().chain(turns).take(messages).map(message).collect()
}

/// A response with a call, and its result.
pub(crate) fn turn_of(api: &str, turn: usize) -> [Value; 2] {
    let id = format!("toolu_{turn:06}");
    let content = json!([{"type": "text", "text": "I call the tool for it now."},
        {"type": "toolCall", "id": id, "name": "echo", "arguments": {"x": turn}}]);
    let result = json!([{"type": "text", "text": format!("echo {turn}")}]);
    [
        json!({"role": "assistant", "content": content, "api": api, "provider": "mock",
            "model": "mock", "stopReason": "toolUse"}),
        json!({"role": "toolResult", "toolCallId": id, "toolName": "echo", "content": result,
            "isError": false}),
    ]
}

pub(crate) fn message(json: Value) -> Arc<Message> {
    Arc::new(serde_json::from_value(json).expect("a message"))
}

/// The events of a recorded response.
pub(crate) fn decoded(events: &[String]) -> Vec<StreamEvent> {
    let request = StreamRequest::new(model("anthropic-messages"), [Message::user("go")]);
    wire::decode(&request, [events.concat()], true).expect("a decoder")
}

/// A stream function that gives one response after the other. Where they are not `at_once`, nobody knows whether there is
/// more, so that each update is handed over alone.
pub(crate) fn responses(responses: Vec<Vec<StreamEvent>>, at_once: bool) -> Arc<dyn StreamFn> {
    let stream = move |request: StreamRequest, _: &AbortSignal| {
        let messages = request.transcript.messages();
        let turn = messages.iter().filter(|it| it.as_assistant().is_some()).count();
        let events = responses[turn].clone().into_iter();
        let stream: Box<dyn AssistantStream> =
            if at_once { Box::new(events) } else { Box::new(OneByOne(events)) };
        Ok::<_, Error>(stream)
    };
    Arc::new(stream)
}

struct OneByOne(std::vec::IntoIter<StreamEvent>);

impl Iterator for OneByOne {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        self.0.next()
    }
}

impl AssistantStream for OneByOne {}
