//! Keys in texts that come in pieces: no piece holds the whole of one.

use std::{collections::HashMap, ops::Range};

use serde_json::Value;

use crate::secret::{REMOVED, SHORTEST, Secret, common, shows};

/// What came so far, by the place in the JSON where the pieces stand.
#[derive(Default)]
pub(super) struct Pieces {
    /// Of each text its end, as long as the longest key.
    tails: HashMap<String, String>,
}

impl Pieces {
    /// Takes keys out of the texts in a line of which only a part stands there, with the other part in lines before.
    pub(super) fn scrub(&mut self, kind: &str, line: &mut Value, secrets: &[Secret]) {
        if secrets.is_empty() {
            return;
        }
        // Blocks may interleave.
        let block = ["contentIndex", "index", "output_index"].iter().find_map(|it| line.get(it));
        let place = block.map_or_else(|| kind.to_owned(), |block| format!("{kind} {block}"));
        self.scrub_at(&place, line, secrets);
    }

    fn scrub_at(&mut self, place: &str, value: &mut Value, secrets: &[Secret]) {
        match value {
            Value::String(text) => self.scrub_text(place, text, secrets),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.scrub_at(&format!("{place}[{index}]"), item, secrets);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.scrub_at(&format!("{place}.{name}"), field, secrets);
                }
            }
            _ => (),
        }
    }

    fn scrub_text(&mut self, place: &str, text: &mut String, secrets: &[Secret]) {
        let before = self.tails.entry(place.to_owned()).or_default();
        let boundary = before.len();
        let whole = format!("{before}{text}");
        let shown = secrets.iter().flat_map(|it| ranges(&whole, boundary, it.expose().as_bytes()));
        let shown = joined(shown.collect());
        let longest = secrets.iter().map(|it| it.expose().len()).max().unwrap_or(0);
        // Escapes are up to six times as long.
        let start = whole.floor_char_boundary(whole.len().saturating_sub(longest * 6));
        whole[start..].clone_into(before);
        if shown.is_empty() {
            return;
        }
        let mut clean = String::new();
        let mut at = boundary;
        for range in shown {
            clean.push_str(&whole[at..range.start]);
            clean.push_str(REMOVED);
            at = range.end;
        }
        clean.push_str(&whole[at..]);
        *text = clean;
    }
}

/// Where a secret stands that is not all in what came before; also the beginning of one at the end of the text, if it is a
/// quarter at least.
fn ranges(whole: &str, boundary: usize, secret: &[u8]) -> Vec<Range<usize>> {
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let least = SHORTEST.max(secret.len() / 4);
    let starts = whole.char_indices().map(|(start, _)| start);
    let found = starts.filter_map(|start| {
        let (length, matched) = common(&whole.as_bytes()[start..], secret);
        let end = whole.ceil_char_boundary(start + length);
        let is_begun = end == whole.len() && matched >= least;
        let is_shown = end > boundary && (shows(matched, secret) || is_begun);
        is_shown.then(|| start.max(boundary)..end)
    });
    found.collect()
}

/// Ranges in order, of which none touch each other.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|it| it.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is left of pieces of a text.
    #[track_caller]
    fn check(pieces: &[&str], expected: &[&str]) {
        let secrets = [Secret::new("sk-0123456789abcdef")];
        let mut scrubber = Pieces::default();
        let scrubbed: Vec<String> = pieces
            .iter()
            .map(|piece| {
                let mut line = json!({"contentIndex": 0, "delta": piece});
                scrubber.scrub("event", &mut line, &secrets);
                line["delta"].as_str().unwrap_or_default().to_owned()
            })
            .collect();
        assert_eq!(scrubbed, expected);
    }

    #[test]
    fn a_key_in_two_pieces_is_taken_out_of_both() {
        check(&["my sk-01234", "56789abcdef!"], &["my ***", "***!"]);
        check(&["my sk", "-0123456789abcdef!"], &["my sk", "***!"]);
        check(&["my sk-0123456789abcde", "f"], &["my ***", "***"]);
    }

    #[test]
    fn a_key_in_many_pieces_shows_no_more_than_a_quarter() {
        check(
            &["s", "k", "-", "0", "1", "2", "3456", "789a", "bcdef", "."],
            &["s", "k", "-", "0", "1", "***", "***", "***", "***", "."],
        );
        check(&["", "sk-0123", "", "456789abcdef"], &["", "***", "", "***"]);
    }

    #[test]
    fn what_only_begins_like_a_key_stays() {
        check(&["ask", "-01 is no key"], &["ask", "-01 is no key"]);
        check(&["größer 🙈sk-", "größer"], &["größer 🙈sk-", "größer"]);
    }

    #[test]
    fn escapes_are_known() {
        check(&["sk-0123\\u0034", "56789abcdef"], &["***", "***"]);
    }

    #[test]
    fn blocks_that_interleave_are_told_apart() {
        let secrets = [Secret::new("sk-0123456789abcdef")];
        let mut scrubber = Pieces::default();
        let mut told = Vec::new();
        for (index, piece) in [(0, "sk-012"), (1, "other"), (0, "3456789abcdef"), (1, " text")] {
            let mut line = json!({"contentIndex": index, "delta": piece});
            scrubber.scrub("event", &mut line, &secrets);
            told.push(line["delta"].clone());
        }
        assert_eq!(told, ["***", "other", "***", " text"]);
    }
}
