//! Keys and tokens: held so that they cannot be printed by accident, and taken out of texts that others wrote.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

/// Stands in a text where a key was.
const REMOVED: &str = "***";

/// A shorter "key" is a placeholder such as `none`, and taking it out would only garble the text.
const SHORTEST: usize = 6;

/// What goes by a name with one of these in it is a key.
const SECRET_WORDS: [&str; 6] = ["auth", "key", "token", "secret", "cookie", "password"];

/// A key or token whose `Debug` and `Display` show nothing.
///
/// # Examples
///
/// ```
/// use steerage::Secret;
///
/// let key = Secret::new("sk-12345678");
/// assert_eq!(key.expose(), "sk-12345678");
/// assert_eq!(format!("{key:?} {key}"), "Secret(..) ***");
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret {
    text: Arc<str>,
}

impl Secret {
    /// Makes a secret of `text`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret { text: text.into().into() }
    }

    /// Returns the text itself, to send it where it belongs.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Tells whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// Takes every secret out of `text`, also where it stands percent-encoded.
///
/// Secrets of fewer than six bytes stay: they are placeholders such as `none`.
pub fn scrub<'a>(text: &str, secrets: impl IntoIterator<Item = &'a Secret>) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        let plain = secret.expose();
        if plain.len() < SHORTEST {
            continue;
        }
        text = replace(text, plain);
        let encoded = percent_encoded(plain);
        if encoded != plain {
            text = replace(text, &encoded);
        }
    }
    text
}

/// Whether what goes by this name is a key, whoever set it: `authorization`, `x-api-key`, `cookie`.
pub(crate) fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Named values whose `Debug` shows all but those that sound like a key.
pub(crate) struct Shown<'a, V>(Vec<(&'a str, V)>);

/// Takes named values to be shown.
pub(crate) fn shown<'a, V>(fields: impl IntoIterator<Item = (&'a String, V)>) -> Shown<'a, V> {
    Shown(fields.into_iter().map(|(name, value)| (name.as_str(), value)).collect())
}

/// Returns a URL as it may be shown.
pub(crate) fn without_query(url: &str) -> &str {
    let url = url.split('?').next().unwrap_or_default();
    // Everything before an @ may be a password.
    if url.contains('@') { "(hidden)" } else { url }
}

fn replace(text: String, secret: &str) -> String {
    if text.contains(secret) { text.replace(secret, REMOVED) } else { text }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl<V: fmt::Debug> fmt::Debug for Shown<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, value) in &self.0 {
            if sounds_secret(name) {
                map.entry(name, &REMOVED);
            } else {
                map.entry(name, value);
            }
        }
        map.finish()
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REMOVED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, secret: &str, expected: &str) {
        assert_eq!(scrub(text, &[Secret::new(secret)]), expected);
    }

    #[test]
    fn a_key_is_taken_out_of_a_text_wherever_it_stands() {
        check("no key sk-abc123, sorry sk-abc123", "sk-abc123", "no key ***, sorry ***");
    }

    #[test]
    fn a_percent_encoded_key_is_taken_out_too() {
        check("GET /?key=a%2Bb%3Dcdef", "a+b=cdef", "GET /?key=***");
    }

    #[test]
    fn a_placeholder_is_no_key() {
        check("none of the models", "none", "none of the models");
    }
}
