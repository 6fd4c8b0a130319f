//! A request as Mistral's API takes it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    error::Error,
    http::{HttpRequest, Method},
    message::{Message, ToolDeclaration},
    model::{Model, ThinkingLevel},
    provider::{
        ProviderOptions,
        constraint::{self, Parameters},
        driver::Call,
        flags::Flags,
        headers::{Headers, endpoint},
        kept::{self, Render},
        mistral::messages::{self, CallIds},
        retention,
    },
    stream::{CacheRetention, StreamOptions, StreamRequest, ToolChoice},
    transcript::{current_tools, hand_over_part, output_cap, resolve_transcript},
};

/// The header that keeps a conversation on one machine.
const AFFINITY: &str = "x-affinity";

/// Builds the call of a request.
pub(super) fn build(request: &StreamRequest, provider: &ProviderOptions) -> Result<Call, Error> {
    let (payload, body) = kept::for_hook(body(request)?, &request.options.hooks)?;
    let http = HttpRequest {
        method: Method::Post,
        url: endpoint(&request.model.base_url, "/v1/chat/completions"),
        headers: headers(request, provider),
        secret_headers: vec!["cf-aig-authorization".to_owned()],
        first_byte_timeout: request.options.timeout,
        body: body.into(),
    };
    Ok(Call { http, payload, after_hook: None })
}

fn body(request: &StreamRequest) -> Result<Vec<u8>, Error> {
    let StreamRequest { model, transcript, options } = request;
    let flag = |name: &str| Flags(&model.compat).bool(name).unwrap_or(false);
    let mut rest =
        resolve_transcript(transcript.messages(), flag("supportsMidConvoSystemMessages"));
    let declared = current_tools(rest.iter().map(|message| &**message));
    let leads = rest.first().is_some_and(|first| first.as_system().is_some());
    let head = if leads { vec![rest.remove(0)] } else { Vec::new() };
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| _ = body.insert(name.to_owned(), value);
    set("model", model.id.clone().into());
    // The messages are put in when the other fields stand.
    set("messages", Value::Array(Vec::new()));
    set("stream", true.into());
    if !declared.is_empty() {
        let is_strict = flag("supportsStrictMode");
        let tools = declared.iter().map(|tool| declare(tool, is_strict));
        set("tools", Value::Array(tools.collect::<Result<_, _>>()?));
    }
    if let Some(temperature) = options.temperature {
        set("temperature", temperature.into());
    }
    let asked = options.max_tokens;
    let cap = match &options.native {
        Some(_) => asked,
        None => Some(output_cap(model, transcript.messages(), asked))
            .filter(|cap| *cap > 0 || asked.is_some()),
    };
    if let Some(cap) = cap {
        set("max_tokens", cap.into());
    }
    if let Some(choice) = tool_choice(options) {
        set("tool_choice", choice);
    }
    write_thinking(&mut set, model, options);
    if let Some(session) = session(options) {
        set("prompt_cache_key", session.into());
    }
    kept::write_body(&body, &model.id, "messages", |json| {
        let converted = messages::convert(&head, true);
        converted.iter().try_for_each(|message| kept::push(message, json))?;
        let renderer = Renderer { model, leading: head.len() };
        kept::render(&renderer, model, &rest, transcript.memo(), json)
    })
}

fn declare(tool: &ToolDeclaration, is_strict: bool) -> Result<Value, Error> {
    let Parameters { schema, strict } = constraint::parameters(tool, is_strict)?;
    let function = json!({
        "name": tool.name, "description": tool.description, "parameters": schema, "strict": strict,
    });
    Ok(json!({"type": "function", "function": function}))
}

fn tool_choice(options: &StreamOptions) -> Option<Value> {
    let named = |name: &Value| json!({"type": "function", "function": {"name": name}});
    if let Some(native) = &options.native {
        let choice = native.get("toolChoice").filter(|it| !it.is_null())?;
        let name = choice.pointer("/function/name");
        return Some(name.map_or_else(|| choice.clone(), named));
    }
    Some(match options.tool_choice.as_ref()? {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "any".into(),
        ToolChoice::Tool(name) => named(&name.clone().into()),
    })
}

/// Models with a map of levels are told an effort, others that they shall reason.
fn write_thinking(set: &mut impl FnMut(&str, Value), model: &Model, options: &StreamOptions) {
    if let Some(native) = &options.native {
        for (name, field) in
            [("promptMode", "prompt_mode"), ("reasoningEffort", "reasoning_effort")]
        {
            if let Some(value) = native.get(name).filter(|it| !it.is_null()) {
                set(field, value.clone());
            }
        }
        return;
    }
    if !model.reasoning {
        return;
    }
    let level = options.reasoning.unwrap_or_default();
    let level = match level {
        ThinkingLevel::Off => level,
        level => model.clamp_thinking(level),
    };
    match (model.thinking_level_map.is_some(), level) {
        (true, ThinkingLevel::Off) => {
            if let Some(effort) = model.mapped_thinking(level) {
                set("reasoning_effort", effort.into());
            }
        }
        (true, level) => {
            set("reasoning_effort", model.mapped_thinking(level).unwrap_or("high").into());
        }
        (false, ThinkingLevel::Off) => (),
        (false, _) => set("prompt_mode", "reasoning".into()),
    }
}

/// The name of the conversation, if the vendor shall keep its prompt.
fn session(options: &StreamOptions) -> Option<String> {
    options.session_id.clone().filter(|_| retention(options) != CacheRetention::None)
}

fn headers(request: &StreamRequest, provider: &ProviderOptions) -> Vec<(String, String)> {
    let StreamRequest { model, options, .. } = request;
    let mut headers = Headers::for_model(model, options);
    headers.authorize(options.api_key.as_ref().or(provider.api_key.as_ref()));
    let is_said = model.headers.keys().any(|name| name.eq_ignore_ascii_case(AFFINITY));
    if let Some(session) = session(options).filter(|_| !is_said) {
        headers.set(AFFINITY, session);
    }
    headers.apply_model(&model.headers);
    headers.finish(&options.headers)
}

/// Renders messages after the one that leads.
struct Renderer<'a> {
    model: &'a Model,
    leading: usize,
}

/// What rendering remembers.
#[derive(Debug, Clone, Default)]
struct Rendered {
    count: usize,
    ids: CallIds,
}

impl Render for Renderer<'_> {
    type State = Rendered;
    type Key = usize;

    fn key(&self) -> usize {
        self.leading
    }

    fn render(
        &self,
        messages: &[Arc<Message>],
        state: &mut Rendered,
        _is_tail: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let first = self.leading + state.count;
        let ids = &mut state.ids;
        let ready = hand_over_part(messages, first, self.model, &mut |id, _| ids.fitting(id));
        state.count += messages.len();
        let converted = messages::convert(&ready, false);
        converted.iter().try_for_each(|message| kept::push(message, json))
    }
}
