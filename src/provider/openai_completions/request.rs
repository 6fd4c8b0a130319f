//! A request as this API takes it.

use std::env;

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, ErrorKind},
    http::{HttpRequest, Method},
    message::Message,
    model::{Model, ThinkingBudgets, ThinkingLevel},
    provider::{
        ProviderOptions,
        driver::Call,
        headers::{Headers, endpoint},
        openai_completions::{
            compat::{AffinityFormat, CacheKeyMode, Compat},
            messages::{Converter, mark_cache},
            thinking::Thinking,
            tools::{self, GrammarTools},
        },
    },
    stream::{CacheRetention, StreamOptions, StreamRequest, ToolChoice},
    transcript::{
        ToolChangeSupport, current_tools, hand_over, output_cap, place_tools, resolve_transcript,
    },
};

/// The longest cache key and the longest id of a call that OpenAI takes.
const LONGEST_CACHE_KEY: usize = 64;
const LONGEST_CALL_ID: usize = 40;

/// Builds the call of a request, and names the grammar tools that its response may call.
pub(super) fn build(
    request: &StreamRequest,
    provider: &ProviderOptions,
    compat: &Compat,
) -> Result<(Call, GrammarTools), Error> {
    let wishes = Wishes::of(request)?;
    let (payload, grammar_tools) = body(request, compat, &wishes)?;
    let http = HttpRequest {
        method: Method::Post,
        url: endpoint(&request.model.base_url, "/chat/completions"),
        headers: headers(request, provider, compat),
        secret_headers: vec!["cf-aig-authorization".to_owned()],
        first_byte_timeout: request.options.timeout,
        ..HttpRequest::default()
    };
    Ok((Call { http, payload, after_hook: None }, grammar_tools))
}

/// What the options ask for, be they neutral or the API's own.
#[derive(Debug)]
struct Wishes {
    level: ThinkingLevel,
    budgets: ThinkingBudgets,
    tool_choice: Option<Value>,
    max_tokens: Option<u64>,
}

impl Wishes {
    fn of(request: &StreamRequest) -> Result<Wishes, Error> {
        let StreamRequest { model, transcript, options } = request;
        if let Some(native) = &options.native {
            return Wishes::of_native(native, options);
        }
        let asked = options.reasoning.filter(|level| *level != ThinkingLevel::Off);
        Ok(Wishes {
            level: asked.map_or(ThinkingLevel::Off, |level| model.clamp_thinking(level)),
            budgets: options.thinking_budgets.unwrap_or_default(),
            tool_choice: options.tool_choice.as_ref().map(tool_choice),
            max_tokens: Some(output_cap(model, transcript.messages(), options.max_tokens))
                .filter(|cap| *cap > 0),
        })
    }

    /// Takes `reasoningEffort`, `thinkingBudgets` and `toolChoice` as they are.
    fn of_native(native: &Map<String, Value>, options: &StreamOptions) -> Result<Wishes, Error> {
        let refused = |name: &str, error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Configuration, format!("option {name}: {error}"))
        };
        let level = match native.get("reasoningEffort") {
            None | Some(Value::Null) => ThinkingLevel::Off,
            Some(effort) => effort
                .as_str()
                .unwrap_or_default()
                .parse()
                .map_err(|error: Error| refused("reasoningEffort", &error))?,
        };
        let budgets = match native.get("thinkingBudgets") {
            None | Some(Value::Null) => options.thinking_budgets.unwrap_or_default(),
            Some(budgets) => serde_json::from_value(budgets.clone())
                .map_err(|error| refused("thinkingBudgets", &error))?,
        };
        Ok(Wishes {
            level,
            budgets,
            tool_choice: native.get("toolChoice").filter(|it| !it.is_null()).cloned(),
            max_tokens: options.max_tokens.filter(|cap| *cap > 0),
        })
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "required".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

/// The parts of a body that come from the transcript.
struct Contents {
    messages: Vec<Value>,
    tools: Vec<Value>,
    grammar_tools: GrammarTools,
    has_tool_history: bool,
}

