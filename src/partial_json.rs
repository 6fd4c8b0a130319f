//! The arguments of a tool call, readable while the model still writes them.

mod machine;
pub(crate) mod repair;
mod tree;

use std::fmt;

use serde_json::{Map, Value};

use crate::partial_json::{machine::Machine, tree::Tree};

pub use crate::partial_json::repair::{ArgumentsError, parse_arguments};

/// The longest text of one call that is taken, unless [`PartialJson::with_limit`] says otherwise: 4 MiB.
pub const DEFAULT_LIMIT: usize = 4 << 20;

/// The argument text of one tool call, as far as it has come, and what it shows.
///
/// Text is [pushed](PartialJson::push) in pieces of any size, in time proportional to the piece;
/// [`arguments`](PartialJson::arguments) can be looked at after each of them and costs nothing. When the call is complete,
/// [`finish`](PartialJson::finish) parses the whole text strictly: what is shown on the way is a preview and never an error.
///
/// The preview of an unfinished text:
///
/// - Unfinished strings, arrays and objects are shown as far as they are. A key without a value is not.
/// - An unfinished escape, and the first half of a surrogate pair, are held back; an escape that is none is shown as written.
/// - The beginning of `true`, `false` or `null` counts as the whole; a number counts as far as it is a number, so that
///   `12.` shows nothing and `1e` shows 1. A number of more than 64 characters is shown when it has ended.
/// - Missing commas and colons do not matter. A word that is no JSON (`NaN`, `undefined`, `01`) takes its member with it.
/// - The last of several members with the same key wins.
/// - Containers more than 128 deep are read, but not shown.
/// - Nothing is shown for a text that is not an object; text after the object is ignored, and so is everything after a closing
///   bracket that does not fit.
///
/// # Examples
///
/// ```
/// use steerage::partial_json::PartialJson;
///
/// let mut call = PartialJson::new();
/// call.push(r#"{"path":"src/ma"#);
/// assert_eq!(call.arguments()["path"], "src/ma");
/// assert!(call.finish().is_err());
/// call.push(r#"in.rs","lines":[1,2]}"#);
/// assert_eq!(call.finish()?["lines"], serde_json::json!([1, 2]));
/// # Ok::<(), steerage::partial_json::ArgumentsError>(())
/// ```
#[derive(Clone)]
pub struct PartialJson {
    text: String,
    machine: Machine,
    tree: Tree,
    limit: usize,
    is_cut: bool,
}

impl PartialJson {
    /// Makes an empty text that may grow to [`DEFAULT_LIMIT`].
    pub fn new() -> PartialJson {
        PartialJson::with_limit(DEFAULT_LIMIT)
    }

    /// Makes an empty text that may grow to `limit` bytes.
    ///
    /// The piece that would pass the limit is dropped with all that follow it, and [`finish`](PartialJson::finish) is an error.
    pub fn with_limit(limit: usize) -> PartialJson {
        PartialJson {
            text: String::new(),
            machine: Machine::new(),
            tree: Tree::new(),
            limit,
            is_cut: false,
        }
    }

    /// Takes the next piece of the text.
    pub fn push(&mut self, delta: &str) {
        if self.is_cut || delta.len() > self.limit - self.text.len() {
            self.is_cut = true;
            return;
        }
        let from = self.text.len();
        self.text.push_str(delta);
        self.machine.read(&self.text, from, &mut self.tree);
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the arguments show now, without a copy; empty for a text that is not an object.
    pub fn arguments(&self) -> &Map<String, Value> {
        self.tree.root()
    }

    /// Copies what the arguments show now.
    pub fn snapshot(&self) -> Map<String, Value> {
        self.arguments().clone()
    }

    /// Parses the text as a complete one, see [`parse_arguments`].
    pub fn finish(&self) -> Result<Map<String, Value>, ArgumentsError> {
        if self.is_cut {
            let reason = format!("the arguments are longer than {} bytes", self.limit);
            return Err(ArgumentsError::new(reason, &self.text));
        }
        parse_arguments(&self.text)
    }

    /// Puts the complete text in the place of the pieces, for vendors that send the arguments once more at the end.
    ///
    /// If it only goes on from where the text is, what was missing is pushed and returned, to be emitted as one more delta.
    /// If it is another text, reading begins anew and there is no delta.
    pub fn replace<'a>(&mut self, complete: &'a str) -> Option<&'a str> {
        if !self.is_cut
            && let Some(missing) = complete.strip_prefix(self.text.as_str())
        {
            self.push(missing);
            return (!missing.is_empty()).then_some(missing);
        }
        *self = PartialJson::with_limit(self.limit);
        self.push(complete);
        None
    }
}

impl Default for PartialJson {
    fn default() -> PartialJson {
        PartialJson::new()
    }
}

impl fmt::Debug for PartialJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialJson")
            .field("bytes", &self.text.len())
            .field("arguments", self.arguments())
            .finish_non_exhaustive()
    }
}
