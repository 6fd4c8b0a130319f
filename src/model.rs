//! What is known of a model: where it is, what it takes, what it costs.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind},
    secret::{self, shown_json, shown_value},
    usage::Prices,
};

/// What is known of a model. Identity is provider and id.
///
/// Its `Debug` leaves out what sounds like a key among the headers.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Model {
    /// The name that the vendor's API takes.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The wire API it is reached by, for example `openai-completions`.
    pub api: String,
    /// The provider, for example `anthropic`.
    pub provider: String,
    /// The URL that the API's paths are appended to.
    pub base_url: String,
    /// Whether it can think before it answers.
    pub reasoning: bool,
    /// The vendor's value for each thinking level; null where the level is not to be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level_map: Option<Map<String, Value>>,
    /// What it takes: `text`, `image`.
    pub input: Vec<Modality>,
    /// Prices in US dollars per million tokens.
    pub cost: Prices,
    /// How many tokens fit, prompt and answer together; 0 if unknown.
    pub context_window: u64,
    /// How many tokens an answer may have.
    pub max_tokens: u64,
    /// Headers for each request.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub headers: Map<String, Value>,
    /// Fields merged into each request body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_params: Option<Map<String, Value>>,
    /// The same by thinking level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_params_by_thinking_level: Option<Map<String, Value>>,
    /// How long the vendor keeps a prompt cached, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<Value>,
    /// Limits of what it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_limits: Option<Value>,
    /// What its server does otherwise than others; each API documents its flags.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub compat: Map<String, Value>,
    /// Fields that this version does not know, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Modality {
    /// Text.
    Text,
    /// Images.
    Image,
    /// Something that this version does not know.
    #[serde(other)]
    Other,
}

/// How hard a model shall think, from not at all to the most it can.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all.
    #[default]
    Off,
    /// As little as possible.
    Minimal,
    /// A little.
    Low,
    /// Moderately.
    Medium,
    /// Hard.
    High,
    /// Harder; only some models have it.
    Xhigh,
    /// The most; only some models have it.
    Max,
}

/// Tokens to think with at each level; unset ones have defaults (1,024, 2,048, 8,192, 16,384).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThinkingBudgets {
    /// For `minimal`. Default: 1,024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimal: Option<u64>,
    /// For `low`. Default: 2,048.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<u64>,
    /// For `medium`. Default: 8,192.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<u64>,
    /// For `high` and above. Default: 16,384.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
}

impl Model {
    /// Makes a model of an OpenAI-compatible server: `base_url` ends where `/chat/completions` is appended, for example
    /// `http://localhost:11434/v1`.
    pub fn openai_compatible(id: impl Into<String>, base_url: impl Into<String>) -> Model {
        let id = id.into();
        Model {
            name: id.clone(),
            id,
            api: "openai-completions".to_owned(),
            provider: "local".to_owned(),
            base_url: base_url.into(),
            input: vec![Modality::Text, Modality::Image],
            ..Model::default()
        }
    }

    /// Whether it takes images.
    pub fn takes_images(&self) -> bool {
        self.input.contains(&Modality::Image)
    }

    /// Whether the other model is the same one for the purpose of replaying what it signed.
    pub fn is_same(&self, provider: &str, api: &str, id: &str) -> bool {
        self.provider == provider && self.api == api && self.id == id
    }

    /// The thinking levels that it knows, from the least.
    pub fn thinking_levels(&self) -> Vec<ThinkingLevel> {
        if !self.reasoning {
            return vec![ThinkingLevel::Off];
        }
        ThinkingLevel::ALL.into_iter().filter(|level| self.knows(*level)).collect()
    }

    /// The nearest level that it knows: `level` itself, else the next above, else the next below.
    pub fn clamp_thinking(&self, level: ThinkingLevel) -> ThinkingLevel {
        let levels = self.thinking_levels();
        let above = levels.iter().find(|it| **it >= level);
        above.or(levels.last()).copied().unwrap_or_default()
    }

    /// The vendor's value for a level, where the model maps it to a text.
    pub fn mapped_thinking(&self, level: ThinkingLevel) -> Option<&str> {
        self.thinking_level_map.as_ref()?.get(level.as_str())?.as_str()
    }

    fn knows(&self, level: ThinkingLevel) -> bool {
        match self.thinking_level_map.as_ref().and_then(|map| map.get(level.as_str())) {
            Some(Value::Null) => false,
            Some(_) => true,
            None => level <= ThinkingLevel::High,
        }
    }
}

impl ThinkingLevel {
    /// All levels, from the least.
    pub const ALL: [ThinkingLevel; 7] = [
        ThinkingLevel::Off,
        ThinkingLevel::Minimal,
        ThinkingLevel::Low,
        ThinkingLevel::Medium,
        ThinkingLevel::High,
        ThinkingLevel::Xhigh,
        ThinkingLevel::Max,
    ];

    /// The level as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            ThinkingLevel::Off => "off",
            ThinkingLevel::Minimal => "minimal",
            ThinkingLevel::Low => "low",
            ThinkingLevel::Medium => "medium",
            ThinkingLevel::High => "high",
            ThinkingLevel::Xhigh => "xhigh",
            ThinkingLevel::Max => "max",
        }
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("api", &self.api)
            .field("provider", &self.provider)
            .field("base_url", &secret::without_query(&self.base_url))
            .field("reasoning", &self.reasoning)
            .field("thinking_level_map", &self.thinking_level_map)
            .field("input", &self.input)
            .field("cost", &self.cost)
            .field("context_window", &self.context_window)
            .field("max_tokens", &self.max_tokens)
            .field("headers", &secret::shown(&self.headers))
            .field("sampling_params", &self.sampling_params.as_ref().map(shown_json))
            .field(
                "sampling_params_by_thinking_level",
                &self.sampling_params_by_thinking_level.as_ref().map(shown_json),
            )
            .field("prompt_cache", &self.prompt_cache.as_ref().map(shown_value))
            .field("input_limits", &self.input_limits.as_ref().map(shown_value))
            .field("compat", &shown_json(&self.compat))
            .field("extra", &shown_json(&self.extra))
            .finish()
    }
}

impl fmt::Display for ThinkingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ThinkingLevel {
    type Err = Error;

    fn from_str(text: &str) -> Result<ThinkingLevel, Error> {
        ThinkingLevel::ALL.into_iter().find(|level| level.as_str() == text).ok_or_else(|| {
            let message = format!(
                "`{text}` is no thinking level: use off, minimal, low, medium, high, xhigh or max"
            );
            Error::new(ErrorKind::Configuration, message)
        })
    }
}

impl ThinkingBudgets {
    /// The budget of a level in tokens; none for `off`.
    pub fn tokens(&self, level: ThinkingLevel) -> Option<u64> {
        match level {
            ThinkingLevel::Off => None,
            ThinkingLevel::Minimal => Some(self.minimal.unwrap_or(1024)),
            ThinkingLevel::Low => Some(self.low.unwrap_or(2048)),
            ThinkingLevel::Medium => Some(self.medium.unwrap_or(8192)),
            ThinkingLevel::High | ThinkingLevel::Xhigh | ThinkingLevel::Max => {
                Some(self.high.unwrap_or(16_384))
            }
        }
    }
}
