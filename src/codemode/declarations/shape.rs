//! The TypeScript type of a JSON Schema.

use std::cell::{Cell, RefCell};

use serde_json::{Map, Value};

use crate::codemode::{
    declarations::{quoted, tags::comment_lines},
    identifier::is_identifier,
};

/// References that are followed in one schema; what is behind later ones is not known.
const MOST_REFERENCES: usize = 32;
/// Deeper parts of a schema are not known.
const DEEPEST: usize = 64;

/// How much a type tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Descriptions and tags too.
    Full,
    /// The type only.
    Plain,
}

/// A schema on its way to a type.
pub(super) struct Shape<'a> {
    root: &'a Value,
    detail: Detail,
    references: Cell<usize>,
    /// References whose target is being rendered.
    open: RefCell<Vec<&'a str>>,
    depth: Cell<usize>,
}

const UNKNOWN: &str = "unknown";

impl<'a> Shape<'a> {
    pub(super) fn new(root: &'a Value, detail: Detail) -> Shape<'a> {
        let (references, depth) = (Cell::new(0), Cell::new(0));
        Shape { root, detail, references, open: RefCell::default(), depth }
    }

    /// The type, for a place that is indented by so many steps.
    pub(super) fn render(&self, indent: usize) -> String {
        self.node(self.root, indent)
    }

    fn node(&self, schema: &'a Value, indent: usize) -> String {
        if self.depth.get() >= DEEPEST {
            return UNKNOWN.to_owned();
        }
        self.depth.set(self.depth.get() + 1);
        let rendered = match schema {
            Value::Bool(false) => "never".to_owned(),
            Value::Object(fields) => self.fields(fields, indent),
            _ => UNKNOWN.to_owned(),
        };
        self.depth.set(self.depth.get() - 1);
        rendered
    }

    fn fields(&self, fields: &'a Map<String, Value>, indent: usize) -> String {
        if let Some(Value::String(reference)) = fields.get("$ref") {
            return self.reference(reference, indent);
        }
        if let Some(value) = fields.get("const") {
            return value.to_string();
        }
        if let Some(Value::Array(values)) = fields.get("enum") {
            return union(values.iter().map(Value::to_string).collect());
        }
        let branches = ["anyOf", "oneOf"].iter().find_map(|key| fields.get(*key)?.as_array());
        if let Some(branches) = branches {
            let united = union(branches.iter().map(|branch| self.node(branch, indent)).collect());
            // Branches that only say what is required leave the type to the node itself.
            if united != UNKNOWN {
                return united;
            }
        }
        match fields.get("allOf") {
            Some(Value::Array(parts)) => self.all_of(fields, parts, indent),
            _ => self.by_type(fields, indent),
        }
    }

    fn reference(&self, reference: &'a str, indent: usize) -> String {
        let target = match reference.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) if pointer.starts_with('/') => {
                self.root.pointer(&percent_decoded(pointer))
            }
            _ => None,
        };
        let Some(target) = target else { return UNKNOWN.to_owned() };
        let is_open = self.open.borrow().contains(&reference) || std::ptr::eq(target, self.root);
        if is_open || self.references.get() >= MOST_REFERENCES {
            return UNKNOWN.to_owned();
        }
        self.references.set(self.references.get() + 1);
        self.open.borrow_mut().push(reference);
        let rendered = self.node(target, indent);
        self.open.borrow_mut().pop();
        rendered
    }

    fn all_of(&self, fields: &'a Map<String, Value>, parts: &'a [Value], indent: usize) -> String {
        let own = if fields.contains_key("type") || fields.contains_key("properties") {
            Some(self.by_type(fields, indent))
        } else {
            None
        };
        let parts = parts.iter().map(|part| self.node(part, indent));
        let mut kept: Vec<String> = Vec::new();
        for part in own.into_iter().chain(parts) {
            let says_nothing = part == UNKNOWN || part == "{ [key: string]: unknown; }";
            if !says_nothing && !kept.contains(&part) {
                kept.push(part);
            }
        }
        match kept.len() {
            0 => UNKNOWN.to_owned(),
            1 => kept.swap_remove(0),
            _ => {
                let bracketed = |part: &String| {
                    if is_union(part) { format!("({part})") } else { part.clone() }
                };
                kept.iter().map(bracketed).collect::<Vec<_>>().join(" & ")
            }
        }
    }

    fn by_type(&self, fields: &'a Map<String, Value>, indent: usize) -> String {
        match fields.get("type") {
            Some(Value::String(name)) => self.named(name, fields, indent),
            Some(Value::Array(names)) => {
                let names = names.iter().map(|name| name.as_str().unwrap_or_default());
                union(names.map(|name| self.named(name, fields, indent)).collect())
            }
            _ if fields.get("properties").is_some_and(Value::is_object) => {
                self.object(fields, indent)
            }
            _ if fields.contains_key("prefixItems") => self.array(fields, indent),
            _ if fields.get("items").is_some_and(|it| !it.is_boolean()) => {
                self.array(fields, indent)
            }
            _ => UNKNOWN.to_owned(),
        }
    }

    fn named(&self, name: &str, fields: &'a Map<String, Value>, indent: usize) -> String {
        match name {
            "string" | "boolean" | "null" => name.to_owned(),
            "number" | "integer" => "number".to_owned(),
            "array" => self.array(fields, indent),
            "object" => self.object(fields, indent),
            _ => UNKNOWN.to_owned(),
        }
    }

    fn array(&self, fields: &'a Map<String, Value>, indent: usize) -> String {
        let items = fields.get("items");
        let (first, rest) = match (fields.get("prefixItems"), items) {
            (Some(Value::Array(first)), rest) => (first, rest),
            (_, Some(Value::Array(first))) => (first, fields.get("additionalItems")),
            (_, Some(item @ Value::Object(_))) => {
                return format!("Array<{}>", self.node(item, indent));
            }
            (_, Some(Value::Bool(false))) => return "[]".to_owned(),
            _ => return "unknown[]".to_owned(),
        };
        let mut members: Vec<String> = first.iter().map(|item| self.node(item, indent)).collect();
        if let Some(rest @ Value::Object(_)) = rest {
            members.push(format!("...Array<{}>", self.node(rest, indent)));
        }
        format!("[{}]", members.join(", "))
    }

    fn object(&self, fields: &'a Map<String, Value>, indent: usize) -> String {
        let properties = fields.get("properties").and_then(Value::as_object);
        let required = fields.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
        let mut named: Vec<(&String, &Value)> = properties.into_iter().flatten().collect();
        named.sort_by_key(|(name, _)| *name);
        let is_commented =
            |schema: &Value| self.detail == Detail::Full && !comment_lines(schema).is_empty();
        let in_lines = named.iter().any(|(_, schema)| is_commented(schema));
        let members: Vec<Member<'a>> = named
            .into_iter()
            .map(|(name, schema)| Member {
                name,
                schema,
                optional: !is_required(name),
                shape: self.node(schema, indent + usize::from(in_lines)),
            })
            .collect();
        let index = self.index(fields, &members, indent + usize::from(in_lines));
        if members.is_empty() {
            return index.map_or_else(|| "{}".to_owned(), |index| format!("{{ {index} }}"));
        }
        if in_lines { in_many_lines(&members, index, indent) } else { in_one_line(&members, index) }
    }

    /// The signature of what properties may be there beside the named ones.
    fn index(
        &self,
        fields: &'a Map<String, Value>,
        members: &[Member<'a>],
        indent: usize,
    ) -> Option<String> {
        let patterns = fields.get("patternProperties").and_then(Value::as_object);
        let patterns = patterns.into_iter().flatten().map(|(_, schema)| schema);
        let mut shapes: Vec<String> = patterns.map(|schema| self.node(schema, indent)).collect();
        match fields.get("additionalProperties") {
            Some(Value::Bool(false)) => (),
            None if !members.is_empty() || !shapes.is_empty() => (),
            None | Some(Value::Bool(true)) => shapes.push(UNKNOWN.to_owned()),
            Some(schema) => shapes.push(self.node(schema, indent)),
        }
        if shapes.is_empty() {
            return None;
        }
        // What stands beside an index signature must fit into it.
        shapes.extend(members.iter().map(|member| member.shape.clone()));
        if members.iter().any(|member| member.optional) {
            shapes.push("undefined".to_owned());
        }
        let shape = union(shapes);
        let shape = if !members.is_empty() && shape.contains('\n') { UNKNOWN } else { &shape };
        Some(format!("[key: string]: {shape};"))
    }
}

