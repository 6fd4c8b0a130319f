//! Where a request says what tools there are, and how it tells of later changes to the prompt.

use std::{borrow::Borrow, collections::HashSet};

use crate::{
    message::{Message, SystemMessage, ToolDeclaration},
    transcript::replay::current_tools,
};

/// How an API takes changes of the tools within a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChangeSupport {
    /// Not at all: one list for the whole request.
    None,
    /// New tools may be declared where they appear; a removal or a new declaration of a tool is not possible.
    Additions,
    /// All changes are told where they appear.
    Changes,
}

/// Which tools the list of the request holds, and which are told where they appear.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolPlacement {
    /// The list of the request.
    pub top_level: Vec<ToolDeclaration>,
    /// So many system messages, counted from the first, have their tools in `top_level`; the others declare their own.
    pub folded: usize,
}

/// Decides which tools the list of the request holds.
pub fn place_tools<M: Borrow<Message>>(
    messages: &[M],
    support: ToolChangeSupport,
) -> ToolPlacement {
    let systems: Vec<&SystemMessage> =
        messages.iter().filter_map(|message| message.borrow().as_system()).collect();
    let folded = match support {
        ToolChangeSupport::None => systems.len(),
        ToolChangeSupport::Additions => {
            let leads = messages.first().is_some_and(|first| first.borrow().as_system().is_some());
            last_that_is_no_addition(&systems).max(usize::from(leads))
        }
        ToolChangeSupport::Changes => 0,
    };
    let first = messages.iter().filter(|message| (*message).borrow().as_system().is_some());
    let top_level = current_tools(first.take(folded).map(Borrow::borrow));
    ToolPlacement { top_level, folded }
}

/// The text of a system message that comes later than the first: its content, then what became of each section.
pub fn update_text(system: &SystemMessage) -> String {
    let mut parts = Vec::new();
    let content = system.content_text();
    if !content.is_empty() {
        parts.push(content.into_owned());
    }
    for (name, value) in system.sections.iter().flatten() {
        parts.push(match value.as_str() {
            Some(text) => {
                format!("From here on, section \"{name}\" of the instructions reads:\n\n{text}")
            }
            None => format!("From here on, section \"{name}\" of the instructions does not apply."),
        });
    }
    parts.join("\n\n")
}

/// How many system messages there are up to the last one that takes a tool away or declares a name anew.
fn last_that_is_no_addition(systems: &[&SystemMessage]) -> usize {
    let mut declared = HashSet::new();
    let mut last = 0;
    for (index, system) in systems.iter().enumerate() {
        let mut repeats = false;
        for tool in &system.tools_added {
            repeats |= !declared.insert(tool.name.as_str());
        }
        if repeats || !system.tools_removed.is_empty() {
            last = index + 1;
        }
    }
    last
}
