//! The text that tells a model why its call was refused.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::schema::explain::Violations;

/// How much of the arguments is repeated, in bytes.
const MAX_ECHO: usize = 2048;
const HEADLINE: &str = "The value does not fit its schema. Correct this:";

/// Lists what is wrong with the arguments of a call and repeats the arguments.
pub(super) fn refusal(tool: &str, found: &Violations, arguments: &Map<String, Value>) -> String {
    text(headline(tool), found, "Arguments", arguments)
}

/// Lists what is wrong with a value and repeats it.
pub(super) fn misfit(found: &Violations, value: &Value) -> String {
    text(HEADLINE.to_owned(), found, "Value", value)
}

fn text(headline: String, found: &Violations, what: &str, value: &impl Serialize) -> String {
    let mut lines = vec![headline];
    lines.extend(found.listed.iter().map(|it| format!("- {}: {}", it.path, it.text)));
    lines.extend((found.n_unlisted > 0).then(|| format!("- and {} more", found.n_unlisted)));
    lines.extend([String::new(), format!("{what} received:"), echo(value)]);
    lines.join("\n")
}

/// Refuses arguments that nest too deeply to look at.
pub(super) fn too_deep(tool: &str, max_depth: usize) -> String {
    format!("{}\n- root: nested more than {max_depth} levels deep", headline(tool))
}

/// Refuses a value that nests too deeply to look at.
pub(super) fn too_deep_a_value(max_depth: usize) -> String {
    format!("{HEADLINE}\n- root: nested more than {max_depth} levels deep")
}

fn headline(tool: &str) -> String {
    format!("The arguments do not fit the tool {tool:?}. Correct this and call it again:")
}

fn echo(value: &impl Serialize) -> String {
    const MARK: &str = "\n… (cut)";
    let mut buffer = Limited { bytes: Vec::new() };
    // The writer's error is how it says that it is full.
    let is_whole = serde_json::to_writer_pretty(&mut buffer, value).is_ok();
    let mut text = String::from_utf8_lossy(&buffer.bytes).into_owned();
    if is_whole {
        return text;
    }
    let end = text.floor_char_boundary(MAX_ECHO - MARK.len());
    text.truncate(end);
    text.push_str(MARK);
    text
}

struct Limited {
    bytes: Vec<u8>,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_ECHO - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
        if bytes.len() > room {
            return Err(io::Error::other("the text is long enough"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
