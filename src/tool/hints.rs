//! What a tool does to the world, as far as its maker says.

use serde::{Deserialize, Serialize};

/// What the maker of a tool says of its effects, for rules that decide which calls a person must approve.
///
/// They are hints. Those of a server that is not trusted may be wrong on purpose. Unsaid means the worse case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolHints {
    /// Whether it changes nothing.
    pub read_only: Option<bool>,
    /// Whether it may destroy something.
    pub destructive: Option<bool>,
    /// Whether a second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// Whether it reaches beyond what the program knows, such as the web.
    pub open_world: Option<bool>,
}
