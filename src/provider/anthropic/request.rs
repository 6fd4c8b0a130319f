//! A transcript and its options as a request: no network, no clock.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde::Serialize;
use serde_json::Value;

use crate::{
    error::Error,
    http::HttpRequest,
    message::Message,
    model::Model,
    provider::{
        anthropic::{
            cache::{self, CacheMark},
            compat::{self, Compat},
            headers,
            messages::{self, WireBlock},
            strict::Strict,
            thinking::{self, Thinking, ThinkingPlan},
            tools::{self, WireTool},
        },
        driver::Call,
        headers::endpoint,
        kept::{self, Render},
        retention,
    },
    secret::Secret,
    stream::{StreamOptions, StreamRequest, ToolChoice},
    transcript::{hand_over_part, output_cap, prompt_text, resolved, told_tools},
};

/// Where the API's paths begin is the model's business; this is what comes after.
const PATH: &str = "/v1/messages?beta=true";
/// Names that the API takes as ids of calls.
const ID_LENGTH: usize = 64;
/// What a model without a known limit may answer: the API wants a number.
const UNKNOWN_CAP: u64 = 8192;

/// A request that is ready to be sent.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) call: Call,
    /// Whether a tool is strict only because that is preferred: such a request can be sent with less strictness.
    pub(super) prefers_strict: bool,
}

/// The fields in the order in which they are sent.
#[derive(Debug, Serialize)]
struct Body<'a> {
    model: &'a str,
    /// Put in when the other fields stand.
    messages: [(); 0],
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[WireBlock<'a>; 1]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fallbacks: Vec<Fallback>,
}

#[derive(Debug, Serialize)]
struct OutputConfig<'a> {
    effort: &'a str,
}

#[derive(Debug, Serialize)]
struct Metadata<'a> {
    user_id: &'a str,
}

#[derive(Debug, Serialize)]
struct Fallback {
    model: String,
}

/// Prepares a request. `key` is for requests that bring none.
pub(super) fn prepare(
    request: &StreamRequest,
    key: Option<&Secret>,
    strict: Strict,
) -> Result<Prepared, Error> {
    let StreamRequest { model, transcript, options } = request;
    let compat = Compat::of(model);
    let retention = retention(options);
    let mark = cache::mark(retention, &compat);
    let resolved = resolved(transcript.messages(), compat.mid_system);
    let (prompt, rest) = split_prompt(&resolved);
    let tools = told_tools(transcript.messages().iter().map(|message| &**message));
    let (tools, prefers_strict) = tools::declare(&tools, &compat, strict, mark)?;
    let plan = plan(request, &compat);
    let facts = headers::Facts {
        compat: &compat,
        has_tools: !tools.is_empty(),
        interleaved: plan.interleaved,
        is_cached: mark.is_some(),
    };
    let key = options.api_key.as_ref().or(key);
    let headers = headers::headers(model, options, key, &facts);
    let body = body(request, &compat, plan, Parts { prompt, tools, mark });
    let renderer = Renderer { model, empty_signature: compat.empty_signature, mark };
    let body = kept::write_body(&body, &model.id, "messages", |json| {
        kept::render(&renderer, model, rest, transcript.memo(), json)
    })?;
    let (payload, body) = kept::for_hook(body, &options.hooks)?;
    let url = endpoint(&model.base_url, PATH);
    let http = HttpRequest {
        headers,
        first_byte_timeout: options.timeout,
        ..HttpRequest::post(url, body)
    };
    Ok(Prepared { call: Call { http, payload, after_hook: Some(keep_streaming) }, prefers_strict })
}

struct Parts<'a> {
    prompt: String,
    tools: Vec<WireTool<'a>>,
    mark: Option<CacheMark>,
}

fn body<'a>(
    request: &'a StreamRequest,
    compat: &Compat,
    plan: ThinkingPlan<'a>,
    parts: Parts<'a>,
) -> Body<'a> {
    let StreamRequest { model, options, .. } = request;
    let system = (!parts.prompt.trim().is_empty()).then(|| {
        let mut block = WireBlock::text(parts.prompt);
        if let Some(mark) = parts.mark {
            block.set_mark(mark);
        }
        [block]
    });
    let metadata = options.metadata.as_ref().and_then(|it| it.get("user_id")?.as_str());
    let fallbacks = compat::fallback_models(model).into_iter();
    Body {
        model: &model.id,
        messages: [],
        max_tokens: plan.max_tokens,
        stream: true,
        system,
        tools: parts.tools,
        temperature: options.temperature.filter(|_| compat.temperature && !plan.is_on()),
        thinking: plan.thinking,
        output_config: plan.effort.map(|effort| OutputConfig { effort }),
        metadata: metadata.map(|user_id| Metadata { user_id }),
        tool_choice: tool_choice(options),
        fallbacks: fallbacks.map(|it| Fallback { model: it.model }).collect(),
    }
}

