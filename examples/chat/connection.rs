//! Which model is asked, and how it is reached.

use std::{env, sync::Arc};

use steerage::{
    Builtin, Model, Secret, StreamFn, catalogue,
    provider::{ProviderOptions, openai_completions::OpenAiCompletions},
};

use crate::arguments::Arguments;

const OPENAI: &str = "https://api.openai.com/v1";
const OPENAI_MODEL: &str = "gpt-5-mini";

/// Where the models are.
pub(crate) struct Connection {
    /// The server; none for the model that is part of the crate.
    base_url: Option<String>,
    key: Option<Secret>,
    model: Option<String>,
}

impl Connection {
    pub(crate) fn new(arguments: &Arguments) -> Connection {
        let key = env::var("OPENAI_API_KEY").ok().filter(|key| !key.is_empty()).map(Secret::new);
        let wants_openai = key.is_some() || arguments.model.is_some();
        let base_url =
            arguments.base_url.clone().or_else(|| wants_openai.then(|| OPENAI.to_owned()));
        Connection { base_url, key, model: arguments.model.clone() }
    }

    pub(crate) fn first_model(&self) -> Model {
        let usual = if self.is_openai() { OPENAI_MODEL } else { "default" };
        self.model(self.model.as_deref().unwrap_or(usual))
    }

    /// The model of this id, as far as it is known.
    pub(crate) fn model(&self, id: &str) -> Model {
        let Some(base_url) = &self.base_url else { return Builtin::model() };
        let plain = Model::openai_compatible(id, base_url);
        let known = || catalogue::models("openai").into_iter().find(|model| model.id == id);
        match known().filter(|_| self.is_openai()) {
            Some(known) => Model { api: plain.api, ..known },
            None => plain,
        }
    }

    pub(crate) fn stream(&self) -> Arc<dyn StreamFn> {
        if self.base_url.is_none() {
            return Builtin::new().into();
        }
        let options = ProviderOptions { api_key: self.key.clone(), ..ProviderOptions::default() };
        Arc::new(OpenAiCompletions::new(options))
    }

    fn is_openai(&self) -> bool {
        self.base_url.as_deref() == Some(OPENAI)
    }
}
