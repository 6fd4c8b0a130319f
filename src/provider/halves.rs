//! Characters that a server cut in two: the halves of a surrogate pair in two deltas.
//!
//! Servers that cut their texts by UTF-16 units send `\ud83d` at the end of one delta and `\ude48` at the beginning of
//! the next. Rust's texts hold no halves, so they travel through the parser as characters of the last private plane, and
//! the first half waits for the second.

use std::borrow::Cow;

use serde_json::Value;

/// Stands for the half U+D800; the others follow in order.
const FIRST_MARK: u32 = 0x10_f800;
const FIRST_HALF: u16 = 0xd800;
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Puts a mark in the place of each half that stands alone in the strings of `json`.
pub(crate) fn mark(json: &str) -> Cow<'_, str> {
    let mut marked = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = json[at..].find('\\') {
        at += found;
        let Some(unit) = unit(&json[at..]) else {
            // The escape and what it escapes, which may be another backslash.
            at += 1 + json[at + 1..].chars().next().map_or(0, char::len_utf8);
            continue;
        };
        let is_pair = is_high(unit) && json.get(at + 6..).and_then(self::unit).is_some_and(is_low);
        if is_high(unit) && !is_pair || is_low(unit) {
            marked.push_str(&json[copied..at]);
            marked.push(mark_of(unit));
            copied = at + 6;
        }
        at += if is_pair { 12 } else { 6 };
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    marked.push_str(&json[copied..]);
    Cow::Owned(marked)
}

/// Joins the half that waits with the beginning of `text`, and keeps back a half at its end. Halves without another
/// one are replaced.
pub(crate) fn join(waiting: &mut Option<u16>, text: &str) -> String {
    let mut joined = String::with_capacity(text.len() + 4);
    for it in text.chars() {
        let half = half_of(it);
        match (waiting.take(), half) {
            (Some(high), Some(low)) if is_low(low) => {
                joined.extend(char::decode_utf16([high, low]).map(|it| it.unwrap_or(REPLACEMENT)));
                continue;
            }
            (Some(_), _) => joined.push(REPLACEMENT),
            (None, _) => (),
        }
        match half {
            Some(high) if is_high(high) => *waiting = Some(high),
            Some(_) => joined.push(REPLACEMENT),
            None => joined.push(it),
        }
    }
    joined
}

/// The text of a delta, with `waiting` the half that its block still waits with. Most texts are whole already.
pub(crate) fn whole(waiting: &mut Option<u16>, text: &str, has_marks: bool) -> String {
    if has_marks || waiting.is_some() { join(waiting, text) } else { text.to_owned() }
}

/// Replaces the marks in all texts of a value that comes in one piece.
pub(crate) fn replace(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.chars().map(without_mark).collect(),
        Value::Array(items) => items.iter_mut().for_each(replace),
        Value::Object(fields) => fields.values_mut().for_each(replace),
        _ => (),
    }
}

fn without_mark(it: char) -> char {
    half_of(it).map_or(it, |_| REPLACEMENT)
}

fn mark_of(half: u16) -> char {
    char::from_u32(FIRST_MARK + u32::from(half - FIRST_HALF)).unwrap_or(REPLACEMENT)
}

fn half_of(mark: char) -> Option<u16> {
    let offset = u32::from(mark).checked_sub(FIRST_MARK)?;
    Some(FIRST_HALF + u16::try_from(offset).ok()?)
}

fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}

/// The UTF-16 unit of the `\uXXXX` at the beginning of `rest`.
fn unit(rest: &str) -> Option<u16> {
    let digits = rest.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|it| it.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_find_each_other_across_texts() {
        let cases: [(&[&str], &str); 5] = [
            (&[r"a\ud83d", r"\ude48b"], "a🙈b"),
            (&[r"a\ud83d", r"b"], "a\u{fffd}b"),
            (&[r"\ude48b"], "\u{fffd}b"),
            (&[r"\\ud83d", r"\ud83d\ude48"], r"\\ud83d🙈"),
            (&[r"\ud83d", r"\ud83d\ude48"], "\u{fffd}🙈"),
        ];
        for (texts, expected) in cases {
            let mut waiting = None;
            let parts = texts
                .iter()
                .map(|text| join(&mut waiting, &mark(text).replace(r"\ud83d\ude48", "🙈")));
            assert_eq!(parts.collect::<String>(), expected, "{texts:?}");
        }
    }
}
