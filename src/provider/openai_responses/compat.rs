//! What a server of this API does otherwise than others.

use crate::{
    model::Model,
    provider::{flags::Flags, openrouter},
};

/// The flags of a model.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the documented list")]
pub(in crate::provider) struct Compat {
    pub(super) supports_developer_role: bool,
    pub(super) supports_later_system_messages: bool,
    pub(super) supports_additional_tools: bool,
    pub(super) supports_tool_search: bool,
    pub(super) supports_strict_mode: bool,
    pub(super) supports_grammar_tools: bool,
    pub(super) supports_max_output_tokens: bool,
    pub(super) cache: Cache,
    /// The names of the headers that keep a conversation on one machine.
    pub(super) affinity: &'static [&'static str],
    /// Whether a response's tier of service has a price of its own.
    pub(super) prices_tiers: bool,
}

/// What a request may say of the vendor's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    /// A key, however long the prompt shall be kept.
    KeyAlways,
    /// A key, and how long.
    Timed { has_key: bool, is_long: bool, is_explicit: bool },
}

impl Compat {
    /// The flags of a model of OpenAI's API.
    pub(in crate::provider) fn of(model: &Model) -> Compat {
        let flags = Flags(&model.compat);
        let flag = |name: &str, default: bool| flags.bool(name).unwrap_or(default);
        let affinity: &[_] = match flags.text("sessionAffinityFormat") {
            Some("openrouter") => &["x-session-id"],
            Some("openai-nosession") => &["x-client-request-id"],
            None if openrouter::serves(model) => &["x-session-id"],
            _ => &["session-id", "x-client-request-id"],
        };
        Compat {
            supports_developer_role: flag("supportsDeveloperRole", true),
            supports_later_system_messages: flag("supportsMidConvoSystemMessages", false),
            supports_additional_tools: flag("supportsAdditionalTools", false),
            supports_tool_search: flag("supportsToolSearch", false),
            supports_strict_mode: flag("supportsStrictMode", false),
            supports_grammar_tools: flag("supportsOpenAIGrammarTools", false),
            supports_max_output_tokens: flag("supportsMaxOutputTokens", true),
            cache: Cache::Timed {
                has_key: flags.text("promptCacheKeyMode") != Some("disabled"),
                is_long: flag("supportsLongCacheRetention", true),
                is_explicit: flag("supportsExplicitPromptCacheMode", false),
            },
            affinity,
            prices_tiers: true,
        }
    }

    /// The flags of a model at Azure, which has a strict mode unless it says otherwise.
    pub(in crate::provider) fn of_azure(model: &Model) -> Compat {
        Compat {
            supports_strict_mode: Flags(&model.compat).bool("supportsStrictMode").unwrap_or(true),
            cache: Cache::KeyAlways,
            affinity: &[],
            prices_tiers: false,
            ..Compat::of(model)
        }
    }
}
