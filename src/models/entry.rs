//! A provider with the models that it has from all sources.

use std::sync::{Arc, OnceLock};

use crate::{catalogue, model::Model, models::provider::Provider};

/// A provider and its models. It is never changed, only replaced.
pub(super) struct Entry {
    pub(super) provider: Arc<Provider>,
    /// Whether the models of the catalogue belong to it.
    is_catalogued: bool,
    /// Put together when they are first asked for.
    models: OnceLock<Arc<[Arc<Model>]>>,
}

impl Entry {
    /// Makes an entry in place of one before.
    pub(super) fn new(provider: Provider, before: Option<&Entry>) -> Entry {
        let is_catalogued = before.is_some_and(|it| it.is_catalogued);
        Entry { provider: Arc::new(provider), is_catalogued, models: OnceLock::new() }
    }

    /// Makes the entry of a provider of the catalogue.
    pub(super) fn catalogued(provider: Provider) -> Entry {
        Entry { provider: Arc::new(provider), is_catalogued: true, models: OnceLock::new() }
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

    /// The catalogue's models, each in its place unless the provider has one of that id, and the provider's others.
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
        for own in &provider.models {
            let own = self.complete(own.clone(), &models);
            match models.iter_mut().find(|model| model.id == own.id) {
                Some(model) => *model = own,
                None => others.push(own),
            }
        }
        models.into_iter().chain(others).map(|model| Arc::new(self.complete(model, &[]))).collect()
    }

    /// Fills in what the provider, or else all of its siblings, say for a model that does not.
    fn complete(&self, mut model: Model, siblings: &[Model]) -> Model {
        let provider = &*self.provider;
        model.provider.clone_from(&provider.id);
        if model.base_url.is_empty() {
            let url = in_common(siblings, |it| &it.base_url);
            url.unwrap_or(&provider.base_url).clone_into(&mut model.base_url);
        }
        if model.api.is_empty() {
            let api = in_common(siblings, |it| &it.api).unwrap_or(&provider.api);
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

fn in_common<'a>(models: &'a [Model], field: impl Fn(&Model) -> &str) -> Option<&'a str> {
    let first: &'a str = field(models.first()?);
    models.iter().all(|it| field(it) == first).then_some(first)
}
