//! What the references of a schema name: places of its own document, of documents that were given along, and the
//! meta-schemas. Nothing is ever fetched.

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use serde_json::{Map, Value};

use crate::schema::check;

/// Keywords whose value holds schemas by names that may look like keywords.
const MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// What made a schema a dynamic anchor before anchors had names.
const RECURSIVE: &str = "$recursiveAnchor";

/// The places that a reference can name by URI or anchor.
#[derive(Debug)]
pub(super) struct References<'a> {
    document: Base<'a>,
    resources: HashMap<Rc<str>, Resource<'a>>,
}

/// One schema with a URI of its own.
#[derive(Debug)]
struct Resource<'a> {
    base: Base<'a>,
    anchors: HashMap<&'a str, &'a Value>,
    /// The anchors that a `$dynamicRef` looks for in everything on the way to it.
    dynamic: Vec<(&'a str, &'a Value)>,
}

/// The resource that references inside it are relative to.
#[derive(Debug, Clone)]
pub(super) struct Base<'a> {
    uri: Rc<str>,
    root: &'a Value,
    /// Whether it is part of the schema itself, not of a document that was given along.
    is_own: bool,
}

/// The dynamic anchors of all resources on the way to a schema, each as the outermost of them has it.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope<'a> {
    anchors: Option<Rc<Vec<DynamicAnchor<'a>>>>,
}

#[derive(Debug, Clone)]
struct DynamicAnchor<'a> {
    name: &'a str,
    schema: &'a Value,
    base: Base<'a>,
}

impl<'a> Scope<'a> {
    /// What tells this scope from others.
    pub(super) fn key(&self) -> Vec<(&'a str, usize)> {
        let address = |it: &DynamicAnchor<'a>| (it.name, std::ptr::from_ref(it.schema).addr());
        let mut key: Vec<_> = self.anchors().iter().map(address).collect();
        key.sort_unstable();
        key
    }

    fn anchors(&self) -> &[DynamicAnchor<'a>] {
        self.anchors.as_deref().map_or(&[], Vec::as_slice)
    }

    fn find(&self, name: &str) -> Option<&DynamicAnchor<'a>> {
        self.anchors().iter().find(|it| it.name == name)
    }
}

impl<'a> References<'a> {
    pub(super) fn new(document: &'a Value, others: &'a BTreeMap<String, Value>) -> References<'a> {
        let base = Base::new(document);
        let mut references = References { document: base.clone(), resources: HashMap::new() };
        references.index(document, &base);
        for (uri, other) in others {
            references.add(uri, other);
        }
        references
    }

    fn add(&mut self, uri: &str, document: &'a Value) {
        let uri = uri.split('#').next().unwrap_or_default();
        let base = Base { uri: uri.into(), root: document, is_own: false };
        self.enter(&base);
        self.index(document, &base);
        // A document goes by the URI it was given with and by the one it calls itself.
        let named = base.entering(document).uri;
        if let Some(resource) = self.resources.get(&named).filter(|_| *named != *base.uri) {
            let copy = Resource {
                base: resource.base.clone(),
                anchors: resource.anchors.clone(),
                dynamic: resource.dynamic.clone(),
            };
            self.resources.insert(base.uri, copy);
        }
    }

    fn enter(&mut self, base: &Base<'a>) -> &mut Resource<'a> {
        self.resources.entry(base.uri.clone()).or_insert_with(|| Resource {
            base: base.clone(),
            anchors: HashMap::new(),
            dynamic: Vec::new(),
        })
    }

    fn index(&mut self, value: &'a Value, base: &Base<'a>) {
        match value {
            Value::Object(map) => {
                let base = base.entering(value);
                if std::ptr::eq(base.root, value) {
                    self.enter(&base);
                }
                self.index_anchors(map, value, &base);
                for (key, part) in map {
                    match (key.as_str(), part) {
                        ("const" | "enum" | "default" | "examples", _) => (),
                        (key, Value::Object(parts)) if MAPS.contains(&key) => {
                            parts.values().for_each(|part| self.index(part, &base));
                        }
                        _ => self.index(part, &base),
                    }
                }
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.index(part, base)),
            _ => (),
        }
    }

    fn index_anchors(&mut self, map: &'a Map<String, Value>, schema: &'a Value, base: &Base<'a>) {
        let old_style = text(map, "$id").and_then(|id| id.strip_prefix('#'));
        let dynamic = text(map, "$dynamicAnchor");
        for anchor in [text(map, "$anchor"), dynamic, old_style].into_iter().flatten() {
            self.enter(base).anchors.entry(anchor).or_insert(schema);
        }
        let recursive = (map.get(RECURSIVE) == Some(&Value::Bool(true))).then_some(RECURSIVE);
        for name in [dynamic, recursive].into_iter().flatten() {
            self.enter(base).dynamic.push((name, schema));
        }
    }

    /// The scope inside a resource that is entered from `scope`.
    pub(super) fn entering(&self, scope: &Scope<'a>, base: &Base<'a>) -> Scope<'a> {
        let resource = self.resources.get(&base.uri);
        let dynamic = resource.into_iter().flat_map(|it| &it.dynamic);
        let mut added = dynamic.filter(|(name, _)| scope.find(name).is_none()).peekable();
        if added.peek().is_none() {
            return scope.clone();
        }
        let mut anchors = scope.anchors().to_vec();
        anchors.extend(added.map(|&(name, schema)| DynamicAnchor {
            name,
            schema,
            base: base.clone(),
        }));
        Scope { anchors: Some(Rc::new(anchors)) }
    }

    /// The schema that a `$dynamicRef` or a `$recursiveRef` names: the outermost in scope if what it names at first is a dynamic anchor.
    pub(super) fn resolve_in(
        &mut self,
        reference: &str,
        base: &Base<'a>,
        scope: &Scope<'a>,
    ) -> Option<(&'a Value, Base<'a>)> {
        let (schema, base) = self.resolve(reference, base)?;
        let is_recursive = schema.get(RECURSIVE) == Some(&Value::Bool(true));
        let (name, is_dynamic) = match reference.split_once('#') {
            Some((_, "")) => (RECURSIVE, is_recursive),
            Some((_, name)) => (name, schema.get("$dynamicAnchor").is_some_and(|it| it == name)),
            None => return Some((schema, base)),
        };
        let outermost = scope.find(name).filter(|_| is_dynamic);
        Some(outermost.map_or((schema, base), |it| (it.schema, it.base.clone())))
    }

    /// The schema that a reference names, with the base for the references in it.
    pub(super) fn resolve(
        &mut self,
        reference: &str,
        base: &Base<'a>,
    ) -> Option<(&'a Value, Base<'a>)> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = match uri {
            "" => base.clone(),
            _ => self.resource(&base.join(uri)).or_else(|| self.resource(uri))?,
        };
        let fragment = percent_decoded(fragment)?;
        let (target, base) = if fragment.is_empty() {
            (resource.root, resource)
        } else if let Some(pointer) = fragment.strip_prefix('/') {
            // Some count from the top of the document where the innermost resource is meant.
            let top = || follow(pointer, &self.document).filter(|_| resource.is_own);
            follow(pointer, &resource).or_else(top)?
        } else {
            let anchors = &self.resources.get(&resource.uri)?.anchors;
            (*anchors.get(fragment.as_str())?, resource)
        };
        matches!(target, Value::Object(_) | Value::Bool(_)).then_some((target, base))
    }

    fn resource(&mut self, uri: &str) -> Option<Base<'a>> {
        if !self.resources.contains_key(uri) {
            self.add(uri, check::meta_schema(uri)?);
        }
        self.resources.get(uri).map(|resource| resource.base.clone())
    }
}

