//! Tokens and costs as this API reports them: some at the beginning, the rest with the end.

use serde_json::Value;

use crate::{
    model::Model,
    provider::{anthropic::compat::fallback_models, openrouter},
    usage::{Prices, Usage},
};

/// The usage of a response so far, and what its tokens cost.
#[derive(Debug)]
pub(super) struct Meter {
    usage: Usage,
    prices: Prices,
    is_openrouter: bool,
}

impl Meter {
    pub(super) fn new(model: &Model) -> Meter {
        Meter {
            usage: Usage::default(),
            prices: model.cost.clone(),
            is_openrouter: openrouter::serves(model),
        }
    }

    /// Another model answers: if it is one of the allowed fallbacks, its prices hold.
    pub(super) fn answered_by(&mut self, model: &Model, answering: &str) {
        let fallback = fallback_models(model).into_iter().find(|it| it.model == answering);
        if let Some(fallback) = fallback {
            self.prices = fallback.cost;
        }
    }

    /// Takes what the beginning of the response reports; what it leaves out is zero.
    pub(super) fn begin(&mut self, reported: &Value) -> Usage {
        self.usage = Usage { cache_write_1h: Some(0), ..Usage::default() };
        self.update(reported)
    }

    /// Takes what a later event reports; what it leaves out, or gives as null, stays.
    pub(super) fn update(&mut self, reported: &Value) -> Usage {
        let tokens = |name: &str| reported.get(name).and_then(count);
        let part = |of: &str, name: &str| reported.get(of)?.get(name).and_then(count);
        let take = |to: &mut u64, name: &str| *to = tokens(name).unwrap_or(*to);
        let usage = &mut self.usage;
        take(&mut usage.input, "input_tokens");
        take(&mut usage.output, "output_tokens");
        take(&mut usage.cache_read, "cache_read_input_tokens");
        take(&mut usage.cache_write, "cache_creation_input_tokens");
        let hour = part("cache_creation", "ephemeral_1h_input_tokens");
        usage.cache_write_1h = hour.or(usage.cache_write_1h);
        usage.reasoning = part("output_tokens_details", "thinking_tokens").or(usage.reasoning);
        usage.total_tokens = usage.prompt_tokens().saturating_add(usage.output);
        usage.price(&self.prices);
        if self.is_openrouter {
            openrouter::apply_bill(usage, reported);
        }
        usage.clone()
    }
}

/// A count of tokens; some servers send it with a fraction.
fn count(value: &Value) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = |count: f64| (count >= 0.0).then_some(count as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}
