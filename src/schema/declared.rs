//! The form in which every vendor takes the schema of a tool: a plain object, with references to what it contains.
//!
//! Vendors refuse a request with a tool whose schema is a union, a reference or no object at its root, whose references
//! lead nowhere or do not stand alone, or whose arrays say nothing of their items; strict modes refuse formats that they
//! do not know, too.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::schema::{
    derive::spell_out,
    parts,
    prepare::is_shallow,
    reference::{Base, References},
};

/// What a root may not have, or what means nothing without that.
const REFUSED: [&str; 12] = [
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "enum",
    "const",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "unevaluatedProperties",
];
/// How many schemas are looked at for what they say of the root; the rest says nothing.
const MAX_STEPS: usize = 1000;

/// The schema as vendors take it; one that they take as it is stays so, and so does one that admits no object.
///
/// What a plain object cannot say is left to the check of the arguments. It asks for nothing more than the schema does,
/// but for one thing: a field that only some branches of a union know is told as those know it.
pub(crate) fn declared(schema: &Value, documents: &BTreeMap<String, Value>) -> Value {
    if !is_shallow(schema) || !documents.values().all(is_shallow) {
        return schema.clone();
    }
    let is_plain = is_plain(schema);
    let mut declared =
        if has_reference(schema) { led_home(schema, documents, is_plain) } else { schema.clone() };
    if !is_plain && let Some(plain) = plain_object(&declared) {
        declared = plain;
    }
    spell_out(&mut declared);
    complete(&mut declared);
    declared
}

/// Whether the root is an object and nothing else.
fn is_plain(schema: &Value) -> bool {
    schema.get("type").is_some_and(|it| it == "object")
        && schema.get("properties").is_some_and(Value::is_object)
        && !REFUSED.iter().any(|keyword| schema.get(keyword).is_some())
}

/// Writes the root as one object.
fn plain_object(schema: &Value) -> Option<Value> {
    let nothing = Map::new();
    let keywords = schema.as_object().unwrap_or(&nothing);
    let Shape { properties, required, is_closed } =
        Reading { root: schema, steps_left: MAX_STEPS, active: Vec::new() }.shape(schema)?;
    let mut plain = Map::new();
    plain.insert("type".to_owned(), "object".into());
    plain.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() || keywords.contains_key("required") {
        plain.insert("required".to_owned(), required.into());
    }
    if is_closed {
        plain.insert("additionalProperties".to_owned(), false.into());
    }
    for (key, value) in keywords.iter().filter(|(key, _)| !REFUSED.contains(&key.as_str())) {
        plain.entry(key).or_insert_with(|| value.clone());
    }
    Some(Value::Object(plain))
}

/// What a schema says of an object, as far as a plain object can say it.
#[derive(Default)]
struct Shape {
    properties: Map<String, Value>,
    required: Vec<String>,
    is_closed: bool,
}

struct Reading<'a> {
    root: &'a Value,
    steps_left: usize,
    /// The references that are being followed: one inside itself says nothing new.
    active: Vec<&'a str>,
}

impl<'a> Reading<'a> {
    /// None if no object matches.
    fn shape(&mut self, schema: &'a Value) -> Option<Shape> {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => return None,
            _ => return Some(Shape::default()),
        };
        if !admits_objects(keywords) {
            return None;
        }
        let Some(steps_left) = self.steps_left.checked_sub(1) else {
            return Some(Shape::default());
        };
        self.steps_left = steps_left;
        let mut shape = Shape::own(keywords);
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str)
            && !self.active.contains(&reference)
            && let Some(target) = reference.strip_prefix('#').and_then(|it| self.root.pointer(it))
        {
            self.active.push(reference);
            let target = self.shape(target);
            self.active.pop();
            shape = shape.and(target?);
        }
        let list = |key| keywords.get(key).and_then(Value::as_array);
        for part in list("allOf").into_iter().flatten() {
            shape = shape.and(self.shape(part)?);
        }
        for branches in ["anyOf", "oneOf"].into_iter().filter_map(list).filter(|it| !it.is_empty())
        {
            let branches = branches.iter().filter_map(|it| self.shape(it)).collect::<Vec<_>>();
            shape = shape.and(Shape::any(branches)?);
        }
        Some(shape)
    }
}

