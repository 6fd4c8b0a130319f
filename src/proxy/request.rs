//! A request to the server that holds the keys, as it is written and read.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    error::{Error, ErrorKind},
    http::{self, HttpRequest, Method},
    message::Message,
    model::{Model, ThinkingBudgets, ThinkingLevel},
    provider::{
        driver::Call,
        headers::{Headers, endpoint},
        kept,
        pi_messages::request::{tool_choice, with_messages},
    },
    secret::{Secret, sounds_secret, without_query},
    stream::{CacheRetention, StreamOptions, StreamRequest, ToolChoice, Transcript, Transport},
};

/// The options of a request as they travel.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_params: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ThinkingLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_retention: Option<CacheRetention>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_continuation: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<Transport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budgets: Option<ThinkingBudgets>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retry_delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

/// Builds the call of a request.
pub(super) fn build(request: &StreamRequest, url: &str, token: &Secret) -> Result<Call, Error> {
    let options = &request.options;
    let url = endpoint(url, "/api/stream");
    http::check_url(&url).map_err(|error| {
        let message = format!("the address of the proxy cannot be used: {error}");
        Error::new(ErrorKind::Configuration, message)
    })?;
    let (payload, body) = kept::for_hook(body(request)?, &options.hooks)?;
    let mut headers = Headers::for_program(options);
    headers.authorize(Some(token));
    let http = HttpRequest {
        method: Method::Post,
        url,
        headers: headers.into_list(),
        secret_headers: Vec::new(),
        first_byte_timeout: options.timeout,
        body: body.into(),
    };
    Ok(Call { http, payload, after_hook: None })
}

fn body(request: &StreamRequest) -> Result<Vec<u8>, Error> {
    let mut model = json!(*request.model);
    if let Some(headers) = model.get_mut("headers").and_then(Value::as_object_mut) {
        // The keys of a vendor are nothing to the proxy, which has its own.
        headers.retain(|name, _| !sounds_secret(name));
    }
    let front = format!("{{\"model\":{model},\"context\":{{\"messages\":[");
    let options = json!(Options::of(&request.options));
    // The messages are put in when the other fields stand.
    let body = json!({"model": model, "context": {"messages": []}, "options": options});
    with_messages(request, &body, front.into_bytes())
}

impl Options {
    fn of(options: &StreamOptions) -> Options {
        let headers = options.headers.iter().filter(|(name, _)| !sounds_secret(name));
        let headers: Map<String, Value> =
            headers.map(|(name, value)| (name.clone(), json!(value))).collect();
        Options {
            temperature: options.temperature,
            sampling_params: options.sampling_params.clone(),
            max_tokens: options.max_tokens,
            reasoning: options.reasoning.filter(|it| *it != ThinkingLevel::Off),
            cache_retention: options.cache_retention,
            session_id: options.session_id.clone(),
            disable_continuation: options.disable_continuation.then_some(true),
            headers: Some(headers).filter(|it| !it.is_empty()),
            metadata: options.metadata.clone(),
            transport: options.transport,
            thinking_budgets: options.thinking_budgets,
            max_retry_delay_ms: options.max_retry_delay_ms,
            tool_choice: options.tool_choice.as_ref().map(tool_choice),
        }
    }

    fn into_options(self) -> StreamOptions {
        let headers = self.headers.into_iter().flatten();
        let headers = headers.filter_map(|(name, value)| match value {
            Value::String(value) => Some((name, Some(value))),
            Value::Null => Some((name, None)),
            _ => None,
        });
        // Keys, and where a request goes, are the server's business.
        let is_free = |name: &str| !sounds_secret(name) && !name.eq_ignore_ascii_case("host");
        StreamOptions {
            temperature: self.temperature,
            sampling_params: self.sampling_params,
            max_tokens: self.max_tokens,
            reasoning: self.reasoning,
            cache_retention: self.cache_retention,
            session_id: self.session_id,
            disable_continuation: self.disable_continuation.unwrap_or_default(),
            headers: headers.filter(|(name, _)| is_free(name)).collect(),
            metadata: self.metadata,
            transport: self.transport,
            thinking_budgets: self.thinking_budgets,
            max_retry_delay_ms: self.max_retry_delay_ms,
            tool_choice: self.tool_choice.as_ref().and_then(choice),
            ..StreamOptions::default()
        }
    }
}

