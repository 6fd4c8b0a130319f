//! What a transcript says: the prompt and the tools that a replay of its system messages gives, how long it is, how it
//! is handed to another model, and how it is kept in a file.

mod estimate;
mod handoff;
mod placement;
mod replay;
mod saved;

#[cfg(feature = "providers")]
pub(crate) use crate::transcript::handoff::{hand_over_part, resolved};
pub(crate) use crate::transcript::replay::{named, told_tools};
pub use crate::transcript::{
    estimate::{estimate_message, estimate_tokens, output_cap},
    handoff::{NO_RESULT, TOOL_IMAGE_OMITTED, USER_IMAGE_OMITTED, hand_over, resolve_transcript},
    placement::{ToolChangeSupport, ToolPlacement, place_tools, update_text},
    replay::{ToolChanges, current_system, current_tools, prompt_text, tool_changes},
    saved::{Skipped, from_json, to_json},
};
