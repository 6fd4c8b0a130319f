//! Which model is asked, and how it is reached.

use std::{env, sync::Arc};

use steerage::{
    Builtin, Error, ErrorKind, Model, Models, Secret, StreamFn, ThinkingLevel,
    models::{KeySource, Provider},
};

use crate::arguments::Arguments;

/// What is asked if nothing is said, by provider.
const USUAL_MODELS: &[(&str, &str)] = &[
    ("builtin", "builtin-1"),
    ("server", "default"),
    ("anthropic", "claude-sonnet-4-6"),
    ("openai", "gpt-5-mini"),
    ("openrouter", "auto"),
];

/// The providers that the chat knows: those of the catalogue, with keys from the environment, and a few of its own.
pub(crate) struct Connection {
    models: Models,
}

impl Connection {
    /// Takes what the command line says of servers.
    pub(crate) fn new(arguments: &Arguments) -> Result<Connection, Error> {
        let models = Models::from_env();
        models.add(Provider {
            models: vec![Builtin::model()],
            stream: Some(Builtin::new().into()),
            ..Provider::new("builtin", "")
        });
        models.add(Provider::new("ollama", "http://localhost:11434/v1"));
        models.add(Provider::new("lmstudio", "http://localhost:1234/v1"));
        match (&arguments.base_url, &arguments.provider) {
            (Some(base_url), None) => {
                let key = openai_key().map_or(KeySource::None, KeySource::Value);
                models.add(Provider { key, ..Provider::new("server", base_url) });
            }
            (Some(base_url), Some(provider)) => {
                let provider = models.provider(provider)?;
                models.add(Provider { base_url: base_url.clone(), ..provider });
            }
            (None, _) => (),
        }
        Ok(Connection { models })
    }

    pub(crate) fn stream(&self) -> Arc<dyn StreamFn> {
        self.models.clone().into()
    }

    /// The model that the command line asks for.
    pub(crate) fn first_model(&self, arguments: &Arguments) -> Result<Arc<Model>, Error> {
        let named = arguments.provider.as_deref();
        let server = || arguments.base_url.as_ref().map(|_| "server");
        let vendor = || (openai_key().is_some() || arguments.model.is_some()).then_some("openai");
        let provider = named.or_else(server).or_else(vendor).unwrap_or("builtin");
        match &arguments.model {
            Some(id) => self.model(id, provider),
            None => self.usual_model(provider),
        }
    }

    /// The model of a name such as `anthropic/claude-sonnet-4-6`; without a provider it is one of `provider`.
    pub(crate) fn model(&self, name: &str, provider: &str) -> Result<Arc<Model>, Error> {
        // Names of models may have slashes themselves.
        let is_known = self.models.models(provider).iter().any(|model| model.id == name);
        match name.split_once('/') {
            Some((other, id)) if !is_known && self.models.provider(other).is_ok() => {
                self.models.get(other, id)
            }
            _ => self.models.get(provider, name),
        }
    }

    /// A model that is asked to think although nobody has said that it can: then it is tried.
    pub(crate) fn thinking(&self, model: Arc<Model>, level: ThinkingLevel) -> Arc<Model> {
        let is_listed = self.models.models(&model.provider).iter().any(|it| it.id == model.id);
        if is_listed || model.reasoning || level == ThinkingLevel::Off {
            return model;
        }
        Arc::new(Model { reasoning: true, ..(*model).clone() })
    }

    /// The providers, or the models of one.
    pub(crate) fn list(&self, provider: Option<&str>) -> Result<String, Error> {
        let Some(provider) = provider else {
            let available = self.models.available();
            let mut others = self.models.providers();
            others.retain(|id| !available.contains(id));
            let (available, others) = (available.join(", "), others.join(", "));
            return Ok(format!("can be asked now: {available}\nneed a key: {others}"));
        };
        self.models.provider(provider)?;
        let ids: Vec<String> =
            self.models.models(provider).iter().map(|model| model.id.clone()).collect();
        Ok(if ids.is_empty() { "any that the server has".to_owned() } else { ids.join("\n") })
    }

    fn usual_model(&self, provider: &str) -> Result<Arc<Model>, Error> {
        self.models.provider(provider)?;
        match USUAL_MODELS.iter().find(|(id, _)| *id == provider) {
            Some((_, id)) => self.model(id, provider),
            None => {
                let first = self.models.models(provider).first().map(|it| it.id.clone());
                let example = first.map(|id| format!(", for example {id}")).unwrap_or_default();
                let text = format!("say which model of {provider} with --model{example}");
                Err(Error::new(ErrorKind::Configuration, text))
            }
        }
    }
}

fn openai_key() -> Option<Secret> {
    let key = env::var("OPENAI_API_KEY").ok()?;
    Some(key.trim()).filter(|key| !key.is_empty()).map(Secret::new)
}
