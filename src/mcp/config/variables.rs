//! Variables of the environment in the texts of a configuration: `${NAME}` and `${NAME:-default}`.

use serde_json::{Map, Value};

/// Returns what a variable holds, if it is set.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Fills the variables in that stand in a text, also in those of lists and objects.
///
/// An error names the variable that is missing, and never shows a value.
pub(super) fn filled_in(value: &Value, lookup: Lookup<'_>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(text_with(text, lookup)?),
        Value::Array(items) => {
            items.iter().map(|item| filled_in(item, lookup)).collect::<Result<_, _>>()?
        }
        Value::Object(fields) => {
            let field =
                |(name, value): (&String, &Value)| Ok((name.clone(), filled_in(value, lookup)?));
            Value::Object(fields.iter().map(field).collect::<Result<Map<_, _>, String>>()?)
        }
        other => other.clone(),
    })
}

/// `$${` stands for `${` itself. What only looks like a variable, such as `${a#b}` of a shell, stays as it is.
fn text_with(text: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find("${") {
        let (before, inside) = (&rest[..place], &rest[place + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = inside;
            continue;
        }
        filled.push_str(before);
        match variable(inside) {
            Some((name, default, after)) => {
                let value = lookup(name).filter(|it| default.is_none() || !it.is_empty());
                let value = value.or(default.map(str::to_owned)).ok_or_else(|| {
                    format!(
                        "the environment variable `{name}` is not set: set it, or write `${{{name}:-default}}`"
                    )
                })?;
                filled.push_str(&value);
                rest = after;
            }
            None => {
                filled.push_str("${");
                rest = inside;
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The name, the default and what comes after the brace, if it is a variable.
fn variable(inside: &str) -> Option<(&str, Option<&str>, &str)> {
    let (content, after) = inside.split_once('}')?;
    let (name, default) = match content.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (content, None),
    };
    let is_name = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    is_name.then_some((name, default, after))
}
