//! Tokens and what they cost.

use serde::{Deserialize, Serialize, Serializer};

/// Tokens of one response and what they cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Prompt tokens that no cache held.
    pub input: u64,
    /// Answer tokens, reasoning included.
    pub output: u64,
    /// Prompt tokens read from the vendor's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the vendor's cache.
    pub cache_write: u64,
    /// The part of `cache_write` that lives for an hour.
    #[serde(rename = "cacheWrite1h", skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u64>,
    /// The part of `output` that is reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// All tokens.
    pub total_tokens: u64,
    /// What they cost in US dollars.
    pub cost: Cost,
}

/// Costs in US dollars. The parts are estimates by the catalogue's prices; the total may be the provider's own bill.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// For uncached prompt tokens.
    #[serde(serialize_with = "amount")]
    pub input: f64,
    /// For answer tokens.
    #[serde(serialize_with = "amount")]
    pub output: f64,
    /// For prompt tokens read from the cache.
    #[serde(serialize_with = "amount")]
    pub cache_read: f64,
    /// For prompt tokens written to the cache.
    #[serde(serialize_with = "amount")]
    pub cache_write: f64,
    /// All of it.
    #[serde(serialize_with = "amount")]
    pub total: f64,
    /// Whether `total` is the provider's bill.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub total_from_provider: bool,
}

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Prices {
    /// For uncached prompt tokens.
    pub input: f64,
    /// For answer tokens.
    pub output: f64,
    /// For prompt tokens read from the cache.
    pub cache_read: f64,
    /// For prompt tokens written to the cache.
    pub cache_write: f64,
    /// Other prices for long prompts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<PriceTier>,
}

/// Prices of a whole request whose prompt is longer than a bound.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriceTier {
    /// The prompt must have more tokens than this.
    pub input_tokens_above: u64,
    /// For uncached prompt tokens.
    pub input: f64,
    /// For answer tokens.
    pub output: f64,
    /// For prompt tokens read from the cache.
    pub cache_read: f64,
    /// For prompt tokens written to the cache.
    pub cache_write: f64,
}

impl Usage {
    /// Tokens of the whole prompt.
    pub fn prompt_tokens(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Computes the costs anew from `prices`; a bill of the provider is forgotten.
    pub fn price(&mut self, prices: &Prices) {
        let rates = prices.for_prompt(self.prompt_tokens());
        let hour = self.cache_write_1h.unwrap_or(0).min(self.cache_write);
        let per_token = |tokens: u64, rate: f64| count(tokens) * rate / 1e6;
        self.cost = Cost {
            input: per_token(self.input, rates.input),
            output: per_token(self.output, rates.output),
            cache_read: per_token(self.cache_read, rates.cache_read),
            cache_write: per_token(self.cache_write - hour, rates.cache_write)
                + per_token(hour, 2.0 * rates.input),
            total: 0.0,
            total_from_provider: false,
        };
        self.cost.total =
            self.cost.input + self.cost.output + self.cost.cache_read + self.cost.cache_write;
    }

    /// Adds the tokens and costs of `other`.
    pub fn add(&mut self, other: &Usage) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_1h = sum(self.cache_write_1h, other.cache_write_1h);
        self.reasoning = sum(self.reasoning, other.reasoning);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.cost.input += other.cost.input;
        self.cost.output += other.cost.output;
        self.cost.cache_read += other.cost.cache_read;
        self.cost.cache_write += other.cost.cache_write;
        self.cost.total += other.cost.total;
        self.cost.total_from_provider |= other.cost.total_from_provider;
    }
}

impl Prices {
    /// The prices for a prompt of `tokens`: of the tier with the largest bound below it, else the plain ones.
    fn for_prompt(&self, tokens: u64) -> PriceTier {
        let tier = self.tiers.iter().filter(|tier| tier.input_tokens_above < tokens);
        tier.max_by_key(|tier| tier.input_tokens_above).cloned().unwrap_or(PriceTier {
            input_tokens_above: 0,
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
        })
    }
}

/// Token counts stay far below the 2^53 that a float holds exactly.
#[allow(clippy::cast_precision_loss)]
fn count(tokens: u64) -> f64 {
    tokens as f64
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    }
}

/// Writes whole amounts without a fraction, as other programs write transcripts, so that the same transcript stays the
/// same text.
#[allow(clippy::cast_possible_truncation, clippy::trivially_copy_pass_by_ref)]
fn amount<S: Serializer>(amount: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if amount.fract() == 0.0 && amount.abs() < 1e15 {
        serializer.serialize_i64(*amount as i64)
    } else {
        serializer.serialize_f64(*amount)
    }
}
