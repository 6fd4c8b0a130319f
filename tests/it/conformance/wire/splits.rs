//! Cuts recorded bodies at every place: what a decoder is shown does not depend on it.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;
use steerage::{
    AbortSignal, Error, Model, StreamEvent, StreamFn, StreamRequest,
    message::AssistantMessage,
    proxy,
    stream::{AssistantStream, collect},
    testing::{Recorder, Replay, wire::decode},
};

use super::{Named, parse};

/// The body of a recorded response, and the call that it answers.
pub(super) struct Body {
    name: String,
    model: Value,
    turn: Value,
    is_native: bool,
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Named for Body {
    fn name(&self) -> &str {
        &self.name
    }
}

/// The bodies of all answers that are no failure, each once for each request that understands it in its own way.
pub(super) fn bodies<'a>(cases: impl Iterator<Item = &'a Value>) -> Vec<Body> {
    let mut seen = HashSet::new();
    let mut bodies = Vec::new();
    for case in cases {
        let turns = case["turns"].as_array().cloned().unwrap_or_else(|| vec![case.clone()]);
        for mut turn in turns {
            leave_out_replies(&mut turn["context"]);
            let mut model = case["model"].clone();
            for (name, value) in turn["model"].as_object().into_iter().flatten() {
                model[name] = value.clone();
            }
            if case["api"] == "proxy" {
                model["api"] = "proxy".into();
            }
            let scripts = turn["responses"].as_array().into_iter().flatten();
            for script in scripts.filter(|it| it["status"].as_u64().unwrap_or(200) < 300) {
                let bytes = parse::body(script);
                let is_whole = matches!(script["end"].as_str(), None | Some("normal"));
                if !seen.insert((bytes.clone(), understanding(&model, &turn), is_whole)) {
                    continue;
                }
                bodies.push(Body {
                    name: case["name"].as_str().unwrap().to_owned(),
                    model: model.clone(),
                    is_native: turn["entry"] == "stream" || case["entry"] == "stream",
                    turn: turn.clone(),
                    bytes,
                    is_whole,
                });
            }
        }
    }
    bodies
}

/// What the meaning of a body depends on beside its bytes.
fn understanding(model: &Value, turn: &Value) -> String {
    let flags = ["supportsFinishReason", "supportsOpenAIGrammarTools", "allowedFallbackModels"];
    let flags = flags.map(|name| &model["compat"][name]);
    let model = ["api", "provider", "id", "cost"].map(|name| &model[name]);
    format!("{model:?} {flags:?} {}", turn["context"]["tools"])
}

/// What stands for the answer of an earlier turn does not matter to the decoder of a later one.
fn leave_out_replies(context: &mut Value) {
    if let Some(messages) = context["messages"].as_array_mut() {
        messages.retain(|message| message.get("$reply").is_none());
    }
}

/// Feeds a body to its decoder byte by byte, and in two parts for each place to cut it.
pub(super) fn difference(body: &Body) -> Option<String> {
    let request = parse::request(&body.model, &body.turn, body.is_native);
    let Ok(whole) = decode(&request, [&body.bytes], body.is_whole) else {
        // A request that cannot be made has no answer.
        return None;
    };
    let bytes = &body.bytes;
    let by_byte = decode(&request, bytes.chunks(1), body.is_whole).unwrap();
    if whole != by_byte {
        return Some(format!("byte by byte\n  expected {whole:?}\n  got      {by_byte:?}"));
    }
    (1..bytes.len()).find_map(|cut| {
        let (first, second) = bytes.split_at(cut);
        let in_two = decode(&request, [first, second], body.is_whole).unwrap();
        (in_two != whole)
            .then(|| format!("cut at byte {cut}\n  expected {whole:?}\n  got      {in_two:?}"))
    })
}

/// Encodes the events of a body as a proxy does, and decodes them as its client does.
pub(super) fn proxied_difference(body: &Body) -> Option<String> {
    let request = parse::request(&body.model, &body.turn, body.is_native);
    let events = decode(&request, [&body.bytes], body.is_whole).ok()?;
    let direct = message(&request.model, events.clone());
    let mut passed = Vec::new();
    proxy::serve(&played(events), request.clone(), &AbortSignal::never(), &mut passed).unwrap();
    let mut asked = request.clone();
    "proxy".clone_into(&mut Arc::make_mut(&mut asked.model).api);
    let proxied = message(&request.model, decode(&asked, [&passed], true).unwrap());
    (direct != proxied).then(|| format!("\n  expected {direct:?}\n  got      {proxied:?}"))
}

/// Records the events of a body to a file, and plays them again.
pub(super) fn replayed_difference(body: &Body, file: &str) -> Option<String> {
    let request = parse::request(&body.model, &body.turn, body.is_native);
    let events = decode(&request, [&body.bytes], body.is_whole).ok()?;
    let read = |stream: &dyn StreamFn| -> Vec<StreamEvent> {
        stream.stream(request.clone(), &AbortSignal::never()).unwrap().collect()
    };
    let stream: Arc<dyn StreamFn> = Arc::new(played(events.clone()));
    let passed = read(&Recorder::create(file, stream).unwrap());
    let replay = Replay::open(file).unwrap();
    let replayed = read(&replay);
    let is_same = passed == events && replayed == events && replay.unused() == 0;
    (!is_same).then(|| format!("\n  expected {events:?}\n  got      {replayed:?}"))
}

/// A stream function that gives these events.
fn played(
    events: Vec<StreamEvent>,
) -> impl Fn(StreamRequest, &AbortSignal) -> Result<Box<dyn AssistantStream>, Error> + Send + Sync {
    move |_, _| Ok(Box::new(events.clone().into_iter()))
}

fn message(model: &Model, events: Vec<StreamEvent>) -> AssistantMessage {
    let message = collect(model, &mut events.into_iter());
    AssistantMessage { timestamp: 0, duration_ms: None, ..message }
}
