//! A prepared schema as nodes that refer to each other by number.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::schema::{
    convert,
    kind::{Kinds, Type},
    survey,
};

const ASSERTIONS: [&str; 15] = [
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "dependentRequired",
];

pub(super) type NodeId = usize;

/// The node that accepts everything.
pub(super) const ANYTHING: NodeId = 0;
pub(super) const ROOT: NodeId = 1;

/// All nodes of one schema, the root first.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Node>,
    /// The keys of all `patternProperties`.
    pub(super) patterns: Vec<String>,
    /// The longest chain of schemas that apply to one value.
    pub(super) chain: usize,
    /// How many visits of schemas one value may cost a validator that remembers nothing.
    pub(super) ways: usize,
}

/// One schema: what it asserts itself, and the nodes it consists of.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// What can be accepted at best, its parts considered.
    pub(super) kinds: Kinds,
    pub(super) types: Vec<Type>,
    /// The values of `const` or `enum`.
    pub(super) members: Option<Vec<Value>>,
    /// The flat keywords that are left to the validator.
    pub(super) assertions: Map<String, Value>,
    /// The target of `$ref` and the parts of `allOf`.
    pub(super) all: Vec<NodeId>,
    pub(super) unions: Vec<Union>,
    pub(super) not: Option<NodeId>,
    pub(super) condition: Option<Condition>,
    pub(super) fields: Fields,
    pub(super) items: Items,
}

#[derive(Debug)]
pub(super) struct Union {
    pub(super) branches: Vec<NodeId>,
    /// Whether two matching branches are one too many: `oneOf`.
    pub(super) is_exclusive: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Condition {
    pub(super) test: NodeId,
    pub(super) then: Option<NodeId>,
    pub(super) otherwise: Option<NodeId>,
}

/// The rules for the fields of an object.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) known: HashMap<String, NodeId>,
    /// The names in `known` in the order of the schema.
    pub(super) order: Vec<String>,
    pub(super) required: Vec<String>,
    /// Numbers of patterns and what holds for the fields that match them.
    pub(super) patterns: Vec<(usize, NodeId)>,
    pub(super) additional: Option<NodeId>,
    pub(super) names: Option<NodeId>,
    /// What holds for the fields that nothing else speaks of.
    pub(super) unevaluated: Option<NodeId>,
    pub(super) dependents: Vec<(String, NodeId)>,
}

impl Fields {
    /// The nodes that hold for a whole object because of the fields it has.
    pub(super) fn wanted_by(&self, object: &Map<String, Value>) -> impl Iterator<Item = NodeId> {
        let present = self.dependents.iter().filter(|(name, _)| object.contains_key(name));
        present.map(|(_, id)| *id)
    }
}

/// The rules for the items of an array.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) first: Vec<NodeId>,
    pub(super) rest: Option<NodeId>,
    pub(super) contains: Option<Contains>,
    /// What holds for the items that nothing else speaks of.
    pub(super) unevaluated: Option<NodeId>,
}

