//! Tools as Google's API declares them.

use serde_json::{Map, Value, json};

use crate::{
    error::Error,
    message::ToolDeclaration,
    provider::constraint::{self, Parameters},
};

/// The declarations of some tools, and whether one of them is held to its schema.
pub(super) fn declare(
    tools: &[ToolDeclaration],
    is_strict: bool,
) -> Result<(Vec<Value>, bool), Error> {
    let mut any_strict = false;
    let mut declared = Vec::with_capacity(tools.len());
    for tool in tools {
        let Parameters { mut schema, strict } = constraint::parameters(tool, is_strict)?;
        any_strict |= strict;
        without_constants(&mut schema);
        declared.push(json!({
            "name": tool.name, "description": tool.description, "parametersJsonSchema": schema,
        }));
    }
    Ok((declared, any_strict))
}

/// Keywords whose value is a schema or a list of them.
const SCHEMAS: [&str; 16] = [
    "items",
    "additionalItems",
    "unevaluatedItems",
    "prefixItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "anyOf",
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];

/// Keywords whose value holds schemas by name.
const NAMED_SCHEMAS: [&str; 5] =
    ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// Writes constants as lists of one value: the vendor knows no others.
fn without_constants(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(without_constants),
        Value::Object(keywords) => {
            for (keyword, value) in keywords.iter_mut() {
                if SCHEMAS.contains(&keyword.as_str()) {
                    without_constants(value);
                } else if NAMED_SCHEMAS.contains(&keyword.as_str())
                    && let Value::Object(named) = value
                {
                    named.values_mut().for_each(without_constants);
                }
            }
            replace_constant(keywords);
        }
        _ => (),
    }
}

fn replace_constant(keywords: &mut Map<String, Value>) {
    let is_plain = |value: &Value| value.is_string() || value.is_number();
    if keywords.get("const").is_some_and(is_plain)
        && !keywords.contains_key("enum")
        && let Some(value) = keywords.shift_remove("const")
    {
        keywords.insert("enum".to_owned(), json!([value]));
    }
}
