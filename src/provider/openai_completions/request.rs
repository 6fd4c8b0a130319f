//! A request as this API takes it.

use std::{cell::Cell, mem, sync::Arc};

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, ErrorKind},
    http::{HttpRequest, Method},
    message::Message,
    model::{Model, ThinkingBudgets, ThinkingLevel},
    provider::{
        ProviderOptions,
        driver::Call,
        grammar::GrammarTools,
        headers::{Headers, endpoint},
        ids::{self, CallIds},
        kept::{self, Render},
        openai_completions::{
            compat::{AffinityFormat, CacheKeyMode, Compat},
            messages::{Converter, Place, mark_instruction, mark_last_text, mark_last_tool},
            thinking::Thinking,
            tools,
        },
        retention, sampling,
    },
    stream::{CacheRetention, StreamOptions, StreamRequest, ToolChoice},
    transcript::{
        ToolChangeSupport, current_tools, hand_over_part, output_cap, place_tools,
        resolve_transcript,
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
    let (body, grammar_tools) = body(request, compat, &wishes)?;
    let (payload, body) = kept::for_hook(body, &request.options.hooks)?;
    let http = HttpRequest {
        method: Method::Post,
        url: endpoint(&request.model.base_url, "/chat/completions"),
        headers: headers(request, provider, compat),
        secret_headers: vec!["cf-aig-authorization".to_owned()],
        first_byte_timeout: request.options.timeout,
        body: body.into(),
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
    /// What the system message that leads gives, if one does.
    head: Vec<Value>,
    /// How many messages that is in the transcript.
    leading: usize,
    /// The messages after it.
    rest: Vec<Arc<Message>>,
    tools: Vec<Value>,
    grammar_tools: GrammarTools,
    folded: usize,
    marker: Option<Value>,
}

impl Contents {
    fn of(request: &StreamRequest, compat: &Compat) -> Result<Contents, Error> {
        let StreamRequest { model, transcript, options } = request;
        let mut rest =
            resolve_transcript(transcript.messages(), compat.supports_later_system_messages);
        let support = if compat.supports_later_system_messages && compat.supports_tool_additions {
            ToolChangeSupport::Additions
        } else {
            ToolChangeSupport::None
        };
        let placement = place_tools(&rest, support);
        let told = current_tools(rest.iter().map(|message| &**message));
        let grammar_tools = GrammarTools::among(&told, compat.supports_grammar_tools)?;
        let folded = placement.folded;
        let mut tools = tools::declare(&placement.top_level, compat)?;
        let leads = rest.first().is_some_and(|first| first.as_system().is_some());
        let base = if leads { vec![rest.remove(0)] } else { Vec::new() };
        let converter = Converter { model, compat, grammar_tools: &grammar_tools, folded };
        let mut head = converter.convert(&base, Place { is_head: true, systems: 0 })?;
        let retention = retention(options);
        let marker = (compat.has_cache_markers && retention != CacheRetention::None)
            .then(|| cache_marker(retention));
        if let Some(marker) = &marker {
            mark_instruction(&mut head, marker);
            mark_last_tool(&mut tools, marker);
        }
        Ok(Contents { head, leading: base.len(), rest, tools, grammar_tools, folded, marker })
    }

    /// Whether calls or results are among the messages that the server gets.
    fn has_tool_history(&self, model: &Model) -> bool {
        let ready = hand_over_part(&self.rest, 0, model, &mut |id, _| id.to_owned());
        ready.iter().any(|message| match &**message {
            Message::ToolResult(_) => true,
            Message::Assistant(assistant) => assistant.tool_calls().next().is_some(),
            _ => false,
        })
    }

    /// Appends all messages to the list of a body.
    fn write(
        &self,
        request: &StreamRequest,
        compat: &Compat,
        json: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let StreamRequest { model, transcript, .. } = request;
        let converter =
            Converter { model, compat, grammar_tools: &self.grammar_tools, folded: self.folded };
        let renderer = Renderer {
            converter,
            leading: self.leading,
            needs_instruction: self.head.is_empty(),
            marker: self.marker.as_ref(),
            is_unmarked: Cell::new(false),
        };
        for message in &self.head {
            kept::push(message, json)?;
        }
        let front = json.len();
        kept::render(&renderer, model, &self.rest, transcript.memo(), json)?;
        if renderer.is_unmarked.get() {
            // What shall be marked may be among what is kept: everything is rendered at once.
            json.truncate(front);
            renderer.render(&self.rest, &mut Rendered::default(), true, json)?;
        }
        Ok(())
    }
}

/// Renders messages with the marks that a server wants for its cache.
struct Renderer<'a> {
    converter: Converter<'a>,
    /// How many system messages come before the first message: one or none.
    leading: usize,
    /// Whether the first instruction is yet to be found.
    needs_instruction: bool,
    marker: Option<&'a Value>,
    /// Whether a mark found no place among the last messages.
    is_unmarked: Cell<bool>,
}

