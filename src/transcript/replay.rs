//! Replays system messages: contents, sections and tools as they stand after all of them.

use std::borrow::Borrow;

use serde_json::Map;

use crate::message::{Message, MessageContent, SystemMessage, ToolDeclaration, ToolName};

/// What differs between the tools that a model was told of and those that it shall be told of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolChanges {
    /// New tools, and changed ones as they are now.
    pub added: Vec<ToolDeclaration>,
    /// Tools that are gone, and changed ones.
    pub removed: Vec<ToolName>,
}

impl ToolChanges {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

/// Replays all system messages into the one that says the same; `None` if there is neither a system message nor a tool.
///
/// Contents that are not empty are joined by a blank line; a section is replaced by name and keeps its place, a null
/// removes it. The timestamp is that of the first.
pub fn current_system<M: Borrow<Message>>(
    messages: impl IntoIterator<Item = M>,
) -> Option<SystemMessage> {
    let mut current: Option<SystemMessage> = None;
    let mut content = String::new();
    let mut sections = Map::new();
    for message in messages {
        let Message::System(system) = message.borrow() else { continue };
        let current = current.get_or_insert_with(|| SystemMessage {
            timestamp: system.timestamp,
            ..SystemMessage::default()
        });
        let text = system.content_text();
        if !text.is_empty() {
            if !content.is_empty() {
                content.push_str("\n\n");
            }
            content.push_str(&text);
        }
        for (name, value) in system.sections.iter().flatten() {
            if value.is_null() {
                sections.shift_remove(name);
            } else {
                sections.insert(name.clone(), value.clone());
            }
        }
        apply_tools(&mut current.tools_added, system, ToolDeclaration::clone);
    }
    let mut current = current?;
    current.content = MessageContent::Text(content);
    current.sections = (!sections.is_empty()).then_some(sections);
    Some(current)
}

/// The tools that the model was told of, as they stand after all system messages.
pub fn current_tools<M: Borrow<Message>>(
    messages: impl IntoIterator<Item = M>,
) -> Vec<ToolDeclaration> {
    let mut tools = Vec::new();
    for message in messages {
        if let Message::System(system) = message.borrow() {
            apply_tools(&mut tools, system, ToolDeclaration::clone);
        }
    }
    tools
}

/// The same without copies, for those who ask before each request.
pub(crate) fn told_tools<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
) -> Vec<&'a ToolDeclaration> {
    let mut tools = Vec::new();
    for system in messages.into_iter().filter_map(Message::as_system) {
        apply_tools(&mut tools, system, |added| added);
    }
    tools
}

/// The text of the prompt that a complete system message holds: its content, then its sections, joined by blank lines.
pub fn prompt_text(system: &SystemMessage) -> String {
    let content = system.content_text();
    let sections = system.sections.iter().flatten().filter_map(|(_, value)| value.as_str());
    let parts: Vec<&str> =
        std::iter::once(&*content).chain(sections).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// What differs between two lists of tools. A changed declaration is a removal and an addition.
pub fn tool_changes(before: &[ToolDeclaration], now: &[ToolDeclaration]) -> ToolChanges {
    let added = now.iter().filter(|tool| !before.contains(tool)).cloned().collect();
    let removed = before.iter().filter(|tool| !now.contains(tool)).map(named).collect();
    ToolChanges { added, removed }
}

fn apply_tools<'a, T: Borrow<ToolDeclaration>>(
    tools: &mut Vec<T>,
    system: &'a SystemMessage,
    take: impl Fn(&'a ToolDeclaration) -> T,
) {
    for removed in &system.tools_removed {
        tools.retain(|tool| tool.borrow().name != removed.name);
    }
    for added in &system.tools_added {
        match tools.iter_mut().find(|tool| T::borrow(tool).name == added.name) {
            Some(tool) => *tool = take(added),
            None => tools.push(take(added)),
        }
    }
}

pub(crate) fn named(tool: &ToolDeclaration) -> ToolName {
    ToolName { name: tool.name.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_replaced_section_keeps_its_place_and_null_removes() {
        let system = |sections: Value| {
            Message::System(SystemMessage {
                sections: sections.as_object().cloned(),
                ..SystemMessage::default()
            })
        };
        let messages = [
            system(serde_json::json!({"a": "1", "b": "2", "c": "3"})),
            system(serde_json::json!({"a": "4", "b": null})),
        ];
        let current = current_system(&messages).map(|it| prompt_text(&it));
        assert_eq!(current.as_deref(), Some("4\n\n3"));
    }
}
