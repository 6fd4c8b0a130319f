//! A request as Google's API takes it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    error::Error,
    http::{HttpRequest, Method},
    message::Message,
    model::Model,
    provider::{
        ProviderOptions,
        driver::Call,
        google::{
            contents,
            family::Family,
            thinking::{self, Budgets},
            tools,
        },
        headers::Headers,
        ids::{self, CallIds},
        kept::{self, Render},
    },
    stream::{StreamOptions, StreamRequest, ToolChoice},
    transcript::{current_tools, hand_over_part, output_cap, prompt_text, resolve_transcript},
};

/// The longest id of a call.
const LONGEST_CALL_ID: usize = 64;

/// Builds the call of a request to `url`.
pub(crate) fn build(
    request: &StreamRequest,
    provider: &ProviderOptions,
    url: String,
    budgets: &Budgets,
) -> Result<Call, Error> {
    let (payload, body) = kept::for_hook(body(request, budgets)?, &request.options.hooks)?;
    let http = HttpRequest {
        method: Method::Post,
        url,
        headers: headers(request, provider),
        secret_headers: vec!["cf-aig-authorization".to_owned()],
        first_byte_timeout: request.options.timeout,
        body: body.into(),
    };
    Ok(Call { http, payload, after_hook: None })
}

/// The action of a model's URL that streams its answer.
pub(crate) const ACTION: &str = ":streamGenerateContent?alt=sse";

fn body(request: &StreamRequest, budgets: &Budgets) -> Result<Vec<u8>, Error> {
    let StreamRequest { model, transcript, options } = request;
    // Later system messages have no place of their own here.
    let mut rest = resolve_transcript(transcript.messages(), false);
    let declared = current_tools(rest.iter().map(|message| &**message));
    let (tools, any_strict) = tools::declare(&declared, Family::of(&model.id).is_strict)?;
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| _ = body.insert(name.to_owned(), value);
    // The messages are put in when the other fields stand.
    set("contents", Value::Array(Vec::new()));
    let mut leading = 0;
    if let Some(system) = rest.first().and_then(|first| first.as_system()) {
        let text = prompt_text(system);
        if !text.is_empty() {
            set("systemInstruction", json!({"role": "user", "parts": [{"text": text}]}));
        }
        leading = 1;
        rest.remove(0);
    }
    if !tools.is_empty() {
        set("tools", json!([{"functionDeclarations": tools}]));
        if let Some(config) = tool_config(options, any_strict) {
            set("toolConfig", json!({"functionCallingConfig": config}));
        }
    }
    set("generationConfig", generation_config(request, budgets)?);
    kept::write_list(&body, "contents", |json| {
        kept::render(&Renderer { model, leading }, model, &rest, transcript.memo(), json)
    })
}

fn tool_config(options: &StreamOptions, any_strict: bool) -> Option<Value> {
    let native = options.native.as_ref();
    let mode = match native {
        Some(native) => native.get("toolChoice").and_then(Value::as_str).map(str::to_uppercase),
        None => options.tool_choice.as_ref().map(|choice| {
            let mode = match choice {
                ToolChoice::Auto => "AUTO",
                ToolChoice::None => "NONE",
                ToolChoice::Any | ToolChoice::Tool(_) => "ANY",
            };
            mode.to_owned()
        }),
    };
    let mode = match mode.as_deref() {
        None | Some("AUTO") if any_strict => Some("VALIDATED".to_owned()),
        _ => mode,
    };
    let mut config = json!({"mode": mode?});
    if let (None, Some(ToolChoice::Tool(name))) = (native, &options.tool_choice) {
        config["allowedFunctionNames"] = json!([name]);
    }
    Some(config)
}

fn generation_config(request: &StreamRequest, budgets: &Budgets) -> Result<Value, Error> {
    let StreamRequest { model, transcript, options } = request;
    let mut config = Map::new();
    if let Some(temperature) = options.temperature {
        config.insert("temperature".to_owned(), temperature.into());
    }
    let asked = options.max_tokens;
    let cap = match &options.native {
        Some(_) => asked,
        None => Some(output_cap(model, transcript.messages(), asked))
            .filter(|cap| *cap > 0 || asked.is_some()),
    };
    if let Some(cap) = cap {
        config.insert("maxOutputTokens".to_owned(), cap.into());
    }
    if let Some(thinking) = thinking::config(model, options, budgets)? {
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    Ok(Value::Object(config))
}

fn headers(request: &StreamRequest, provider: &ProviderOptions) -> Vec<(String, String)> {
    let StreamRequest { model, options, .. } = request;
    let mut headers = Headers::for_model(model, options);
    let key = options.api_key.as_ref().or(provider.api_key.as_ref());
    headers.set_key("x-goog-api-key", key);
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
        let has_ids = Family::of(&self.model.id).has_call_ids;
        let first = self.leading + state.count;
        let call_ids = &mut state.ids;
        let ready = hand_over_part(messages, first, self.model, &mut |id, _| {
            if !has_ids {
                return id.to_owned();
            }
            let plain: String = ids::plain(id).chars().take(LONGEST_CALL_ID).collect();
            call_ids.unique(id, plain, LONGEST_CALL_ID)
        });
        state.count += messages.len();
        let contents = contents::convert(&ready, self.model);
        contents.iter().try_for_each(|content| kept::push(content, json))
    }
}
