//! A provider with the models that it has from all sources.

use std::sync::{Arc, OnceLock};

use crate::{
    catalogue,
    model::Model,
    models::{listing::Listed, provider::Provider},
};

/// A provider and its models. It is never changed, only replaced.
pub(super) struct Entry {
    pub(super) provider: Arc<Provider>,
    /// Whether the models of the catalogue belong to it.
    is_catalogued: bool,
    /// What the server said of its models.
    listed: Arc<[Listed]>,
    /// Put together when they are first asked for.
    models: OnceLock<Arc<[Arc<Model>]>>,
}

impl Entry {
    /// Makes an entry in place of one before.
    pub(super) fn new(provider: Provider, before: Option<&Entry>) -> Entry {
        Entry {
            provider: Arc::new(provider),
            is_catalogued: before.is_some_and(|it| it.is_catalogued),
            listed: before.map(|it| it.listed.clone()).unwrap_or_default(),
            models: OnceLock::new(),
        }
    }

    /// Makes the entry of a provider of the catalogue.
    pub(super) fn catalogued(provider: Provider) -> Entry {
        let (listed, models) = (Arc::default(), OnceLock::new());
        Entry { provider: Arc::new(provider), is_catalogued: true, listed, models }
    }

    /// Makes an entry like another one, with what the server said.
    pub(super) fn listing(other: &Entry, listed: Vec<Listed>) -> Entry {
        Entry {
            provider: other.provider.clone(),
            is_catalogued: other.is_catalogued,
            listed: listed.into(),
            models: OnceLock::new(),
        }
    }

    pub(super) fn models(&self) -> &[Arc<Model>] {
        self.models.get_or_init(|| self.put_together().into())
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Model>> {
        self.models().iter().find(|model| model.id == id).cloned()
    }

    /// A model of which only the id is known.
    pub(super) fn model_of(&self, id: &str) -> Model {
        self.complete(Model { api: String::new(), ..Model::openai_compatible(id, "") }, &[])
    }

    /// Where the server lists its models; `None` if there is no one address.
    pub(super) fn list_url(&self) -> Option<String> {
        let provider = &*self.provider;
        if !provider.base_url.is_empty() {
            return Some(provider.base_url.clone());
        }
        let models = self.models();
        let is_openai = |model: &Model| model.api.starts_with("openai-");
        let mut urls: Vec<_> = models.iter().filter(|it| is_openai(it)).collect();
        if urls.is_empty() {
            urls = models.iter().collect();
        }
        let first = &urls.first()?.base_url;
        let same = !first.is_empty() && urls.iter().all(|model| model.base_url == *first);
        same.then(|| first.clone())
    }

    /// The catalogue's models, what the server says of them and of others, and over that the provider's own.
    fn put_together(&self) -> Vec<Arc<Model>> {
        let provider = &*self.provider;
        let mut models =
            if self.is_catalogued { catalogue::models(&provider.id) } else { Vec::new() };
        if !provider.base_url.is_empty() {
            for model in &mut models {
                model.base_url.clone_from(&provider.base_url);
            }
        }
        let mut others = Vec::new();
        for listed in &*self.listed {
            if let Some(model) = models.iter_mut().find(|model| model.id == listed.id) {
                listed.lay_over(model);
                continue;
            }
            let mut model = Model::openai_compatible(&listed.id, "");
            model.api.clear();
            listed.lay_over(&mut model);
            let model = self.complete(model, &models);
            // Where the catalogue has several addresses, nobody knows which one is right.
            if !model.base_url.is_empty() {
                others.push(model);
            }
        }
        for own in &provider.models {
            let own = self.complete(own.clone(), &models);
            let mut known = models.iter_mut().chain(&mut others);
            match known.find(|model| model.id == own.id) {
                Some(model) => *model = own,
                None => others.push(own),
            }
        }
        models.into_iter().chain(others).map(|model| Arc::new(self.complete(model, &[]))).collect()
    }

    /// Fills in what the provider, or else nearly all of its siblings, say for a model that does not.
    fn complete(&self, mut model: Model, siblings: &[Model]) -> Model {
        let provider = &*self.provider;
        model.provider.clone_from(&provider.id);
        let (url, api) = usual(siblings).unwrap_or((&provider.base_url, &provider.api));
        if model.base_url.is_empty() {
            url.clone_into(&mut model.base_url);
        }
        if model.api.is_empty() {
            let api = if api.is_empty() { "openai-completions" } else { api };
            api.clone_into(&mut model.api);
        }
        if model.name.is_empty() {
            model.name.clone_from(&model.id);
        }
        for (name, value) in &provider.compat {
            model.compat.entry(name.clone()).or_insert_with(|| value.clone());
        }
        model
    }
}

/// The base URL and the API that nine of ten models have.
fn usual(models: &[Model]) -> Option<(&str, &str)> {
    let pair = |model: &'_ Model| (model.base_url.clone(), model.api.clone());
    let middle = models.get(models.len() / 2)?;
    let alike = models.iter().filter(|model| pair(model) == pair(middle)).count();
    (alike * 10 >= models.len() * 9).then_some((&middle.base_url, &middle.api))
}