impl Items {
    /// The node that holds for the item at this place.
    pub(super) fn rule(&self, index: usize) -> Option<NodeId> {
        self.first.get(index).copied().or(self.rest)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Contains {
    pub(super) node: NodeId,
    pub(super) min: u64,
    pub(super) max: Option<u64>,
}

impl Plan {
    /// Reads a schema as the preparation leaves it.
    pub(super) fn new(prepared: &Value) -> Result<Plan, String> {
        let mut plan = Plan { nodes: Vec::new(), patterns: Vec::new(), chain: 0, ways: 0 };
        plan.nodes.push(Node { kinds: Kinds::ALL, ..Node::default() });
        let targets = prepared.get("$defs").and_then(Value::as_object);
        let n_targets = targets.map_or(0, Map::len);
        plan.nodes.resize_with(ROOT + 1 + n_targets, Node::default);
        plan.nodes[ROOT] = plan.read(prepared);
        for (target, id) in targets.into_iter().flat_map(Map::values).zip(ROOT + 1..) {
            plan.nodes[id] = plan.read(target);
        }
        survey::complete(&mut plan)?;
        Ok(plan)
    }

    fn add(&mut self, schema: &Value) -> NodeId {
        if matches!(schema, Value::Bool(true)) {
            return ANYTHING;
        }
        let node = self.read(schema);
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn add_at(&mut self, schema: &Value, key: &str) -> Option<NodeId> {
        schema.get(key).map(|schema| self.add(schema))
    }

    fn add_list(&mut self, schema: &Value, key: &str) -> Vec<NodeId> {
        let schemas = schema.get(key).and_then(Value::as_array);
        schemas.into_iter().flatten().map(|schema| self.add(schema)).collect()
    }

    fn read(&mut self, schema: &Value) -> Node {
        let Value::Object(keywords) = schema else {
            let kinds = if *schema == Value::Bool(false) { Kinds::NONE } else { Kinds::ALL };
            return Node { kinds, ..Node::default() };
        };
        let mut all = self.add_list(schema, "allOf");
        all.splice(0..0, keywords.get("$ref").and_then(Value::as_str).map(target));
        let unions = ["anyOf", "oneOf"].into_iter().filter(|key| keywords.contains_key(*key));
        let unions = unions.map(|key| Union {
            branches: self.add_list(schema, key),
            is_exclusive: key == "oneOf",
        });
        let unions = unions.collect();
        let condition = self.add_at(schema, "if").map(|test| Condition {
            test,
            then: self.add_at(schema, "then"),
            otherwise: self.add_at(schema, "else"),
        });
        let types = types(schema);
        let kinds = match types[..] {
            [] => Kinds::ALL,
            _ => types.iter().fold(Kinds::NONE, |kinds, &it| kinds | it.into()),
        };
        let assertions = keywords.iter().filter(|(key, _)| ASSERTIONS.contains(&key.as_str()));
        Node {
            kinds,
            types,
            members: members(schema),
            assertions: assertions.map(|(key, value)| (key.clone(), value.clone())).collect(),
            all,
            unions,
            not: self.add_at(schema, "not"),
            condition,
            fields: self.fields(schema),
            items: self.items(schema),
        }
    }

    fn fields(&mut self, schema: &Value) -> Fields {
        let mut fields = Fields {
            additional: self.add_at(schema, "additionalProperties"),
            names: self.add_at(schema, "propertyNames"),
            unevaluated: self.add_at(schema, "unevaluatedProperties"),
            ..Fields::default()
        };
        let part = |key| schema.get(key).and_then(Value::as_object).into_iter().flatten();
        for (name, schema) in part("properties") {
            fields.known.insert(name.clone(), self.add(schema));
            fields.order.push(name.clone());
        }
        for (pattern, schema) in part("patternProperties") {
            self.patterns.push(pattern.clone());
            fields.patterns.push((self.patterns.len() - 1, self.add(schema)));
        }
        for (name, schema) in part("dependentSchemas") {
            fields.dependents.push((name.clone(), self.add(schema)));
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        fields.required = required.filter_map(Value::as_str).map(str::to_owned).collect();
        fields
    }

    fn items(&mut self, schema: &Value) -> Items {
        let bound = |key| schema.get(key).and_then(Value::as_u64);
        let contains = self.add_at(schema, "contains").map(|node| Contains {
            node,
            min: bound("minContains").unwrap_or(1),
            max: bound("maxContains"),
        });
        Items {
            first: self.add_list(schema, "prefixItems"),
            rest: self.add_at(schema, "items"),
            contains,
            unevaluated: self.add_at(schema, "unevaluatedItems"),
        }
    }
}

/// The node of `#` or `#/$defs/N`, the only references that a prepared schema has.
fn target(reference: &str) -> NodeId {
    let number = reference.strip_prefix("#/$defs/").and_then(|it| it.parse::<usize>().ok());
    number.map_or(ROOT, |number| ROOT + 1 + number)
}

fn types(schema: &Value) -> Vec<Type> {
    match schema.get("type") {
        Some(Value::String(name)) => Type::from_name(name).into_iter().collect(),
        Some(Value::Array(names)) => {
            names.iter().filter_map(|it| Type::from_name(it.as_str()?)).collect()
        }
        _ => Vec::new(),
    }
}

fn members(schema: &Value) -> Option<Vec<Value>> {
    let listed = schema.get("enum").and_then(Value::as_array);
    let Some(only) = schema.get("const") else {
        return listed.cloned();
    };
    let is_listed = listed.is_none_or(|it| it.iter().any(|member| convert::equal(member, only)));
    Some(is_listed.then(|| only.clone()).into_iter().collect())
}

impl Node {
    /// Whether the value is listed by `const` or `enum`, if there is such a list.
    pub(super) fn lists(&self, value: &Value) -> bool {
        let is_equal = |member| convert::equal(member, value);
        self.members.as_ref().is_none_or(|members| members.iter().any(is_equal))
    }

    /// Calls `visit` with each node that applies to the same value.
    pub(super) fn for_each_edge(&mut self, visit: impl FnMut(&mut NodeId)) {
        let edges = self.all.iter_mut();
        let edges = edges.chain(self.unions.iter_mut().flat_map(|union| &mut union.branches));
        let edges = edges.chain(self.fields.dependents.iter_mut().map(|(_, node)| node));
        let edges = edges.chain(&mut self.not);
        let condition = self.condition.iter_mut();
        let condition = condition.flat_map(|Condition { test, then, otherwise }| {
            [Some(test), then.as_mut(), otherwise.as_mut()].into_iter().flatten()
        });
        edges.chain(condition).for_each(visit);
    }
}
