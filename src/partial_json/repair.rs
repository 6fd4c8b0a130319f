//! Reading a finished text, with the repairs that models make necessary.

use std::{borrow::Cow, error, fmt};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// How much of a broken text an error shows, from its beginning and from its end.
const EXCERPT: (usize, usize) = (1500, 500);

/// Tells why the text of a finished call is no JSON object, and shows the text.
///
/// It is worded for the model that wrote the text. A long text is shown without its middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentsError {
    reason: String,
    text: String,
}

impl ArgumentsError {
    pub(super) fn new(reason: String, text: &str) -> ArgumentsError {
        ArgumentsError { reason, text: excerpt(text) }
    }

    /// What is wrong with the text.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The text itself, without its middle if it is long.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ArgumentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; received: {}", self.reason, self.text)
    }
}

impl error::Error for ArgumentsError {}

/// Parses the finished text of a call.
///
/// A blank text is an empty object. A text that is no JSON is repaired once, see below, and parsed again. A text that is
/// cut off stays an error: half of an argument must never reach a tool.
///
/// Repaired are, inside strings only: raw control characters, backslashes that begin no escape (`C:\dir`), and halves of
/// surrogate pairs, which become U+FFFD.
///
/// # Examples
///
/// ```
/// use steerage::partial_json::parse_arguments;
///
/// assert_eq!(parse_arguments(r#"{"path":"C:\dir"}"#)?["path"], r"C:\dir");
/// assert!(parse_arguments(r#"{"path":"C:"#).is_err());
/// # Ok::<(), steerage::partial_json::ArgumentsError>(())
/// ```
pub fn parse_arguments(text: &str) -> Result<Map<String, Value>, ArgumentsError> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let kind = match from_str_repaired(text) {
        Ok(Value::Object(arguments)) => return Ok(arguments),
        Err(error) => {
            return Err(ArgumentsError::new(
                format!("the arguments are not valid JSON: {error}"),
                text,
            ));
        }
        Ok(Value::Array(_)) => "an array",
        Ok(Value::String(_)) => "a string",
        Ok(Value::Number(_)) => "a number",
        Ok(Value::Bool(_)) => "a boolean",
        Ok(Value::Null) => "null",
    };
    Err(ArgumentsError::new(format!("the arguments are {kind}, not a JSON object"), text))
}

/// Deserialises JSON; if that fails, once more after the repairs of [`parse_arguments`].
pub(crate) fn from_str_repaired<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| match repair(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(repaired) => serde_json::from_str(&repaired),
    })
}

/// Returns the text with its strings made valid; borrowed if there was nothing to do.
fn repair(text: &str) -> Cow<'_, str> {
    let mut repaired = String::new();
    let mut copied = 0;
    let mut at = 0;
    let mut in_string = false;
    while let Some(&byte) = text.as_bytes().get(at) {
        let (length, replacement) = match byte {
            b'"' => {
                in_string = !in_string;
                (1, None)
            }
            b'\\' if in_string => escape(&text[at..]),
            0..0x20 if in_string => (1, Some(format!("\\u{byte:04x}"))),
            _ => (1, None),
        };
        if let Some(replacement) = replacement {
            repaired.push_str(&text[copied..at]);
            repaired.push_str(&replacement);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    repaired.push_str(&text[copied..]);
    Cow::Owned(repaired)
}

/// Measures the escape at the beginning of `rest`, and says what to put in its place if it is not valid.
fn escape(rest: &str) -> (usize, Option<String>) {
    match rest.as_bytes().get(1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => (2, None),
        Some(b'u') => match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, None),
            (Some(0xd800..=0xdfff), _) => (6, Some("\\ufffd".to_owned())),
            (Some(_), _) => (6, None),
            (None, _) => (1, Some("\\\\".to_owned())),
        },
        _ => (1, Some("\\\\".to_owned())),
    }
}

/// The UTF-16 unit of the `\uXXXX` at the beginning of `rest`.
fn unit(rest: &str) -> Option<u16> {
    let digits = rest.strip_prefix("\\u")?.get(..4)?;
    if digits.bytes().all(|it| it.is_ascii_hexdigit()) {
        u16::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

fn excerpt(text: &str) -> String {
    let (head, tail) = EXCERPT;
    if text.len() <= head + tail {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(head)];
    let tail = &text[text.ceil_char_boundary(text.len() - tail)..];
    let left_out = text.len() - head.len() - tail.len();
    format!("{head} … ({left_out} bytes left out) … {tail}")
}
