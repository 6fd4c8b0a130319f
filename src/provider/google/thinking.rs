//! How a request says how hard to think: by a level or by a budget of tokens, as the model takes it.

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, ErrorKind},
    model::{Model, ThinkingBudgets, ThinkingLevel},
    provider::google::family::Family,
    stream::StreamOptions,
};

/// The levels that the vendor knows.
const LEVELS: [&str; 4] = ["MINIMAL", "LOW", "MEDIUM", "HIGH"];

/// What the request says of thinking; `None` for a model that does not think, or is not asked to.
pub(super) fn config(
    model: &Model,
    options: &StreamOptions,
    budgets: &Budgets,
) -> Result<Option<Value>, Error> {
    if !model.reasoning {
        return Ok(None);
    }
    if let Some(native) = &options.native {
        return Ok(native_config(model, budgets, native));
    }
    let level = options.reasoning.filter(|level| *level != ThinkingLevel::Off);
    let Some(level) = level.map(|level| model.clamp_thinking(level)) else {
        return Ok(Some(off(model, budgets)));
    };
    if level == ThinkingLevel::Off {
        return Ok(Some(off(model, budgets)));
    }
    Ok(Some(if Family::of(&model.id).thinks_by_level {
        json!({"includeThoughts": true, "thinkingLevel": vendor_level(model, level)?})
    } else {
        let own = options.thinking_budgets.unwrap_or_default();
        json!({"includeThoughts": true, "thinkingBudget": budgets.tokens(&model.id, level, &own)})
    }))
}

/// Takes the options `enabled`, `level` and `budgetTokens` as they are.
fn native_config(model: &Model, budgets: &Budgets, native: &Map<String, Value>) -> Option<Value> {
    let thinking = native.get("thinking")?.as_object()?;
    let given = |name: &str| thinking.get(name).filter(|it| !it.is_null()).cloned();
    if given("enabled") != Some(true.into()) {
        return Some(off(model, budgets));
    }
    let mut config = json!({"includeThoughts": true});
    match (given("level"), given("budgetTokens")) {
        (Some(level), _) => config["thinkingLevel"] = level,
        (None, Some(tokens)) => config["thinkingBudget"] = tokens,
        (None, None) => (),
    }
    Some(config)
}

/// Not to think, or as little as the model can.
fn off(model: &Model, budgets: &Budgets) -> Value {
    match model.clamp_thinking(ThinkingLevel::Off) {
        ThinkingLevel::Off => json!({"thinkingBudget": 0}),
        least if Family::of(&model.id).thinks_by_level => match vendor_level(model, least) {
            Ok(level) => json!({"thinkingLevel": level}),
            Err(_) => json!({"thinkingBudget": 0}),
        },
        least => {
            json!({"thinkingBudget": budgets.tokens(&model.id, least, &ThinkingBudgets::default())})
        }
    }
}

fn vendor_level(model: &Model, level: ThinkingLevel) -> Result<String, Error> {
    let value = model.mapped_thinking(level).unwrap_or(level.as_str()).to_ascii_uppercase();
    if LEVELS.contains(&value.as_str()) {
        return Ok(value);
    }
    let message = format!(
        "the model `{}` is to think at the level {level}, which its thinkingLevelMap gives as `{value}`: map it to minimal, low, medium or high",
        model.id
    );
    Err(Error::new(ErrorKind::Configuration, message))
}

/// Tokens to think with, by a part of the model's id and by level from minimal to high.
#[derive(Debug)]
pub(crate) struct Budgets(pub(crate) &'static [(&'static str, [u64; 4])]);

impl Budgets {
    /// The budget of a level: the host's own, or the table's, or -1 where the model decides.
    fn tokens(&self, id: &str, level: ThinkingLevel, own: &ThinkingBudgets) -> Value {
        let (place, own) = match level {
            ThinkingLevel::Off | ThinkingLevel::Minimal => (0, own.minimal),
            ThinkingLevel::Low => (1, own.low),
            ThinkingLevel::Medium => (2, own.medium),
            ThinkingLevel::High | ThinkingLevel::Xhigh | ThinkingLevel::Max => (3, own.high),
        };
        let row = self.0.iter().find(|(part, _)| id.contains(part));
        own.or_else(|| row.map(|(_, tokens)| tokens[place]))
            .map_or_else(|| (-1).into(), Value::from)
    }
}
