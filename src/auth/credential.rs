//! What a store holds.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value};

use crate::secret::Secret;

/// What opens a provider: a key, or a token that expires. Its `Debug` shows neither.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Credential {
    /// A key that stays the same.
    Key {
        /// The key; none where the variables are all there is.
        key: Option<Secret>,
        /// Variables that go with it, such as an account's id.
        env: Vec<(String, String)>,
    },
    /// A token of a login.
    Token(Token),
}

/// A token of a login, which expires and can be renewed.
#[derive(Clone, Default, PartialEq)]
pub struct Token {
    /// What is sent with requests.
    pub access: Secret,
    /// What a new token is asked for with. None: the token cannot be renewed.
    pub refresh: Option<Secret>,
    /// When it expires, in milliseconds since 1970. None: never.
    pub expires: Option<u64>,
    /// What else the login keeps with it.
    pub extra: Map<String, Value>,
}

impl Credential {
    /// Makes a credential of a key alone.
    pub fn key(key: impl Into<Secret>) -> Credential {
        Credential::Key { key: Some(key.into()), env: Vec::new() }
    }

    /// What is sent with requests: the key, or the token.
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Credential::Key { key, .. } => key.as_ref(),
            Credential::Token(token) => Some(&token.access),
        }
    }

    /// Writes it as JSON, **with the key in the clear**: for stores only.
    ///
    /// A key is `{"type": "api_key", "key": …, "env": {…}}`, a token is `{"type": "oauth", "access": …, "refresh": …,
    /// "expires": …}` and whatever else it keeps.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        match self {
            Credential::Key { key, env } => {
                set("type", "api_key".into());
                if let Some(key) = key {
                    set("key", key.expose().into());
                }
                if !env.is_empty() {
                    let pair =
                        |(name, value): &(String, String)| (name.clone(), value.as_str().into());
                    set("env", Value::Object(env.iter().map(pair).collect()));
                }
            }
            Credential::Token(token) => {
                set("type", "oauth".into());
                set("access", token.access.expose().into());
                if let Some(refresh) = &token.refresh {
                    set("refresh", refresh.expose().into());
                }
                if let Some(expires) = token.expires {
                    set("expires", expires.into());
                }
                for (name, value) in &token.extra {
                    fields.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        Value::Object(fields)
    }

    /// Reads what [`to_json`](Credential::to_json) wrote; `None` if it is of no kind that this version knows.
    pub fn from_json(value: &Value) -> Option<Credential> {
        let fields = value.as_object()?;
        let secret = |name: &str| fields.get(name).and_then(Value::as_str).map(Secret::from);
        match fields.get("type")?.as_str()? {
            "api_key" => {
                let env = fields.get("env").and_then(Value::as_object).into_iter().flatten();
                let pair = |(name, value): (&String, &Value)| {
                    Some((name.clone(), value.as_str()?.to_owned()))
                };
                Some(Credential::Key { key: secret("key"), env: env.filter_map(pair).collect() })
            }
            "oauth" => {
                let known = ["type", "access", "refresh", "expires"];
                let others = fields.iter().filter(|(name, _)| !known.contains(&name.as_str()));
                Some(Credential::Token(Token {
                    access: secret("access")?,
                    refresh: secret("refresh").filter(|it| !it.is_empty()),
                    expires: fields.get("expires").and_then(Value::as_u64),
                    extra: others.map(|(name, value)| (name.clone(), value.clone())).collect(),
                }))
            }
            _ => None,
        }
    }
}

impl Token {
    /// Whether it expires within `margin` from `now`.
    pub fn expires_within(&self, margin: Duration, now: SystemTime) -> bool {
        let Some(expires) = self.expires else { return false };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_millis(expires) <= now.saturating_add(margin)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("access", &self.access)
            .field("refresh", &self.refresh)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}
