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
    pub(super) fn again(self, has_fractions: bool) -> Coercion<'a> {
        Coercion { may_wrap: false, has_fractions, ..self }
    }

    /// Converts a value to what a node wants, as far as that goes.
    ///
    /// Works in place and in small functions: this recurses with the value, and an unoptimized build keeps room for
    /// every temporary.
    pub(super) fn value(&mut self, id: NodeId, value: &mut Value) {
        if !self.walk.step() {
            return;
        }
        let node = self.walk.node(id);
        choose_member(node, value);
        let wrapped = self.typed(id, node, value);
        self.wraps.extend(wrapped.then_some(id));
        for &part in &node.all {
            self.value(part, value);
        }
        for union in &node.unions {
            self.union(id, union, value);
        }
        self.contents(node, value);
        self.consequences(node, value);
        self.unevaluated(node, value);
        self.wraps.truncate(self.wraps.len() - usize::from(wrapped));
    }

    fn consequences(&mut self, node: &Node, value: &mut Value) {
        let wanted = value.as_object().map(|it| node.fields.wanted_by(it).collect::<Vec<_>>());
        for part in wanted.into_iter().flatten().chain(self.walk.consequence(node, value)) {
            self.value(part, value);
        }
    }

    /// Converts what only `unevaluatedProperties` or `unevaluatedItems` speaks of.
    fn unevaluated(&mut self, node: &Node, value: &mut Value) {
        let parts: Option<(NodeId, Vec<String>, Vec<usize>)> = match &*value {
            Value::Object(fields) => node.fields.unevaluated.map(|id| {
                let names = self.walk.unevaluated_fields(node, value, fields);
                (id, names.into_iter().map(str::to_owned).collect(), Vec::new())
            }),
            Value::Array(items) => node
                .items
                .unevaluated
                .map(|id| (id, Vec::new(), self.walk.unevaluated_items(node, value, items))),
            _ => None,
        };
        let Some((id, names, places)) = parts else { return };
        let Some(depth_left) = self.depth_left.checked_sub(1) else { return };
        let outer = mem::take(&mut self.wraps);
        let depth_left = mem::replace(&mut self.depth_left, depth_left);
        for name in names {
            if let Some(part) = value.get_mut(&name) {
                self.value(id, part);
            }
        }
        for place in places {
            if let Some(part) = value.get_mut(place) {
                self.value(id, part);
            }
        }
        (self.wraps, self.depth_left) = (outer, depth_left);
    }

    /// Converts by `type`; tells whether the value was wrapped in a list for it.
    fn typed(&mut self, id: NodeId, node: &Node, value: &mut Value) -> bool {
        let kind = Kinds::of(value);
        if node.types.iter().any(|&it| Kinds::from(it).contains(kind)) {
            drop_zero_fraction(node, value);
            return false;
        }
        if value.is_null() {
            return false;
        }
        let (converted, wrapped) = match node.types[..] {
            [only] => self.convert(id, only, value),
            _ => self.first_fit(id, node, value),
        }
        .unwrap_or_else(|| (value.take(), false));
        *value = converted;
        wrapped
    }

    /// Converts to the first of several types that fits, or at least can be had.
    fn first_fit(&mut self, id: NodeId, node: &Node, value: &Value) -> Option<(Value, bool)> {
        let mut fallback = None;
        for &wanted in &node.types {
            let Some((converted, wrapped)) = self.convert(id, wanted, value) else { continue };
            let mut candidate = converted.clone();
            self.wraps.extend(wrapped.then_some(id));
            self.contents(node, &mut candidate);
            self.wraps.truncate(self.wraps.len() - usize::from(wrapped));
            if self.walk.accepts(id, &candidate) {
                return Some((candidate, wrapped));
            }
            fallback.get_or_insert((converted, wrapped));
        }
        fallback
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

    fn union(&mut self, id: NodeId, union: &Union, value: &mut Value) {
        let accepting = union.branches.iter().find(|&&it| self.walk.accepts(it, value));
        if let Some(&branch) = accepting {
            self.mend(branch, value);
        } else if !value.is_null()
            && let Some(converted) = self.first_branch(id, union, value)
        {
            *value = converted;
        }
    }

    /// The conversion by the first branch whose result is valid.
    fn first_branch(&mut self, id: NodeId, union: &Union, value: &Value) -> Option<Value> {
        let only = only_branch(self.walk, union);
        let mut fallback = None;
        for &branch in &union.branches {
            if self.is_hopeless(branch, value) {
                continue;
            }
            let mut converted = value.clone();
            self.value(branch, &mut converted);
            let is_good = only == Some(branch) || self.walk.accepts(branch, &converted);
            let mut candidate = converted.clone();
            self.contents(self.walk.node(id), &mut candidate);
            if self.walk.accepts(id, &candidate) {
                return Some(candidate);
            }
            if fallback.is_none() && is_good {
                fallback = Some(converted);
            }
        }
        fallback
    }

    /// Writes the whole numbers of a valid value without a fraction.
    fn mend(&mut self, branch: NodeId, value: &mut Value) {
        if !self.has_fractions {
            return;
        }
        let original = value.clone();
        self.value(branch, value);
        if !self.walk.accepts(branch, value) {
            *value = original;
        }
    }

    /// Whether a field that tells branches apart says that this one is not meant.
    fn is_hopeless(&self, branch: NodeId, value: &Value) -> bool {
        let Value::Object(object) = value else { return false };
        object.iter().any(|(name, value)| {
            let members = self.walk.field(branch, name).map(|id| self.walk.node(id));
            let members = members.and_then(|node| node.members.as_ref());
            members.is_some_and(|members| {
                let readings = convert::readings(value);
                let fits = |member: &Value| {
                    convert::equal(value, member)
                        || readings.iter().any(|it| convert::equal(it, member))
                };
                !members.iter().any(fits)
            })
        })
    }

    fn contents(&mut self, node: &Node, value: &mut Value) {
        if self.depth_left == 0 {
            return;
        }
        self.depth_left -= 1;
        match value {
            Value::Object(fields) => self.fields(node, fields),
            Value::Array(items) => self.items(node, items),
            _ => (),
        }
        self.depth_left += 1;
    }

    fn fields(&mut self, node: &Node, fields: &mut Map<String, Value>) {
        let outer = mem::take(&mut self.wraps);
        fields.retain(|name, value| !value.is_null() || !self.is_superfluous(node, name));
        for (name, value) in fields.iter_mut() {
            for rule in self.walk.rules(&node.fields, name) {
                self.value(rule, value);
            }
        }
        self.wraps = outer;
    }

    /// Whether a null in this field stands for its absence.
    fn is_superfluous(&self, node: &Node, name: &str) -> bool {
        let is_required = node.fields.required.iter().any(|it| it == name);
        let is_refused = |rule| !self.walk.accepts(rule, &Value::Null);
        node.fields.known.contains_key(name)
            && !is_required
            && self.walk.rules(&node.fields, name).into_iter().any(is_refused)
    }

    fn items(&mut self, node: &Node, items: &mut [Value]) {
        // The only item of a list that was just made may not be wrapped by the same node again.
        let outer = (items.len() != 1).then(|| mem::take(&mut self.wraps));
        for (index, value) in items.iter_mut().enumerate() {
            if let Some(rule) = node.items.rule(index) {
                self.value(rule, value);
            }
        }
        if let Some(outer) = outer {
            self.wraps = outer;
        }
    }
}

/// Takes the member of `const` or `enum` that a value stands for, if it is exactly one.
fn choose_member(node: &Node, value: &mut Value) {
    let Some(members) = &node.members else { return };
    if let Some(same) = members.iter().find(|member| convert::equal(member, value)) {
        value.clone_from(same);
        return;
    }
    let readings = convert::readings(value);
    let is_meant = |member: &&Value| readings.iter().any(|it| convert::equal(it, member));
    let mut matches = members.iter().filter(is_meant);
    if let (Some(only), None) = (matches.next(), matches.next()) {
        value.clone_from(only);
    }
}

/// Writes a whole number without a fraction where an integer is wanted and a fraction is not.
fn drop_zero_fraction(node: &Node, value: &mut Value) {
    if let Value::Number(number) = value
        && number.is_f64()
        && !node.types.contains(&Type::Number)
        && let Some(whole) = convert::whole(number)
    {
        *number = whole;
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
