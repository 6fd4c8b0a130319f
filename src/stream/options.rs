//! What a request says beside model and messages.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    error::Error,
    model::{Model, ThinkingBudgets, ThinkingLevel},
    secret::{Secret, scrub, shown, shown_json, without_query},
};

/// What a request says beside model and messages. Every field has a default and providers ignore what they cannot use.
///
/// Its `Debug` leaves out what sounds like a key among the headers and the environment.
#[derive(Clone, Default)]
pub struct StreamOptions {
    /// How hard the model shall think. Default: not at all.
    pub reasoning: Option<ThinkingLevel>,
    /// Tokens to think with, for models that take a budget. Default: see [`ThinkingBudgets`].
    pub thinking_budgets: Option<ThinkingBudgets>,
    /// How freely the model chooses. Default: the vendor's.
    pub temperature: Option<f64>,
    /// How many tokens the answer may have. Default: the model's limit, less what the context leaves no room for.
    pub max_tokens: Option<u64>,
    /// Whether and which tools the model shall call. Default: the vendor's, which is to leave it to the model.
    pub tool_choice: Option<ToolChoice>,
    /// The key. Default: what the provider is configured with; a server without keys needs none.
    pub api_key: Option<Secret>,
    /// More headers; `None` as the value removes a default one of that name. Names are case-insensitive. Default: none.
    pub headers: Vec<(String, Option<String>)>,
    /// Fields merged last into the request body (APIs of OpenAI's kind only). Default: none.
    pub sampling_params: Option<Map<String, Value>>,
    /// How long the vendor shall keep the prompt cached. Default: short.
    pub cache_retention: Option<CacheRetention>,
    /// Names the conversation to the vendor, for its cache. Default: none.
    pub session_id: Option<String>,
    /// The transport, where an API has several. Default: chosen by the provider.
    pub transport: Option<Transport>,
    /// How often a request that failed before its stream began is tried again. Default: 2.
    pub max_retries: Option<u32>,
    /// The longest wait between tries that a server may ask for, in milliseconds; 0 means any. Default: 60,000.
    pub max_retry_delay_ms: Option<u64>,
    /// How long to wait for the response's headers. Default: the HTTP layer's 600 s.
    pub timeout: Option<Duration>,
    /// Facts for the vendor about the request, such as `user_id`. Default: none.
    pub metadata: Option<Map<String, Value>>,
    /// Who the program is. Default: nobody.
    pub identity: Option<Identity>,
    /// Do not use state that the vendor keeps. Default: false.
    pub disable_continuation: bool,
    /// The API's own options under their own names. When set, nothing is derived from the neutral ones. Default: none.
    pub native: Option<Map<String, Value>>,
    /// Values that win over the process's environment for configuration of providers. Default: none.
    pub env: Vec<(String, String)>,
    /// Callbacks into the host while the request is made. Default: none.
    pub hooks: RequestHooks,
}

/// Whether and which tools a model shall call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// None.
    None,
    /// At least one.
    Any,
    /// The one of this name.
    Tool(String),
}

/// How long a vendor shall keep a prompt cached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheRetention {
    /// Not at all.
    None,
    /// Minutes.
    #[default]
    Short,
    /// Hours, where the vendor has it.
    Long,
}

/// How events travel, where an API has several ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The provider decides.
    #[default]
    Auto,
    /// Server-sent events.
    Sse,
    /// A websocket.
    Websocket,
    /// A websocket that is kept between requests.
    WebsocketCached,
}

/// Who the program is, for vendors that ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The `User-Agent` header. Default: `steerage/` and its version.
    pub user_agent: Option<UserAgent>,
    /// Name and address of the program, for vendors that list their traffic by program. Default: none.
    pub attribution: Option<Attribution>,
}

/// The forms of a `User-Agent` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAgent {
    /// Name, version and platform.
    Detailed,
    /// The name alone.
    Short,
    /// This text.
    Custom(String),
}

/// Name and address of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The program's name.
    pub name: String,
    /// Its address on the web.
    pub url: String,
    /// What kinds of program it is, in the vendor's words.
    pub categories: Vec<String>,
}

/// The status and headers of a response. Its `Debug` leaves out cookies and the like.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ResponseMeta {
    /// The HTTP status.
    pub status: u16,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
}

