//! What a running tool knows of its call.

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    abort::AbortSignal,
    message::ToolCall,
    tool::{Budget, Tool, ToolOutcome, ToolResult},
};

/// Takes what a tool reports while it runs.
pub(crate) type UpdateSink = Arc<dyn Fn(ToolResult) + Send + Sync>;

/// A call that a tool makes itself.
pub(crate) struct NestedCall<'a> {
    /// The tool, where it is not one of the agent's that is found by its name.
    pub(crate) tool: Option<&'a Tool>,
    pub(crate) call: &'a ToolCall,
    pub(crate) signal: &'a AbortSignal,
    /// Takes what the nested tool reports while it runs.
    pub(crate) on_update: &'a dyn Fn(ToolResult),
}

/// Runs the calls that a tool makes itself.
pub(crate) trait NestedCalls: Send + Sync {
    fn run(&self, nested: &NestedCall<'_>) -> ToolOutcome;
}

/// What a running tool knows of its call: its id, the signal, where to report progress, how to call other tools.
///
/// Cloning it copies pointers; a clone may outlive the call, whose later updates are then ignored.
#[derive(Clone)]
pub struct ToolContext {
    pub(crate) call_id: Arc<str>,
    pub(crate) tool_name: Arc<str>,
    pub(crate) signal: AbortSignal,
    pub(crate) updates: UpdateSink,
    pub(crate) nested: Option<Arc<dyn NestedCalls>>,
    /// Of the run that the call belongs to.
    pub(crate) budget: Option<Arc<Budget>>,
}

impl ToolContext {
    /// Makes a context without an agent, for testing a handler: updates go nowhere and nested calls fail.
    pub fn detached(tool_name: &str, signal: AbortSignal) -> ToolContext {
        ToolContext {
            call_id: Arc::from("call"),
            tool_name: Arc::from(tool_name),
            signal,
            updates: Arc::new(drop),
            nested: None,
            budget: None,
        }
    }

    /// The id of the call.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The name of the tool.
    pub fn tool_name(&self) -> &str {
        &self.tool_name
    }

    /// Fires when the run is aborted or the call's time limit has passed. A tool that then does not return is left alone
    /// after the agent's grace period.
    pub fn signal(&self) -> &AbortSignal {
        &self.signal
    }

    /// Reports progress; the tool goes on at once. Ignored after the call has returned.
    pub fn update(&self, partial: impl Into<ToolResult>) {
        (self.updates)(partial.into());
    }

    /// Runs another tool of the same agent through validation, hooks and limits, without events or messages.
    ///
    /// It never fails: refusals and errors come back as an outcome with `is_error`. It blocks until that tool is done; the
    /// pool fills this thread's place meanwhile, so calls may nest to any depth.
    pub fn run_tool_call(&self, call: &ToolCall) -> ToolOutcome {
        self.run_nested(&NestedCall { tool: None, call, signal: &self.signal, on_update: &drop })
    }

    pub(crate) fn run_nested(&self, call: &NestedCall<'_>) -> ToolOutcome {
        match &self.nested {
            Some(nested) => nested.run(call),
            None => ToolOutcome {
                result: ToolResult::error("no agent runs this tool, so it cannot call others"),
                is_error: true,
                duration: None,
            },
        }
    }

    /// The same by name, with an id made from this call's.
    pub fn run_tool(&self, name: &str, arguments: Map<String, Value>) -> ToolOutcome {
        let id = format!("{}/{name}", self.call_id);
        self.run_tool_call(&ToolCall {
            id,
            name: name.to_owned(),
            arguments,
            ..ToolCall::default()
        })
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("tool_name", &self.tool_name)
            .field("aborted", &self.signal.is_aborted())
            .finish_non_exhaustive()
    }
}
