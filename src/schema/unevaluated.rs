//! The fields and items that no part of a schema speaks of, which `unevaluatedProperties` and `unevaluatedItems` are
//! about.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::schema::{
    plan::{Node, NodeId},
    walk::Walk,
};

/// What the parts of a node that accept a value speak of.
#[derive(Debug, Default)]
struct Evaluated<'v> {
    all: bool,
    fields: HashSet<&'v str>,
    items: HashSet<usize>,
}

impl Walk<'_> {
    /// Whether the fields or items that nothing speaks of are as the node wants them.
    pub(super) fn accepts_unevaluated(&self, node: &Node, value: &Value) -> bool {
        match value {
            Value::Object(object) => node.fields.unevaluated.is_none_or(|id| {
                let names = self.unevaluated_fields(node, value, object);
                names.into_iter().all(|name| self.accepts(id, &object[name]))
            }),
            Value::Array(items) => node.items.unevaluated.is_none_or(|id| {
                let places = self.unevaluated_items(node, value, items);
                places.into_iter().all(|place| self.accepts(id, &items[place]))
            }),
            _ => true,
        }
    }

    /// The fields that nothing in the node speaks of.
    pub(super) fn unevaluated_fields<'v>(
        &self,
        node: &Node,
        whole: &'v Value,
        object: &'v Map<String, Value>,
    ) -> Vec<&'v str> {
        let mut found = Evaluated::default();
        self.evaluate(node, whole, &mut found);
        let names = object.keys().map(String::as_str).filter(|_| !found.all);
        names.filter(|name| !found.fields.contains(name)).collect()
    }

    /// The places of the items that nothing in the node speaks of.
    pub(super) fn unevaluated_items(
        &self,
        node: &Node,
        whole: &Value,
        items: &[Value],
    ) -> Vec<usize> {
        let mut found = Evaluated::default();
        self.evaluate(node, whole, &mut found);
        let places = (0..items.len()).filter(|_| !found.all);
        places.filter(|place| !found.items.contains(place)).collect()
    }

    /// Adds what a node and all in it that applies to the same value speak of.
    fn evaluate<'v>(&self, node: &Node, value: &'v Value, found: &mut Evaluated<'v>) {
        // Out of steps nothing is refused.
        found.all |= !self.step();
        if found.all {
            return;
        }
        match value {
            Value::Object(object) => self.evaluate_fields(node, object, found),
            Value::Array(items) => self.evaluate_items(node, items, found),
            _ => return,
        }
        let accepting = |id: &NodeId| self.accepts(*id, value);
        let branches = node.unions.iter().flat_map(|union| &union.branches).copied();
        let mut parts = branches.filter(accepting).collect::<Vec<_>>();
        parts.extend(&node.all);
        if let Some(condition) = node.condition {
            parts.extend(Some(condition.test).filter(accepting));
            parts.extend(self.consequence(node, value));
        }
        if let Value::Object(object) = value {
            parts.extend(node.fields.wanted_by(object));
        }
        for id in parts {
            let part = self.node(id);
            let speaks_of_all = match value {
                Value::Object(_) => part.fields.unevaluated.is_some(),
                _ => part.items.unevaluated.is_some(),
            };
            found.all |= speaks_of_all;
            self.evaluate(part, value, found);
        }
    }

    fn evaluate_fields<'v>(
        &self,
        node: &Node,
        object: &'v Map<String, Value>,
        found: &mut Evaluated<'v>,
    ) {
        found.all |= node.fields.additional.is_some();
        let is_known = |name: &&String| {
            let mut patterns = node.fields.patterns.iter();
            node.fields.known.contains_key(*name)
                || patterns.any(|(pattern, _)| self.checker.matches(*pattern, name))
        };
        found.fields.extend(object.keys().filter(is_known).map(String::as_str));
    }

    fn evaluate_items(&self, node: &Node, items: &[Value], found: &mut Evaluated<'_>) {
        found.all |= node.items.rest.is_some();
        found.items.extend(0..node.items.first.len());
        if let Some(contains) = node.items.contains {
            let matching =
                items.iter().enumerate().filter(|(_, it)| self.accepts(contains.node, it));
            found.items.extend(matching.map(|(place, _)| place));
        }
    }
}