impl<'a> Base<'a> {
    pub(super) fn new(root: &'a Value) -> Base<'a> {
        Base { uri: "".into(), root, is_own: true }.entering(root)
    }

    /// Whether this is the same resource.
    pub(super) fn is(&self, other: &Base<'a>) -> bool {
        std::ptr::eq(self.root, other.root)
    }

    /// The base inside `value`, which may be a resource of its own by its `$id`.
    pub(super) fn entering(&self, value: &'a Value) -> Base<'a> {
        let id = value.as_object().and_then(|map| text(map, "$id"));
        match id.map(|id| id.split('#').next().unwrap_or_default()) {
            None | Some("") => self.clone(),
            Some(id) => Base { uri: self.join(id).into(), root: value, is_own: self.is_own },
        }
    }

    /// Resolves a URI against this one, as far as schema ids need it.
    fn join(&self, uri: &str) -> String {
        let has_scheme = |uri: &str| {
            uri.split_once(':').is_some_and(|(scheme, _)| {
                !scheme.is_empty()
                    && scheme.chars().all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it))
            })
        };
        if has_scheme(uri) || self.uri.is_empty() {
            return uri.to_owned();
        }
        let path = self.uri.find("://").map_or(0, |scheme| {
            let authority = &self.uri[scheme + 3..];
            scheme + 3 + authority.find('/').unwrap_or(authority.len())
        });
        let base = self.uri.split('?').next().unwrap_or_default();
        let kept = if uri.starts_with('/') {
            ""
        } else {
            base.get(path..).map_or("", |path| &path[..path.rfind('/').map_or(0, |it| it + 1)])
        };
        format!("{}{}", &self.uri[..path], without_dots(&format!("{kept}{uri}")))
    }
}

/// A path without the steps `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    let mut rest = path.split('/').peekable();
    while let Some(step) = rest.next() {
        let is_last = rest.peek().is_none();
        match step {
            "." => (),
            ".." if steps.len() > 1 => {
                steps.pop();
            }
            ".." => (),
            _ => {
                steps.push(step);
                continue;
            }
        }
        if is_last {
            steps.push("");
        }
    }
    steps.join("/")
}

fn follow<'a>(pointer: &str, resource: &Base<'a>) -> Option<(&'a Value, Base<'a>)> {
    let mut base = resource.clone();
    let mut target = resource.root;
    for step in pointer.split('/') {
        let step = step.replace("~1", "/").replace("~0", "~");
        target = match target {
            Value::Object(map) => map.get(&step)?,
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
        base = base.entering(target);
    }
    Some((target, base))
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
