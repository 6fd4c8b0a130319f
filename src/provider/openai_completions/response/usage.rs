//! Tokens and costs as servers of this API report them.

use serde_json::Value;

use crate::{model::Model, provider::openrouter, usage::Usage};

/// Reads what a server reports. Its own sum is not believed.
pub(super) fn read(reported: &Value, model: &Model) -> Usage {
    let count = |path: &[&str]| at(reported, path).and_then(number);
    let prompt = count(&["prompt_tokens"]).unwrap_or(0);
    let output = count(&["completion_tokens"]).unwrap_or(0);
    // The first that is there counts, even if it is 0.
    let cache_read = count(&["prompt_tokens_details", "cached_tokens"])
        .or_else(|| count(&["prompt_cache_hit_tokens"]))
        .or_else(|| count(&["cached_tokens"]))
        .unwrap_or(0);
    let cache_write = count(&["prompt_tokens_details", "cache_write_tokens"]).unwrap_or(0);
    let reasoning = count(&["completion_tokens_details", "reasoning_tokens"])
        .or_else(|| count(&["reasoning_tokens"]));
    let input = prompt.saturating_sub(cache_read).saturating_sub(cache_write);
    let mut usage = Usage {
        input,
        output,
        cache_read,
        cache_write,
        reasoning: Some(reasoning.unwrap_or(0)),
        total_tokens: [output, cache_read, cache_write]
            .into_iter()
            .fold(input, u64::saturating_add),
        ..Usage::default()
    };
    usage.price(&model.cost);
    if openrouter::serves(model) {
        openrouter::apply_bill(&mut usage, reported);
    }
    usage
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name)).filter(|it| !it.is_null())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let float = value.as_f64()?;
        (0.0..9e15).contains(&float).then_some(float as u64)
    })
}
