//! Answers that were given for always, and the questions that wait.

use std::{mem, sync::Arc};

use serde_json::{Map, Value};

use crate::hosted::answer::Slot;

/// What a host answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Allow,
    Deny(String),
}

/// Which later calls an answer counts for. They are those that the same rule asks about: an answer to a question that one
/// rule asks does not settle those of a stricter one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All calls of the tool.
    Tool,
    /// Calls of the tool with the same arguments.
    SameArguments,
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matter {
    /// The place of the rule that asks; none for calls that no rule fits.
    pub(super) rule: Option<usize>,
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
}

#[derive(Default)]
pub(super) struct Memory {
    answers: Vec<(Matter, Scope, Answer)>,
    waiting: Vec<(Matter, Arc<Slot<Answer>>)>,
}

impl Matter {
    /// Whether an answer about `self` counts for `other`.
    fn covers(&self, scope: Scope, other: &Matter) -> bool {
        self.rule == other.rule
            && self.tool == other.tool
            && (scope == Scope::Tool || self.arguments == other.arguments)
    }
}

impl Memory {
    /// The answer that is known, the newest first; without one the question waits.
    pub(super) fn recall_or_wait(
        &mut self,
        matter: &Matter,
        slot: &Arc<Slot<Answer>>,
    ) -> Option<Answer> {
        let mut known = self.answers.iter().rev();
        let known = known.find(|(about, scope, _)| about.covers(*scope, matter));
        if known.is_none() {
            self.waiting.push((matter.clone(), slot.clone()));
        }
        known.map(|(_, _, answer)| answer.clone())
    }

    pub(super) fn stop_waiting(&mut self, slot: &Arc<Slot<Answer>>) {
        self.waiting.retain(|(_, waiting)| !Arc::ptr_eq(waiting, slot));
    }

    /// Keeps an answer and gives the questions that it settles.
    pub(super) fn remember(
        &mut self,
        matter: &Matter,
        scope: Scope,
        answer: &Answer,
    ) -> Vec<Arc<Slot<Answer>>> {
        self.answers.retain(|(about, _, _)| !matter.covers(scope, about));
        self.answers.push((matter.clone(), scope, answer.clone()));
        let settled = self.waiting.iter().filter(|(about, _)| matter.covers(scope, about));
        settled.map(|(_, slot)| slot.clone()).collect()
    }

    pub(super) fn take_answers(&mut self) -> Vec<(Matter, Scope, Answer)> {
        mem::take(&mut self.answers)
    }
}
