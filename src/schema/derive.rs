//! Schemas of Rust types.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::schema::parts;

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
pub(super) fn spell_out(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = Value::Object(Map::new()),
        Value::Object(keywords) => parts::for_each(keywords, |key, part| {
            // A closed or an open object is written with a boolean everywhere.
            let is_flag = key.ends_with("Properties") && part.is_boolean();
            if key == "patternProperties" || !is_flag {
                spell_out(part);
            }
        }),
        _ => (),
    }
}
