//! A request as this API takes it.

use std::{mem, sync::Arc};

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, ErrorKind},
    http::{HttpRequest, Method},
    message::Message,
    model::{Model, ThinkingLevel},
    provider::{
        ProviderOptions,
        driver::Call,
        grammar::GrammarTools,
        headers::{Headers, endpoint},
        kept::{self, Render},
        openai_responses::{
            compat::{Cache, Compat},
            input::{Converter, Rendered, ToolPlaces},
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

/// The longest cache key that OpenAI takes.
const LONGEST_CACHE_KEY: usize = 64;
/// The least that OpenAI takes as the most that an answer may have.
const LEAST_OUTPUT: u64 = 16;

/// Where a request goes, and what it calls the model there.
#[derive(Debug)]
pub(in crate::provider) struct Site {
    pub(in crate::provider) url: String,
    pub(in crate::provider) model: String,
    /// The header that the key stands in by itself; none for `authorization` and a bearer token.
    pub(in crate::provider) key_header: Option<&'static str>,
}

impl Site {
    pub(super) fn of(request: &StreamRequest) -> Site {
        let Model { base_url, id, .. } = &*request.model;
        Site { url: endpoint(base_url, "/responses"), model: id.clone(), key_header: None }
    }
}

/// Builds the call of a request, and names the grammar tools that its response may call.
pub(super) fn build(
    request: &StreamRequest,
    provider: &ProviderOptions,
    compat: &Compat,
    site: &Site,
) -> Result<(Call, GrammarTools), Error> {
    let wishes = Wishes::of(request)?;
    let (body, grammar_tools) = body(request, compat, site, &wishes)?;
    let (payload, body) = kept::for_hook(body, &request.options.hooks)?;
    let http = HttpRequest {
        method: Method::Post,
        url: site.url.clone(),
        headers: headers(request, provider, compat, site),
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
    summary: Option<Value>,
    service_tier: Option<Value>,
    tool_choice: Option<ToolWish>,
    max_tokens: Option<u64>,
}

#[derive(Debug)]
enum ToolWish {
    Neutral(ToolChoice),
    Native(Value),
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
            summary: None,
            service_tier: None,
            tool_choice: options.tool_choice.clone().map(ToolWish::Neutral),
            max_tokens: Some(output_cap(model, transcript.messages(), options.max_tokens))
                .filter(|cap| *cap > 0),
        })
    }

    fn of_native(native: &Map<String, Value>, options: &StreamOptions) -> Result<Wishes, Error> {
        let given = |name: &str| native.get(name).filter(|it| !it.is_null()).cloned();
        let level = match given("reasoningEffort") {
            None => ThinkingLevel::Off,
            Some(effort) if effort == "none" => ThinkingLevel::Off,
            Some(effort) => {
                effort.as_str().unwrap_or_default().parse().map_err(|error: Error| {
                    let message = format!("option reasoningEffort: {error}");
                    Error::new(ErrorKind::Configuration, message)
                })?
            }
        };
        Ok(Wishes {
            level,
            summary: given("reasoningSummary"),
            service_tier: given("serviceTier"),
            tool_choice: given("toolChoice").map(ToolWish::Native),
            max_tokens: options.max_tokens.filter(|cap| *cap > 0),
        })
    }

    /// How hard to think, and whether the reasoning shall come along encrypted.
    fn reasoning(&self, model: &Model) -> (Option<Value>, bool) {
        if !model.reasoning {
            return (None, false);
        }
        let is_on = self.level != ThinkingLevel::Off;
        if is_on || self.summary.is_some() {
            let level = if is_on { self.level } else { ThinkingLevel::Medium };
            let effort = model.mapped_thinking(level).unwrap_or(level.as_str());
            let summary = self.summary.clone().unwrap_or_else(|| "auto".into());
            return (Some(json!({"effort": effort, "summary": summary})), true);
        }
        let map = model.thinking_level_map.as_ref();
        let cannot_be_off = map.and_then(|map| map.get("off")).is_some_and(Value::is_null);
        let off = (!cannot_be_off && model.provider != "github-copilot").then(
            || json!({"effort": model.mapped_thinking(ThinkingLevel::Off).unwrap_or("none")}),
        );
        // Models of xAI think anyway.
        (off, model.provider == "xai")
    }
}

impl ToolWish {
    fn json(&self, grammar_tools: &GrammarTools) -> Value {
        match self {
            ToolWish::Native(choice) => choice.clone(),
            ToolWish::Neutral(ToolChoice::Auto) => "auto".into(),
            ToolWish::Neutral(ToolChoice::None) => "none".into(),
            ToolWish::Neutral(ToolChoice::Any) => "required".into(),
            ToolWish::Neutral(ToolChoice::Tool(name)) => {
                let is_grammar = grammar_tools.property(name).is_some();
                json!({"type": if is_grammar { "custom" } else { "function" }, "name": name})
            }
        }
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
    places: ToolPlaces,
}

impl Contents {
    fn of(request: &StreamRequest, compat: &Compat) -> Result<Contents, Error> {
        let StreamRequest { model, transcript, .. } = request;
        let is_in_place = compat.supports_later_system_messages;
        let mut rest = resolve_transcript(transcript.messages(), is_in_place);
        let support = match compat {
            _ if !is_in_place => ToolChangeSupport::None,
            Compat { supports_additional_tools: true, .. } => ToolChangeSupport::Changes,
            Compat { supports_tool_search: true, .. } => ToolChangeSupport::Additions,
            _ => ToolChangeSupport::None,
        };
        let placement = place_tools(&rest, support);
        let told = current_tools(rest.iter().map(|message| &**message));
        let grammar_tools = GrammarTools::among(&told, compat.supports_grammar_tools)?;
        let tools = tools::declare(&placement.top_level, compat, false)?;
        let leads = rest.first().is_some_and(|first| first.as_system().is_some());
        let base = if leads { vec![rest.remove(0)] } else { Vec::new() };
        let mut places = ToolPlaces { support, folded: placement.folded, are_declared: false };
        let converter = Converter { model, compat, grammar_tools: &grammar_tools, places };
        let mut state = Rendered::default();
        let head = converter.convert(&base, &mut state, true)?;
        places.are_declared = state.are_tools_declared;
        Ok(Contents { head, leading: base.len(), rest, tools, grammar_tools, places })
    }

