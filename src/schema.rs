//! stub
use crate::error::Error;
use serde_json::{Map, Value};
#[derive(Debug, Clone)]
pub struct Schema {
    json: Value,
}
impl Schema {
    pub fn new(json: Value) -> Result<Schema, Error> {
        Ok(Schema { json })
    }
    pub fn json(&self) -> &Value {
        &self.json
    }
    pub fn check(
        &self,
        _tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        Ok(arguments.clone())
    }
}
pub fn for_type<T: schemars::JsonSchema>() -> Value {
    serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default()
}