/// Method, address and headers of a request, as they are sent but for the keys in them.
#[derive(Clone, Default)]
pub struct RequestMeta {
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// The headers in order.
    pub headers: Vec<(String, String)>,
    secrets: Vec<Secret>,
}

/// Sees method, address and headers of a request before it is sent.
pub type RequestHook = Arc<dyn Fn(&RequestMeta, &Model) -> Result<(), Error> + Send + Sync>;
/// Sees the final request body before it is sent and may replace it.
pub type PayloadHook = Arc<dyn Fn(&Value, &Model) -> Result<Option<Value>, Error> + Send + Sync>;
/// Sees status and headers before the body is read.
pub type ResponseHook = Arc<dyn Fn(&ResponseMeta, &Model) -> Result<(), Error> + Send + Sync>;
/// Sees every event of the vendor, parsed, before it is understood.
pub type ProviderEventHook = Arc<dyn Fn(&Value, &Model) -> Result<(), Error> + Send + Sync>;

/// Callbacks into the host while a request is made. They run on the thread that makes the request; an error fails it.
#[derive(Clone, Default)]
pub struct RequestHooks {
    /// Sees method, address and headers of the request before it is sent, without the keys in them. Default: none.
    pub on_request: Option<RequestHook>,
    /// Sees the final request body before it is sent and may replace it. Default: none.
    pub on_payload: Option<PayloadHook>,
    /// Sees status and headers before the body is read. Default: none.
    pub on_response: Option<ResponseHook>,
    /// Sees every event of the vendor, parsed, before it is understood. Default: none.
    pub on_provider_stream_event: Option<ProviderEventHook>,
}

impl fmt::Debug for StreamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamOptions")
            .field("reasoning", &self.reasoning)
            .field("thinking_budgets", &self.thinking_budgets)
            .field("temperature", &self.temperature)
            .field("max_tokens", &self.max_tokens)
            .field("tool_choice", &self.tool_choice)
            .field("api_key", &self.api_key)
            .field("headers", &shown(pairs(&self.headers)))
            .field("sampling_params", &self.sampling_params.as_ref().map(shown_json))
            .field("cache_retention", &self.cache_retention)
            .field("session_id", &self.session_id)
            .field("transport", &self.transport)
            .field("max_retries", &self.max_retries)
            .field("max_retry_delay_ms", &self.max_retry_delay_ms)
            .field("timeout", &self.timeout)
            .field("metadata", &self.metadata.as_ref().map(shown_json))
            .field("identity", &self.identity)
            .field("disable_continuation", &self.disable_continuation)
            .field("native", &self.native.as_ref().map(shown_json))
            .field("env", &shown(pairs(&self.env)))
            .field("hooks", &self.hooks)
            .finish()
    }
}

impl RequestMeta {
    /// Takes the keys out of an address; `headers` are without them already.
    #[cfg(feature = "providers")]
    pub(crate) fn new(
        method: &str,
        url: &str,
        headers: Vec<(String, String)>,
        secrets: Vec<Secret>,
    ) -> RequestMeta {
        RequestMeta { method: method.to_owned(), url: scrub(url, &secrets), headers, secrets }
    }

    /// Takes the keys of the request out of a text, for those who keep what is said about it.
    pub fn scrub(&self, text: &str) -> String {
        scrub(text, &self.secrets)
    }

    pub(crate) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }
}

impl fmt::Debug for RequestMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestMeta")
            .field("method", &self.method)
            .field("url", &without_query(&self.url))
            .field("headers", &shown(pairs(&self.headers)))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ResponseMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseMeta")
            .field("status", &self.status)
            .field("headers", &shown(pairs(&self.headers)))
            .finish()
    }
}

fn pairs<V>(fields: &[(String, V)]) -> impl Iterator<Item = (&String, &V)> {
    fields.iter().map(|(name, value)| (name, value))
}

impl fmt::Debug for RequestHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHooks")
            .field("on_request", &self.on_request.is_some())
            .field("on_payload", &self.on_payload.is_some())
            .field("on_response", &self.on_response.is_some())
            .field("on_provider_stream_event", &self.on_provider_stream_event.is_some())
            .finish()
    }
}
