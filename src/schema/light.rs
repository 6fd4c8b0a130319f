//! The check of a build without full validation: the plan alone decides.

use serde_json::{Map, Value};

use crate::schema::{
    explain::Fault,
    plan::{NodeId, Plan},
};

/// Has no opinion: types, required fields and listed values are the plan's business.
#[derive(Debug)]
pub(super) struct Checker;

#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "has the shape of the full one")]
impl Checker {
    pub(super) fn new(_prepared: &Value, _plan: &Plan) -> Result<Checker, String> {
        Ok(Checker)
    }

    pub(super) fn accepts(&self, _value: &Value, plan: impl FnOnce() -> bool) -> bool {
        plan()
    }

    pub(super) fn holds(&self, _: NodeId, _: &Map<String, Value>, _: &Value) -> bool {
        true
    }

    pub(super) fn faults(&self, _: NodeId, _: &Map<String, Value>, _: &Value) -> Vec<Fault> {
        Vec::new()
    }

    pub(super) fn matches(&self, _pattern: usize, _name: &str) -> bool {
        false
    }
}

/// Refuses every pattern, quietly: there is nothing to match with.
pub(super) fn is_usable_pattern(_pattern: &str, _at: &str) -> bool {
    false
}

/// Has none.
pub(super) fn meta_schema(_uri: &str) -> Option<&'static Value> {
    None
}
