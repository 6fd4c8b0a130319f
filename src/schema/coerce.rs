//! Conversion of what models get slightly wrong, without losing anything.

use std::mem;

use serde_json::{Map, Value};

use crate::schema::{
    convert,
    kind::{Kinds, Type},
    plan::{Node, NodeId, Union},
    walk::Walk,
};

/// One conversion of a whole value.
#[derive(Debug)]
pub(super) struct Coercion<'a> {
    walk: &'a Walk<'a>,
    depth_left: usize,
    /// Whether there may be whole numbers written with a fraction, the one thing to mend in a valid value.
    has_fractions: bool,
    /// Whether lone values may become lists, which only the first of several conversions does.
    may_wrap: bool,
    /// The nodes that just wrapped the value at hand in a list.
    wraps: Vec<NodeId>,
}

impl<'a> Coercion<'a> {
    pub(super) fn new(walk: &'a Walk<'a>, max_depth: usize, has_fractions: bool) -> Coercion<'a> {
        Coercion { walk, depth_left: max_depth, has_fractions, may_wrap: true, wraps: Vec::new() }
    }

    /// The next conversion of a value that was converted already.
    pub(super) fn again(self) -> Coercion<'a> {
        Coercion { may_wrap: false, ..self }
    }

    /// Converts a value to what a node wants, as far as that goes.
    pub(super) fn value(&mut self, id: NodeId, value: Value) -> Value {
        if !self.walk.step() {
            return value;
        }
        let node = self.walk.node(id);
        let (value, wrapped) = self.typed(id, node, member(node, value));
        let n_wraps = self.wraps.len();
        self.wraps.extend(wrapped.then_some(id));
        let mut value = node.all.iter().fold(value, |value, &part| self.value(part, value));
        for union in &node.unions {
            value = self.union(id, union, value);
        }
        value = self.contents(node, value);
        let more = value.as_object().map(|it| node.fields.wanted_by(it).collect::<Vec<_>>());
        for part in more.into_iter().flatten().chain(self.walk.consequence(node, &value)) {
            value = self.value(part, value);
        }
        self.wraps.truncate(n_wraps);
        value
    }

    /// Converts by `type`; tells whether the value was wrapped in a list for it.
    fn typed(&mut self, id: NodeId, node: &Node, value: Value) -> (Value, bool) {
        let kind = Kinds::of(&value);
        if node.types.iter().any(|&it| Kinds::from(it).contains(kind)) {
            return (whole(node, value), false);
        }
        if value.is_null() {
            return (value, false);
        }
        let mut fallback = None;
        for &wanted in &node.types {
            let Some((converted, wrapped)) = self.convert(id, wanted, &value) else { continue };
            if node.types.len() == 1 {
                return (converted, wrapped);
            }
            self.wraps.extend(wrapped.then_some(id));
            let candidate = self.contents(node, converted.clone());
            self.wraps.truncate(self.wraps.len() - usize::from(wrapped));
            if self.walk.accepts(id, &candidate) {
                return (candidate, wrapped);
            }
            fallback.get_or_insert((converted, wrapped));
        }
        fallback.unwrap_or((value, false))
    }

    fn convert(&mut self, id: NodeId, wanted: Type, value: &Value) -> Option<(Value, bool)> {
        let text = value.as_str();
        let converted = match wanted {
            Type::Null => None,
            Type::Boolean => convert::boolean(value).map(Value::from),
            Type::Integer => convert::integer(text?).map(Value::from),
            Type::Number => convert::number(text?).map(Value::from),
            Type::String => convert::text(value).map(Value::from),
            Type::Object => self.parsed(convert::object(text?)),
            Type::Array => {
                let parsed = self.parsed(text.and_then(convert::array));
                if parsed.is_none() && self.may_wrap && !self.wraps.contains(&id) {
                    return Some((Value::Array(vec![value.clone()]), true));
                }
                parsed
            }
        };
        converted.map(|it| (it, false))
    }

    /// A value that was text: refused when it nests too deeply for its place.
    fn parsed(&mut self, value: Option<Value>) -> Option<Value> {
        let size = Size::of(value.as_ref()?, self.depth_left)?;
        self.has_fractions |= size.has_fractions;
        value
    }

    fn union(&mut self, id: NodeId, union: &Union, value: Value) -> Value {
        let accepting = union.branches.iter().find(|&&it| self.walk.accepts(it, &value));
        if let Some(&branch) = accepting {
            return self.mended(branch, value);
        }
        if value.is_null() {
            return value;
        }
        let node = self.walk.node(id);
        let only = only_branch(self.walk, union);
        let mut fallback = None;
        for &branch in &union.branches {
            if self.is_hopeless(branch, &value) {
                continue;
            }
            let converted = self.value(branch, value.clone());
            let candidate = self.contents(node, converted.clone());
            if self.walk.accepts(id, &candidate) {
                return candidate;
            }
            let is_good = only == Some(branch) || self.walk.accepts(branch, &converted);
            if fallback.is_none() && is_good {
                fallback = Some(converted);
            }
        }
        fallback.unwrap_or(value)
    }

    /// Writes the whole numbers of a valid value without a fraction.
    fn mended(&mut self, branch: NodeId, value: Value) -> Value {
        if !self.has_fractions {
            return value;
        }
        let mended = self.value(branch, value.clone());
        if self.walk.accepts(branch, &mended) { mended } else { value }
    }

    /// Whether a field that tells branches apart says that this one is not meant.
    fn is_hopeless(&self, branch: NodeId, value: &Value) -> bool {
        let Value::Object(object) = value else { return false };
        object.iter().any(|(name, value)| {
            let members = self.walk.field(branch, name).map(|id| self.walk.node(id));
            let members = members.and_then(|node| node.members.as_ref());
            let fits = |it: &Value| convert::equal(value, it) || convert::becomes(value, it);
            members.is_some_and(|members| !members.iter().any(fits))
        })
    }

    fn contents(&mut self, node: &Node, value: Value) -> Value {
        if self.depth_left == 0 {
            return value;
        }
        self.depth_left -= 1;
        let value = match value {
            Value::Object(fields) => Value::Object(self.fields(node, fields)),
            Value::Array(items) => Value::Array(self.items(node, items)),
            _ => value,
        };
        self.depth_left += 1;
        value
    }

    fn fields(&mut self, node: &Node, fields: Map<String, Value>) -> Map<String, Value> {
        let outer = mem::take(&mut self.wraps);
        let mut converted = Map::with_capacity(fields.len());
        for (name, mut value) in fields {
            if value.is_null() && self.is_superfluous(node, &name) {
                continue;
            }
            for rule in self.walk.rules(&node.fields, &name) {
                value = self.value(rule, value);
            }
            converted.insert(name, value);
        }
        self.wraps = outer;
        converted
    }

    /// Whether a null in this field stands for its absence.
    fn is_superfluous(&self, node: &Node, name: &str) -> bool {
        let rule = node.fields.known.get(name);
        let is_required = node.fields.required.iter().any(|it| it == name);
        rule.is_some_and(|&rule| !is_required && !self.walk.accepts(rule, &Value::Null))
    }

    fn items(&mut self, node: &Node, items: Vec<Value>) -> Vec<Value> {
        let rules = node.items.first.iter().copied().map(Some);
        let rules = rules.chain(std::iter::repeat(node.items.rest));
        // The only item of a list that was just made may not be wrapped by the same node again.
        let outer = (items.len() != 1).then(|| mem::take(&mut self.wraps));
        let convert = |(value, rule): (Value, Option<NodeId>)| match rule {
            Some(id) => self.value(id, value),
            None => value,
        };
        let items = items.into_iter().zip(rules).map(convert).collect();
        self.wraps = outer.unwrap_or_else(|| mem::take(&mut self.wraps));
        items
    }
}

