//! Makes the schemas of the real world acceptable to a strict validator.
//!
//! The result holds only keywords that decide something, each with a value of the right type. Its references are `#`
//! and `#/$defs/N`, and each of those exists.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::schema::{
    SchemaOptions, check,
    coerce::Size,
    kind::Type,
    reference::{Base, References, Scope},
};

/// How deeply the JSON of a schema may nest.
const MAX_DEPTH: usize = 128;
/// How many schemas a schema may consist of.
const MAX_SCHEMAS: usize = 20_000;

const NUMBERS: [&str; 2] = ["minimum", "maximum"];
const COUNTS: [&str; 8] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
];
const SCHEMAS: [&str; 9] = [
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
];

/// Prepares a schema; the error says where and why it cannot be used.
pub(super) fn prepare(schema: &Value, options: &SchemaOptions) -> Result<Value, String> {
    if !is_shallow(schema) {
        return Err(format!("#: nested more than {MAX_DEPTH} levels deep"));
    }
    let deep = options.documents.iter().find(|(_, document)| !is_shallow(document));
    if let Some((uri, _)) = deep {
        return Err(format!("{uri}: nested more than {MAX_DEPTH} levels deep"));
    }
    let references = References::new(schema, &options.documents);
    let base = Base::new(schema);
    let scope = references.entering(&Scope::default(), &base);
    let root = Place { schema, base, scope, at: "#".to_owned() };
    let mut preparation = Preparation {
        references,
        numbers: HashMap::from([(root.key(), None)]),
        targets: Vec::new(),
        n_schemas: 0,
        has_formats: options.formats,
    };
    let mut prepared = preparation.schema(&root)?;
    let mut targets = Map::new();
    while let Some(target) = preparation.targets.get(targets.len()).cloned() {
        targets.insert(targets.len().to_string(), preparation.schema(&target)?);
    }
    if let (false, Value::Object(keywords)) = (targets.is_empty(), &mut prepared) {
        keywords.insert("$defs".to_owned(), Value::Object(targets));
    }
    Ok(prepared)
}

/// Whether the JSON of a schema nests no deeper than it may.
pub(super) fn is_shallow(schema: &Value) -> bool {
    Size::of(schema, MAX_DEPTH).is_some()
}

struct Preparation<'a> {
    references: References<'a>,
    /// The number of each target; the root has none.
    numbers: HashMap<Key<'a>, Option<usize>>,
    targets: Vec<Place<'a>>,
    n_schemas: usize,
    has_formats: bool,
}

/// What tells targets apart: the address of the schema, and what `$dynamicRef` means in it.
type Key<'a> = (usize, Vec<(&'a str, usize)>);

/// A schema in its document.
#[derive(Clone)]
struct Place<'a> {
    schema: &'a Value,
    base: Base<'a>,
    scope: Scope<'a>,
    /// Where this is, for people.
    at: String,
}

impl<'a> Place<'a> {
    fn key(&self) -> Key<'a> {
        (std::ptr::from_ref(self.schema).addr(), self.scope.key())
    }
}

