//! What a model says that its server does otherwise than others.

use serde_json::{Map, Value};

/// The flags of a model. A flag of the wrong type counts as none, and unknown ones do no harm.
pub(crate) struct Flags<'a>(pub(crate) &'a Map<String, Value>);

impl Flags<'_> {
    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub(crate) fn object(&self, name: &str) -> Map<String, Value> {
        self.0.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
    }
}
