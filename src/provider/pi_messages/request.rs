//! A request as a gateway takes it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    error::Error,
    http::{HttpRequest, Method},
    message::{AssistantMessage, Message},
    model::ThinkingLevel,
    provider::{
        ProviderOptions,
        driver::Call,
        headers::{Headers, endpoint},
        kept::{self, Render},
        retention,
    },
    stream::{CacheRetention, StreamOptions, StreamRequest, ToolChoice},
};

/// Builds the call of a request.
pub(super) fn build(request: &StreamRequest, provider: &ProviderOptions) -> Result<Call, Error> {
    let StreamRequest { model, options, .. } = request;
    let native = options.native.as_ref();
    let is_debug = native.is_some_and(|native| native.get("debug") == Some(&true.into()));
    let path = if is_debug { "/messages?debug=1" } else { "/messages" };
    let (payload, body) = kept::for_hook(body(request)?, &options.hooks)?;
    let http = HttpRequest {
        method: Method::Post,
        url: endpoint(&model.base_url, path),
        headers: headers(request, provider),
        secret_headers: vec!["cf-aig-authorization".to_owned()],
        first_byte_timeout: options.timeout,
        body: body.into(),
    };
    Ok(Call { http, payload, after_hook: None })
}

fn body(request: &StreamRequest) -> Result<Vec<u8>, Error> {
    let StreamRequest { model, options, .. } = request;
    // The messages are put in when the other fields stand.
    let body = json!({
        "model": model.id, "context": {"messages": []}, "options": wire_options(options),
    });
    let front = format!("{{\"model\":{},\"context\":{{\"messages\":[", Value::from(&*model.id));
    with_messages(request, &body, front.into_bytes())
}

/// Writes `body`, whose empty list of messages `front` ends in, with the messages of the request.
pub(crate) fn with_messages(
    request: &StreamRequest,
    body: &Value,
    front: Vec<u8>,
) -> Result<Vec<u8>, Error> {
    let StreamRequest { model, transcript, .. } = request;
    kept::fill_list(body, front, |json| {
        kept::render(&Renderer, model, transcript.messages(), transcript.memo(), json)
    })
}

fn wire_options(options: &StreamOptions) -> Map<String, Value> {
    let mut wire = Map::new();
    let mut set = |name: &str, value: Value| _ = wire.insert(name.to_owned(), value);
    if let Some(temperature) = options.temperature {
        set("temperature", temperature.into());
    }
    if let Some(cap) = options.max_tokens {
        set("maxTokens", cap.into());
    }
    match &options.native {
        Some(native) => {
            for name in ["reasoning", "toolChoice"] {
                if let Some(value) = native.get(name).filter(|it| !it.is_null()) {
                    set(name, value.clone());
                }
            }
        }
        None => {
            if let Some(level) = options.reasoning.filter(|it| *it != ThinkingLevel::Off) {
                set("reasoning", level.as_str().into());
            }
            if let Some(choice) = &options.tool_choice {
                set("toolChoice", tool_choice(choice));
            }
        }
    }
    match (options.cache_retention, retention(options)) {
        (None, CacheRetention::Long) | (Some(CacheRetention::Long), _) => {
            set("cacheRetention", "long".into());
        }
        (Some(CacheRetention::Short), _) => set("cacheRetention", "short".into()),
        (Some(CacheRetention::None), _) => set("cacheRetention", "none".into()),
        (None, _) => (),
    }
    if let Some(session) = &options.session_id {
        set("sessionId", session.clone().into());
    }
    wire
}

/// A choice as pi's protocols have it.
pub(crate) fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "required".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

fn headers(request: &StreamRequest, provider: &ProviderOptions) -> Vec<(String, String)> {
    let StreamRequest { model, options, .. } = request;
    let mut headers = Headers::for_model(model, options);
    headers.authorize(options.api_key.as_ref().or(provider.api_key.as_ref()));
    headers.apply_model(&model.headers);
    headers.finish(&options.headers)
}

/// Writes messages as they are.
struct Renderer;

impl Render for Renderer {
    type State = ();
    type Key = ();

    fn key(&self) {}

    fn render(
        &self,
        messages: &[Arc<Message>],
        _state: &mut (),
        _is_tail: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), Error> {
        messages.iter().try_for_each(|message| match &**message {
            // Roles of the host mean nothing to a gateway.
            Message::Custom(_) => Ok(()),
            // What went wrong, for programs, is this library's own field.
            Message::Assistant(failed @ AssistantMessage { failure: Some(_), .. }) => {
                let told = AssistantMessage { failure: None, ..failed.clone() };
                kept::push(&Message::Assistant(told), json)
            }
            message => kept::push(message, json),
        })
    }
}
