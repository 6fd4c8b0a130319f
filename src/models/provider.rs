//! What is known of a provider.

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    abort::AbortSignal,
    error::Result,
    model::Model,
    models::KeyFn,
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
            stream: None,
        }
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