impl Shape {
    fn own(keywords: &Map<String, Value>) -> Shape {
        let properties = keywords.get("properties").and_then(Value::as_object);
        let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
        Shape {
            properties: properties.cloned().unwrap_or_default(),
            required: required.filter_map(Value::as_str).map(str::to_owned).collect(),
            is_closed: keywords.get("additionalProperties") == Some(&Value::Bool(false))
                && !keywords.contains_key("patternProperties"),
        }
    }

    /// What holds if both do.
    fn and(mut self, other: Shape) -> Shape {
        for (name, wanted) in other.properties {
            match self.properties.get_mut(&name) {
                Some(known) if *known == wanted || says_nothing(&wanted) => (),
                Some(known) if says_nothing(known) => *known = wanted,
                Some(known) => *known = json!({"allOf": [known.take(), wanted]}),
                None => drop(self.properties.insert(name, wanted)),
            }
        }
        let news = other.required.into_iter().filter(|it| !self.required.contains(it));
        let news = news.collect::<Vec<_>>();
        self.required.extend(news);
        self.is_closed |= other.is_closed;
        self
    }

    /// What holds if at least one does; none if there is none.
    fn any(branches: Vec<Shape>) -> Option<Shape> {
        let is_everywhere =
            |name: &String| branches.iter().all(|branch| branch.required.contains(name));
        let required = branches.first()?.required.iter().filter(|it| is_everywhere(it));
        let required = required.cloned().collect();
        let is_closed = branches.iter().all(|branch| branch.is_closed);
        let mut wanted: Map<String, Value> = Map::new();
        for (name, schema) in branches.into_iter().flat_map(|branch| branch.properties) {
            let known = wanted.entry(name).or_insert_with(|| json!([]));
            if let Value::Array(known) = known
                && !known.contains(&schema)
            {
                known.push(schema);
            }
        }
        let properties =
            wanted.into_iter().map(|(name, schemas)| (name, one_of(schemas))).collect();
        Some(Shape { properties, required, is_closed })
    }
}

fn admits_objects(keywords: &Map<String, Value>) -> bool {
    let is_named = match keywords.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        Some(only) => only == "object",
        None => true,
    };
    let listed = keywords.get("enum").and_then(Value::as_array);
    is_named
        && listed.is_none_or(|listed| listed.iter().any(Value::is_object))
        && keywords.get("const").is_none_or(Value::is_object)
}

fn says_nothing(schema: &Value) -> bool {
    *schema == Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

/// One schema for a list of different ones: a list of texts where they are texts, a union otherwise.
fn one_of(schemas: Value) -> Value {
    let Value::Array(mut schemas) = schemas else { return schemas };
    if schemas.len() == 1 {
        return schemas.remove(0);
    }
    if schemas.iter().any(says_nothing) {
        return json!({});
    }
    let mut texts: Vec<&Value> = Vec::new();
    for schema in &schemas {
        let listed = match (schema.get("const"), schema.get("enum")) {
            (Some(only), None) => std::slice::from_ref(only),
            (None, Some(Value::Array(listed))) => listed,
            _ => &[],
        };
        if listed.is_empty() || !listed.iter().all(Value::is_string) {
            return json!({"anyOf": schemas});
        }
        texts.extend(listed);
    }
    let mut distinct: Vec<&Value> = Vec::new();
    for text in texts {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    json!({"type": "string", "enum": distinct})
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.iter().any(|(key, it)| key.ends_with("Ref") || key == "$ref" || has_reference(it))
        }
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

/// The schema with references that lead to its definitions, or to its fields if those stay as they are.
fn led_home(schema: &Value, documents: &BTreeMap<String, Value>, is_plain: bool) -> Value {
    let mut home = Home {
        references: References::new(schema, documents),
        root: schema,
        is_plain,
        names: BTreeMap::new(),
        open: Vec::new(),
    };
    let mut led = home.led(schema, &Base::new(schema), true);
    while let Some(Open { name, schema, base }) = home.open.pop() {
        let is_root = std::ptr::eq(schema, home.root);
        let mut target = home.led(schema, &base, false);
        if let (true, Value::Object(keywords)) = (is_root, &mut target) {
            keywords.retain(|key, _| key != "$defs" && key != "definitions");
        }
        if let Value::Object(keywords) = &mut led
            && let Value::Object(definitions) = keywords.entry("$defs").or_insert_with(|| json!({}))
        {
            definitions.insert(name, target);
        }
    }
    led
}

struct Home<'a> {
    references: References<'a>,
    root: &'a Value,
    is_plain: bool,
    /// The names in `$defs` of what else is referred to, by its address.
    names: BTreeMap<usize, String>,
    open: Vec<Open<'a>>,
}

/// What is to be added to the definitions.
struct Open<'a> {
    name: String,
    schema: &'a Value,
    base: Base<'a>,
}