impl<'a> Preparation<'a> {
    fn part(&self, place: &Place<'a>, schema: &'a Value, key: &str) -> Place<'a> {
        let key = key.replace('~', "~0").replace('/', "~1");
        let base = place.base.entering(schema);
        let scope = if base.is(&place.base) {
            place.scope.clone()
        } else {
            self.references.entering(&place.scope, &base)
        };
        Place { schema, base, scope, at: format!("{}/{key}", place.at) }
    }

    fn schema(&mut self, place: &Place<'a>) -> Result<Value, String> {
        self.n_schemas += 1;
        if self.n_schemas > MAX_SCHEMAS {
            return Err(format!("{}: more than {MAX_SCHEMAS} schemas in one", place.at));
        }
        match place.schema {
            Value::Bool(_) => Ok(place.schema.clone()),
            Value::Object(keywords) => self.keywords(keywords, place),
            other => {
                let kind = Type::of(other).name();
                Err(format!("{}: expected a schema (an object or a boolean), got {kind}", place.at))
            }
        }
    }

    fn keywords(
        &mut self,
        keywords: &'a Map<String, Value>,
        place: &Place<'a>,
    ) -> Result<Value, String> {
        let mut prepared = Map::new();
        for (key, value) in keywords {
            let key = key.as_str();
            let part = self.part(place, value, key);
            match (key, value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    let Some(target) = self.target(key, reference, place) else {
                        tracing::warn!(
                            at = part.at,
                            reference,
                            "a reference of a schema leads nowhere"
                        );
                        return Ok(Value::Bool(false));
                    };
                    add_reference(&mut prepared, target);
                }
                ("properties" | "dependentSchemas", Value::Object(parts)) => {
                    let parts = self.map(parts, &part)?;
                    extend(&mut prepared, key, parts);
                }
                ("patternProperties", Value::Object(parts)) => {
                    let parts = self.map(parts, &part)?;
                    let usable =
                        parts.into_iter().filter(|(it, _)| check::is_usable_pattern(it, &part.at));
                    prepared.insert(key.to_owned(), usable.collect());
                }
                ("allOf", Value::Array(parts)) => self.all_of(&mut prepared, parts, &part)?,
                ("anyOf" | "oneOf", Value::Array(parts)) if !parts.is_empty() => {
                    prepared.insert(key.to_owned(), self.list(parts, &part)?);
                }
                ("prefixItems" | "items" | "additionalItems", _) => (),
                ("dependencies", Value::Object(parts)) => {
                    self.dependencies(&mut prepared, parts, &part)?;
                }
                (_, Value::Object(_) | Value::Bool(_)) if SCHEMAS.contains(&key) => {
                    prepared.insert(key.to_owned(), self.schema(&part)?);
                }
                ("format", _) if !self.has_formats => (),
                _ => assertion(&mut prepared, key, value, &part.at),
            }
        }
        self.items(&mut prepared, keywords, place)?;
        bounds(&mut prepared, keywords);
        open_for_lost_patterns(&mut prepared, keywords);
        Ok(Value::Object(prepared))
    }

    fn target(&mut self, keyword: &str, reference: &str, place: &Place<'a>) -> Option<String> {
        let (schema, base) = if matches!(keyword, "$dynamicRef" | "$recursiveRef") {
            self.references.resolve_in(reference, &place.base, &place.scope)?
        } else {
            self.references.resolve(reference, &place.base)?
        };
        let scope = self.references.entering(&place.scope, &base);
        let target = Place { schema, base, scope, at: reference.to_owned() };
        let n_targets = self.targets.len();
        let number = *self.numbers.entry(target.key()).or_insert(Some(n_targets));
        if number == Some(n_targets) {
            self.targets.push(target);
        }
        Some(number.map_or("#".to_owned(), |number| format!("#/$defs/{number}")))
    }

    fn map(
        &mut self,
        parts: &'a Map<String, Value>,
        place: &Place<'a>,
    ) -> Result<Map<String, Value>, String> {
        let mut prepared = Map::new();
        for (name, part) in parts {
            prepared.insert(name.clone(), self.schema(&self.part(place, part, name))?);
        }
        Ok(prepared)
    }

    fn list(&mut self, parts: &'a [Value], place: &Place<'a>) -> Result<Value, String> {
        let parts = parts.iter().enumerate();
        parts
            .map(|(index, part)| self.schema(&self.part(place, part, &index.to_string())))
            .collect()
    }

    fn all_of(
        &mut self,
        prepared: &mut Map<String, Value>,
        parts: &'a [Value],
        place: &Place<'a>,
    ) -> Result<(), String> {
        if let Value::Array(parts) = self.list(parts, place)?
            && !parts.is_empty()
        {
            append(prepared, "allOf", parts);
        }
        Ok(())
    }

    /// Items in the manner of 2020-12: `prefixItems`, then `items` for the rest.
    fn items(
        &mut self,
        prepared: &mut Map<String, Value>,
        keywords: &'a Map<String, Value>,
        place: &Place<'a>,
    ) -> Result<(), String> {
        let (first, rest) = match (keywords.get("prefixItems"), keywords.get("items")) {
            (_, Some(first @ Value::Array(_))) => {
                (Some(("items", first)), keywords.get_key_value("additionalItems"))
            }
            (first, _) => (first.map(|it| ("prefixItems", it)), keywords.get_key_value("items")),
        };
        if let Some((key, value @ Value::Array(parts))) = first
            && !parts.is_empty()
        {
            let parts = self.list(parts, &self.part(place, value, key))?;
            prepared.insert("prefixItems".to_owned(), parts);
        }
        if let Some((key, rest @ (Value::Object(_) | Value::Bool(_)))) = rest {
            prepared.insert("items".to_owned(), self.schema(&self.part(place, rest, key))?);
        }
        Ok(())
    }

    /// The `dependencies` of older drafts: lists of names or schemas.
    fn dependencies(
        &mut self,
        prepared: &mut Map<String, Value>,
        parts: &'a Map<String, Value>,
        place: &Place<'a>,
    ) -> Result<(), String> {
        let (mut names, mut schemas) = (Map::new(), Map::new());
        for (name, part) in parts {
            match part {
                Value::Array(_) => {
                    names.insert(name.clone(), distinct_names(part));
                }
                _ => {
                    schemas.insert(name.clone(), self.schema(&self.part(place, part, name))?);
                }
            }
        }
        extend(prepared, "dependentRequired", names);
        extend(prepared, "dependentSchemas", schemas);
        Ok(())
    }
}

