//! Plays a recorded case: a server with its script, the stream function of its API, one call after the other.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};
use steerage::{
    AbortController, LiveMessage, StreamEvent, StreamFn, StreamRequest,
    provider::{HttpClient, ProviderOptions, add_vendor_headers},
    proxy::stream_proxy,
    testing::{
        clock::RecordingClock,
        server::{Request, Response, Server},
    },
};

use super::{compare, parse};
use crate::apis;

/// What came of one call.
pub(super) struct Played {
    pub(super) requests: Vec<Request>,
    /// Where each request would have gone.
    pub(super) origins: Vec<String>,
    pub(super) events: Vec<Value>,
    pub(super) message: Map<String, Value>,
    pub(super) retry_delays: Vec<f64>,
    /// Responses of the script that nobody asked for.
    pub(super) unused: usize,
    pub(super) server: String,
}

/// The first difference between a case and its recording.
pub(super) fn difference(case: &Value, golden: &Value) -> Option<String> {
    let is_sequence = case.get("turns").is_some();
    let turns = case["turns"].as_array().cloned().unwrap_or_else(|| vec![case.clone()]);
    let goldens = golden["turns"].as_array().cloned().unwrap_or_else(|| vec![golden.clone()]);
    let mut replies: Vec<Value> = Vec::new();
    for (index, (turn, golden)) in turns.iter().zip(&goldens).enumerate() {
        let mut turn = turn.clone();
        insert_replies(&mut turn, &replies);
        let setting = |name: &str| turn.get(name).or_else(|| case.get(name)).cloned();
        let setting = |name: &str| setting(name).unwrap_or_default();
        let mut model = case["model"].clone();
        if is_sequence {
            for (name, value) in turn["model"].as_object().into_iter().flatten() {
                model[name] = value.clone();
            }
        }
        let call = Call {
            model,
            api: case["api"].as_str().unwrap_or_default().to_owned(),
            is_native: setting("entry") == "stream",
            abort_on: setting("abortOn"),
            is_rewritten: setting("rewriteHost") == true,
            is_through_provider: setting("via") == "provider",
            shows_arguments: setting("recordPartialArguments") == true,
            turn: turn.clone(),
        };
        let played = call.play();
        let view = compare::View {
            script: &call.turn["responses"],
            may_leave_responses: setting("allowUnusedResponses") == true,
            record_headers: setting("recordHeaders"),
            has_runtime_texts: case["tags"]
                .as_array()
                .is_some_and(|it| it.contains(&json!("runtime-text"))),
        };
        if let Some(difference) = compare::turn(golden, &played, &view) {
            return Some(if is_sequence {
                format!("turn {index}: {difference}")
            } else {
                difference
            });
        }
        replies.push(Value::Object(played.message));
    }
    None
}

/// One call of a case.
#[allow(clippy::struct_excessive_bools)]
struct Call {
    model: Value,
    /// The wire API of the case; a proxy is asked whatever the API of the model is.
    api: String,
    turn: Value,
    is_native: bool,
    abort_on: Value,
    is_rewritten: bool,
    is_through_provider: bool,
    shows_arguments: bool,
}

impl Call {
    fn play(&self) -> Played {
        let controller = AbortController::new();
        let script = Arc::new(Mutex::new(VecDeque::new()));
        let server = self.serve(&script, &controller);
        let url = server.url();
        *script.lock().unwrap() = with_server(&self.turn["responses"], &url)
            .as_array()
            .unwrap()
            .iter()
            .map(parse::response)
            .collect();
        let turn = with_server(&self.turn, &url);
        let mut request = parse::request(&with_server(&self.model, &url), &turn, self.is_native);
        if self.is_through_provider {
            add_vendor_headers(&mut request);
        }
        let origins = Arc::new(Mutex::new(Vec::new()));
        let clock = Arc::new(RecordingClock::at(UNIX_EPOCH + Duration::from_secs(1_780_000_000)));
        let provider = ProviderOptions {
            client: self.client(&url, &origins),
            clock: clock.clone(),
            ..ProviderOptions::default()
        };
        if self.abort_on == "before" {
            controller.abort();
        }
        let function: Arc<dyn StreamFn> = if self.api == "proxy" {
            let token = self.turn["options"]["authToken"].as_str().unwrap();
            Arc::new(stream_proxy(format!("{url}/p"), token).with_options(provider))
        } else {
            apis::stream_fn(&request.model.api, provider)
        };
        let (events, message) = self.run(request, &*function, &controller);
        let origins = origins.lock().unwrap().clone();
        let unused = script.lock().unwrap().len();
        Played {
            requests: server.requests(),
            origins,
            events,
            message,
            retry_delays: clock.pauses().iter().map(|it| it.as_secs_f64() * 1000.0).collect(),
            unused,
            server: url,
        }
    }

