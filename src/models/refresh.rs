//! Asks a server for its models.

use std::{fmt::Write as _, sync::Arc};

use serde_json::{Value, json};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    http::{HttpRequest, Retries, RetryPolicy},
    model::Model,
    models::{
        Models,
        entry::Entry,
        keys,
        listing::{self, Listed, Listing},
        provider::{KeySource, Provider},
    },
    provider::{failure, headers::endpoint},
    stream::StreamOptions,
};

/// So many pages are read; no vendor has so many models.
const MOST_PAGES: usize = 50;

impl Models {
    /// Asks the server of a provider which models it has, lays what it says over what is known, and returns those models.
    ///
    /// It blocks until the answer is there or the signal fires; run it on a thread of its own where that matters. What the
    /// server does not say (most vendors only give ids) stays as the catalogue has it, or has its default. Models of the
    /// catalogue that the server does not list stay; those of an earlier list that it no longer lists go. After a failure
    /// everything is as it was.
    ///
    /// [`Provider::listing`] says how the server is asked.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use steerage::{AbortSignal, Models, models::Provider};
    ///
    /// let models = Models::from_env();
    /// models.add(Provider::ollama("localhost:11434"));
    /// for model in models.refresh("ollama", &AbortSignal::never())? {
    ///     println!("{} takes {} tokens", model.id, model.context_window);
    /// }
    /// # Ok::<(), steerage::Error>(())
    /// ```
    pub fn refresh(&self, provider: &str, signal: &AbortSignal) -> Result<Vec<Arc<Model>>> {
        let entry = self.entry(provider)?;
        let listed = Asked::new(self, &entry, signal)?.list()?;
        let ids: Vec<_> = listed.iter().map(|it| it.id.clone()).collect();
        self.put(provider, |before| match before {
            Some(before) => Entry::listing(before, listed),
            // Taken out meanwhile: what it listed is still the answer, but belongs to nobody.
            None => Entry::listing(&entry, listed),
        });
        let entry = self.entry(provider)?;
        Ok(ids.iter().filter_map(|id| entry.find(id)).collect())
    }
}

/// What stays the same while one server is asked.
struct Asked<'a> {
    models: &'a Models,
    provider: &'a Provider,
    listing: Listing,
    base_url: String,
    headers: Vec<(String, String)>,
    signal: &'a AbortSignal,
}