impl<'a> Home<'a> {
    fn led(&mut self, schema: &'a Value, base: &Base<'a>, is_root: bool) -> Value {
        let Value::Object(keywords) = schema else { return schema.clone() };
        let mut led = Map::new();
        for (key, value) in keywords {
            let value = match (key.as_str(), value) {
                ("$ref", Value::String(reference)) => match self.reference(reference, base) {
                    Some(reference) => reference.into(),
                    None => continue,
                },
                // What it means depends on the way to it, and so does what nothing speaks of then.
                (
                    "$dynamicRef" | "$recursiveRef" | "unevaluatedProperties" | "unevaluatedItems",
                    _,
                ) => continue,
                // References are to the whole now.
                ("$id", Value::String(_)) if !is_root => continue,
                _ => parts::map(key, value, |part| {
                    let base = base.entering(part);
                    self.led(part, &base, false)
                }),
            };
            led.insert(key.clone(), value);
        }
        stand_alone(&mut led);
        Value::Object(led)
    }

    /// The reference that leads to the same; none if there is nothing.
    fn reference(&mut self, reference: &str, base: &Base<'a>) -> Option<String> {
        let (target, base) = self.references.resolve(reference, base)?;
        // What else stands at the root is not sent to every vendor.
        let parts = ["/$defs/", "/definitions/", "/properties/"];
        let parts = if self.is_plain { &parts[..] } else { &parts[..2] };
        let is_sent = |pointer: &str| {
            let is_part = parts.iter().any(|it| pointer.starts_with(it));
            (is_part || (pointer.is_empty() && self.is_plain))
                && self.root.pointer(pointer).is_some_and(|it| std::ptr::eq(it, target))
        };
        if reference.strip_prefix('#').is_some_and(is_sent) {
            return Some(reference.to_owned());
        }
        let address = std::ptr::from_ref(target).addr();
        if let Some(name) = self.names.get(&address) {
            return Some(format!("#/$defs/{name}"));
        }
        let last = reference.rsplit(['/', '#']).next().unwrap_or_default();
        let mut name: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
        if name.is_empty() {
            name.push_str("root");
        }
        let known = self.root.get("$defs");
        while known.is_some_and(|it| it.get(&name).is_some())
            || self.names.values().any(|it| *it == name)
        {
            name.push('_');
        }
        self.names.insert(address, name.clone());
        self.open.push(Open { name: name.clone(), schema: target, base });
        Some(format!("#/$defs/{name}"))
    }
}

/// Puts a reference beside other keywords into a list of its own: vendors want it to be alone.
fn stand_alone(keywords: &mut Map<String, Value>) {
    let is_alone = keywords.keys().all(|key| key.starts_with('$'));
    let list = ["anyOf", "allOf"].into_iter().find(|key| !keywords.contains_key(*key));
    if !is_alone
        && let Some(list) = list
        && let Some(reference) = keywords.shift_remove("$ref")
    {
        keywords.insert(list.to_owned(), json!([{"$ref": reference}]));
    }
}

/// Says of every array that it may hold anything where nothing is said, and leaves out formats of numbers, which are
/// those of a programming language.
fn complete(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    let types = match keywords.get("type") {
        Some(Value::Array(names)) => names.as_slice(),
        Some(only) => std::slice::from_ref(only),
        None => &[],
    };
    let is_array = types.iter().any(|name| name == "array");
    let is_number = types.iter().any(|name| name == "integer" || name == "number")
        && !types.iter().any(|name| name == "string");
    if is_array && !keywords.contains_key("items") {
        keywords.insert("items".to_owned(), json!({}));
    }
    if is_number {
        keywords.shift_remove("format");
    }
    parts::for_each(keywords, |_, part| complete(part));
}
