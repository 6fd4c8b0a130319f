//! The strict form of a schema, which some vendors need to hold a model to it word by word.

use serde_json::{Map, Value, json};

/// Keywords that the strict form has no room for.
const REFUSED: [&str; 17] = [
    "$ref",
    "$defs",
    "definitions",
    "allOf",
    "oneOf",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "prefixItems",
    "not",
    "if",
    "then",
    "else",
];

/// Converts the schema of an object to the strict form: every field required, no others allowed.
///
/// A field that was optional admits null instead, and [`Schema::check`](crate::schema::Schema::check) by the original
/// schema takes such a null for absence. The error says which place has no strict form, and why.
///
/// ```
/// use serde_json::json;
/// use steerage::schema;
///
/// let strict = schema::strict(&json!({
///     "type": "object",
///     "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
///     "required": ["city"],
/// }));
/// assert_eq!(strict.unwrap(), json!({
///     "type": "object",
///     "properties": {
///         "city": {"type": "string"},
///         "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
///     },
///     "required": ["city", "days"],
///     "additionalProperties": false,
/// }));
/// ```
pub fn strict(schema: &Value) -> Result<Value, String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("#: the type of the whole must be object".to_owned());
    }
    node(schema, "#")
}

fn node(schema: &Value, at: &str) -> Result<Value, String> {
    let Value::Object(keywords) = schema else {
        return Err(format!("{at}: expected a schema object, got {schema}"));
    };
    if let Some(keyword) = REFUSED.iter().find(|keyword| keywords.contains_key(**keyword)) {
        return Err(format!("{at}: {keyword} has no strict form"));
    }
    if !["type", "anyOf", "enum"].iter().any(|keyword| keywords.contains_key(*keyword)) {
        return Err(format!("{at}: there is no type, anyOf or enum"));
    }
    if keywords.get("additionalProperties").is_some_and(|it| *it != Value::Bool(false)) {
        return Err(format!("{at}: additionalProperties must be absent or false"));
    }
    let mut strict = keywords.clone();
    if let Some(items) = keywords.get("items") {
        strict.insert("items".to_owned(), node(items, &format!("{at}/items"))?);
    }
    if let Some(branches) = keywords.get("anyOf") {
        strict.insert("anyOf".to_owned(), any_of(branches, &format!("{at}/anyOf"))?);
    }
    if has_type(schema, "object") {
        fields(&mut strict, keywords, at)?;
    } else if keywords.contains_key("properties") {
        return Err(format!("{at}: there are properties without the type object"));
    }
    Ok(Value::Object(strict))
}

fn any_of(branches: &Value, at: &str) -> Result<Value, String> {
    let branches = branches.as_array().filter(|branches| !branches.is_empty());
    let Some(branches) = branches else {
        return Err(format!("{at}: there must be a list of alternatives"));
    };
    let convert = |(index, branch): (usize, &Value)| {
        let at = format!("{at}/{index}");
        if has_type(branch, "object") || has_type(branch, "array") {
            return Err(format!("{at}: an alternative must be no object or array"));
        }
        node(branch, &at)
    };
    branches.iter().enumerate().map(convert).collect()
}

fn fields(
    strict: &mut Map<String, Value>,
    keywords: &Map<String, Value>,
    at: &str,
) -> Result<(), String> {
    let nothing = Map::new();
    let properties = match keywords.get("properties") {
        None => &nothing,
        Some(Value::Object(properties)) => properties,
        Some(_) => return Err(format!("{at}/properties: expected an object")),
    };
    let required = required(keywords, properties, at)?;
    let mut converted = Map::new();
    for (name, property) in properties {
        let mut property = node(property, &format!("{at}/properties/{name}"))?;
        if !required.contains(&name.as_str()) && !admits_null(&property) {
            property = json!({"anyOf": [property, {"type": "null"}]});
        }
        converted.insert(name.clone(), property);
    }
    let names = converted.keys().map(|name| Value::from(name.as_str())).collect();
    strict.insert("properties".to_owned(), Value::Object(converted));
    strict.insert("required".to_owned(), Value::Array(names));
    strict.insert("additionalProperties".to_owned(), Value::Bool(false));
    Ok(())
}

fn required<'a>(
    keywords: &'a Map<String, Value>,
    properties: &Map<String, Value>,
    at: &str,
) -> Result<Vec<&'a str>, String> {
    let names = match keywords.get("required") {
        None => return Ok(Vec::new()),
        Some(Value::Array(names)) => names,
        Some(_) => return Err(format!("{at}/required: expected a list of names")),
    };
    let known = |name: &'a Value| {
        let name = name.as_str().filter(|name| properties.contains_key(*name));
        name.ok_or_else(|| format!("{at}/required: there is no property of each name"))
    };
    names.iter().map(known).collect()
}

fn has_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|it| it == name),
        Some(only) => only == name,
        None => false,
    }
}

fn admits_null(schema: &Value) -> bool {
    let of_type = schema.get("type").is_none() || has_type(schema, "null");
    let listed = schema.get("enum").and_then(Value::as_array);
    let of_enum = listed.is_none_or(|members| members.contains(&Value::Null));
    let branches = schema.get("anyOf").and_then(Value::as_array);
    let of_union = branches.is_none_or(|branches| branches.iter().any(admits_null));
    of_type && of_enum && of_union && schema.get("const").is_none_or(Value::is_null)
}
