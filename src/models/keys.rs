//! Finds the key of a request.

use crate::{
    abort::AbortSignal,
    auth::{Credential, Token},
    error::{Error, ErrorKind, Result},
    models::{
        KeyFn, Models, known,
        provider::{KeySource, Provider},
    },
    secret::Secret,
    stream::StreamOptions,
    thread,
};

/// Headers that carry a key: a request that has one needs no other.
const KEY_HEADERS: [&str; 5] =
    ["authorization", "x-api-key", "api-key", "x-goog-api-key", "cf-aig-authorization"];

/// A key, which may be empty, and how it is sent.
pub(super) struct Found {
    pub(super) key: Secret,
    /// The header that carries it as a bearer token; the API's own way if there is none.
    pub(super) header: Option<String>,
    /// Variables that go with it.
    pub(super) env: Vec<(String, String)>,
}

impl Models {
    /// The key for a request to `provider`; none if the server needs none.
    pub(super) fn key(
        &self,
        provider: &Provider,
        options: &StreamOptions,
        signal: &AbortSignal,
    ) -> Result<Option<Found>> {
        let header = provider.key_header.clone();
        let found = |key: Secret| Some(Found { key, header: header.clone(), env: Vec::new() });
        if let Some(key) = options.api_key.as_ref().filter(|key| !key.is_empty()) {
            return Ok(found(key.clone()));
        }
        if let Some(ask) = &self.inner.options.key
            && let Some(key) = asked(ask, &provider.id, signal)?
        {
            return Ok(found(key));
        }
        if let Some(credentials) = &self.inner.options.credentials
            && let Some(credential) = credentials.get(&provider.id, signal)?
        {
            return Ok(Some(stored(credential, header)));
        }
        match &provider.key {
            KeySource::None => Ok(None),
            KeySource::Value(key) => Ok(found(key.clone())),
            KeySource::Callback(ask) => Ok(asked(ask, &provider.id, signal)?.and_then(found)),
            KeySource::Environment(names) => {
                let set = names.iter().find_map(|name| {
                    Some((name, self.inner.options.environment.get(name, &options.env)?))
                });
                Ok(set.map(|(name, value)| {
                    let header = match name.as_str() {
                        known::ANTHROPIC_TOKEN => Some("authorization".to_owned()),
                        _ => header.clone(),
                    };
                    Found { key: Secret::new(value.trim()), header, env: Vec::new() }
                }))
            }
        }
    }

    pub(super) fn has_key(&self, provider: &Provider) -> bool {
        let needs_none = matches!(provider.key, KeySource::None) || provider.stream.is_some();
        let found = || self.key(provider, &StreamOptions::default(), &AbortSignal::never());
        needs_none
            || has_key_header(&provider.headers)
            || found().is_ok_and(|it| it.is_some_and(|it| !it.key.is_empty()))
    }
}

/// A key that was stored is sent as the API has it; a token is always a bearer token.
fn stored(credential: Credential, header: Option<String>) -> Found {
    match credential {
        Credential::Key { key, env } => Found { key: key.unwrap_or_default(), header, env },
        Credential::Token(Token { access: key, .. }) => {
            let header = header.or_else(|| Some("authorization".to_owned()));
            Found { key, header, env: Vec::new() }
        }
    }
}

/// Whether the headers carry a key themselves.
pub(super) fn has_key_header(headers: &[(String, Option<String>)]) -> bool {
    headers.iter().any(|(name, value)| value.is_some() && is_key_header(name))
}

pub(super) fn is_key_header(name: &str) -> bool {
    KEY_HEADERS.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// What to do about a key that is missing.
pub(super) fn missing(provider: &Provider) -> Error {
    let id = &provider.id;
    let advice = match &provider.key {
        KeySource::Environment(names) => match names.split_last() {
            Some((usual, [])) => format!("set {usual}, or StreamOptions::api_key"),
            Some((usual, others)) => {
                format!("set {usual} (or {}), or StreamOptions::api_key", others.join(", "))
            }
            None => "set StreamOptions::api_key".to_owned(),
        },
        _ => "set StreamOptions::api_key, or Provider::key to where it comes from".to_owned(),
    };
    Error::new(ErrorKind::Auth, format!("there is no key for the provider `{id}`: {advice}"))
}

fn asked(ask: &KeyFn, provider: &str, signal: &AbortSignal) -> Result<Option<Secret>> {
    let key = thread::catch(|| ask(provider, signal)).map_err(|panic| {
        let message = format!("the callback for the key of `{provider}` panicked: {panic}");
        Error::new(ErrorKind::Callback, message)
    })??;
    Ok(key.filter(|key| !key.is_empty()))
}