fn plan<'a>(request: &'a StreamRequest, compat: &Compat) -> ThinkingPlan<'a> {
    let StreamRequest { model, transcript, options } = request;
    let known = |cap: u64| if cap == 0 { UNKNOWN_CAP } else { cap };
    match &options.native {
        Some(native) => {
            let max_tokens = known(options.max_tokens.unwrap_or(model.max_tokens));
            thinking::native(model, compat, native, max_tokens)
        }
        None => {
            let limits = thinking::Limits {
                requested: known(options.max_tokens.unwrap_or(model.max_tokens)),
                model: known(model.max_tokens),
                room: output_cap(model, transcript.messages(), Some(u64::MAX)),
            };
            thinking::neutral(model, compat, options, limits)
        }
    }
}

/// The text of the prompt, and the messages after it.
fn split_prompt(messages: &[Arc<Message>]) -> (String, &[Arc<Message>]) {
    match messages.split_first() {
        Some((first, rest)) => match &**first {
            Message::System(system) => (prompt_text(system), rest),
            _ => (String::new(), messages),
        },
        None => (String::new(), messages),
    }
}

/// Renders messages with what the API wants of them.
struct Renderer<'a> {
    model: &'a Model,
    empty_signature: bool,
    mark: Option<CacheMark>,
}

/// What rendering remembers.
#[derive(Debug, Clone, Default)]
struct Rendered {
    count: usize,
    ids: CallIds,
}

impl Render for Renderer<'_> {
    type State = Rendered;
    type Key = ();

    fn key(&self) {}

    fn render(
        &self,
        messages: &[Arc<Message>],
        state: &mut Rendered,
        is_tail: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let ids = &mut state.ids;
        let ready = hand_over_part(messages, state.count, self.model, &mut |id, _| ids.fitting(id));
        state.count += messages.len();
        let mut wire = messages::convert(ready.iter().map(|it| &**it), self.empty_signature);
        if let Some(mark) = self.mark.filter(|_| is_tail) {
            cache::mark_last(&mut wire, mark);
        }
        wire.iter().try_for_each(|message| kept::push(message, json))
    }
}

/// Ids of other vendors' calls in the letters and the length that the API takes. It takes none twice, and some vendors
/// begin to count anew with each response.
#[derive(Debug, Clone, Default)]
struct CallIds {
    used: HashSet<String>,
    counts: HashMap<String, u32>,
}

impl CallIds {
    fn fitting(&mut self, id: &str) -> String {
        let fit =
            |it: char| if it.is_ascii_alphanumeric() || matches!(it, '_' | '-') { it } else { '_' };
        let fitting: String = id.chars().map(fit).take(ID_LENGTH).collect();
        if self.used.insert(fitting.clone()) {
            return fitting;
        }
        let count = self.counts.entry(fitting.clone()).or_insert(1);
        loop {
            *count += 1;
            let suffix = format!("_{count}");
            let kept = fitting.len().min(ID_LENGTH - suffix.len());
            let unique = format!("{}{suffix}", &fitting[..kept]);
            if self.used.insert(unique.clone()) {
                return unique;
            }
        }
    }
}

fn tool_choice(options: &StreamOptions) -> Option<Value> {
    let of_kind = |kind: &str| serde_json::json!({ "type": kind });
    if let Some(native) = &options.native {
        return match native.get("toolChoice") {
            Some(Value::String(kind)) => Some(of_kind(kind)),
            Some(choice @ Value::Object(_)) => Some(choice.clone()),
            _ => None,
        };
    }
    options.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::Auto => of_kind("auto"),
        ToolChoice::None => of_kind("none"),
        ToolChoice::Any => of_kind("any"),
        ToolChoice::Tool(name) => serde_json::json!({ "type": "tool", "name": name }),
    })
}

fn keep_streaming(payload: &mut Value) {
    if let Some(fields) = payload.as_object_mut() {
        fields.insert("stream".to_owned(), Value::Bool(true));
    }
}
