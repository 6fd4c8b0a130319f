//! How long arguments and results are, and results cut in the middle.

use std::io::{self, Write};

use serde_json::{Map, Value};

use crate::{message::Content, tool::ToolResult};

/// The text of a result that is too long, in bytes from its beginning: what is left out and the note in its place.
struct Cut {
    from: usize,
    to: usize,
    /// Stands where the gap begins.
    note: Option<String>,
}

/// How many bytes the arguments take as compact JSON.
pub(super) fn argument_bytes(arguments: &Map<String, Value>) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Counting does not fail, and keys of JSON values are texts.
    let _ = serde_json::to_writer(&mut counter, arguments);
    counter.0
}

/// How many bytes of text a result has.
pub(super) fn text_bytes(result: &ToolResult) -> usize {
    result.content.iter().filter_map(text_of).map(str::len).sum()
}

/// Leaves out the middle of the text so that it takes `limit` bytes with the note that says so. Images stay.
pub(super) fn cut(result: &mut ToolResult, limit: usize, place: Option<&str>) {
    let length = text_bytes(result);
    let place = place.map(|place| format!("; {place}")).unwrap_or_default();
    let note =
        format!("\n[... the middle of this result of {length} bytes is left out{place} ...]\n");
    let kept = limit.saturating_sub(note.len());
    let mut cut = Cut { from: kept - kept / 2, to: length - kept / 2, note: Some(note) };
    let mut position = 0;
    for block in &mut result.content {
        let Content::Text(text) = block else { continue };
        let end = position + text.text.len();
        text.text = cut.apply(&text.text, position);
        position = end;
    }
    result.content.retain(|block| text_of(block).is_none_or(|text| !text.is_empty()));
}

impl Cut {
    /// What is left of a block that begins at `position`.
    fn apply(&mut self, text: &str, position: usize) -> String {
        let end = position + text.len();
        if end < self.from || position >= self.to {
            return text.to_owned();
        }
        let head = floor(text, self.from.saturating_sub(position));
        let tail = ceil(text, self.to.saturating_sub(position));
        let note = self.note.take().unwrap_or_default();
        [&text[..head], &note, &text[tail.max(head)..]].concat()
    }
}

/// The nearest boundary of a character at or before `index`.
fn floor(text: &str, index: usize) -> usize {
    let index = index.min(text.len());
    (0..=index).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The nearest boundary of a character at or after `index`.
fn ceil(text: &str, index: usize) -> usize {
    (index.min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

fn text_of(block: &Content) -> Option<&str> {
    match block {
        Content::Text(text) => Some(&text.text),
        Content::Image(_) => None,
    }
}