impl Contents {
    fn of(request: &StreamRequest, compat: &Compat) -> Result<Contents, Error> {
        let StreamRequest { model, transcript, options } = request;
        let resolved =
            resolve_transcript(transcript.messages(), compat.supports_later_system_messages);
        let support = if compat.supports_later_system_messages && compat.supports_tool_additions {
            ToolChangeSupport::Additions
        } else {
            ToolChangeSupport::None
        };
        let placement = place_tools(&resolved, support);
        let ready = hand_over(&resolved, model, &mut |id, _| call_id(id, model));
        let told = current_tools(resolved.iter().map(|message| &**message));
        let grammar_tools = GrammarTools::among(&told, compat)?;
        let folded = placement.folded;
        let converter = Converter { model, compat, grammar_tools: &grammar_tools, folded };
        let mut messages = converter.convert(&ready)?;
        let mut tools = tools::declare(&placement.top_level, compat)?;
        let retention = retention(options);
        if compat.has_cache_markers && retention != CacheRetention::None {
            mark_cache(&mut messages, &mut tools, &cache_marker(retention));
        }
        let has_tool_history = has_tool_history(&ready);
        Ok(Contents { messages, tools, grammar_tools, has_tool_history })
    }
}

fn body(
    request: &StreamRequest,
    compat: &Compat,
    wishes: &Wishes,
) -> Result<(Value, GrammarTools), Error> {
    let StreamRequest { model, options, .. } = request;
    let Contents { messages, tools, grammar_tools, has_tool_history } =
        Contents::of(request, compat)?;
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("model", model.id.clone().into());
    set("messages", messages.into());
    set("stream", true.into());
    write_cache(&mut set, model, options, compat);
    if compat.supports_usage_in_streaming {
        set("stream_options", json!({"include_usage": true}));
    }
    if compat.supports_store {
        set("store", false.into());
    }
    if let Some(cap) = wishes.max_tokens {
        set(compat.max_tokens_field, cap.into());
    }
    if let Some(temperature) = options.temperature {
        set("temperature", temperature.into());
    }
    if !tools.is_empty() {
        set("tools", tools.into());
        if compat.zai_tool_stream {
            set("tool_stream", true.into());
        }
    } else if compat.requires_tools_with_tool_history && has_tool_history {
        set("tools", json!([]));
    }
    if let Some(choice) = &wishes.tool_choice {
        set("tool_choice", choice.clone());
    }
    if let Some(priority) = &compat.vllm_priority {
        set("priority", priority.clone());
    }
    let thinking = Thinking::new(model, wishes.level, &wishes.budgets, wishes.max_tokens);
    thinking.write(&mut body, compat);
    write_routing(&mut body, compat);
    write_sampling(&mut body, model, wishes.level, options);
    Ok((Value::Object(body), grammar_tools))
}

fn write_cache(
    set: &mut impl FnMut(&str, Value) -> Option<Value>,
    model: &Model,
    options: &StreamOptions,
    compat: &Compat,
) {
    let retention = retention(options);
    let is_long = retention == CacheRetention::Long && compat.supports_long_cache;
    let sends_key = match compat.cache_key_mode {
        CacheKeyMode::Enabled => true,
        CacheKeyMode::Disabled => false,
        CacheKeyMode::Auto => is_long || model.base_url.to_lowercase().contains("api.openai.com"),
    };
    if let Some(session) = &options.session_id
        && sends_key
        && retention != CacheRetention::None
    {
        set("prompt_cache_key", session.chars().take(LONGEST_CACHE_KEY).collect::<String>().into());
    }
    if is_long {
        set("prompt_cache_retention", "24h".into());
    }
}

