//! What a transcript says: the prompt and the tools that a replay of its system messages gives.

mod replay;

pub(crate) use crate::transcript::replay::named;
pub use crate::transcript::replay::{
    ToolChanges, current_system, current_tools, prompt_text, tool_changes,
};