fn choice(told: &Value) -> Option<ToolChoice> {
    match told.as_str() {
        Some("auto") => Some(ToolChoice::Auto),
        Some("none") => Some(ToolChoice::None),
        Some("any" | "required") => Some(ToolChoice::Any),
        Some(_) => None,
        None => told["function"]["name"].as_str().map(|name| ToolChoice::Tool(name.to_owned())),
    }
}

/// A request as the server that holds the keys gets it.
///
/// # Examples
///
/// ```
/// use steerage::{Model, proxy::ProxyRequest};
///
/// let body = br#"{
///     "model": {"id": "small", "provider": "mine", "baseUrl": "https://somewhere.else"},
///     "context": {"messages": [{"role": "user", "content": "Hi", "timestamp": 1}]},
///     "options": {"temperature": 0.5}
/// }"#;
/// let asked = ProxyRequest::read(body)?;
/// assert_eq!((asked.provider(), asked.model_id()), ("mine", "small"));
/// // The server knows its models; what the client says of them is not believed.
/// let request = asked.with_model(Model { id: "small".to_owned(), ..Model::default() });
/// assert_eq!(request.options.temperature, Some(0.5));
/// assert_eq!(request.model.base_url, "");
/// # Ok::<(), steerage::Error>(())
/// ```
pub struct ProxyRequest {
    model: Model,
    transcript: Transcript,
    options: StreamOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    model: Model,
    context: Context,
    #[serde(default)]
    options: Options,
}

/// The messages; prompt and tools may stand beside them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    #[serde(default)]
    system_prompt: Option<String>,
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<Value>,
}

impl ProxyRequest {
    /// Reads the body of a request. An error says what is wrong with it: answer it with the status 400.
    pub fn read(body: &[u8]) -> Result<ProxyRequest, Error> {
        let invalid = |error: serde_json::Error| {
            let message = format!("the request to the proxy cannot be read: {error}");
            Error::new(ErrorKind::InvalidRequest, message)
        };
        let Body { model, context, options } = serde_json::from_slice(body).map_err(invalid)?;
        let messages = context.into_messages().map_err(invalid)?;
        let transcript = Transcript::new(messages);
        Ok(ProxyRequest { model, transcript, options: options.into_options() })
    }

    /// The id of the model that is asked for.
    pub fn model_id(&self) -> &str {
        &self.model.id
    }

    /// The provider of the model that is asked for.
    pub fn provider(&self) -> &str {
        &self.model.provider
    }

    /// The model as the client describes it. Its address is not to be trusted: whoever names it gets the keys.
    pub fn described_model(&self) -> &Model {
        &self.model
    }

    /// Makes the request to the vendor, with a model of the server's own. Headers that sound like a key are left out.
    pub fn with_model(self, model: impl Into<Arc<Model>>) -> StreamRequest {
        let ProxyRequest { transcript, options, .. } = self;
        StreamRequest { model: model.into(), transcript, options }
    }
}

impl Context {
    fn into_messages(self) -> Result<Vec<Arc<Message>>, serde_json::Error> {
        let prompt = self.system_prompt.unwrap_or_default();
        let mut messages = Vec::with_capacity(self.messages.len() + 1);
        if !prompt.is_empty() || !self.tools.is_empty() {
            let mut system = json!({"role": "system", "content": prompt, "timestamp": 0});
            if !self.tools.is_empty() {
                system["toolsAdded"] = self.tools.into();
            }
            messages.push(Arc::new(serde_json::from_value(system)?));
        }
        messages.extend(self.messages.into_iter().map(Arc::new));
        Ok(messages)
    }
}

impl fmt::Debug for ProxyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyRequest")
            .field("provider", &self.model.provider)
            .field("model", &self.model.id)
            .field("base_url", &without_query(&self.model.base_url))
            .field("messages", &self.transcript.messages().len())
            .field("options", &self.options)
            .finish()
    }
}