fn write_routing(body: &mut Map<String, Value>, compat: &Compat) {
    if let Some(routing) = &compat.openrouter_routing {
        body.insert("provider".to_owned(), routing.clone());
    }
    let mut gateway = Map::new();
    for name in ["only", "order"] {
        if let Some(list) = compat.vercel_routing.get(name).filter(|it| !it.is_null()) {
            gateway.insert(name.to_owned(), list.clone());
        }
    }
    if !gateway.is_empty() {
        body.insert("providerOptions".to_owned(), json!({"gateway": gateway}));
    }
}

/// Merges what the model and the request say of sampling; it wins over named fields.
fn write_sampling(
    body: &mut Map<String, Value>,
    model: &Model,
    level: ThinkingLevel,
    options: &StreamOptions,
) {
    let by_level = model.sampling_params_by_thinking_level.as_ref();
    let at_level = by_level.and_then(|it| it.get(level.as_str())).and_then(Value::as_object);
    let all = [model.sampling_params.as_ref(), at_level, options.sampling_params.as_ref()];
    for (name, value) in all.into_iter().flatten().flatten() {
        body.insert(name.clone(), value.clone());
    }
}

fn headers(
    request: &StreamRequest,
    provider: &ProviderOptions,
    compat: &Compat,
) -> Vec<(String, String)> {
    let StreamRequest { model, options, .. } = request;
    let mut headers = Headers::for_model(model, options);
    headers.authorize(options.api_key.as_ref().or(provider.api_key.as_ref()));
    headers.apply_model(&model.headers);
    if let Some(session) = &options.session_id
        && compat.sends_affinity
        && retention(options) != CacheRetention::None
    {
        let names: &[&str] = match compat.affinity_format {
            AffinityFormat::All => &["session_id", "x-client-request-id", "x-session-affinity"],
            AffinityFormat::WithoutSession => &["x-client-request-id", "x-session-affinity"],
            AffinityFormat::OneOfOpenRouter => &["x-session-id"],
        };
        for name in names {
            headers.set(name, session);
        }
    }
    headers.apply(&options.headers);
    // The body is what it is, whatever the host says of it.
    headers.set("content-type", "application/json");
    headers.into_list()
}

/// How long the vendor shall keep the prompt: what the request says, else `STEERAGE_CACHE_RETENTION`, else shortly.
fn retention(options: &StreamOptions) -> CacheRetention {
    const VARIABLE: &str = "STEERAGE_CACHE_RETENTION";
    options.cache_retention.unwrap_or_else(|| {
        let own = options.env.iter().find(|(name, _)| name == VARIABLE);
        let value = own.map(|(_, value)| value.clone()).or_else(|| env::var(VARIABLE).ok());
        if value.as_deref() == Some("long") { CacheRetention::Long } else { CacheRetention::Short }
    })
}

fn cache_marker(retention: CacheRetention) -> Value {
    match retention {
        CacheRetention::Long => json!({"type": "ephemeral", "ttl": "1h"}),
        _ => json!({"type": "ephemeral"}),
    }
}

fn has_tool_history(messages: &[std::sync::Arc<Message>]) -> bool {
    messages.iter().any(|message| match &**message {
        Message::ToolResult(_) => true,
        Message::Assistant(assistant) => assistant.tool_calls().next().is_some(),
        _ => false,
    })
}

/// The id of another model's call in a form that servers of this API take.
fn call_id(id: &str, model: &Model) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if let Some((call, _)) = id.split_once('|') {
        let plain = |text: &str| -> String {
            text.chars().map(|it| if is_plain(it) { it } else { '_' }).collect()
        };
        let whole = plain(id);
        if whole.len() <= LONGEST_CALL_ID {
            return whole;
        }
        let hash = fingerprint(id);
        let front: String = plain(call).chars().take(LONGEST_CALL_ID - hash.len() - 1).collect();
        return format!("{front}_{hash}");
    }
    if model.provider == "openai" {
        return id.chars().take(LONGEST_CALL_ID).collect();
    }
    id.to_owned()
}

/// Eight characters that differ for different texts (FNV-1a).
fn fingerprint(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}
