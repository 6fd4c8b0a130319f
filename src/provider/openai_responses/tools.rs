//! Tools as this API declares them.

use serde_json::{Map, Value, json};

use crate::{
    error::Error,
    message::ToolDeclaration,
    provider::{
        constraint::{self, Grammar, Parameters},
        openai_responses::compat::Compat,
    },
};

/// The declarations of some tools. Those that a search found are `deferred`.
pub(super) fn declare(
    tools: &[ToolDeclaration],
    compat: &Compat,
    are_deferred: bool,
) -> Result<Vec<Value>, Error> {
    let declared = tools.iter().map(|tool| {
        let mut declared = declare_one(tool, compat)?;
        if are_deferred {
            declared.insert("defer_loading".to_owned(), true.into());
        }
        Ok(Value::Object(declared))
    });
    declared.collect()
}

fn declare_one(tool: &ToolDeclaration, compat: &Compat) -> Result<Map<String, Value>, Error> {
    let mut declared = Map::new();
    let mut set = |name: &str, value: Value| _ = declared.insert(name.to_owned(), value);
    if compat.supports_grammar_tools
        && let Some(Grammar { syntax, definition, .. }) = constraint::grammar(tool)?
    {
        set("type", "custom".into());
        set("name", tool.name.clone().into());
        set("description", tool.description.clone().into());
        set("format", json!({"type": "grammar", "syntax": syntax, "definition": definition}));
        return Ok(declared);
    }
    let Parameters { schema, strict } = constraint::parameters(tool, compat.supports_strict_mode)?;
    set("type", "function".into());
    set("name", tool.name.clone().into());
    set("description", tool.description.clone().into());
    set("parameters", schema);
    if compat.supports_strict_mode {
        set("strict", strict.into());
    }
    Ok(declared)
}
