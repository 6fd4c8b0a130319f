//! OpenRouter's `reasoning_details`: pieces of reasoning that have to come back as they were.

use serde_json::{Map, Value};

/// Takes the pieces of a delta; those that are none are left out. Tells whether there was one.
pub(super) fn append(details: &mut Vec<Value>, pieces: &Value) -> bool {
    let mut any = false;
    for piece in pieces.as_array().into_iter().flatten().filter(|piece| is_valid(piece)) {
        any = true;
        let merged = details.last_mut().is_some_and(|last| merge(last, piece));
        if !merged {
            details.push(piece.clone());
        }
    }
    any
}

/// Reads details back from a signature: a JSON array of valid pieces.
pub(super) fn parse(signature: &str) -> Option<Value> {
    if !signature.starts_with('[') {
        return None;
    }
    let details: Value = serde_json::from_str(signature).ok()?;
    let pieces = details.as_array()?;
    (!pieces.is_empty() && pieces.iter().all(is_valid)).then_some(details)
}

/// Reads the one encrypted piece that older transcripts keep with a call.
pub(super) fn parse_encrypted(signature: &str) -> Option<Value> {
    let piece: Value = serde_json::from_str(signature).ok()?;
    (piece["type"] == "reasoning.encrypted" && is_valid(&piece)).then_some(piece)
}

fn is_valid(piece: &Value) -> bool {
    let Some(piece) = piece.as_object() else { return false };
    let has_text = |name: &str| piece.get(name).is_some_and(Value::is_string);
    let is_text_or_none =
        |name: &str| piece.get(name).is_none_or(|it| it.is_string() || it.is_null());
    let is_complete = match piece.get("type").and_then(Value::as_str) {
        Some("reasoning.text") => has_text("text") || has_text("signature"),
        Some("reasoning.summary") => has_text("summary"),
        Some("reasoning.encrypted") => has_text("data"),
        _ => false,
    };
    is_complete
        && ["id", "format", "text", "signature"].into_iter().all(is_text_or_none)
        && piece.get("index").is_none_or(|it| it.is_number() || it.is_null())
}

/// Appends a piece to the one before it, if both are text of the same reasoning.
fn merge(last: &mut Value, piece: &Value) -> bool {
    let (Some(last), Some(piece)) = (last.as_object_mut(), piece.as_object()) else { return false };
    let field = match piece.get("type").and_then(Value::as_str) {
        Some("reasoning.text") => "text",
        Some("reasoning.summary") => "summary",
        _ => return false,
    };
    let is_same = |name: &str| given(last, name) == given(piece, name);
    let is_compatible =
        |name: &str| is_same(name) || given(last, name).is_none() || given(piece, name).is_none();
    if !is_same("type") || !is_same("index") || !is_compatible("id") || !is_compatible("format") {
        return false;
    }
    for (name, value) in piece {
        match (last.get_mut(name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) if name == field => {
                text.push_str(more);
            }
            _ => {
                last.insert(name.clone(), value.clone());
            }
        }
    }
    true
}

fn given<'a>(piece: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    piece.get(name).filter(|it| !it.is_null())
}
