//! What is wrong with a value, in words a model can act on.

use std::mem;

use serde_json::{Map, Value};

use crate::schema::{
    convert,
    kind::{self, Kinds, Type},
    plan::{Contains, Fields, Items, Node, NodeId, Union},
    walk::Walk,
};

/// How many violations are written out; the rest is counted.
const MAX_LISTED: usize = 40;
const MAX_MEMBERS: usize = 20;
/// How long a value, a name or a path may be in a message, in characters.
const MAX_QUOTE: usize = 120;

/// What one node asserts and a value breaks.
#[derive(Debug)]
pub(super) struct Fault {
    /// The field that is missing, if that is the fault.
    pub(super) field: Option<String>,
    pub(super) text: String,
}

/// A place in a value and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) path: String,
    pub(super) text: String,
}

/// The search for everything that is wrong with one value.
#[derive(Debug)]
pub(super) struct Explanation<'a> {
    walk: &'a Walk<'a>,
    path: Vec<String>,
    violations: Vec<Violation>,
    /// What `unevaluatedProperties` or `unevaluatedItems` may mean, for want of anything else.
    suspects: Vec<Violation>,
    n_unlisted: usize,
}

/// Everything that is wrong with a value.
#[derive(Debug)]
pub(super) struct Violations {
    pub(super) listed: Vec<Violation>,
    pub(super) n_unlisted: usize,
}

impl<'a> Explanation<'a> {
    /// Explains why a node does not accept a value.
    pub(super) fn of(walk: &'a Walk<'a>, id: NodeId, value: &Value) -> Violations {
        let mut explanation = Explanation {
            walk,
            path: Vec::new(),
            violations: Vec::new(),
            suspects: Vec::new(),
            n_unlisted: 0,
        };
        explanation.node(id, value);
        let mut listed = explanation.violations;
        if listed.is_empty() {
            listed = explanation.suspects;
        }
        if listed.is_empty() {
            let text = "does not match the schema".to_owned();
            listed.push(Violation { path: "root".to_owned(), text });
        }
        Violations { listed, n_unlisted: explanation.n_unlisted }
    }

    fn node(&mut self, id: NodeId, value: &Value) {
        if !self.walk.step() {
            return;
        }
        let node = self.walk.node(id);
        if is_never(node) {
            return self.report("nothing is allowed here");
        }
        let is_typed = node.types.iter().any(|&it| Kinds::from(it).contains(Kinds::of(value)));
        if !node.types.is_empty() && !is_typed {
            return self.report(&mismatch(&node.types, value));
        }
        if let Some(members) = node.members.as_ref().filter(|_| !node.lists(value)) {
            return self.report(&one_of(members));
        }
        for fault in self.walk.checker.faults(id, &node.assertions, value) {
            match fault.field {
                Some(field) => self.at(&field, |it| it.report(&fault.text)),
                None => self.report(&fault.text),
            }
        }
        match value {
            Value::Object(object) => self.fields(&node.fields, object, value),
            Value::Array(items) => self.items(&node.items, items),
            _ => (),
        }
        self.parts(node, value);
        self.suspect(node, value);
    }

    fn parts(&mut self, node: &Node, value: &Value) {
        for &part in &node.all {
            self.node(part, value);
        }
        for union in &node.unions {
            self.union(union, value);
        }
        if node.not.is_some_and(|id| self.walk.accepts(id, value)) {
            self.report("matches what the schema excludes (not)");
        }
        if let Some(id) = self.walk.consequence(node, value) {
            self.node(id, value);
        }
    }

    fn fields(&mut self, fields: &Fields, object: &Map<String, Value>, whole: &Value) {
        for name in fields.required.iter().filter(|name| !object.contains_key(*name)) {
            self.at(name, |it| it.report("missing, but required"));
        }
        for (name, value) in object {
            let rules = self.walk.rules(fields, name);
            let is_unknown = !fields.known.contains_key(name)
                && rules.iter().any(|&id| is_never(self.walk.node(id)));
            if is_unknown {
                self.at(name, |it| it.report(&it.unknown_field(fields)));
            } else {
                self.at(name, |it| rules.into_iter().for_each(|id| it.node(id, value)));
            }
            if fields.names.is_some_and(|id| !self.walk.accepts_name(id, name)) {
                self.at(name, |it| it.report("a field may not have this name"));
            }
        }
        for id in fields.wanted_by(object) {
            self.node(id, whole);
        }
    }

