//! Keys and tokens: held so that they cannot be printed by accident, and taken out of texts that others wrote.

use std::{fmt, str, sync::Arc};

use serde_json::{Map, Value};

/// Stands in a text where a key was.
pub(crate) const REMOVED: &str = "***";

/// A shorter "key" is a placeholder such as `none`, and taking it out would only garble the text.
pub(crate) const SHORTEST: usize = 6;

/// What goes by a name with one of these in it is a key.
const SECRET_WORDS: [&str; 7] =
    ["auth", "key", "token", "secret", "cookie", "password", "credential"];

/// So many bytes of a longer secret are taken out also where its end is missing, if they are half of it at least.
const TELLING_PART: usize = 12;

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

/// Takes every secret out of `text`, also where it stands percent-encoded or in the escapes of JSON, and also if only a
/// good part of it is left because the text was cut there.
///
/// Secrets of fewer than six bytes stay: they are placeholders such as `none`.
pub fn scrub<'a>(text: &str, secrets: impl IntoIterator<Item = &'a Secret>) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        let plain = secret.expose().as_bytes();
        if plain.len() >= SHORTEST
            && let Some(clean) = without(&text, plain)
        {
            text = clean;
        }
    }
    text
}

/// Takes every secret out of the texts in JSON, the names of fields left aside.
pub(crate) fn scrub_json(value: &mut Value, secrets: &[Secret]) {
    match value {
        Value::String(text) => *text = scrub(text, secrets),
        Value::Array(items) => items.iter_mut().for_each(|it| scrub_json(it, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|it| scrub_json(it, secrets)),
        _ => (),
    }
}

/// The text without a secret; `None` if it holds none.
fn without(text: &str, secret: &[u8]) -> Option<String> {
    let mut clean = String::new();
    let (mut kept, mut place) = (0, 0);
    while place < text.len() {
        match shown_length(&text.as_bytes()[place..], secret) {
            Some(length) => {
                clean.push_str(text.get(kept..place).unwrap_or_default());
                clean.push_str(REMOVED);
                place = text.ceil_char_boundary(place + length);
                kept = place;
            }
            None => place += 1,
        }
    }
    (kept > 0).then(|| clean + text.get(kept..).unwrap_or_default())
}

/// How many bytes of the beginning of `text` show the secret, or as much of it that the rest could be guessed.
fn shown_length(text: &[u8], secret: &[u8]) -> Option<usize> {
    let (length, matched) = common(text, secret);
    shows(matched, secret).then_some(length)
}

/// Whether so many bytes of a secret are all of it, or so much that the rest could be guessed.
pub(crate) fn shows(matched: usize, secret: &[u8]) -> bool {
    let is_part = matched >= TELLING_PART && matched * 2 >= secret.len();
    matched == secret.len() || is_part
}

/// How many bytes of the beginning of `text` are the beginning of the secret, and how many bytes of that they are.
pub(crate) fn common(text: &[u8], secret: &[u8]) -> (usize, usize) {
    let (mut length, mut matched) = (0, 0);
    while let Some(wanted) = secret.get(matched) {
        let Some(step) = step(&text[length..], *wanted) else { break };
        length += step;
        matched += 1;
    }
    (length, matched)
}

/// How many bytes stand for `wanted` at the beginning of `text`: itself, `%2F`, `\\/` or `\\u002f`.
fn step(text: &[u8], wanted: u8) -> Option<usize> {
    let is_hex = |digits: &[u8]| {
        let digits = str::from_utf8(digits).ok();
        digits.is_some_and(|it| u8::from_str_radix(it, 16) == Ok(wanted))
    };
    match text {
        [b'%', high, low, ..] if is_hex(&[*high, *low]) => Some(3),
        [b'\\', b'u', b'0', b'0', high, low, ..] if is_hex(&[*high, *low]) => Some(6),
        [b'\\', escaped, ..] if *escaped == wanted => Some(2),
        [plain, ..] if *plain == wanted => Some(1),
        _ => None,
    }
}

/// The secrets in a URL: the name and the password before the host, and what the query gives a name to that sounds like
/// a key; each as it stands there, and decoded.
pub(crate) fn secrets_of_url(url: &str) -> Vec<Secret> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user).split(':');
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let query = query.split(['&', '#']).filter_map(|pair| pair.split_once('='));
    let query = query.filter(|(name, _)| sounds_secret(name) || name.starts_with("sig"));
    let encoded = user.chain(query.map(|(_, value)| value)).filter(|it| !it.is_empty());
    let both = encoded.flat_map(|it| [Some(it.to_owned()), percent_decoded(it)]);
    both.flatten().map(Secret::new).collect()
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|it| str::from_utf8(it).ok());
        let decoded = hex.and_then(|it| u8::from_str_radix(it, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).ok().filter(|decoded| decoded != text)
}

