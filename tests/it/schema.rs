//! Schemas: coercion, refusals, the loose schemas of the real world, hostile input, builders.

use serde_json::{Map, Value};
use steerage::schema::Schema;

mod build;
mod coercion;
mod documents;
mod hostile;
mod loose;
mod random;
mod refusal;
#[cfg(feature = "validate")]
mod suite;
mod table;
mod told;

#[track_caller]
fn schema(json: Value) -> Schema {
    Schema::new(json).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}
