//! What a transcript says: the prompt and the tools that a replay of its system messages gives, how long it is, and how it
//! is handed to another model.

mod estimate;
mod handoff;
mod placement;
mod replay;

pub(crate) use crate::transcript::replay::named;
pub use crate::transcript::{
    estimate::{estimate_message, estimate_tokens, output_cap},
    handoff::{NO_RESULT, TOOL_IMAGE_OMITTED, USER_IMAGE_OMITTED, hand_over, resolve_transcript},
    placement::{ToolChangeSupport, ToolPlacement, place_tools, update_text},
    replay::{ToolChanges, current_system, current_tools, prompt_text, tool_changes},
};