/// The member of `const` or `enum` that a value stands for, if it is exactly one.
fn member(node: &Node, value: Value) -> Value {
    let Some(members) = &node.members else { return value };
    if let Some(same) = members.iter().find(|member| convert::equal(member, &value)) {
        return same.clone();
    }
    let mut matches = members.iter().filter(|member| convert::becomes(&value, member));
    match (matches.next(), matches.next()) {
        (Some(only), None) => only.clone(),
        _ => value,
    }
}

/// Writes a whole number without a fraction where an integer is wanted and a fraction is not.
fn whole(node: &Node, value: Value) -> Value {
    let is_integer = !node.types.contains(&Type::Number);
    match &value {
        Value::Number(number) if is_integer && number.is_f64() => {
            convert::whole(number).map_or(value, Value::Number)
        }
        _ => value,
    }
}

/// The branch of a union that is not for null, if it is the only one.
fn only_branch(walk: &Walk<'_>, union: &Union) -> Option<NodeId> {
    let mut others = union.branches.iter().filter(|&&it| walk.node(it).kinds != Kinds::NULL);
    match (others.next(), others.next()) {
        (Some(&only), None) => Some(only),
        _ => None,
    }
}

/// How large a value is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// How many values it consists of.
    pub(super) count: usize,
    /// Whether there are whole numbers written with a fraction.
    pub(super) has_fractions: bool,
}

impl Size {
    /// Measures a value; none if it nests deeper than `max_depth` arrays and objects.
    pub(super) fn of(value: &Value, max_depth: usize) -> Option<Size> {
        let mut size = Size { count: 0, has_fractions: false };
        size.add(value, max_depth).then_some(size)
    }

    /// Measures the fields of an object, which is one level itself.
    pub(super) fn of_object(fields: &Map<String, Value>, max_depth: usize) -> Option<Size> {
        let mut size = Size { count: 1, has_fractions: false };
        fields.values().all(|value| size.add(value, max_depth - 1)).then_some(size)
    }

    fn add(&mut self, value: &Value, depth_left: usize) -> bool {
        self.count += 1;
        match value {
            Value::Number(number) => {
                self.has_fractions |= number.is_f64() && !convert::has_fraction(number);
                true
            }
            Value::Array(items) => {
                depth_left > 0 && items.iter().all(|item| self.add(item, depth_left - 1))
            }
            Value::Object(fields) => {
                depth_left > 0 && fields.values().all(|value| self.add(value, depth_left - 1))
            }
            _ => true,
        }
    }
}
