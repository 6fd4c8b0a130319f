//! What a server of this API does otherwise than Anthropic's own.

use serde_json::Value;

use crate::{model::Model, provider::openrouter, usage::Prices};

/// The flags of [`Model::compat`] that this API knows, with their defaults filled in.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own in the model's data")]
pub(super) struct Compat {
    /// `supportsEagerToolInputStreaming`: tool arguments stream by a field of the tool; else by a beta feature.
    pub(super) eager_tool_input: bool,
    /// `supportsLongCacheRetention`: caches may be kept for an hour.
    pub(super) long_cache: bool,
    /// `supportsCacheControlOnTools`: the last tool may carry a cache mark.
    pub(super) cache_marks_on_tools: bool,
    /// `supportsTemperature`.
    pub(super) temperature: bool,
    /// `forceAdaptiveThinking`: thinking is asked for by effort instead of by a budget.
    pub(super) adaptive_thinking: bool,
    /// `allowEmptySignature`: unsigned thinking goes back as thinking instead of as text.
    pub(super) empty_signature: bool,
    /// `supportsStrictTools`.
    pub(super) strict_tools: bool,
    /// `supportsMidConvoSystemMessages`: later system messages go where they stand.
    pub(super) mid_system: bool,
    /// `sendSessionAffinityHeaders` and `sessionAffinityFormat`: the header that names the session, if one does.
    pub(super) session_header: Option<&'static str>,
}

/// A model that the server may answer with when the asked one refuses.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FallbackModel {
    pub(super) model: String,
    pub(super) cost: Prices,
}

/// How many fallback models the API takes.
const MAX_FALLBACKS: usize = 3;

impl Compat {
    pub(super) fn of(model: &Model) -> Compat {
        let flag = |name: &str, default: bool| {
            model.compat.get(name).and_then(Value::as_bool).unwrap_or(default)
        };
        Compat {
            eager_tool_input: flag("supportsEagerToolInputStreaming", true),
            long_cache: flag("supportsLongCacheRetention", true),
            cache_marks_on_tools: flag("supportsCacheControlOnTools", true),
            temperature: flag("supportsTemperature", true),
            adaptive_thinking: flag("forceAdaptiveThinking", false),
            empty_signature: flag("allowEmptySignature", false),
            strict_tools: flag("supportsStrictTools", false),
            mid_system: flag("supportsMidConvoSystemMessages", false),
            session_header: session_header(
                model,
                flag("sendSessionAffinityHeaders", openrouter::serves(model)),
            ),
        }
    }
}

fn session_header(model: &Model, is_sent: bool) -> Option<&'static str> {
    if !is_sent {
        return None;
    }
    let format = model.compat.get("sessionAffinityFormat").and_then(Value::as_str);
    let default = if openrouter::serves(model) { "openrouter" } else { "" };
    Some(match format.unwrap_or(default) {
        "openrouter" => "x-session-id",
        _ => "x-session-affinity",
    })
}

/// The models of `allowedFallbackModels`; what is no model in it is left out.
pub(super) fn fallback_models(model: &Model) -> Vec<FallbackModel> {
    let listed = model.compat.get("allowedFallbackModels").and_then(Value::as_array);
    let models = listed.into_iter().flatten().filter_map(|it| {
        let model = it.get("model")?.as_str()?.to_owned();
        let cost = it.get("cost").cloned().unwrap_or_default();
        Some(FallbackModel { model, cost: serde_json::from_value(cost).unwrap_or_default() })
    });
    models.take(MAX_FALLBACKS).collect()
}
