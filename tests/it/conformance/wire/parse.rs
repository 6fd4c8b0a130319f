//! Parts of a recorded case as the library's own types.

use std::{io::Write, time::Duration};

use base64::Engine;
use serde_json::{Map, Value, json};
use steerage::{
    Message, Model, Secret, StreamOptions, StreamRequest,
    stream::{Attribution, Identity, ToolChoice, UserAgent},
    testing::server::{Behavior, Chunk, End, Framing, Response},
    transcript::USER_IMAGE_OMITTED,
};

/// What the reference says where it leaves out an image; a case has it as the words of a user.
const IMAGE_OMITTED: &str = "(image omitted: model does not support images)";

/// The request of one turn.
pub(super) fn request(model: &Value, turn: &Value, is_native: bool) -> StreamRequest {
    let model: Model = serde_json::from_value(model.clone()).unwrap();
    let messages: Vec<Message> = serde_json::from_value(context(&turn["context"])).unwrap();
    let mut request = StreamRequest::new(model, messages);
    request.options = options(turn["options"].as_object().unwrap(), is_native);
    request
}

/// The messages of a context: prompt and tools become a system message before them.
fn context(context: &Value) -> Value {
    let context =
        serde_json::to_string(context).unwrap().replace(IMAGE_OMITTED, USER_IMAGE_OMITTED);
    let context: Value = serde_json::from_str(&context).unwrap();
    let mut messages = context["messages"].as_array().cloned().unwrap_or_default();
    let prompt = context["systemPrompt"].as_str().unwrap_or_default();
    let tools = context["tools"].as_array().cloned().unwrap_or_default();
    if !prompt.is_empty() || !tools.is_empty() {
        let system =
            json!({"role": "system", "content": prompt, "toolsAdded": tools, "timestamp": 0});
        messages.insert(0, system);
    }
    Value::Array(messages)
}

fn options(given: &Map<String, Value>, is_native: bool) -> StreamOptions {
    let mut options = StreamOptions { max_retries: Some(0), ..StreamOptions::default() };
    let mut native = Map::new();
    for (name, value) in given {
        let text = || value.as_str().unwrap().to_owned();
        let number = || value.as_u64().unwrap();
        match name.as_str() {
            "apiKey" => options.api_key = Some(Secret::new(text())),
            // The program's to the proxy: none of the request's options.
            "authToken" => (),
            "transport" => options.transport = Some(from_json(value)),
            "sessionId" => options.session_id = Some(text()),
            "cacheRetention" => options.cache_retention = Some(from_json(value)),
            "maxRetries" => options.max_retries = Some(u32::try_from(number()).unwrap()),
            "maxRetryDelayMs" => options.max_retry_delay_ms = Some(number()),
            "timeoutMs" => options.timeout = Some(Duration::from_millis(number())),
            "maxTokens" => options.max_tokens = Some(number()),
            "temperature" => options.temperature = value.as_f64(),
            "metadata" => options.metadata = Some(from_json(value)),
            "samplingParams" => options.sampling_params = Some(from_json(value)),
            "identity" => options.identity = Some(identity(value)),
            "disableContinuation" => options.disable_continuation = value == true,
            "headers" => {
                let headers = value.as_object().unwrap().iter();
                options.headers = headers
                    .map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)))
                    .collect();
            }
            "env" => {
                let variables = value.as_object().unwrap().iter();
                options.env = variables
                    .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                    .collect();
            }
            // The neutral options have no names of one vendor.
            _ if !is_native && name.starts_with("azure") => (),
            _ if is_native => _ = native.insert(name.clone(), value.clone()),
            "reasoning" => options.reasoning = Some(from_json(value)),
            "thinkingBudgets" => options.thinking_budgets = Some(from_json(value)),
            "toolChoice" => {
                options.tool_choice = Some(match value.as_str().unwrap() {
                    "auto" => ToolChoice::Auto,
                    "none" => ToolChoice::None,
                    "any" | "required" => ToolChoice::Any,
                    other => panic!("tool choice {other}"),
                });
            }
            other => panic!("option {other}"),
        }
    }
    options.native = is_native.then_some(native);
    options
}

