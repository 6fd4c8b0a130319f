//! How a request asks for thinking, and how many tokens the answer may have beside it.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    model::{Model, ThinkingLevel},
    provider::anthropic::compat::Compat,
    stream::StreamOptions,
};

/// Tokens that are left for the answer when a thinking budget would take them all; also the least budget that the API
/// takes.
const ANSWER_RESERVE: u64 = 1024;
const LEAST_BUDGET: u64 = 1024;

/// The `thinking` field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Thinking<'a> {
    Disabled,
    Adaptive { display: &'a str },
    Enabled { budget_tokens: u64, display: &'a str },
}

/// Everything in a request that depends on thinking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThinkingPlan<'a> {
    pub(super) thinking: Option<Thinking<'a>>,
    pub(super) effort: Option<&'a str>,
    pub(super) max_tokens: u64,
    /// Whether the beta feature for thinking between tool calls is asked for.
    pub(super) interleaved: bool,
}

impl ThinkingPlan<'_> {
    pub(super) fn is_on(&self) -> bool {
        matches!(self.thinking, Some(Thinking::Adaptive { .. } | Thinking::Enabled { .. }))
    }
}

/// How many tokens an answer may have, by whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// What was asked for, or else the model's limit.
    pub(super) requested: u64,
    /// The model's limit.
    pub(super) model: u64,
    /// What the context leaves room for.
    pub(super) room: u64,
}

/// What `options` say in the neutral words.
pub(super) fn neutral<'a>(
    model: &'a Model,
    compat: &Compat,
    options: &StreamOptions,
    limits: Limits,
) -> ThinkingPlan<'a> {
    let cap = limits.requested.min(limits.room).max(1);
    let plan =
        ThinkingPlan { thinking: off(model), effort: None, max_tokens: cap, interleaved: false };
    let level = options.reasoning.filter(|level| *level != ThinkingLevel::Off);
    let Some(level) = level.filter(|_| model.reasoning) else { return plan };
    if compat.adaptive_thinking {
        let thinking = Some(Thinking::Adaptive { display: "summarized" });
        return ThinkingPlan { thinking, effort: Some(effort(model, level)), ..plan };
    }
    let wanted = options.thinking_budgets.unwrap_or_default().tokens(level).unwrap_or(0);
    let max_tokens = cap.saturating_add(wanted).min(limits.model).min(limits.room).max(1);
    let budget = wanted.min(max_tokens.saturating_sub(ANSWER_RESERVE)).max(LEAST_BUDGET);
    if budget >= max_tokens {
        // The API refuses a budget that leaves nothing to answer with.
        return ThinkingPlan { max_tokens, ..plan };
    }
    let thinking = Some(Thinking::Enabled { budget_tokens: budget, display: "summarized" });
    ThinkingPlan { thinking, max_tokens, interleaved: true, ..plan }
}

/// What the API's own options say; only what they name is sent.
pub(super) fn native<'a>(
    model: &'a Model,
    compat: &Compat,
    native: &'a Map<String, Value>,
    max_tokens: u64,
) -> ThinkingPlan<'a> {
    let text = |name: &str| native.get(name).and_then(Value::as_str);
    let mut plan = ThinkingPlan { thinking: None, effort: None, max_tokens, interleaved: false };
    let enabled = native.get("thinkingEnabled").and_then(Value::as_bool);
    let display = text("thinkingDisplay").unwrap_or("summarized");
    match enabled {
        _ if !model.reasoning => (),
        None => (),
        Some(false) => plan.thinking = off(model),
        Some(true) if compat.adaptive_thinking => {
            plan.thinking = Some(Thinking::Adaptive { display });
            plan.effort = text("effort");
        }
        Some(true) => {
            let budget = native.get("thinkingBudgetTokens").and_then(Value::as_u64);
            let budget_tokens = budget.filter(|it| *it > 0).unwrap_or(LEAST_BUDGET);
            plan.thinking = Some(Thinking::Enabled { budget_tokens, display });
            plan.interleaved =
                native.get("interleavedThinking").and_then(Value::as_bool).unwrap_or(true);
        }
    }
    plan
}

/// The field that turns thinking off, for models that may think and can be told not to.
fn off(model: &Model) -> Option<Thinking<'static>> {
    let levels = model.thinking_level_map.as_ref();
    let must_think = levels.and_then(|map| map.get("off")).is_some_and(Value::is_null);
    (model.reasoning && !must_think).then_some(Thinking::Disabled)
}

/// The vendor's effort for a level.
fn effort(model: &Model, level: ThinkingLevel) -> &str {
    model.mapped_thinking(level).unwrap_or(match level {
        ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        _ => "high",
    })
}
