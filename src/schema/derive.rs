//! Schemas of Rust types.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

/// The keywords that hold one schema, a list of schemas or named schemas.
const PARTS: [&str; 16] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
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
    "$defs",
    "dependentSchemas",
];

/// The JSON Schema of a type, in the form that vendors of models take.
///
/// It is of draft 2020-12, without `$schema` and `title`; what a type consists of is written in place, and only types
/// that contain themselves are kept in `$defs`. Comments on the type and its fields become descriptions, which the
/// model reads.
///
/// ```
/// use schemars::JsonSchema;
///
/// /// Where to look.
/// #[derive(JsonSchema)]
/// struct Place {
///     /// The name of a city.
///     city: String,
///     country: Option<String>,
/// }
///
/// let schema = steerage::schema::for_type::<Place>();
/// assert_eq!(schema["properties"]["city"]["description"], "The name of a city.");
/// assert_eq!(schema["required"], serde_json::json!(["city"]));
/// ```
pub fn for_type<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(keywords) = &mut schema {
        // The name of the type, which says nothing to a model.
        keywords.shift_remove("title");
    }
    spell_out(&mut schema);
    schema
}

/// Writes `true` as `{}`, which means the same and is refused by no vendor.
fn spell_out(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = Value::Object(Map::new()),
        Value::Object(keywords) => {
            let parts = keywords.iter_mut().filter(|(key, _)| PARTS.contains(&key.as_str()));
            for (key, part) in parts {
                match (key.as_str(), part) {
                    (
                        "properties" | "patternProperties" | "$defs" | "dependentSchemas",
                        Value::Object(named),
                    ) => named.values_mut().for_each(spell_out),
                    (_, Value::Array(listed)) => listed.iter_mut().for_each(spell_out),
                    // A closed or an open object is written with a boolean everywhere.
                    ("additionalProperties", Value::Bool(_)) => (),
                    (_, part) => spell_out(part),
                }
            }
        }
        _ => (),
    }
}