fn from_json<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn identity(value: &Value) -> Identity {
    let user_agent = match &value["userAgent"] {
        Value::String(it) if it == "detailed" => Some(UserAgent::Detailed),
        Value::String(it) if it == "short" => Some(UserAgent::Short),
        Value::Object(it) => Some(UserAgent::Custom(it["custom"].as_str().unwrap().to_owned())),
        _ => None,
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let attribution = value["attribution"].as_object().map(|it| Attribution {
        name: text(&it["name"]),
        url: text(&it["url"]),
        categories: it
            .get("categories")
            .and_then(Value::as_array)
            .map(|list| list.iter().map(text).collect())
            .unwrap_or_default(),
    });
    Identity { user_agent, attribution }
}

/// A scripted response.
pub(super) fn response(script: &Value) -> Response {
    let milliseconds = |value: &Value| Duration::from_millis(value.as_u64().unwrap_or(0));
    let mut response =
        Response::new(script["status"].as_u64().map_or(200, |it| it.try_into().unwrap()));
    script["statusText"].as_str().unwrap_or_default().clone_into(&mut response.reason);
    response.delay = milliseconds(&script["delayMs"]);
    for (name, value) in script["headers"].as_object().into_iter().flatten() {
        response = response.header(name, value.as_str().unwrap());
    }
    for (index, chunk) in chunks(script).enumerate() {
        // Each chunk shall arrive by itself.
        let pause = Duration::from_millis(if index == 0 { 0 } else { 2 });
        let (bytes, delay) = chunk;
        response.chunks.push(Chunk { delay: delay.max(pause), ..Chunk::new(bytes) });
    }
    response.split_every = script["splitEvery"].as_u64().map(|it| it.try_into().unwrap());
    response.framing = match script["framing"].as_str() {
        Some("length") => Framing::Length,
        Some("close") => Framing::Close,
        _ => Framing::Chunked,
    };
    response.extra_length = script["contentLengthExtra"].as_u64().unwrap_or(0).try_into().unwrap();
    response.end = match script["end"].as_str() {
        Some("destroy") => End::Destroy,
        Some("reset") => End::Reset,
        Some("hang") => End::Hang,
        // What is missing never comes.
        _ if response.extra_length > 0 => End::Destroy,
        _ => End::Normal,
    };
    response.behavior = match script["behavior"].as_str() {
        Some("close-before-headers") => Behavior::CloseBeforeHeaders,
        Some("hang-before-headers") => Behavior::HangBeforeHeaders,
        _ => Behavior::Answer,
    };
    response
}

/// The chunks of a scripted body, and how long each waits.
fn chunks(script: &Value) -> impl Iterator<Item = (Vec<u8>, Duration)> {
    script["chunks"].as_array().into_iter().flatten().map(|chunk| {
        let text = |name: &str| chunk.get(name).and_then(Value::as_str);
        let bytes = if let Some(text) = chunk.as_str().or_else(|| text("utf8")) {
            text.as_bytes().to_vec()
        } else if let Some(hex) = text("hex") {
            (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect()
        } else {
            base64::engine::general_purpose::STANDARD.decode(text("base64").unwrap()).unwrap()
        };
        (bytes, Duration::from_millis(chunk["delayMs"].as_u64().unwrap_or(0)))
    })
}

/// The whole body of a scripted response, decompressed.
pub(super) fn body(script: &Value) -> Vec<u8> {
    let bytes: Vec<u8> = chunks(script).flat_map(|(bytes, _)| bytes).collect();
    let is_gzip = script["headers"]["content-encoding"] == "gzip";
    if !is_gzip {
        return bytes;
    }
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    decoder.write_all(&bytes).unwrap();
    decoder.finish().unwrap()
}
