//! Tokens and costs as this API reports them.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    model::Model, provider::openai_responses::compat::Compat, stream::StreamRequest, usage::Usage,
};

/// What the tokens of a response cost.
#[derive(Debug)]
pub(super) struct Tariff {
    model: Arc<Model>,
    prices_tiers: bool,
    /// The tier of service that was asked for.
    tier: Option<String>,
}

impl Tariff {
    pub(super) fn new(request: &StreamRequest, compat: &Compat) -> Tariff {
        let native = request.options.native.as_ref();
        let tier = native.and_then(|it| it.get("serviceTier")).and_then(Value::as_str);
        Tariff {
            model: request.model.clone(),
            prices_tiers: compat.prices_tiers,
            tier: tier.map(str::to_owned),
        }
    }

    /// The usage that a response reports, if it does. The tier that it names wins over what was asked for.
    pub(super) fn read(&self, response: &Value) -> Option<Usage> {
        let reported = response.get("usage").filter(|it| it.is_object())?;
        let tokens = |name: &str| reported[name].as_u64().unwrap_or(0);
        let part = |of: &str, name: &str| reported[of][name].as_u64().unwrap_or(0);
        let cache_read = part("input_tokens_details", "cached_tokens");
        let cache_write = part("input_tokens_details", "cache_write_tokens");
        let input = tokens("input_tokens").saturating_sub(cache_read).saturating_sub(cache_write);
        let mut usage = Usage {
            input,
            output: tokens("output_tokens"),
            cache_read,
            cache_write,
            reasoning: Some(part("output_tokens_details", "reasoning_tokens")),
            total_tokens: tokens("total_tokens"),
            ..Usage::default()
        };
        usage.price(&self.model.cost);
        let tier = response["service_tier"].as_str().or(self.tier.as_deref());
        if let Some(factor) = tier.filter(|_| self.prices_tiers).and_then(|tier| self.factor(tier))
        {
            let cost = &mut usage.cost;
            for part in [
                &mut cost.input,
                &mut cost.output,
                &mut cost.cache_read,
                &mut cost.cache_write,
                &mut cost.total,
            ] {
                *part *= factor;
            }
        }
        Some(usage)
    }

    /// What a tier costs more or less.
    fn factor(&self, tier: &str) -> Option<f64> {
        match tier {
            "flex" => Some(0.5),
            "priority" | "fast" if self.model.id == "gpt-5.5" => Some(2.5),
            "priority" | "fast" => Some(2.0),
            _ => None,
        }
    }
}
