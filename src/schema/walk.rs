//! Whether a node of the plan accepts a value: what conversions and explanations ask on their way.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use serde_json::{Map, Value};

use crate::schema::{
    check::Checker,
    kind::Kinds,
    plan::{Fields, Items, Node, NodeId, Plan},
};

/// A plan at work on one value, with a bound on the steps.
///
/// Unions that contain themselves take exponential time in the worst case; out of steps, everything is accepted and
/// left as it is, and the validator has the last word.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    pub(super) plan: &'a Plan,
    pub(super) checker: &'a Checker,
    steps: Cell<usize>,
    /// What was found out about values that stay where they are, by node and address.
    known: Option<RefCell<HashMap<(NodeId, usize), bool>>>,
}

impl<'a> Walk<'a> {
    /// Prepares for a value that changes on the way.
    pub(super) fn new(plan: &'a Plan, checker: &'a Checker, steps: usize) -> Walk<'a> {
        Walk { plan, checker, steps: Cell::new(steps), known: None }
    }

    /// Prepares for parts of one value that stays as it is as long as this lives.
    pub(super) fn with_memory(self) -> Walk<'a> {
        Walk { known: Some(RefCell::default()), ..self }
    }

    pub(super) fn node(&self, id: NodeId) -> &'a Node {
        &self.plan.nodes[id]
    }

    /// Takes one step; false when none are left.
    pub(super) fn step(&self) -> bool {
        let steps = self.steps.get();
        self.steps.set(steps.saturating_sub(1));
        steps > 0
    }

    /// Whether the node accepts the value as it is.
    pub(super) fn accepts(&self, id: NodeId, value: &Value) -> bool {
        let node = self.node(id);
        let Some(known) = &self.known else { return self.decide(id, node, value) };
        let key = (id, std::ptr::from_ref(value).addr());
        let found = known.borrow().get(&key).copied();
        found.unwrap_or_else(|| {
            let found = self.decide(id, node, value);
            known.borrow_mut().insert(key, found);
            found
        })
    }

    /// Whether the node accepts a name, which is no part of the value.
    pub(super) fn accepts_name(&self, id: NodeId, name: &str) -> bool {
        let apart = Walk::new(self.plan, self.checker, self.steps.get());
        let is_accepted = apart.accepts(id, &Value::from(name));
        self.steps.set(apart.steps.get());
        is_accepted
    }

    fn decide(&self, id: NodeId, node: &Node, value: &Value) -> bool {
        if !self.step() {
            return true;
        }
        node.kinds.contains(Kinds::of(value))
            && node.lists(value)
            && self.checker.holds(id, &node.assertions, value)
            && self.accepts_parts(node, value)
            && match value {
                Value::Object(object) => self.accepts_fields(&node.fields, object, value),
                Value::Array(items) => self.accepts_items(&node.items, items),
                _ => true,
            }
            && self.accepts_unevaluated(node, value)
    }

    fn accepts_parts(&self, node: &Node, value: &Value) -> bool {
        let accepts = |id: &NodeId| self.accepts(*id, value);
        node.all.iter().all(accepts)
            && node.unions.iter().all(|union| {
                let mut matches = union.branches.iter().filter(|id| accepts(id));
                matches.next().is_some() && (!union.is_exclusive || matches.next().is_none())
            })
            && !node.not.is_some_and(|id| accepts(&id))
            && self.consequence(node, value).is_none_or(|id| accepts(&id))
    }

    /// What `if` leads to: `then`, `else` or nothing.
    pub(super) fn consequence(&self, node: &Node, value: &Value) -> Option<NodeId> {
        let condition = node.condition?;
        if self.accepts(condition.test, value) { condition.then } else { condition.otherwise }
    }

    fn accepts_fields(&self, fields: &Fields, object: &Map<String, Value>, whole: &Value) -> bool {
        let is_present = |name: &String| object.contains_key(name);
        fields.required.iter().all(is_present)
            && object.iter().all(|(name, value)| {
                self.rules(fields, name).into_iter().all(|id| self.accepts(id, value))
                    && fields.names.is_none_or(|id| self.accepts_name(id, name))
            })
            && fields.wanted_by(object).all(|id| self.accepts(id, whole))
    }

    /// The nodes that hold for a field of this name.
    pub(super) fn rules(&self, fields: &Fields, name: &str) -> Vec<NodeId> {
        let known = fields.known.get(name).copied();
        let matches = |(pattern, _): &&(usize, NodeId)| self.checker.matches(*pattern, name);
        let matching = fields.patterns.iter().filter(matches).map(|(_, id)| *id);
        let mut rules = known.into_iter().chain(matching).collect::<Vec<_>>();
        if rules.is_empty() {
            rules.extend(fields.additional);
        }
        rules
    }

    fn accepts_items(&self, items: &Items, values: &[Value]) -> bool {
        let fits = |(index, value)| items.rule(index).is_none_or(|id| self.accepts(id, value));
        values.iter().enumerate().all(fits)
            && items.contains.is_none_or(|contains| {
                self.has_enough(contains.node, contains.min, contains.max, values)
            })
    }

    fn has_enough(&self, id: NodeId, min: u64, max: Option<u64>, values: &[Value]) -> bool {
        let count = values.iter().filter(|value| self.accepts(id, value)).count() as u64;
        count >= min && max.is_none_or(|max| count <= max)
    }

    /// The node of a field, looked for in references and `allOf` too.
    pub(super) fn field(&self, id: NodeId, name: &str) -> Option<NodeId> {
        if !self.step() {
            return None;
        }
        let node = self.node(id);
        let known = node.fields.known.get(name).copied();
        known.or_else(|| node.all.iter().find_map(|&part| self.field(part, name)))
    }
}
