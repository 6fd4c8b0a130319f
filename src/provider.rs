//! Providers: each wire API of the vendors is a [`StreamFn`](crate::StreamFn) of its own.

use std::{env, sync::Arc, time::Duration};

use crate::{
    clock::{Clock, SystemClock},
    secret::Secret,
    stream::{CacheRetention, StreamOptions, StreamRequest},
};

pub mod anthropic;
pub mod azure_openai_responses;
pub(crate) mod blocks;
pub(crate) mod constraint;
pub(crate) mod driver;
pub(crate) mod failure;
pub(crate) mod flags;
pub(crate) mod google;
pub mod google_generative_ai;
pub mod google_vertex;
pub(crate) mod grammar;
pub(crate) mod halves;
pub(crate) mod headers;
pub(crate) mod ids;
pub(crate) mod kept;
pub mod mistral;
pub mod openai_completions;
pub mod openai_responses;
pub(crate) mod openrouter;
pub mod pi_messages;
pub(crate) mod sampling;

pub use crate::http::{ClientCertificate, HttpClient, HttpOptions, ProxyChoice};

/// How a provider reaches its vendor; the same for all wire APIs.
#[derive(Debug, Clone)]
pub struct ProviderOptions {
    /// The key for requests that bring none. Default: none, and no key is sent.
    pub api_key: Option<Secret>,
    /// Sends the requests. Default: the client of the process.
    pub client: HttpClient,
    /// How long a stream may go on without an event; comments that keep a connection alive are none. Default: for ever, as
    /// models may think for long. [`HttpOptions::idle_timeout`] limits silence of the connection.
    pub event_timeout: Option<Duration>,
    /// How many bytes one event may have. Default: 16 MiB.
    pub max_event_bytes: usize,
    /// The time, for pauses between attempts. Default: the system's.
    pub clock: Arc<dyn Clock>,
}

/// Adds what the provider of the model wants to see in each request, whatever its API. Headers of the request win.
pub fn add_vendor_headers(request: &mut StreamRequest) {
    if matches!(request.model.provider.as_str(), "opencode" | "opencode-go")
        && let Some(session) = &request.options.session_id
    {
        let header = ("x-opencode-session".to_owned(), Some(session.clone()));
        request.options.headers.insert(0, header);
    }
}

/// How long the vendor shall keep the prompt: what the request says, else `STEERAGE_CACHE_RETENTION`, of which `long` is
/// the one value that changes something.
pub(crate) fn retention(options: &StreamOptions) -> CacheRetention {
    const VARIABLE: &str = "STEERAGE_CACHE_RETENTION";
    options.cache_retention.unwrap_or_else(|| match variable(options, VARIABLE).as_deref() {
        Some("long") => CacheRetention::Long,
        _ => CacheRetention::Short,
    })
}

/// A variable as the request has it, or else the environment of the process. A blank value counts as none.
pub(crate) fn variable(options: &StreamOptions, name: &str) -> Option<String> {
    let own = options.env.iter().find(|(it, _)| it == name);
    let value = own.map(|(_, value)| value.clone()).or_else(|| env::var(name).ok());
    value.filter(|it| !it.trim().is_empty())
}

impl Default for ProviderOptions {
    fn default() -> ProviderOptions {
        ProviderOptions {
            api_key: None,
            client: HttpClient::shared(),
            event_timeout: None,
            max_event_bytes: 16 << 20,
            clock: Arc::new(SystemClock),
        }
    }
}