impl<'a> Asked<'a> {
    fn new(models: &'a Models, entry: &'a Entry, signal: &'a AbortSignal) -> Result<Asked<'a>> {
        let provider = &*entry.provider;
        let listing = provider.listing;
        let base_url =
            entry.list_url().filter(|_| listing != Listing::Unlisted).ok_or_else(|| {
                let message = format!("the provider `{}` does not list its models", provider.id);
                Error::new(ErrorKind::Configuration, message)
            })?;
        let mut options = StreamOptions::default();
        let found = models.key(provider, &options, signal)?;
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        match found.filter(|found| !found.key.is_empty()) {
            Some(found) => {
                options.env = found.env;
                let (name, value) = key_header(listing, found.header, found.key.expose());
                headers.push((name, value));
            }
            None if needs_key(provider) => return Err(keys::missing(provider)),
            None => (),
        }
        if listing == Listing::Anthropic {
            headers.push(("anthropic-version".to_owned(), "2023-06-01".to_owned()));
        }
        for (name, value) in &provider.headers {
            headers.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
            headers.extend(value.iter().map(|value| (name.clone(), value.clone())));
        }
        let base_url = models.filled(&provider.id, &base_url, &options.env)?;
        Ok(Asked { models, provider, listing, base_url, headers, signal })
    }

    fn list(&self) -> Result<Vec<Listed>> {
        let mut models = self.pages()?;
        match self.listing {
            Listing::Ollama => {
                let mut shown = Vec::new();
                for mut model in models {
                    if self.show(&mut model)? {
                        shown.push(model);
                    }
                }
                return Ok(shown);
            }
            Listing::LlamaCpp => {
                if let Some(props) = self.aside(HttpRequest::get(self.at("/props")))? {
                    listing::props(&mut models, &props);
                }
            }
            _ => (),
        }
        Ok(models)
    }

    fn pages(&self) -> Result<Vec<Listed>> {
        let url = self.list_url();
        let mut page = self.get(HttpRequest::get(&url))?;
        let mut models = listing::read(self.listing, &page);
        for _ in 0..MOST_PAGES {
            let Some((name, value)) = listing::next_page(self.listing, &page) else { break };
            let separator = if url.contains('?') { '&' } else { '?' };
            let next = format!("{url}{separator}{name}={}", escaped(value));
            page = self.get(HttpRequest::get(next))?;
            models.extend(listing::read(self.listing, &page));
        }
        if models.is_empty() && !is_list(&page) {
            let message = format!(
                "the server of `{}` gave no list of models at {url}: set Provider::listing to the form that it has",
                self.provider.id
            );
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        Ok(models)
    }

    fn list_url(&self) -> String {
        match self.listing {
            Listing::Ollama => self.at("/api/tags"),
            Listing::Anthropic => endpoint(&self.base_url, "/v1/models?limit=1000"),
            Listing::Gemini => endpoint(&self.base_url, "/models?pageSize=1000"),
            _ if path(&self.base_url).is_empty() => endpoint(&self.base_url, "/v1/models"),
            _ => endpoint(&self.base_url, "/models"),
        }
    }

    /// A path of the server itself: the API that others have is at `/v1` of it.
    fn at(&self, path: &str) -> String {
        let base = self.base_url.trim_end_matches('/');
        endpoint(base.strip_suffix("/v1").unwrap_or(base), path)
    }

    /// Asks Ollama for more about a model; tells whether the model can chat.
    fn show(&self, model: &mut Listed) -> Result<bool> {
        let body = json!({ "model": model.id }).to_string();
        let request = HttpRequest::post(self.at("/api/show"), body)
            .header("content-type", "application/json");
        Ok(self.aside(request)?.is_none_or(|shown| listing::show(model, &shown)))
    }

    /// Asks for what is not needed: only an abort is an error.
    fn aside(&self, request: HttpRequest) -> Result<Option<Value>> {
        match self.get(request) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.kind() == ErrorKind::Aborted => Err(error),
            Err(error) => {
                tracing::debug!(provider = self.provider.id, %error, "the server tells no more of its models");
                Ok(None)
            }
        }
    }

    fn get(&self, mut request: HttpRequest) -> Result<Value> {
        request.headers.extend(self.headers.iter().cloned());
        let options = &self.models.inner.options;
        let retries = Retries {
            policy: &RetryPolicy::default(),
            clock: &*options.clock,
            hint: Some(&failure::pause_in),
        };
        let url = request.url.clone();
        let mut response = options.client.send_with_retries(&request, &retries, self.signal)?;
        if !response.is_success() {
            let now = options.clock.now();
            let asked = Model {
                provider: self.provider.id.clone(),
                api: self.provider.api.clone(),
                base_url: self.provider.base_url.clone(),
                ..Model::default()
            };
            let has_key = !request.secrets().is_empty();
            return Err(failure::of_response(&mut response, &asked, has_key, now)?);
        }
        let body = response.read_to_limit(options.client.options().max_body_bytes)?;
        serde_json::from_slice(&body).map_err(|error| {
            let message = format!("what {url} gave is no JSON: {error}");
            Error::new(ErrorKind::Protocol, message)
        })
    }
}

fn is_list(page: &Value) -> bool {
    let list = page.get("data").or_else(|| page.get("models")).unwrap_or(page);
    // Gemini leaves an empty list out, Ollama may say null.
    list.is_array() || list.is_null() || page.as_object().is_some_and(serde_json::Map::is_empty)
}

fn needs_key(provider: &Provider) -> bool {
    let open = provider.listing == Listing::OpenRouter || matches!(provider.key, KeySource::None);
    !open && !keys::has_key_header(&provider.headers)
}

/// The header that carries the key.
fn key_header(listing: Listing, header: Option<String>, key: &str) -> (String, String) {
    match (header, listing) {
        (Some(header), _) => (header, format!("Bearer {key}")),
        (None, Listing::Anthropic) => ("x-api-key".to_owned(), key.to_owned()),
        (None, Listing::Gemini) => ("x-goog-api-key".to_owned(), key.to_owned()),
        (None, _) => ("authorization".to_owned(), format!("Bearer {key}")),
    }
}

/// The path of a URL without the slash at its end.
fn path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("", |start| rest[start..].trim_end_matches('/'))
}

/// A value as a query holds it.
fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}
