//! What the references inside one schema document name; nothing is ever fetched.

use std::{collections::HashMap, rc::Rc};

use serde_json::{Map, Value};

/// The places of one document that a reference can name by URI or anchor.
#[derive(Debug)]
pub(super) struct References<'a> {
    document: Base<'a>,
    resources: HashMap<Rc<str>, &'a Value>,
    anchors: HashMap<(Rc<str>, &'a str), &'a Value>,
}

/// The resource that references inside it are relative to.
#[derive(Debug, Clone)]
pub(super) struct Base<'a> {
    uri: Rc<str>,
    root: &'a Value,
}

impl<'a> References<'a> {
    pub(super) fn new(document: &'a Value) -> References<'a> {
        let base = Base::new(document);
        let (resources, anchors) = (HashMap::new(), HashMap::new());
        let mut references = References { document: base.clone(), resources, anchors };
        references.index(document, &base);
        references
    }

    fn index(&mut self, value: &'a Value, base: &Base<'a>) {
        match value {
            Value::Object(map) => {
                let base = base.entering(value);
                if std::ptr::eq(base.root, value) {
                    self.resources.entry(base.uri.clone()).or_insert(value);
                }
                let old_style = text(map, "$id").and_then(|id| id.strip_prefix('#'));
                let anchors = [text(map, "$anchor"), text(map, "$dynamicAnchor"), old_style];
                for anchor in anchors.into_iter().flatten() {
                    self.anchors.entry((base.uri.clone(), anchor)).or_insert(value);
                }
                let is_schema =
                    |key: &str| !matches!(key, "const" | "enum" | "default" | "examples");
                for (_, part) in map.iter().filter(|(key, _)| is_schema(key)) {
                    self.index(part, &base);
                }
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.index(part, base)),
            _ => (),
        }
    }

    /// The schema that a reference names, with the base for the references in it.
    pub(super) fn resolve(
        &self,
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
            follow(pointer, &resource).or_else(|| follow(pointer, &self.document))?
        } else {
            let key = (resource.uri.clone(), fragment.as_str());
            (self.anchors.iter().find(|(anchor, _)| **anchor == key).map(|(_, it)| *it)?, resource)
        };
        matches!(target, Value::Object(_) | Value::Bool(_)).then_some((target, base))
    }

    fn resource(&self, uri: &str) -> Option<Base<'a>> {
        let (uri, &root) = self.resources.get_key_value(uri)?;
        Some(Base { uri: uri.clone(), root })
    }
}

impl<'a> Base<'a> {
    pub(super) fn new(root: &'a Value) -> Base<'a> {
        Base { uri: "".into(), root }.entering(root)
    }

    /// The base inside `value`, which may be a resource of its own by its `$id`.
    pub(super) fn entering(&self, value: &'a Value) -> Base<'a> {
        let id = value.as_object().and_then(|map| text(map, "$id"));
        match id.map(|id| id.split('#').next().unwrap_or_default()) {
            None | Some("") => self.clone(),
            Some(id) => Base { uri: self.join(id).into(), root: value },
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
        let kept = if uri.starts_with('/') {
            &self.uri[..path]
        } else {
            self.uri.rfind('/').map_or("", |slash| &self.uri[..=slash.max(path)])
        };
        format!("{kept}{uri}")
    }
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