/// What rendering remembers.
#[derive(Debug, Clone, Default)]
struct Rendered {
    count: usize,
    systems: usize,
    ids: CallIds,
}

impl Render for Renderer<'_> {
    type State = Rendered;
    type Key = (GrammarTools, usize, usize);

    fn key(&self) -> Self::Key {
        (self.converter.grammar_tools.clone(), self.converter.folded, self.leading)
    }

    fn render(
        &self,
        messages: &[Arc<Message>],
        state: &mut Rendered,
        is_tail: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let model = self.converter.model;
        let first = self.leading + state.count;
        let ids = &mut state.ids;
        let ready = hand_over_part(messages, first, model, &mut |id, _| {
            ids.unique(id, call_id(id, model), LONGEST_CALL_ID)
        });
        let place = Place { is_head: false, systems: self.leading + state.systems };
        let mut converted = self.converter.convert(&ready, place)?;
        let is_all = is_tail && state.count == 0;
        state.count += messages.len();
        state.systems += ready.iter().filter(|it| it.as_system().is_some()).count();
        if let Some(marker) = self.marker.filter(|_| is_tail) {
            let has_instruction =
                !self.needs_instruction || (is_all && mark_instruction(&mut converted, marker));
            let has_text = mark_last_text(&mut converted, marker);
            self.is_unmarked.set(!(is_all || has_instruction && has_text));
        }
        converted.iter().try_for_each(|message| kept::push(message, json))
    }
}

fn body(
    request: &StreamRequest,
    compat: &Compat,
    wishes: &Wishes,
) -> Result<(Vec<u8>, GrammarTools), Error> {
    let StreamRequest { model, options, .. } = request;
    let mut contents = Contents::of(request, compat)?;
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("model", model.id.clone().into());
    // The messages are put in when the other fields stand.
    set("messages", Value::Array(Vec::new()));
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
    if !contents.tools.is_empty() {
        set("tools", mem::take(&mut contents.tools).into());
        if compat.zai_tool_stream {
            set("tool_stream", true.into());
        }
    } else if compat.requires_tools_with_tool_history && contents.has_tool_history(model) {
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
    sampling::write(&mut body, model, wishes.level, options);
    let body = kept::write_body(&body, &body["model"], "messages", |json| {
        contents.write(request, compat, json)
    })?;
    Ok((body, contents.grammar_tools))
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
    headers.finish(&options.headers)
}

fn cache_marker(retention: CacheRetention) -> Value {
    match retention {
        CacheRetention::Long => json!({"type": "ephemeral", "ttl": "1h"}),
        _ => json!({"type": "ephemeral"}),
    }
}

fn call_id(id: &str, model: &Model) -> String {
    if let Some((call, _)) = id.split_once('|') {
        let whole = ids::plain(id);
        if whole.len() <= LONGEST_CALL_ID {
            return whole;
        }
        return ids::with_fingerprint(&ids::plain(call), id, LONGEST_CALL_ID);
    }
    if model.provider == "openai" {
        return id.chars().take(LONGEST_CALL_ID).collect();
    }
    id.to_owned()
}
