//! stub
use serde_json::{Map, Value};
#[derive(Debug, Default)]
pub struct PartialJson {
    text: String,
    shown: Map<String, Value>,
}
impl PartialJson {
    pub fn push(&mut self, delta: &str) {
        self.text.push_str(delta);
        if let Ok(v) = serde_json::from_str(&self.text) {
            self.shown = v;
        }
    }
    pub fn with_arguments<T>(&self, read: impl FnOnce(&Map<String, Value>) -> T) -> T {
        read(&self.shown)
    }
    pub fn finish(&self) -> Result<Map<String, Value>, String> {
        if self.text.trim().is_empty() {
            return Ok(Map::new());
        }
        serde_json::from_str(&self.text).map_err(|e| e.to_string())
    }
}
