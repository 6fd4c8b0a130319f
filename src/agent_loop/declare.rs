//! Tells the model of the tools that can be executed, whenever the two differ.

use std::sync::Arc;

use crate::{
    message::{Message, SystemMessage, ToolDeclaration, now_ms},
    tool::Tool,
    transcript::{ToolChanges, named, told_tools},
};

/// Completes messages that are about to be added to `committed`, so that the model is told of just the tools that can be
/// executed. Without a difference they come back as they are.
pub(super) fn announce(
    committed: &[Arc<Message>],
    mut pending: Vec<Arc<Message>>,
    executable: &[Tool],
) -> Vec<Arc<Message>> {
    let carrier = pending.iter().rposition(|message| message.as_system().is_some());
    // What the carrier says of tools is replaced by the real difference, so the rest is what counts as told.
    let others =
        pending.iter().enumerate().filter(|(index, _)| Some(*index) != carrier).map(|(_, it)| it);
    let told = told_tools(committed.iter().chain(others).map(|message| &**message));
    let changes = executable_changes(&told, executable);
    match carrier {
        Some(index) => {
            if let Some(system) = pending[index].as_system()
                && (!changes.is_empty() || says_tools(system))
            {
                let system = SystemMessage {
                    tools_added: changes.added,
                    tools_removed: changes.removed,
                    ..system.clone()
                };
                pending[index] = Arc::new(Message::System(system));
            }
        }
        None if changes.is_empty() => (),
        None => {
            let system = SystemMessage {
                tools_added: changes.added,
                tools_removed: changes.removed,
                timestamp: now_ms(),
                ..SystemMessage::default()
            };
            pending.insert(0, Arc::new(Message::System(system)));
        }
    }
    pending
}

fn executable_changes(told: &[&ToolDeclaration], executable: &[Tool]) -> ToolChanges {
    // The first of a name wins, as it does when a call is looked up.
    let firsts: Vec<&Tool> = executable
        .iter()
        .enumerate()
        .filter(|(index, tool)| {
            !executable[..*index].iter().any(|earlier| earlier.name() == tool.name())
        })
        .map(|(_, tool)| tool)
        .collect();
    let is_told = |tool: &Tool| told.iter().any(|declaration| tool.is_declared_by(declaration));
    let still_there =
        |declaration: &ToolDeclaration| firsts.iter().any(|tool| tool.is_declared_by(declaration));
    ToolChanges {
        added: firsts.iter().filter(|tool| !is_told(tool)).map(|tool| tool.declaration()).collect(),
        removed: told
            .iter()
            .copied()
            .filter(|declaration| !still_there(declaration))
            .map(named)
            .collect(),
    }
}

fn says_tools(system: &SystemMessage) -> bool {
    !system.tools_added.is_empty() || !system.tools_removed.is_empty()
}
