//! Tools as this API declares them.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind},
    message::{ConstrainedSampling, SamplingConstraint, Strictness, ToolDeclaration},
    provider::anthropic::{cache::CacheMark, compat::Compat, strict::Strict},
    schema,
};

/// A tool of a request.
#[derive(Debug, Serialize)]
pub(super) struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    eager_input_streaming: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    input_schema: InputSchema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum InputSchema<'a> {
    Plain(PlainSchema<'a>),
    Strict(Value),
}

/// What the API takes of a schema's root: it refuses combinators there.
#[derive(Debug, Serialize)]
struct PlainSchema<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    properties: Object<'a>,
    required: List<'a>,
    #[serde(rename = "additionalProperties", skip_serializing_if = "Option::is_none")]
    additional_properties: Option<&'a Value>,
    #[serde(rename = "$defs", skip_serializing_if = "Option::is_none")]
    defs: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definitions: Option<&'a Value>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Object<'a> {
    Given(&'a Value),
    Empty {},
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum List<'a> {
    Given(&'a Value),
    Empty([(); 0]),
}

/// The declarations of a request, and whether one of them is strict only because that is preferred.
pub(super) fn declare<'a>(
    tools: &[&'a ToolDeclaration],
    compat: &Compat,
    strict: Strict,
    mark: Option<CacheMark>,
) -> Result<(Vec<WireTool<'a>>, bool), Error> {
    let mut declared = Vec::with_capacity(tools.len());
    let mut has_preferred = false;
    for tool in tools {
        let strictness = strictness(tool);
        let converted = match strictness {
            Some(Strictness::Prefer) if strict == Strict::RequiredOnly => None,
            Some(strictness) => strict_schema(tool, strictness, compat)?,
            None => None,
        };
        has_preferred |= converted.is_some() && strictness == Some(Strictness::Prefer);
        declared.push(WireTool {
            name: &tool.name,
            description: &tool.description,
            eager_input_streaming: compat.eager_tool_input.then_some(true),
            strict: converted.is_some().then_some(true),
            input_schema: converted.map_or_else(
                || InputSchema::Plain(plain_schema(&tool.parameters)),
                InputSchema::Strict,
            ),
            cache_control: None,
        });
    }
    if let Some(last) = declared.last_mut().filter(|_| compat.cache_marks_on_tools) {
        last.cache_control = mark;
    }
    Ok((declared, has_preferred))
}

fn strictness(tool: &ToolDeclaration) -> Option<Strictness> {
    match &tool.constrained_sampling {
        Some(ConstrainedSampling::On(SamplingConstraint::JsonSchema { strict })) => Some(*strict),
        // The API knows no grammars: such a tool is declared like any other.
        _ => None,
    }
}

/// The schema for strict mode; none where it is impossible and only preferred.
fn strict_schema(
    tool: &ToolDeclaration,
    strictness: Strictness,
    compat: &Compat,
) -> Result<Option<Value>, Error> {
    let converted = match refusal(&tool.parameters) {
        _ if !compat.strict_tools => Err("the model has no strict mode".to_owned()),
        Some(refusal) => Err(refusal),
        None => schema::strict(&tool.parameters).map_err(|why| format!("of its schema, {why}")),
    };
    match (converted, strictness) {
        (Ok(schema), _) => Ok(Some(schema)),
        (Err(_), Strictness::Prefer) => Ok(None),
        (Err(reason), Strictness::Require) => {
            let message = format!(
                "tool `{}` requires strict mode, which is impossible: {reason}; let it prefer strict mode instead",
                tool.name
            );
            Err(Error::new(ErrorKind::Configuration, message))
        }
    }
}

fn plain_schema(schema: &Value) -> PlainSchema<'_> {
    let given = |name: &str| schema.get(name).filter(|value| !value.is_null());
    PlainSchema {
        kind: "object",
        properties: given("properties").map_or(Object::Empty {}, Object::Given),
        required: given("required").map_or(List::Empty([]), List::Given),
        additional_properties: given("additionalProperties"),
        defs: given("$defs"),
        definitions: given("definitions"),
    }
}

/// Keywords that the API's strict mode knows nothing of.
const UNSUPPORTED: [&str; 11] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
];

const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// Why the API's strict mode would refuse a schema, if it would.
fn refusal(schema: &Value) -> Option<String> {
    let node = schema.as_object()?;
    refusal_here(node).or_else(|| children(node).find_map(refusal))
}

fn refusal_here(node: &Map<String, Value>) -> Option<String> {
    if let Some(keyword) = UNSUPPORTED.iter().find(|keyword| node.contains_key(**keyword)) {
        return Some(format!("its schema uses `{keyword}`"));
    }
    if let Some(count) = node.get("minItems")
        && !matches!(count.as_f64(), Some(0.0 | 1.0))
    {
        return Some(format!("its schema uses `minItems` {count}, where only 0 and 1 are known"));
    }
    let format = node.get("format")?;
    let is_known = format.as_str().is_some_and(|format| FORMATS.contains(&format));
    (!is_known).then(|| format!("its schema uses the format {format}"))
}

/// The schemas inside a schema.
fn children(node: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    node.iter().flat_map(|(keyword, value)| -> Vec<&Value> {
        match (keyword.as_str(), value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions",
                Value::Object(named),
            ) => named.values().collect(),
            ("items" | "anyOf" | "allOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
                list.iter().collect()
            }
            (
                "items" | "additionalProperties" | "not" | "if" | "then" | "else" | "contains",
                schema,
            ) => {
                vec![schema]
            }
            _ => Vec::new(),
        }
    })
}
