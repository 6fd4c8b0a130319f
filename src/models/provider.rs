//! What is known of a provider.

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    abort::AbortSignal,
    error::Result,
    model::Model,
    models::{KeyFn, listing::Listing},
    secret::{Secret, shown},
    stream::StreamFn,
};

/// A vendor or a server, as [`Models`](crate::Models) knows it.
///
/// # Examples
///
/// ```
/// use steerage::models::{KeySource, Provider};
///
/// let work = Provider {
///     key: KeySource::env("WORK_KEY"),
///     ..Provider::new("work", "https://llm.example.com/v1")
/// };
/// ```
#[derive(Clone)]
pub struct Provider {
    /// What models and requests call it.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Where the API's paths begin, for models that do not say it; models of the catalogue are asked there too if it is
    /// set.
    pub base_url: String,
    /// The wire API of models that do not say it. Default: `openai-completions`; one of the catalogue takes what its models
    /// there have in common.
    pub api: String,
    /// Where the key comes from. Default: none is needed.
    pub key: KeySource,
    /// The header that carries the key, as `Bearer` and the key, in place of the API's own. Default: none.
    pub key_header: Option<String>,
    /// Headers of each request; `None` as the value takes one away. Those of the model and of the request win. Default: none.
    pub headers: Vec<(String, Option<String>)>,
    /// What the server does otherwise than others, for models that do not say it; see [`Model::compat`]. Default: nothing.
    pub compat: Map<String, Value>,
    /// Its models, those of the catalogue aside. If it has none at all, any id is taken for one. Default: none.
    pub models: Vec<Model>,
    /// How its server lists its models, for [`Models::refresh`](crate::Models::refresh). Default: as OpenAI's does.
    pub listing: Listing,
    /// Answers in place of a wire API: a scripted model, for example. Default: none.
    pub stream: Option<Arc<dyn StreamFn>>,
}

/// Where the key of a provider comes from.
#[derive(Clone)]
#[non_exhaustive]
pub enum KeySource {
    /// Nowhere: the server needs none.
    None,
    /// It is this one.
    Value(Secret),
    /// The first of these variables that is set and not blank.
    Environment(Vec<String>),
    /// Whatever the function says for each request.
    Callback(KeyFn),
}

impl Provider {
    /// Makes a provider whose server speaks OpenAI's chat completions at `base_url`, such as `http://localhost:1234/v1`, and
    /// needs no key.
    pub fn new(id: impl Into<String>, base_url: impl Into<String>) -> Provider {
        let id = id.into();
        Provider {
            name: id.clone(),
            id,
            base_url: base_url.into(),
            api: "openai-completions".to_owned(),
            key: KeySource::None,
            key_header: None,
            headers: Vec::new(),
            compat: Map::new(),
            models: Vec::new(),
            listing: Listing::OpenAi,
            stream: None,
        }
    }

    /// Makes the provider `ollama` for a server of Ollama, at the address that `OLLAMA_HOST` would have: `localhost:11434`, or
    /// a URL.
    pub fn ollama(host: &str) -> Provider {
        Provider { listing: Listing::Ollama, ..Provider::local("ollama", "Ollama", host) }
    }

    /// Makes the provider `llama.cpp` for its server, at a host with a port, or a URL.
    pub fn llama_cpp(host: &str) -> Provider {
        Provider { listing: Listing::LlamaCpp, ..Provider::local("llama.cpp", "llama.cpp", host) }
    }

    /// A server of one's own whose API is at `/v1` of its address.
    fn local(id: &str, name: &str, host: &str) -> Provider {
        let host = host.trim().trim_end_matches('/');
        let host = host.strip_suffix("/v1").unwrap_or(host);
        let scheme = if host.contains("://") { "" } else { "http://" };
        // A server that listens everywhere is asked on this machine.
        let host = host.replace("0.0.0.0", "127.0.0.1");
        let mut compat = Map::new();
        compat.insert("maxTokensField".to_owned(), "max_tokens".into());
        let name = name.to_owned();
        Provider { name, compat, ..Provider::new(id, format!("{scheme}{host}/v1")) }
    }
}

impl KeySource {
    /// Takes the key from a variable.
    pub fn env(variable: impl Into<String>) -> KeySource {
        KeySource::Environment(vec![variable.into()])
    }

    /// Takes the key that `key` gives for each request.
    pub fn callback(
        key: impl Fn(&str, &AbortSignal) -> Result<Option<Secret>> + Send + Sync + 'static,
    ) -> KeySource {
        KeySource::Callback(Arc::new(key))
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers = self.headers.iter().map(|(name, value)| (name, value));
        f.debug_struct("Provider")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("base_url", &self.base_url)
            .field("api", &self.api)
            .field("key", &self.key)
            .field("key_header", &self.key_header)
            .field("headers", &shown(headers))
            .field("compat", &self.compat)
            .field("models", &self.models.len())
            .field("listing", &self.listing)
            .field("stream", &self.stream.is_some())
            .finish()
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::None => f.write_str("None"),
            KeySource::Value(_) => f.write_str("Value(..)"),
            KeySource::Environment(names) => f.debug_tuple("Environment").field(names).finish(),
            KeySource::Callback(_) => f.write_str("Callback(..)"),
        }
    }
}