    fn unknown_field(&self, fields: &Fields) -> String {
        let mut known: Vec<_> = fields.order.iter().map(|it| cut(it)).collect();
        let patterns = &self.walk.plan.patterns;
        let patterns = fields.patterns.iter().filter_map(|(number, _)| patterns.get(*number));
        known.extend(patterns.map(|it| format!("names that match {}", cut(it))));
        let rest = if known.len() > MAX_MEMBERS { ", …" } else { "" };
        known.truncate(MAX_MEMBERS);
        match known.len() {
            0 => "unknown field, none is allowed here".to_owned(),
            _ => format!("unknown field; known are {}{rest}", known.join(", ")),
        }
    }

    fn items(&mut self, items: &Items, values: &[Value]) {
        let n_first = items.first.len();
        let is_closed = items.rest.is_some_and(|id| is_never(self.walk.node(id)));
        if is_closed && values.len() > n_first {
            let limit = count(n_first as u64, "item");
            self.report(&format!("expected at most {limit}, got {}", values.len()));
        }
        for (index, value) in values.iter().enumerate() {
            let is_extra = is_closed && index >= n_first;
            if let Some(id) = items.rule(index).filter(|_| !is_extra) {
                self.at(&index.to_string(), |it| it.node(id, value));
            }
        }
        if let Some(contains) = items.contains {
            self.contains(contains, values);
        }
    }

    fn contains(&mut self, contains: Contains, values: &[Value]) {
        let matching = |value: &&Value| self.walk.accepts(contains.node, value);
        let found = values.iter().filter(matching).count() as u64;
        let bound = match contains {
            Contains { min, .. } if found < min => format!("at least {}", count(min, "item")),
            Contains { max: Some(max), .. } if found > max => {
                format!("at most {}", count(max, "item"))
            }
            _ => return,
        };
        self.report(&format!("expected {bound} of the kind that contains describes, got {found}"));
    }

    fn union(&mut self, union: &Union, value: &Value) {
        let count = union.branches.iter().filter(|&&id| self.walk.accepts(id, value)).count();
        match count {
            0 => self.blame(&union.branches, value),
            1 => (),
            _ if union.is_exclusive => {
                self.report(&format!("matches {count} alternatives, but must match exactly one"));
            }
            _ => (),
        }
    }

    /// Explains the branch that the value was most likely meant for.
    fn blame(&mut self, branches: &[NodeId], value: &Value) {
        let kinds = |id: NodeId| self.walk.node(id).kinds;
        let fitting = branches.iter().copied();
        let fitting = fitting.filter(|&id| kinds(id).contains(Kinds::of(value)));
        let fitting = fitting.collect::<Vec<_>>();
        if let Some(members) = self.members(if fitting.is_empty() { branches } else { &fitting }) {
            return self.report(&one_of(&members));
        }
        if fitting.is_empty() {
            let all = branches.iter().fold(Kinds::NONE, |all, &id| all | kinds(id));
            return self.report(&mismatch(&all.types(), value));
        }
        let Value::Object(object) = value else { return self.alternatives(&fitting, value) };
        match self.tagged(&fitting, object) {
            Tagged::Branches(branches) => {
                // The last of equals wins, so the first branch goes last.
                let best = branches.into_iter().rev().max_by_key(|&id| self.score(id, object));
                if let Some(best) = best {
                    self.node(best, value);
                }
            }
            Tagged::Unknown { tag, members } => self.at(&tag, |it| it.report(&one_of(&members))),
        }
    }

    /// The members of all branches, if each is nothing but a list of them.
    fn members(&self, branches: &[NodeId]) -> Option<Vec<Value>> {
        let mut all = Vec::new();
        for &id in branches {
            all.extend(self.walk.node(id).members.as_ref()?.iter().cloned());
        }
        Some(all)
    }

