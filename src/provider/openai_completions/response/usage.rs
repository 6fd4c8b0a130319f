//! Tokens and costs as servers of this API report them.

use serde_json::Value;

use crate::{model::Model, usage::Usage};

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
        total_tokens: input + output + cache_read + cache_write,
        ..Usage::default()
    };
    usage.price(&model.cost);
    let is_openrouter =
        model.provider == "openrouter" || model.base_url.to_lowercase().contains("openrouter.ai");
    if let Some(bill) = bill(reported).filter(|_| is_openrouter) {
        usage.cost.total = bill;
        usage.cost.total_from_provider = true;
    }
    usage
}

/// What OpenRouter bills; with a key of the user's own, what the vendor behind it bills comes on top.
fn bill(reported: &Value) -> Option<f64> {
    let amount = |path: &[&str]| {
        at(reported, path).and_then(Value::as_f64).filter(|it| it.is_finite() && *it >= 0.0)
    };
    let cost = amount(&["cost"])?;
    if !reported.get("is_byok")?.as_bool()? {
        return Some(cost);
    }
    let upstream = amount(&["cost_details", "upstream_inference_cost"]).or_else(|| {
        let prompt = amount(&["cost_details", "upstream_inference_prompt_cost"])?;
        let answer = amount(&["cost_details", "upstream_inference_completions_cost"])?;
        Some(prompt + answer)
    });
    Some(cost + upstream?)
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name)).filter(|it| !it.is_null())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let float = value.as_f64()?;
        (float >= 0.0 && float < 9e15).then_some(float as u64)
    })
}