    /// Appends all items to the list of a body.
    fn write(
        &self,
        request: &StreamRequest,
        compat: &Compat,
        json: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let StreamRequest { model, transcript, .. } = request;
        let (grammar_tools, places) = (&self.grammar_tools, self.places);
        let converter = Converter { model, compat, grammar_tools, places };
        let renderer = Renderer { converter, leading: self.leading };
        for item in &self.head {
            kept::push(item, json)?;
        }
        kept::render(&renderer, model, &self.rest, transcript.memo(), json)
    }
}

/// Renders messages after the one that leads.
struct Renderer<'a> {
    converter: Converter<'a>,
    leading: usize,
}

impl Render for Renderer<'_> {
    type State = Rendered;
    type Key = (GrammarTools, ToolPlaces, usize);

    fn key(&self) -> Self::Key {
        (self.converter.grammar_tools.clone(), self.converter.places, self.leading)
    }

    fn render(
        &self,
        messages: &[Arc<Message>],
        state: &mut Rendered,
        _is_tail: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let model = self.converter.model;
        let first = self.leading + state.count;
        let ids = &mut state.ids;
        let ready =
            hand_over_part(messages, first, model, &mut |id, _| ids.fitting(id, &model.provider));
        state.systems = state.systems.max(self.leading);
        state.count += messages.len();
        let items = self.converter.convert(&ready, state, false)?;
        items.iter().try_for_each(|item| kept::push(item, json))
    }
}

fn body(
    request: &StreamRequest,
    compat: &Compat,
    site: &Site,
    wishes: &Wishes,
) -> Result<(Vec<u8>, GrammarTools), Error> {
    let StreamRequest { model, options, .. } = request;
    let mut contents = Contents::of(request, compat)?;
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| _ = body.insert(name.to_owned(), value);
    set("model", site.model.clone().into());
    // The items are put in when the other fields stand.
    set("input", Value::Array(Vec::new()));
    set("stream", true.into());
    write_cache(&mut set, options, compat);
    set("store", false.into());
    if let Some(cap) = wishes.max_tokens.filter(|_| compat.supports_max_output_tokens) {
        set("max_output_tokens", cap.max(LEAST_OUTPUT).into());
    }
    if let Some(temperature) = options.temperature {
        set("temperature", temperature.into());
    }
    if let Some(tier) = wishes.service_tier.as_ref().filter(|_| compat.prices_tiers) {
        set("service_tier", tier.clone());
    }
    if !contents.tools.is_empty() {
        set("tools", mem::take(&mut contents.tools).into());
    }
    if let Some(choice) = &wishes.tool_choice {
        set("tool_choice", choice.json(&contents.grammar_tools));
    }
    let (reasoning, is_encrypted) = wishes.reasoning(model);
    if let Some(reasoning) = reasoning {
        set("reasoning", reasoning);
    }
    if is_encrypted {
        set("include", json!(["reasoning.encrypted_content"]));
    }
    sampling::write(&mut body, model, wishes.level, options);
    let body = kept::write_body(&body, &body["model"], "input", |json| {
        contents.write(request, compat, json)
    })?;
    Ok((body, contents.grammar_tools))
}

fn write_cache(set: &mut impl FnMut(&str, Value), options: &StreamOptions, compat: &Compat) {
    let retention = retention(options);
    let key = options
        .session_id
        .as_ref()
        .map(|session| Value::from(session.chars().take(LONGEST_CACHE_KEY).collect::<String>()));
    let (has_key, is_long, is_explicit) = match compat.cache {
        Cache::KeyAlways => (true, false, false),
        Cache::Timed { has_key, is_long, is_explicit } => {
            (has_key && retention != CacheRetention::None, is_long, is_explicit)
        }
    };
    if let Some(key) = key.filter(|_| has_key) {
        set("prompt_cache_key", key);
    }
    match retention {
        CacheRetention::Long if is_explicit => set("prompt_cache_options", json!({"ttl": "30m"})),
        CacheRetention::Long if is_long => set("prompt_cache_retention", "24h".into()),
        CacheRetention::None if is_explicit => {
            set("prompt_cache_options", json!({"mode": "explicit"}));
        }
        _ => (),
    }
}

fn headers(
    request: &StreamRequest,
    provider: &ProviderOptions,
    compat: &Compat,
    site: &Site,
) -> Vec<(String, String)> {
    let StreamRequest { model, options, .. } = request;
    let mut headers = Headers::for_model(model, options);
    let key = options.api_key.as_ref().or(provider.api_key.as_ref());
    match site.key_header {
        Some(name) => headers.set_key(name, key),
        None => headers.authorize(key),
    }
    headers.apply_model(&model.headers);
    if let Some(session) = &options.session_id
        && retention(options) != CacheRetention::None
    {
        for name in compat.affinity {
            headers.set(name, session);
        }
    }
    headers.finish(&options.headers)
}
