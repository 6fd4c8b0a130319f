//! A transcript as a text that is kept in a file.

use std::borrow::Borrow;

use serde_json::Value;

use crate::{
    error::{Error, ErrorKind},
    message::Message,
    partial_json::repair::from_str_repaired,
};

/// An entry of a saved transcript that is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its place in the list, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Writes messages as a JSON list, one message a line.
///
/// # Examples
///
/// ```
/// use steerage::{Message, transcript};
///
/// let text = transcript::to_json(&[Message::user("Hello!"), Message::system("Be brief.")])?;
/// let (messages, skipped) = transcript::from_json(&text)?;
/// assert_eq!(messages[0].text(), "Hello!");
/// assert!(skipped.is_empty());
/// # Ok::<(), steerage::Error>(())
/// ```
pub fn to_json<M: Borrow<Message>>(messages: &[M]) -> Result<String, Error> {
    let lines: Result<Vec<String>, _> =
        messages.iter().map(|message| serde_json::to_string(message.borrow())).collect();
    let lines = lines.map_err(|error| {
        let text = format!("a message cannot be written as JSON: {error}");
        Error::new(ErrorKind::Configuration, text).with_source(error)
    })?;
    Ok(if lines.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", lines.join(",\n")) })
}

/// Reads messages from a JSON list, or from an object whose `messages` are one.
///
/// An entry that is no message is skipped and named. A text that is cut off or no such JSON is an error, so that nobody
/// takes a part for the whole; so is a list of entries of which none is a message. Halves of characters, which programs in
/// JavaScript may write, become U+FFFD.
pub fn from_json(text: &str) -> Result<(Vec<Message>, Vec<Skipped>), Error> {
    // Some editors put a byte order mark at the start.
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(Error::new(ErrorKind::Configuration, "the transcript is empty"));
    }
    // Programs in JavaScript write halves of characters as they are, which no text of Rust holds.
    let value: Value = from_str_repaired(text).map_err(unreadable)?;
    let entries = match value {
        Value::Array(entries) => Some(entries),
        Value::Object(mut fields) => match fields.remove("messages") {
            Some(Value::Array(entries)) => Some(entries),
            _ => None,
        },
        _ => None,
    };
    let entries = entries.ok_or_else(|| {
        let text = "a transcript is a JSON list of messages, and this is something else";
        Error::new(ErrorKind::Configuration, text)
    })?;
    let (mut messages, mut skipped) = (Vec::new(), Vec::new());
    for (index, entry) in entries.into_iter().enumerate() {
        match serde_json::from_value(entry) {
            Ok(message) => messages.push(message),
            Err(error) => skipped.push(Skipped { index, reason: error.to_string() }),
        }
    }
    match skipped.first() {
        Some(Skipped { reason, .. }) if messages.is_empty() => {
            let count = skipped.len();
            let text = format!(
                "none of the {count} entries of the list is a message; the first: {reason}"
            );
            Err(Error::new(ErrorKind::Configuration, text))
        }
        _ => Ok((messages, skipped)),
    }
}

fn unreadable(error: serde_json::Error) -> Error {
    let text = if error.is_eof() {
        let line = error.line();
        format!(
            "the transcript is cut off at line {line} and the rest is missing: take an older copy, or mend it there"
        )
    } else {
        format!("the transcript is no JSON: {error}")
    };
    Error::new(ErrorKind::Configuration, text).with_source(error)
}
