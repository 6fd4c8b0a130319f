//! How vendors of OpenAI's kind constrain the arguments of a tool: their strict mode for schemas, and grammars.

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, ErrorKind},
    message::{ConstrainedSampling, SamplingConstraint, Strictness, ToolDeclaration},
};

/// The parameters of a tool as a vendor with a strict mode gets them.
#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) schema: Value,
    pub(crate) strict: bool,
}

/// The grammar of a tool that takes one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grammar {
    /// The one parameter.
    pub(crate) property: String,
    /// `lark` or `regex`.
    pub(crate) syntax: &'static str,
    pub(crate) definition: String,
}

/// Decides whether a tool's schema goes out in strict mode. An error if the tool insists on it and it is impossible.
pub(crate) fn parameters(
    tool: &ToolDeclaration,
    supports_strict_mode: bool,
) -> Result<Parameters, Error> {
    let plain = || Parameters { schema: tool.parameters.clone(), strict: false };
    let wanted = match &tool.constrained_sampling {
        Some(ConstrainedSampling::On(SamplingConstraint::JsonSchema { strict })) => *strict,
        _ => return Ok(plain()),
    };
    let refused = |why: &str| {
        let message = format!(
            "tool `{}` insists on strict mode, but {why}: take `require` off or change it",
            tool.name
        );
        Err(Error::new(ErrorKind::Configuration, message))
    };
    if !supports_strict_mode {
        return match wanted {
            Strictness::Prefer => Ok(plain()),
            Strictness::Require => refused("the model has none"),
        };
    }
    match (strict_schema(&tool.parameters), wanted) {
        (Some(schema), _) => Ok(Parameters { schema, strict: true }),
        (None, Strictness::Prefer) => Ok(plain()),
        (None, Strictness::Require) => {
            refused("its schema has parts that strict mode does not know")
        }
    }
}

/// The grammar of a tool, if it has one. An error if no notation is given or the tool takes more than one text.
pub(crate) fn grammar(tool: &ToolDeclaration) -> Result<Option<Grammar>, Error> {
    let Some(ConstrainedSampling::On(SamplingConstraint::Grammar { variants })) =
        &tool.constrained_sampling
    else {
        return Ok(None);
    };
    let filled = |text: &Option<String>| text.clone().filter(|it| !it.trim().is_empty());
    let (syntax, definition) = match (filled(&variants.openai_lark), filled(&variants.openai_regex))
    {
        (Some(lark), _) => ("lark", lark),
        (None, Some(regex)) => ("regex", regex),
        (None, None) => {
            let message = format!(
                "tool `{}` has a grammar without a text: give openai_lark or openai_regex",
                tool.name
            );
            return Err(Error::new(ErrorKind::Configuration, message));
        }
    };
    let Some(property) = only_text(&tool.parameters) else {
        let message = format!(
            "tool `{}` has a grammar, so its schema must be an object with exactly one required property of type string",
            tool.name
        );
        return Err(Error::new(ErrorKind::Configuration, message));
    };
    Ok(Some(Grammar { property: property.to_owned(), syntax, definition }))
}

fn only_text(schema: &Value) -> Option<&str> {
    let [required] = schema.get("required")?.as_array()?.as_slice() else { return None };
    let name = required.as_str()?;
    let is_object = schema.get("type")?.as_str()? == "object";
    let is_text = schema.get("properties")?.get(name)?.get("type")?.as_str()? == "string";
    (is_object && is_text).then_some(name)
}

/// The schema as strict mode takes it: every property required, what was optional may be null instead, nothing else
/// allowed. `None` where it says what strict mode has no words for.
pub(crate) fn strict_schema(schema: &Value) -> Option<Value> {
    if schema.get("type")?.as_str()? != "object" {
        return None;
    }
    let mut strict = schema.clone();
    make_strict(&mut strict)?;
    Some(strict)
}

const UNKNOWN_TO_STRICT: [&str; 17] = [
    "$ref",
    "$defs",
    "definitions",
    "allOf",
    "oneOf",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "prefixItems",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
];

fn make_strict(node: &mut Value) -> Option<()> {
    let node = node.as_object_mut()?;
    if UNKNOWN_TO_STRICT.iter().any(|name| node.contains_key(*name)) {
        return None;
    }
    if !["type", "anyOf", "enum"].iter().any(|name| node.contains_key(*name)) {
        return None;
    }
    if let Some(branches) = node.get_mut("anyOf") {
        let branches = branches.as_array_mut()?;
        if branches.is_empty() {
            return None;
        }
        for branch in branches {
            if has_type(branch, "object") || has_type(branch, "array") {
                return None;
            }
            make_strict(branch)?;
        }
    }
    if let Some(items) = node.get_mut("items") {
        make_strict(items)?;
    }
    if node.contains_key("properties") || has_type_in(node, "object") {
        close_object(node)?;
    }
    Some(())
}

fn close_object(node: &mut Map<String, Value>) -> Option<()> {
    if !has_type_in(node, "object") {
        return None;
    }
    if !matches!(node.get("additionalProperties"), None | Some(Value::Bool(false))) {
        return None;
    }
    let required: Vec<String> = match node.get("required") {
        None => Vec::new(),
        Some(names) => names
            .as_array()?
            .iter()
            .map(|it| Some(it.as_str()?.to_owned()))
            .collect::<Option<_>>()?,
    };
    let mut properties = match node.get_mut("properties") {
        None => Map::new(),
        Some(properties) => std::mem::take(properties.as_object_mut()?),
    };
    if required.iter().any(|name| !properties.contains_key(name)) {
        return None;
    }
    for (name, property) in &mut properties {
        make_strict(property)?;
        if !required.contains(name) && !admits_null(property) {
            *property = json!({"anyOf": [property.take(), {"type": "null"}]});
        }
    }
    let names = properties.keys().cloned().map(Value::String).collect();
    node.insert("properties".to_owned(), Value::Object(properties));
    node.insert("required".to_owned(), Value::Array(names));
    node.insert("additionalProperties".to_owned(), Value::Bool(false));
    Some(())
}

fn has_type(node: &Value, name: &str) -> bool {
    node.as_object().is_some_and(|node| has_type_in(node, name))
}

fn has_type_in(node: &Map<String, Value>, name: &str) -> bool {
    match node.get("type") {
        Some(Value::String(it)) => it == name,
        Some(Value::Array(types)) => types.iter().any(|it| it == name),
        _ => false,
    }
}

fn admits_null(node: &Value) -> bool {
    let by_enum = || node.get("enum").and_then(Value::as_array).map(|it| it.contains(&Value::Null));
    let by_branch =
        || node.get("anyOf").and_then(Value::as_array).is_some_and(|it| it.iter().any(admits_null));
    match node.get("type") {
        // A type that admits null does not help where the listed values do not.
        Some(_) => has_type(node, "null") && by_enum().unwrap_or(true),
        None => by_enum().unwrap_or(false) || by_branch(),
    }
}
