//! What OpenRouter does alike on all wire APIs that it offers.

use serde_json::Value;

use crate::{model::Model, provider::headers::has_host, usage::Usage};

/// Whether a model is reached by OpenRouter.
pub(crate) fn serves(model: &Model) -> bool {
    model.provider == "openrouter" || has_host(&model.base_url, "openrouter.ai")
}

/// Puts what OpenRouter bills, if the report of the usage says it, in the place of the estimated total.
pub(crate) fn apply_bill(usage: &mut Usage, reported: &Value) {
    if let Some(bill) = bill(reported) {
        usage.cost.total = bill;
        usage.cost.total_from_provider = true;
    }
}

/// What OpenRouter bills; with a key of the user's own, what the vendor behind it bills comes on top.
fn bill(reported: &Value) -> Option<f64> {
    let amount = |path: &str| {
        let amount = reported.pointer(path).and_then(Value::as_f64);
        amount.filter(|it| it.is_finite() && *it >= 0.0)
    };
    let cost = amount("/cost")?;
    if !reported.get("is_byok")?.as_bool()? {
        return Some(cost);
    }
    let upstream = amount("/cost_details/upstream_inference_cost").or_else(|| {
        let prompt = amount("/cost_details/upstream_inference_prompt_cost")?;
        Some(prompt + amount("/cost_details/upstream_inference_completions_cost")?)
    });
    Some(cost + upstream?)
}
