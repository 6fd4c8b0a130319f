//! Compares two logs by the rules of the recordings: what is left out, what is a token, numbers by value.

use serde_json::{Map, Value, json};

/// The first difference of two agent logs.
pub(super) fn difference(golden: &Value, ours: &Value) -> Option<String> {
    let expected = after_aborts(golden["log"].as_array().map_or(&[], Vec::as_slice));
    let actual = after_aborts(ours["log"].as_array().map_or(&[], Vec::as_slice));
    lists(&expected, &actual).or_else(|| {
        (!same(&golden["executed"], &ours["executed"])).then(|| {
            format!("executed\n  expected {}\n  got      {}", golden["executed"], ours["executed"])
        })
    })
}

/// Of the low-level loop events, requests and returned messages are three sequences, since nobody waits for a reader.
pub(super) fn loop_difference(golden: &Value, ours: &Value) -> Option<String> {
    ["event", "request", "returned", "refused", "hook"].into_iter().find_map(|kind| {
        let of = |log: &Value| -> Vec<Value> {
            let entries = log["log"].as_array().cloned().unwrap_or_default();
            entries.iter().filter(|entry| entry.get(kind).is_some()).map(clean).collect()
        };
        lists(&of(golden), &of(ours))
    })
}

fn lists(expected: &[Value], actual: &[Value]) -> Option<String> {
    for index in 0..expected.len().max(actual.len()) {
        let (expected, actual) = (expected.get(index), actual.get(index));
        let equal =
            matches!((expected, actual), (Some(expected), Some(actual)) if same(expected, actual));
        if !equal {
            let show = |entry: Option<&Value>| entry.map_or("nothing".to_owned(), Value::to_string);
            return Some(format!(
                "entry {index}\n  expected {}\n  got      {}",
                show(expected),
                show(actual)
            ));
        }
    }
    None
}

/// After an abort the reference still asks its stream function, which this library does not: those entries are left out,
/// and the closing message is compared without its text.
fn after_aborts(log: &[Value]) -> Vec<Value> {
    let mut aborted = false;
    // The message of an aborted run stands in the transcript of the later ones.
    let mut ever_aborted = false;
    let mut kept = Vec::new();
    for entry in log {
        let is_step = entry.get("step").is_some() || entry.get("after").is_some();
        aborted |= entry["aborted"] == true;
        ever_aborted |= aborted;
        let skipped = entry.get("request").is_some()
            || ["prepareRequest", "transformContext", "getApiKey"]
                .iter()
                .any(|hook| entry["hook"] == *hook);
        if aborted && skipped {
            continue;
        }
        let mut entry = clean(entry);
        if ever_aborted {
            blur(&mut entry);
        }
        kept.push(entry);
        if is_step {
            aborted = false;
        }
    }
    kept
}

/// Takes the text of aborted messages away, wherever they stand, and of the state's error.
fn blur(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(blur),
        Value::Object(fields) => {
            if fields.get("stopReason") == Some(&json!("aborted")) {
                fields.shift_remove("content");
                fields.shift_remove("errorMessage");
            }
            if fields.get("error").is_some_and(Value::is_string) {
                fields.insert("error".to_owned(), json!("@some"));
            }
            fields.values_mut().for_each(blur);
        }
        _ => (),
    }
}

/// Leaves out what differs from run to run: times, zero usage, and this library's own field.
fn clean(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(clean).collect(),
        Value::Object(fields) => {
            let is_assistant = fields.get("role") == Some(&json!("assistant"));
            let mut kept = Map::new();
            for (name, value) in fields {
                match name.as_str() {
                    "timestamp" | "failure" => continue,
                    "durationMs" if is_assistant => continue,
                    "durationMs" => kept.insert(name.clone(), json!(true)),
                    "usage" if is_zero(value) => continue,
                    "arguments" | "args" | "executed" => kept.insert(name.clone(), value.clone()),
                    _ => kept.insert(name.clone(), clean(value)),
                };
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_zero),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(flag) => !flag,
        _ => false,
    }
}

fn same(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::String(a), Value::String(b)) => a == b || stands_for(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Whether a text of ours says what a token of the recordings stands for.
fn stands_for(token: &str, text: &str) -> bool {
    match token {
        "@tool-not-found" => text.starts_with("there is no tool `"),
        "@blocked" => text.contains("did not allow"),
        "@aborted" => text.contains("abort") || text.contains("interrupt"),
        "@truncated" => text.contains("cut off"),
        "@invalid-arguments" => text.contains("arguments"),
        _ => false,
    }
}
