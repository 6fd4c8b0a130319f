//! Names and schemas of servers in the form that models are given them.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::mcp::hex;

/// The longest name of a tool that all vendors take.
const LONGEST: usize = 64;

/// How much of a long name stays in front of its hash.
const KEPT: usize = 55;

/// Makes the name by which a model calls a tool of a server: `mcp__server__tool`, with an underscore for whatever is no
/// letter, digit or underscore. A name that would be too long or is taken ends in a hash of both names.
///
/// # Examples
///
/// ```
/// use steerage::mcp::naming::tool_name;
///
/// assert_eq!(tool_name("my-server", "get.item/x", |_| false), "mcp__my_server__get_item_x");
/// assert_eq!(tool_name("my-server", "get.item/x", |name| name.ends_with("_x")), "mcp__my_server__get_item_x_cb14b6a6");
/// ```
pub fn tool_name(server: &str, tool: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let plain: String = format!("mcp__{server}__{tool}")
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() || it == '_' { it } else { '_' })
        .collect();
    if plain.len() <= LONGEST && !is_taken(&plain) {
        return plain;
    }
    let hash = hex(&Sha256::digest(format!("{server}\0{tool}")));
    format!("{}_{}", &plain[..plain.len().min(KEPT)], &hash[..8])
}

/// Makes of a server's schema one that every vendor takes as parameters: an object with properties, without `$schema`.
pub fn parameters(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.shift_remove("$schema");
    schema.insert("type".to_owned(), json!("object"));
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), json!({}));
    }
    Value::Object(schema)
}
