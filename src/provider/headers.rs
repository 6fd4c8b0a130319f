//! The headers of a request: who wins where several say something, and who the program says that it is.

use serde_json::{Map, Value};

use crate::{
    model::Model,
    secret::Secret,
    stream::{Attribution, StreamOptions, UserAgent},
};

/// Headers in order, with names that are equal in any case.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    list: Vec<(String, String)>,
}

impl Headers {
    /// Begins with what every request of a model says, lowest in precedence: content type, user agent, attribution.
    pub(crate) fn for_model(model: &Model, options: &StreamOptions) -> Headers {
        let mut headers = Headers::for_program(options);
        let identity = options.identity.as_ref();
        if let Some(attribution) = identity.and_then(|it| it.attribution.as_ref()) {
            headers.attribute(attribution, model);
        }
        headers
    }

    /// The same without the attribution, for a server that is no vendor.
    pub(crate) fn for_program(options: &StreamOptions) -> Headers {
        let mut headers = Headers::default();
        headers.set("content-type", "application/json");
        headers.set("accept", "text/event-stream");
        let identity = options.identity.as_ref();
        headers.set("user-agent", user_agent(identity.and_then(|it| it.user_agent.as_ref())));
        headers
    }

    /// Sets a header in place of one of the same name.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        match self.list.iter_mut().find(|(it, _)| it.eq_ignore_ascii_case(name)) {
            Some(header) => *header = (name.to_owned(), value),
            None => self.list.push((name.to_owned(), value)),
        }
    }

    /// Takes a header away.
    pub(crate) fn remove(&mut self, name: &str) {
        self.list.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
    }

    /// Sets `authorization` to the key, if there is one.
    pub(crate) fn authorize(&mut self, key: Option<&Secret>) {
        if let Some(key) = key.filter(|key| !key.is_empty()) {
            self.set("authorization", format!("Bearer {}", key.expose()));
        }
    }

    /// Sets the header `name` to the key, if there is one.
    pub(crate) fn set_key(&mut self, name: &str, key: Option<&Secret>) {
        if let Some(key) = key.filter(|key| !key.is_empty()) {
            self.set(name, key.expose());
        }
    }

    /// Applies the headers of the model's catalogue entry; null takes one away.
    pub(crate) fn apply_model(&mut self, headers: &Map<String, Value>) {
        for (name, value) in headers {
            match value {
                Value::String(value) => self.set(name, value),
                Value::Null => self.remove(name),
                _ => (),
            }
        }
    }

    /// Applies the headers of the request, which win over all others; `None` takes one away.
    pub(crate) fn apply(&mut self, headers: &[(String, Option<String>)]) {
        for (name, value) in headers {
            match value {
                Some(value) => self.set(name, value),
                None => self.remove(name),
            }
        }
    }

    pub(crate) fn into_list(self) -> Vec<(String, String)> {
        self.list
    }

    /// The list of a request whose body is JSON, whatever the headers of the request say of it.
    pub(crate) fn finish(mut self, request: &[(String, Option<String>)]) -> Vec<(String, String)> {
        self.apply(request);
        self.set("content-type", "application/json");
        self.list
    }

    /// Names the program to the vendors that list their traffic by program.
    fn attribute(&mut self, attribution: &Attribution, model: &Model) {
        let is_at = |providers: &[&str], host: &str| {
            providers.contains(&model.provider.as_str()) || has_host(&model.base_url, host)
        };
        if is_at(&["openrouter"], "openrouter.ai") {
            self.set("HTTP-Referer", &attribution.url);
            self.set("X-OpenRouter-Title", &attribution.name);
            if !attribution.categories.is_empty() {
                self.set("X-OpenRouter-Categories", attribution.categories.join(","));
            }
        } else if is_at(&["nvidia"], "integrate.api.nvidia.com") {
            self.set("X-BILLING-INVOKE-ORIGIN", capitalised(&attribution.name));
        } else if is_at(&["opencode", "opencode-go"], "opencode.ai") {
            self.set("x-opencode-client", &attribution.name);
        }
    }
}

/// Appends `path` to a base URL, before its query; the path may have one of its own.
pub(crate) fn endpoint(base_url: &str, path: &str) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    match base_url.split_once('?') {
        Some((base, query)) => format!("{}{path}{sign}{query}", base.trim_end_matches('/')),
        None => format!("{}{path}", base_url.trim_end_matches('/')),
    }
}

/// Whether a URL is at `host` or below it.
pub(crate) fn has_host(url: &str, host: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let name = authority.split(':').next().unwrap_or_default().to_ascii_lowercase();
    name == host || name.strip_suffix(host).is_some_and(|front| front.ends_with('.'))
}

fn user_agent(wanted: Option<&UserAgent>) -> String {
    const VERSION: &str = concat!("steerage/", env!("CARGO_PKG_VERSION"));
    match wanted {
        None => VERSION.to_owned(),
        Some(UserAgent::Detailed) => {
            format!("{VERSION} ({}; {})", std::env::consts::OS, std::env::consts::ARCH)
        }
        Some(UserAgent::Short) => "steerage".to_owned(),
        Some(UserAgent::Custom(text)) => text.clone(),
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
