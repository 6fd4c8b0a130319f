//! What was asked, as JSON, and where two requests differ.

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, ErrorKind, Result},
    secret::{REMOVED, Secret, secrets_of_url, sounds_secret},
    stream::{StreamOptions, StreamRequest, ToolChoice},
};

/// The options that change what a model says. The others are kept for people.
const COMPARED: [&str; 7] = [
    "reasoning",
    "thinkingBudgets",
    "temperature",
    "maxTokens",
    "toolChoice",
    "samplingParams",
    "native",
];

/// Fields of messages that are different each time.
const OF_THE_MOMENT: [&str; 2] = ["timestamp", "durationMs"];

/// The request, of which headers that sound like a key are left out.
pub(super) fn to_json(request: &StreamRequest) -> Result<Value> {
    let StreamRequest { model, transcript, options } = request;
    let mut model = serde_json::to_value(&**model).map_err(no_json)?;
    if let Some(headers) = model.get_mut("headers").and_then(Value::as_object_mut) {
        hide(headers);
    }
    let messages = serde_json::to_value(transcript.messages()).map_err(no_json)?;
    Ok(json!({"model": model, "messages": messages, "options": options_json(options)}))
}

fn no_json(error: serde_json::Error) -> Error {
    let message = format!("the request cannot be written as JSON: {error}");
    Error::new(ErrorKind::Configuration, message).with_source(error)
}

fn hide(headers: &mut Map<String, Value>) {
    let secret = headers.iter_mut().filter(|(name, value)| sounds_secret(name) && !value.is_null());
    secret.for_each(|(_, value)| *value = REMOVED.into());
}

fn options_json(options: &StreamOptions) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    };
    set("reasoning", json!(options.reasoning));
    set("thinkingBudgets", json!(options.thinking_budgets));
    set("temperature", json!(options.temperature));
    set("maxTokens", json!(options.max_tokens));
    set("toolChoice", options.tool_choice.as_ref().map_or(Value::Null, tool_choice));
    set("samplingParams", json!(options.sampling_params));
    set("native", json!(options.native));
    set("cacheRetention", json!(options.cache_retention));
    set("sessionId", json!(options.session_id));
    set("transport", json!(options.transport));
    set("maxRetries", json!(options.max_retries));
    set("maxRetryDelayMs", json!(options.max_retry_delay_ms));
    set("timeoutMs", json!(options.timeout.map(|it| it.as_millis())));
    set("metadata", json!(options.metadata));
    if options.disable_continuation {
        set("disableContinuation", true.into());
    }
    if !options.headers.is_empty() {
        let headers = options.headers.iter();
        let mut headers: Map<_, _> = headers.map(|(name, it)| (name.clone(), json!(it))).collect();
        hide(&mut headers);
        set("headers", headers.into());
    }
    fields
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "any".into(),
        ToolChoice::Tool(name) => json!({ "tool": name }),
    }
}

/// The keys that a request brings.
pub(super) fn secrets(request: &StreamRequest) -> Vec<Secret> {
    let StreamRequest { model, options, .. } = request;
    let mut secrets = secrets_of_url(&model.base_url);
    secrets.extend(options.api_key.clone());
    let own = options.headers.iter().map(|(name, value)| (name, value.as_deref()));
    let models = model.headers.iter().map(|(name, value)| (name, value.as_str()));
    let variables = options.env.iter().map(|(name, value)| (name, Some(value.as_str())));
    for (name, value) in own.chain(models).chain(variables) {
        let Some(value) = value.filter(|_| sounds_secret(name)) else { continue };
        secrets.push(Secret::new(value));
        if let Some((_, bare)) = value.split_once(' ') {
            secrets.push(Secret::new(bare.trim()));
        }
    }
    // The longest first, so that none is left standing without the part that it shares with another.
    secrets.sort_by_key(|it| std::cmp::Reverse(it.expose().len()));
    secrets
}

/// Where a request differs from a recorded one, and in what; `None` if it is the same.
pub(super) fn difference(recorded: &Value, asked: &Value) -> Option<String> {
    for name in ["provider", "id", "api"] {
        let place = format!("model.{name}");
        let found = differs(&place, recorded["model"].get(name), asked["model"].get(name));
        if found.is_some() {
            return found;
        }
    }
    let messages = differs("messages", recorded.get("messages"), asked.get("messages"));
    messages.or_else(|| {
        COMPARED.iter().find_map(|name| {
            let place = format!("options.{name}");
            differs(&place, recorded["options"].get(name), asked["options"].get(name))
        })
    })
}

fn differs(place: &str, recorded: Option<&Value>, asked: Option<&Value>) -> Option<String> {
    match (recorded, asked) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            let names = names.filter(|name| !OF_THE_MOMENT.contains(&name.as_str()));
            names.into_iter().find_map(|name| {
                differs(&format!("{place}.{name}"), one.get(name), other.get(name))
            })
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => (0..one.len().max(other.len()))
            .find_map(|at| differs(&format!("{place}[{at}]"), one.get(at), other.get(at))),
        (Some(Value::String(one)), Some(Value::String(other))) if fits(one, other) => None,
        // Numbers may have been written in another form.
        (Some(Value::Number(one)), Some(Value::Number(other)))
            if one.as_f64() == other.as_f64() =>
        {
            None
        }
        (one, other) if one == other => None,
        (one, other) => {
            Some(format!("{place} was {} there and is {} here", shown(one), shown(other)))
        }
    }
}

/// Whether a text is the recorded one, in which `***` may stand for a key.
fn fits(recorded: &str, asked: &str) -> bool {
    let mut parts = recorded.split(REMOVED);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = asked.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

fn shown(value: Option<&Value>) -> String {
    const SHOWN: usize = 120;
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
