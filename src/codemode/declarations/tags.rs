//! Constraints that a type cannot say, as tags in comments.

use serde_json::{Map, Value};

/// Longer tags help nobody.
const LONGEST: usize = 80;

/// What ends a line, and so a comment, in TypeScript.
const ENDS_OF_LINES: [char; 4] = ['\n', '\r', '\u{2028}', '\u{2029}'];

/// The comment lines of a property: its description, then one line of tags.
pub(super) fn comment_lines(schema: &Value) -> Vec<String> {
    let Some(fields) = schema.as_object() else { return Vec::new() };
    let description = fields.get("description").and_then(Value::as_str).unwrap_or_default();
    let mut lines: Vec<String> =
        lines(description.trim()).map(|line| format!("// {line}").trim_end().to_owned()).collect();
    let tags = tags(fields);
    if !tags.is_empty() {
        lines.push(format!("// {}", tags.join(" ")));
    }
    lines
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split(ENDS_OF_LINES))
}

fn tags(fields: &Map<String, Value>) -> Vec<String> {
    let inner = non_null_branch(fields);
    let get = |key: &str| fields.get(key).or_else(|| inner?.get(key));
    let mut tags = Vec::new();
    if is_integer(fields) || inner.is_some_and(is_integer) {
        tags.push("@integer".to_owned());
    }
    tags.extend(bounds(&get));
    for key in ["multipleOf", "minLength", "maxLength"] {
        tags.extend(get(key).filter(|it| it.is_number()).map(|it| format!("@{key} {it}")));
    }
    for key in ["pattern", "format"] {
        tags.extend(get(key).and_then(Value::as_str).map(|text| format!("@{key} {text}")));
    }
    for key in ["minItems", "maxItems"] {
        tags.extend(get(key).filter(|it| it.is_number()).map(|it| format!("@{key} {it}")));
    }
    if get("uniqueItems") == Some(&Value::Bool(true)) {
        tags.push("@uniqueItems".to_owned());
    }
    tags.extend(get("default").filter(|it| !it.is_null()).map(|it| format!("@default {it}")));
    if get("deprecated") == Some(&Value::Bool(true)) {
        tags.push("@deprecated".to_owned());
    }
    tags.retain(|tag| tag.chars().count() <= LONGEST && !tag.contains(ENDS_OF_LINES));
    tags
}

/// Both bounds; in draft 4 a boolean makes the bound beside it exclusive.
fn bounds<'a>(get: &impl Fn(&str) -> Option<&'a Value>) -> Vec<String> {
    let mut tags = Vec::new();
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let marked = get(exclusive) == Some(&Value::Bool(true));
        if let Some(value) = get(bound).filter(|it| it.is_number()) {
            tags.push(format!("@{} {value}", if marked { exclusive } else { bound }));
        }
        tags.extend(
            get(exclusive).filter(|it| it.is_number()).map(|it| format!("@{exclusive} {it}")),
        );
    }
    tags
}

fn is_integer(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(Value::String(name)) => name == "integer",
        Some(Value::Array(names)) => names.iter().any(|name| name == "integer"),
        _ => false,
    }
}

/// The one branch of a union with null.
fn non_null_branch(fields: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let branches = fields.get("anyOf").or_else(|| fields.get("oneOf"))?.as_array()?;
    let is_null = |branch: &&Value| branch.get("type").is_some_and(|it| it == "null");
    let mut others = branches.iter().filter(|branch| !is_null(branch));
    let only = others.next()?.as_object()?;
    others.next().is_none().then_some(only)
}