    /// Narrows branches by a field that tells them all apart.
    fn tagged(&self, branches: &[NodeId], object: &Map<String, Value>) -> Tagged {
        for (name, value) in object {
            let members = |&id: &NodeId| {
                let field = self.walk.node(self.walk.field(id, name)?);
                Some((id, field.members.as_ref()?))
            };
            let Some(tags) = branches.iter().map(members).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let is_meant = |members: &[Value]| members.iter().any(|it| convert::equal(it, value));
            let meant = tags.iter().filter(|(_, members)| is_meant(members)).map(|(id, _)| *id);
            let meant = meant.collect::<Vec<_>>();
            if meant.is_empty() {
                let members = tags.into_iter().flat_map(|(_, members)| members).cloned().collect();
                return Tagged::Unknown { tag: name.clone(), members };
            }
            if meant.len() < branches.len() {
                return Tagged::Branches(meant);
            }
        }
        Tagged::Branches(branches.to_vec())
    }

    /// How many fields of the object a branch knows.
    fn score(&self, id: NodeId, object: &Map<String, Value>) -> usize {
        object.keys().filter(|name| self.walk.field(id, name).is_some()).count()
    }

    /// Says what each of a few branches misses.
    fn alternatives(&mut self, branches: &[NodeId], value: &Value) {
        if let [only] = branches {
            return self.node(*only, value);
        }
        let outer = mem::take(&mut self.violations);
        let path = self.place();
        let mut texts = Vec::new();
        for &id in branches.iter().take(3) {
            self.node(id, value);
            let first = mem::take(&mut self.violations).into_iter().next();
            texts.extend(first.map(|it| {
                if it.path == path { it.text } else { format!("{} at {}", it.text, it.path) }
            }));
        }
        self.violations = outer;
        if branches.len() > 3 {
            texts.push(format!("{} more alternatives", branches.len() - 3));
        }
        texts.dedup();
        self.report(&texts.join(", or "));
    }

    fn suspect(&mut self, node: &Node, value: &Value) {
        let walk = self.walk;
        if let (Value::Object(object), Some(id)) = (value, node.fields.unevaluated) {
            for name in walk.unevaluated_fields(node, value, object) {
                self.at(name, |it| it.suspect_at(id, &object[name], "unknown field"));
            }
        }
        if let (Value::Array(items), Some(id)) = (value, node.items.unevaluated) {
            for place in walk.unevaluated_items(node, value, items) {
                self.at(&place.to_string(), |it| {
                    it.suspect_at(id, &items[place], "one item too many");
                });
            }
        }
    }

    /// Notes what is wrong with a part that nothing else speaks of.
    fn suspect_at(&mut self, id: NodeId, value: &Value, unwanted: &str) {
        if self.walk.accepts(id, value) || self.suspects.len() >= MAX_LISTED {
            return;
        }
        if is_never(self.walk.node(id)) {
            self.suspects.push(Violation { path: self.place(), text: unwanted.to_owned() });
            return;
        }
        let outer = mem::take(&mut self.violations);
        self.node(id, value);
        let found = mem::replace(&mut self.violations, outer);
        self.suspects.extend(found);
    }

    fn at(&mut self, segment: &str, visit: impl FnOnce(&mut Self)) {
        self.path.push(cut(segment));
        visit(self);
        self.path.pop();
    }

    fn place(&self) -> String {
        if self.path.is_empty() { "root".to_owned() } else { self.path.join(".") }
    }

    fn report(&mut self, text: &str) {
        let violation = Violation { path: self.place(), text: text.to_owned() };
        if self.violations.contains(&violation) {
            return;
        }
        if self.violations.len() < MAX_LISTED {
            self.violations.push(violation);
        } else {
            self.n_unlisted += 1;
        }
    }
}

enum Tagged {
    Branches(Vec<NodeId>),
    Unknown { tag: String, members: Vec<Value> },
}

/// Whether a node is the schema `false`.
fn is_never(node: &Node) -> bool {
    node.kinds == Kinds::NONE
        && node.all.is_empty()
        && node.unions.is_empty()
        && node.types.is_empty()
}

fn mismatch(types: &[Type], value: &Value) -> String {
    format!("expected {}, got {}", kind::list(types), Type::of(value).name())
}

fn one_of(members: &[Value]) -> String {
    let quoted = members.iter().take(MAX_MEMBERS).map(|it| cut(&it.to_string()));
    let quoted = quoted.collect::<Vec<_>>().join(", ");
    match members.len() {
        0 => "nothing is allowed here".to_owned(),
        1 => format!("expected {quoted}"),
        n if n > MAX_MEMBERS => format!("expected one of {quoted}, … ({n} in all)"),
        _ => format!("expected one of {quoted}"),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A number of things, with the right ending.
pub(super) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