/// Whether what goes by this name is a key, whoever set it: `authorization`, `x-api-key`, `cookie`.
pub(crate) fn sounds_secret(name: &str) -> bool {
    let name = name.as_bytes();
    let begins = |place: usize, word: &str| {
        let part = name.get(place..place + word.len());
        part.is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    // Each header of each request is asked: most letters begin none of the words.
    let may_begin =
        |it: &u8| matches!(it.to_ascii_lowercase(), b'a' | b'c' | b'k' | b'p' | b's' | b't');
    let mut places = name.iter().enumerate().filter(|(_, it)| may_begin(it));
    places.any(|(place, _)| SECRET_WORDS.iter().any(|word| begins(place, word)))
}

/// Named values whose `Debug` shows all but those that sound like a key.
pub(crate) struct Shown<'a, V>(Vec<(&'a str, V)>);

/// Takes named values to be shown.
pub(crate) fn shown<'a, V>(fields: impl IntoIterator<Item = (&'a String, V)>) -> Shown<'a, V> {
    Shown(fields.into_iter().map(|(name, value)| (name.as_str(), value)).collect())
}

/// JSON whose `Debug` hides the texts under names that sound like a key.
#[derive(Clone, Copy)]
pub(crate) struct ShownJson<'a> {
    value: &'a Value,
    is_secret: bool,
}

/// Takes JSON to be shown.
pub(crate) fn shown_value(value: &Value) -> ShownJson<'_> {
    ShownJson { value, is_secret: false }
}

/// Takes fields of JSON to be shown.
pub(crate) fn shown_json(fields: &Map<String, Value>) -> impl fmt::Debug {
    fmt::from_fn(move |f| entries(f, fields, false))
}

/// Returns a URL as it may be shown.
pub(crate) fn without_query(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    // Everything before an @ may be a password.
    if url.contains('@') { "(hidden)" } else { url }
}

fn entries(
    f: &mut fmt::Formatter<'_>,
    fields: &Map<String, Value>,
    is_secret: bool,
) -> fmt::Result {
    let mut map = f.debug_map();
    for (name, value) in fields {
        map.entry(name, &ShownJson { value, is_secret: is_secret || sounds_secret(name) });
    }
    map.finish()
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

impl fmt::Debug for ShownJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShownJson { value, is_secret } = *self;
        match value {
            Value::Object(fields) => entries(f, fields, is_secret),
            Value::Array(items) => f
                .debug_list()
                .entries(items.iter().map(|value| ShownJson { value, is_secret }))
                .finish(),
            Value::String(text) if is_secret && text.len() >= SHORTEST => f.write_str(REMOVED),
            plain => fmt::Display::fmt(plain, f),
        }
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
    fn a_key_in_escapes_of_json_is_taken_out_too() {
        check(r#"{"error": "key ab\/cd\u002bef"}"#, "ab/cd+ef", r#"{"error": "key ***"}"#);
        check(r"x ab\\cdef", r"ab\cdef", "x ***");
    }

    #[test]
    fn a_key_that_was_cut_is_taken_out_if_half_of_it_is_there() {
        check("key sk-0123456789", "sk-0123456789abcdef", "key ***");
        check("key sk-0123456789 (9 more)", "sk-0123456789abcdef", "key *** (9 more)");
        check("key sk-01234", "sk-0123456789abcdef", "key sk-01234");
        check("key sk-schlüs", "sk-schlüssel-é", "key sk-schlüs");
        check("key sk-schlüssel-", "sk-schlüssel-é", "key ***");
    }

    #[test]
    fn a_url_tells_its_secrets() {
        let secrets = |url| -> Vec<String> {
            secrets_of_url(url).iter().map(|it| it.expose().to_owned()).collect()
        };
        assert_eq!(
            secrets("http://me:p%2Bw@host/a?api-key=k%3D1&model=m&sig=s#x"),
            ["me", "p%2Bw", "p+w", "k%3D1", "k=1", "s"]
        );
        assert_eq!(secrets("http://host:80/a@b?c=d"), [""; 0]);
    }

    #[test]
    fn names_of_keys_sound_like_it() {
        for word in SECRET_WORDS {
            let names =
                [word.to_owned(), word.to_uppercase(), format!("x-{word}"), format!("{word}-id")];
            for name in names {
                assert!(sounds_secret(&name), "{name}");
            }
            assert!(!sounds_secret(&word[1..]), "{word}");
            assert!(!sounds_secret(&word[..word.len() - 1]), "{word}");
        }
        assert!(!sounds_secret("content-type"));
        assert!(!sounds_secret(""));
    }

    #[test]
    fn a_placeholder_is_no_key() {
        check("none of the models", "none", "none of the models");
    }
}