/// Adds a keyword that holds no schema, if its value is of the right type.
fn assertion(prepared: &mut Map<String, Value>, key: &str, value: &Value, at: &str) {
    let value = match (key, value) {
        ("type", _) => types(value),
        ("enum", Value::Array(_)) | ("const", _) | ("format", Value::String(_)) => {
            Some(value.clone())
        }
        ("required", Value::Array(_)) => Some(distinct_names(value)),
        ("uniqueItems", Value::Bool(_)) => Some(value.clone()),
        ("multipleOf", Value::Number(it)) if it.as_f64() > Some(0.0) => Some(value.clone()),
        ("pattern", Value::String(pattern)) => {
            check::is_usable_pattern(pattern, at).then(|| value.clone())
        }
        ("dependentRequired", Value::Object(parts)) => {
            let lists = parts.iter().filter(|(_, names)| names.is_array());
            let lists = lists.map(|(name, names)| (name.clone(), distinct_names(names)));
            return extend(prepared, key, lists.collect());
        }
        (_, Value::Number(_)) if NUMBERS.contains(&key) => Some(value.clone()),
        (_, Value::Number(it)) if COUNTS.contains(&key) => count(it).map(Value::from),
        _ => None,
    };
    if let Some(value) = value {
        prepared.insert(key.to_owned(), value);
    }
}

fn types(value: &Value) -> Option<Value> {
    let is_known = |name: &Value| name.as_str().and_then(Type::from_name).is_some();
    let mut types = Vec::new();
    match value {
        Value::Array(names) => {
            if names.iter().any(|name| name == "any") {
                return None;
            }
            for name in names.iter().filter(|name| is_known(name)) {
                if !types.contains(name) {
                    types.push(name.clone());
                }
            }
            (!types.is_empty()).then_some(Value::Array(types))
        }
        _ => is_known(value).then(|| value.clone()),
    }
}

fn distinct_names(value: &Value) -> Value {
    let mut names = Vec::new();
    for name in value.as_array().into_iter().flatten().filter(|name| name.is_string()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Value::Array(names)
}

fn count(number: &serde_json::Number) -> Option<u64> {
    crate::schema::convert::whole(number)?.as_u64()
}

/// The exclusive bounds, which draft 4 wrote as a flag beside the bound.
fn bounds(prepared: &mut Map<String, Value>, keywords: &Map<String, Value>) {
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match keywords.get(flag) {
            Some(Value::Bool(true)) => {
                if let Some(limit) = prepared.shift_remove(bound) {
                    prepared.insert(flag.to_owned(), limit);
                }
            }
            Some(limit @ Value::Number(_)) => {
                prepared.insert(flag.to_owned(), limit.clone());
            }
            _ => (),
        }
    }
}

/// Fields that a dropped pattern may have meant must not count as unknown.
fn open_for_lost_patterns(prepared: &mut Map<String, Value>, keywords: &Map<String, Value>) {
    let n_patterns = |map: &Map<String, Value>| {
        map.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len)
    };
    if n_patterns(prepared) < n_patterns(keywords) {
        prepared.shift_remove("additionalProperties");
        prepared.shift_remove("unevaluatedProperties");
    }
}

fn add_reference(prepared: &mut Map<String, Value>, target: String) {
    if prepared.contains_key("$ref") {
        let reference = Map::from_iter([("$ref".to_owned(), Value::String(target))]);
        append(prepared, "allOf", vec![Value::Object(reference)]);
    } else {
        prepared.insert("$ref".to_owned(), Value::String(target));
    }
}

fn append(prepared: &mut Map<String, Value>, key: &str, values: Vec<Value>) {
    let list = prepared.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(list) = list {
        list.extend(values);
    }
}

fn extend(prepared: &mut Map<String, Value>, key: &str, values: Map<String, Value>) {
    let map = prepared.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(map) = map {
        values.into_iter().for_each(|(name, value)| {
            map.entry(name).or_insert(value);
        });
    }
}
