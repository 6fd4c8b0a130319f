//! The value tree that is shown while the text is still coming.

use std::mem;

use serde_json::{Map, Value};

/// What the text shows so far, and the way down to the container that is open in it.
///
/// The tree is always whole: open containers and the open string hang in their parents already, so that looking at it
/// costs nothing. Writing walks down from the root, at most [`MAX_LEVELS`](super::machine::MAX_LEVELS) steps of constant time.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: Map<String, Value>,
    /// For each open container but the root: where it hangs in its parent.
    path: Vec<Slot>,
    /// Where the open string or scalar hangs in the innermost container.
    leaf: Slot,
    scalar: Scalar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bracket {
    Object,
    Array,
}

/// A place in a container.
#[derive(Debug, Clone)]
enum Slot {
    /// The last entry: what a text adds is at the end.
    Last,
    /// The member with this key: the key came twice.
    Member(String),
}

/// Whether the scalar that is still being read is in the tree, and what it stands in for.
#[derive(Debug, Clone)]
enum Scalar {
    Absent,
    Added,
    InPlaceOf(Value),
}

enum Container<'a> {
    Object(&'a mut Map<String, Value>),
    Array(&'a mut Vec<Value>),
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree { root: Map::new(), path: Vec::new(), leaf: Slot::Last, scalar: Scalar::Absent }
    }

    pub(super) fn root(&self) -> &Map<String, Value> {
        &self.root
    }

    /// How many containers are open, the root included.
    pub(super) fn levels(&self) -> usize {
        self.path.len() + 1
    }

    /// Adds an empty container, which becomes the innermost one. An array takes no notice of the key.
    pub(super) fn open(&mut self, key: String, bracket: Bracket) {
        let value = match bracket {
            Bracket::Object => Value::Object(Map::new()),
            Bracket::Array => Value::Array(Vec::new()),
        };
        if let Some((slot, _)) = self.put(key, value) {
            self.path.push(slot);
        }
    }

    pub(super) fn close(&mut self) {
        self.path.pop();
    }

    pub(super) fn begin_string(&mut self, key: String) {
        if let Some((slot, _)) = self.put(key, Value::String(String::new())) {
            self.leaf = slot;
        }
    }

    /// Adds to the string that was begun last.
    pub(super) fn append(&mut self, text: &str) {
        if let Some(Value::String(string)) =
            innermost(&mut self.root, &self.path).and_then(|it| it.slot(&self.leaf))
        {
            string.push_str(text);
        }
    }

    /// Shows the scalar that is being read as `value`, or not at all.
    pub(super) fn show_scalar(&mut self, key: &str, value: Option<Value>) {
        match (value, mem::replace(&mut self.scalar, Scalar::Absent)) {
            (None, Scalar::Absent) => {}
            (Some(value), Scalar::Absent) => {
                if let Some((slot, old)) = self.put(key.to_owned(), value) {
                    self.leaf = slot;
                    self.scalar = old.map_or(Scalar::Added, Scalar::InPlaceOf);
                }
            }
            (Some(value), shown) => {
                self.set_leaf(value);
                self.scalar = shown;
            }
            (None, Scalar::InPlaceOf(old)) => self.set_leaf(old),
            (None, Scalar::Added) => match innermost(&mut self.root, &self.path) {
                // The member is the last one, so nothing moves.
                Some(Container::Object(members)) => drop(members.remove(key)),
                Some(Container::Array(elements)) => drop(elements.pop()),
                None => {}
            },
        }
    }

    /// Keeps the scalar as it is shown: it has ended.
    pub(super) fn settle_scalar(&mut self) {
        self.scalar = Scalar::Absent;
    }

    fn set_leaf(&mut self, value: Value) {
        if let Some(leaf) = innermost(&mut self.root, &self.path).and_then(|it| it.slot(&self.leaf))
        {
            *leaf = value;
        }
    }

    /// Puts a value into the innermost container; returns where, and what was there.
    fn put(&mut self, key: String, value: Value) -> Option<(Slot, Option<Value>)> {
        match innermost(&mut self.root, &self.path)? {
            Container::Array(elements) => {
                elements.push(value);
                Some((Slot::Last, None))
            }
            Container::Object(members) => match members.get_mut(&key) {
                Some(member) => {
                    let old = mem::replace(member, value);
                    Some((Slot::Member(key), Some(old)))
                }
                None => {
                    members.insert(key, value);
                    Some((Slot::Last, None))
                }
            },
        }
    }
}

impl<'a> Container<'a> {
    fn slot(self, slot: &Slot) -> Option<&'a mut Value> {
        match (self, slot) {
            (Container::Array(elements), _) => elements.last_mut(),
            (Container::Object(members), Slot::Last) => members.values_mut().next_back(),
            (Container::Object(members), Slot::Member(key)) => members.get_mut(key),
        }
    }
}

fn innermost<'a>(root: &'a mut Map<String, Value>, path: &[Slot]) -> Option<Container<'a>> {
    path.iter().try_fold(Container::Object(root), |container, slot| match container.slot(slot)? {
        Value::Object(members) => Some(Container::Object(members)),
        Value::Array(elements) => Some(Container::Array(elements)),
        _ => None,
    })
}
