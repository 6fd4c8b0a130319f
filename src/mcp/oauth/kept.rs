//! What is kept of a sign-in: a token in a [`CredentialStore`](crate::auth::CredentialStore), with the client beside it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::discovery::text;
use crate::{
    auth::{Credential, Token},
    secret::Secret,
};

/// A client that an authorization server knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Registered {
    pub(crate) id: String,
    pub(crate) secret: Option<Secret>,
    /// How it shows who it is, if the server has said so.
    pub(crate) auth_method: Option<String>,
    /// The address that it was registered with; a sign-in with another one needs another client.
    pub(crate) redirect_url: Option<String>,
}

/// What is kept for one server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Kept {
    pub(crate) access: Secret,
    pub(crate) refresh: Option<Secret>,
    pub(crate) expires: Option<u64>,
    pub(crate) scope: Option<String>,
    pub(crate) issuer: String,
    pub(crate) token_endpoint: String,
    pub(crate) auth_methods: Vec<String>,
    pub(crate) resource: Option<String>,
    pub(crate) client: Option<Registered>,
}

impl Kept {
    /// Reads what [`into_credential`](Kept::into_credential) wrote for this server; what is for another one is as good as
    /// nothing.
    pub(crate) fn from_credential(credential: Option<Credential>, server: &str) -> Kept {
        let Some(Credential::Token(token)) = credential else { return Kept::default() };
        let Some(record) = token.extra.get("mcp") else { return Kept::default() };
        if text(record, "server").as_deref() != Some(server) {
            return Kept::default();
        }
        let client = record.get("client").and_then(|client| {
            Some(Registered {
                id: text(client, "id")?,
                secret: text(client, "secret").map(Secret::new),
                auth_method: text(client, "authMethod"),
                redirect_url: text(client, "redirectUrl"),
            })
        });
        let methods = record.get("authMethods").and_then(Value::as_array).into_iter().flatten();
        Kept {
            access: token.access,
            refresh: token.refresh,
            expires: token.expires,
            scope: text(record, "scope"),
            issuer: text(record, "issuer").unwrap_or_default(),
            token_endpoint: text(record, "tokenEndpoint").unwrap_or_default(),
            auth_methods: methods.filter_map(Value::as_str).map(str::to_owned).collect(),
            resource: text(record, "resource"),
            client,
        }
    }

    pub(crate) fn into_credential(self, server: &str) -> Credential {
        let mut record = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                record.insert(name.to_owned(), value);
            }
        };
        set("server", Some(json!(server)));
        set("issuer", Some(json!(self.issuer)));
        set("tokenEndpoint", Some(json!(self.token_endpoint)));
        set("authMethods", Some(json!(self.auth_methods)));
        set("scope", self.scope.map(Value::String));
        set("resource", self.resource.map(Value::String));
        set(
            "client",
            self.client.map(|client| {
                json!({
                    "id": client.id,
                    "secret": client.secret.as_ref().map(Secret::expose),
                    "authMethod": client.auth_method,
                    "redirectUrl": client.redirect_url,
                })
            }),
        );
        let extra = Map::from_iter([("mcp".to_owned(), Value::Object(record))]);
        let Kept { access, refresh, expires, .. } = self;
        Credential::Token(Token { access, refresh, expires, extra })
    }

    pub(crate) fn token(&self) -> Option<&Secret> {
        Some(&self.access).filter(|token| !token.is_empty())
    }

    /// Whether the token expires so soon that it is better renewed first.
    pub(crate) fn is_old(&self, now: SystemTime) -> bool {
        const MARGIN: Duration = Duration::from_secs(30);
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.expires.is_some_and(|expires| Duration::from_millis(expires) <= now + MARGIN)
    }

    pub(crate) fn drop_tokens(&mut self) {
        (self.access, self.refresh, self.expires) = (Secret::default(), None, None);
    }
}
