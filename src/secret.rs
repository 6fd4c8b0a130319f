//! A key or token that never shows up in `Debug` output or text.

use std::{fmt, sync::Arc};

/// A key or token. `Debug` and `Display` show nothing of it; [`expose`](Secret::expose) gives it away.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Secret {
        Secret(Arc::from(key.into()))
    }

    /// The key itself, for the header that carries it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(key: &str) -> Secret {
        Secret::new(key)
    }
}

impl From<String> for Secret {
    fn from(key: String) -> Secret {
        Secret::new(key)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
