//! Tools as this API declares them.

use serde_json::{Map, Value, json};

use crate::{
    error::Error,
    message::ToolDeclaration,
    provider::{
        constraint::{self, Grammar, Parameters},
        openai_completions::compat::Compat,
    },
};

/// The declarations of some tools.
pub(super) fn declare(tools: &[ToolDeclaration], compat: &Compat) -> Result<Vec<Value>, Error> {
    tools.iter().map(|tool| declare_one(tool, compat)).collect()
}

fn declare_one(tool: &ToolDeclaration, compat: &Compat) -> Result<Value, Error> {
    if compat.supports_grammar_tools
        && let Some(Grammar { syntax, definition, .. }) = constraint::grammar(tool)?
    {
        return Ok(json!({
            "type": "custom",
            "custom": {
                "name": tool.name,
                "description": tool.description,
                "format": {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}},
            },
        }));
    }
    let Parameters { schema, strict } = constraint::parameters(tool, compat.supports_strict_mode)?;
    let mut function = Map::new();
    function.insert("name".to_owned(), tool.name.clone().into());
    function.insert("description".to_owned(), tool.description.clone().into());
    function.insert("parameters".to_owned(), schema);
    if compat.supports_strict_mode {
        function.insert("strict".to_owned(), strict.into());
    }
    Ok(json!({"type": "function", "function": function}))
}