/// A property of an object.
struct Member<'a> {
    name: &'a str,
    schema: &'a Value,
    optional: bool,
    shape: String,
}

impl Member<'_> {
    fn text(&self) -> String {
        let name = if is_identifier(self.name) { self.name.to_owned() } else { quoted(self.name) };
        let mark = if self.optional { "?" } else { "" };
        format!("{name}{mark}: {};", self.shape)
    }
}

fn in_one_line(members: &[Member<'_>], index: Option<String>) -> String {
    let members = members.iter().map(Member::text).chain(index);
    format!("{{ {} }}", members.collect::<Vec<_>>().join(" "))
}

fn in_many_lines(members: &[Member<'_>], index: Option<String>, indent: usize) -> String {
    let inner = "  ".repeat(indent + 1);
    let member_lines = members
        .iter()
        .flat_map(|member| comment_lines(member.schema).into_iter().chain([member.text()]));
    let lines = member_lines.chain(index).map(|line| format!("{inner}{line}\n"));
    format!("{{\n{}{}}}", lines.collect::<String>(), "  ".repeat(indent))
}

/// Alternatives without doubles; what may be anything makes all of it anything.
fn union(shapes: Vec<String>) -> String {
    let mut kept: Vec<String> = Vec::new();
    for shape in shapes {
        if shape == UNKNOWN {
            return shape;
        }
        if shape != "never" && !kept.contains(&shape) {
            kept.push(shape);
        }
    }
    if kept.is_empty() { "never".to_owned() } else { kept.join(" | ") }
}

/// Whether a type has alternatives outside of all brackets, texts and comments.
fn is_union(shape: &str) -> bool {
    let mut depth = 0_i32;
    for line in shape.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let (mut in_text, mut escaped) = (false, false);
        for character in line.chars() {
            match character {
                _ if escaped => escaped = false,
                '\\' if in_text => escaped = true,
                '"' => in_text = !in_text,
                _ if in_text => (),
                '{' | '[' | '(' | '<' => depth += 1,
                '}' | ']' | ')' | '>' => depth -= 1,
                '|' if depth == 0 => return true,
                _ => (),
            }
        }
    }
    false
}

/// `%` escapes of a URI fragment.
fn percent_decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let value = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match value.filter(|_| *first == b'%') {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
