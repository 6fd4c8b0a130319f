//! The text that tells a model why its call was refused.

use std::io::{self, Write};

use serde_json::{Map, Value};

use crate::schema::explain::Violations;

/// How much of the arguments is repeated, in bytes.
const MAX_ECHO: usize = 2048;

/// Lists what is wrong with the arguments of a call and repeats the arguments.
pub(super) fn refusal(tool: &str, found: &Violations, arguments: &Map<String, Value>) -> String {
    let mut lines = vec![headline(tool)];
    lines.extend(found.listed.iter().map(|it| format!("- {}: {}", it.path, it.text)));
    lines.extend((found.n_unlisted > 0).then(|| format!("- and {} more", found.n_unlisted)));
    lines.extend([String::new(), "Arguments received:".to_owned(), echo(arguments)]);
    lines.join("\n")
}

/// Refuses arguments that nest too deeply to look at.
pub(super) fn too_deep(tool: &str, max_depth: usize) -> String {
    format!("{}\n- root: nested more than {max_depth} levels deep", headline(tool))
}

fn headline(tool: &str) -> String {
    format!("The arguments do not fit the tool {tool:?}. Correct this and call it again:")
}

fn echo(arguments: &Map<String, Value>) -> String {
    const MARK: &str = "\n… (cut)";
    let mut buffer = Limited { bytes: Vec::new() };
    // The writer's error is how it says that it is full.
    let is_whole = serde_json::to_writer_pretty(&mut buffer, arguments).is_ok();
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
