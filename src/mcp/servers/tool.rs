//! A tool of a server as a tool of an agent.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::slot::Slot;
use crate::{
    error::{Error, ErrorKind},
    mcp::{
        client::{CONNECTION_LOST, CallOptions, Progress},
        content,
        definition::{CallResult, ToolDefinition},
        naming,
    },
    tool::{Tool, ToolContext, ToolError, ToolHandler, ToolHints, ToolResult},
};

struct Remote {
    slot: Arc<Slot>,
    tool: String,
    most: usize,
}

/// Makes a tool called `name`. `most` is how many bytes of text a model sees of a result.
pub(super) fn make(
    name: String,
    definition: &ToolDefinition,
    slot: &Arc<Slot>,
    most: usize,
) -> Tool {
    let description = definition.description.as_deref().unwrap_or(&definition.name);
    let remote = Remote { slot: slot.clone(), tool: definition.name.clone(), most };
    let parameters = naming::parameters(&definition.input_schema);
    let said = definition.annotations.clone().unwrap_or_default();
    let hints = ToolHints {
        read_only: said.read_only_hint,
        destructive: said.destructive_hint,
        idempotent: said.idempotent_hint,
        open_world: said.open_world_hint,
    };
    let tool = Tool::with_handler(name, description, parameters, remote)
        .label(definition.label())
        .hints(hints);
    match &definition.output_schema {
        Some(schema) => tool.output_schema(schema.clone()),
        None => tool,
    }
}

impl ToolHandler for Remote {
    fn call(
        &self,
        arguments: Map<String, Value>,
        context: &ToolContext,
    ) -> Result<ToolResult, ToolError> {
        let signal = context.signal();
        let client = self.slot.client(signal)?;
        let on_progress = |progress: &Progress| context.update(text_of(progress));
        let options = CallOptions { on_progress: Some(&on_progress), ..CallOptions::default() };
        match client.call_tool(&self.tool, &arguments, &options, signal) {
            Ok(result) => {
                self.slot.succeeded();
                Ok(self.result(&result))
            }
            Err(error) => Err(self.failure(&error).into()),
        }
    }
}

impl Remote {
    fn result(&self, result: &CallResult) -> ToolResult {
        let limited = content::limit(content::to_content(result), self.most);
        let mut details = json!({"mcp": {"server": self.slot.name, "tool": self.tool}});
        if let Some(whole) = limited.whole {
            details["mcp"]["wholeText"] = json!(whole);
        }
        if let Some(meta) = &result.meta {
            details["mcp"]["meta"] = meta.clone();
        }
        ToolResult {
            content: limited.content,
            details: Some(details),
            structured_content: result.structured_content.clone(),
            is_error: result.is_error.then_some(true),
            ..ToolResult::default()
        }
    }

    /// What a model is told of a call without a result.
    fn failure(&self, error: &Error) -> String {
        let server = &self.slot.name;
        let is_lost = error.failure().code.as_deref() == Some(CONNECTION_LOST);
        match error.kind() {
            ErrorKind::Network if is_lost => format!(
                "the MCP server `{server}` was lost while the call was under way, and nobody knows whether it took \
                 effect: {error}. The next call starts the server again."
            ),
            ErrorKind::Network => format!(
                "the connection to the MCP server `{server}` failed, and nobody knows whether the call took effect: \
                 {error}"
            ),
            ErrorKind::Limit => format!(
                "{error}; it was told to stop, and nobody knows whether the call took effect"
            ),
            _ => error.to_string(),
        }
    }
}

/// Progress as people read it: `3 of 9: reading`.
fn text_of(progress: &Progress) -> String {
    let amount = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    match &progress.message {
        Some(message) => format!("{amount}: {message}"),
        None => amount,
    }
}
