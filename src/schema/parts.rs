//! The schemas that a schema consists of.

use serde_json::{Map, Value};

/// The keywords that hold schemas by name.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// The keywords that hold one schema or a list of schemas.
const PARTS: [&str; 15] = [
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "items",
    "prefixItems",
    "contains",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "additionalItems",
];

/// Calls `visit` with each schema directly inside one with these keywords, and with the keyword that holds it.
pub(super) fn for_each(keywords: &mut Map<String, Value>, mut visit: impl FnMut(&str, &mut Value)) {
    for (key, value) in keywords {
        let key = key.as_str();
        match value {
            Value::Object(named) if NAMED.contains(&key) => {
                for part in named.values_mut() {
                    visit(key, part);
                }
            }
            Value::Array(listed) if PARTS.contains(&key) => {
                for part in listed {
                    visit(key, part);
                }
            }
            Value::Object(_) | Value::Bool(_) if PARTS.contains(&key) => visit(key, value),
            _ => (),
        }
    }
}

/// The value of a keyword with each schema in it replaced.
pub(super) fn map<'a>(
    key: &str,
    value: &'a Value,
    mut replace: impl FnMut(&'a Value) -> Value,
) -> Value {
    match value {
        Value::Object(named) if NAMED.contains(&key) => {
            named.iter().map(|(name, part)| (name.clone(), replace(part))).collect()
        }
        Value::Array(listed) if PARTS.contains(&key) => listed.iter().map(replace).collect(),
        Value::Object(_) | Value::Bool(_) if PARTS.contains(&key) => replace(value),
        _ => value.clone(),
    }
}