    fn serve(
        &self,
        script: &Arc<Mutex<VecDeque<Response>>>,
        controller: &AbortController,
    ) -> Server {
        let (script, controller) = (script.clone(), controller.clone());
        let aborts = self.abort_on == "request";
        let server = Server::answering(move |_| {
            if aborts {
                controller.abort();
            }
            let next = script.lock().unwrap().pop_front();
            next.unwrap_or_else(|| Response::new(500).text("the script has no response left"))
        });
        server.unwrap()
    }

    fn client(&self, server: &str, origins: &Arc<Mutex<Vec<String>>>) -> HttpClient {
        let client = HttpClient::shared();
        if !self.is_rewritten {
            return client;
        }
        let (server, origins) = (server.to_owned(), origins.clone());
        client.rewriting(move |url| {
            let (scheme, rest) = url.split_once("://").unwrap();
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            origins.lock().unwrap().push(format!("{scheme}://{host}").to_lowercase());
            format!("{server}/{path}")
        })
    }

    fn run(
        &self,
        request: StreamRequest,
        function: &dyn StreamFn,
        controller: &AbortController,
    ) -> (Vec<Value>, Map<String, Value>) {
        let model = request.model.clone();
        let live = LiveMessage::of(&model);
        let stream = function.stream(request, &controller.signal());
        let stream =
            stream.unwrap_or_else(|error| Box::new(vec![StreamEvent::failed(&error)].into_iter()));
        let mut events = Vec::new();
        let mut counts: Map<String, Value> = Map::new();
        for mut event in stream {
            live.apply(&mut event).unwrap();
            let Some(mut shown) = shown(&event) else { continue };
            if self.shows_arguments
                && let Some(index) = event.content_index()
                && shown["type"].as_str().unwrap().starts_with("toolcall")
            {
                let arguments = live.with_arguments(index, Clone::clone).unwrap();
                shown["partialArguments"] = Value::Object(arguments);
            }
            let kind = shown["type"].as_str().unwrap().to_owned();
            let count = counts.get(&kind).and_then(Value::as_u64).unwrap_or(0) + 1;
            counts.insert(kind.clone(), count.into());
            events.push(shown);
            let awaited = self.abort_on["nth"].as_u64().unwrap_or(1);
            if self.abort_on["event"] == *kind && awaited == count {
                controller.abort();
            }
        }
        let message = serde_json::to_value(live.snapshot()).unwrap();
        (events, message.as_object().unwrap().clone())
    }
}

/// An event as recordings have it; `None` for those that listeners are not told of.
fn shown(event: &StreamEvent) -> Option<Value> {
    if matches!(event, StreamEvent::Info(_) | StreamEvent::Signature { .. }) {
        return None;
    }
    let mut shown = serde_json::to_value(event).unwrap();
    let fields = shown.as_object_mut().unwrap();
    for own in ["contentSignature", "initial", "id", "toolName", "errorMessage", "failure"] {
        fields.remove(own);
    }
    if let Some(call) = fields.get_mut("toolCall") {
        call["type"] = "toolCall".into();
    }
    if let StreamEvent::Error { .. } = event {
        let reason = serde_json::to_value(event.stop_reason()).unwrap();
        fields.insert("reason".to_owned(), reason);
    }
    Some(shown)
}

/// Replaces what stands for the server.
fn with_server(value: &Value, server: &str) -> Value {
    let host = server.split_once("://").unwrap().1;
    let text = value.to_string().replace("{{server}}", server).replace("{{server_host}}", host);
    serde_json::from_str(&text).unwrap()
}

/// Replaces what stands for the messages of earlier calls.
fn insert_replies(value: &mut Value, replies: &[Value]) {
    match value {
        Value::Object(fields) => {
            if let Some(reply) = fields.get("$reply").and_then(Value::as_u64) {
                let mut reply = replies[usize::try_from(reply).unwrap()].clone();
                reply["role"] = "assistant".into();
                *value = reply;
                return;
            }
            fields.values_mut().for_each(|it| insert_replies(it, replies));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| insert_replies(it, replies)),
        Value::String(text) => {
            if let Some(place) = text.strip_prefix("{{call:").and_then(|it| it.strip_suffix("}}")) {
                let (reply, call) = place.split_once(':').unwrap();
                let content = &replies[reply.parse::<usize>().unwrap()]["content"];
                let mut calls =
                    content.as_array().unwrap().iter().filter(|it| it["type"] == "toolCall");
                let call = calls.nth(call.parse().unwrap()).unwrap();
                *value = call["id"].clone();
            }
        }
        _ => (),
    }
}
