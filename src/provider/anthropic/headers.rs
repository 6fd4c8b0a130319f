//! The headers of a request.

use crate::{
    model::Model,
    provider::{
        anthropic::compat::{self, Compat},
        headers::Headers,
    },
    secret::Secret,
    stream::StreamOptions,
};

const VERSION: &str = "2023-06-01";
const FINE_GRAINED_TOOLS: &str = "fine-grained-tool-streaming-2025-05-14";
const INTERLEAVED_THINKING: &str = "interleaved-thinking-2025-05-14";
const SERVER_SIDE_FALLBACK: &str = "server-side-fallback-2026-07-01";

/// What the headers depend on beside model and options.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) compat: &'a Compat,
    pub(super) has_tools: bool,
    pub(super) interleaved: bool,
    pub(super) is_cached: bool,
}

/// The headers in order. Those of the request win over the model's, these over the API's own.
pub(super) fn headers(
    model: &Model,
    options: &StreamOptions,
    key: Option<&Secret>,
    facts: &Facts<'_>,
) -> Vec<(String, String)> {
    let mut headers = Headers::for_model(model, options);
    headers.set("anthropic-version", VERSION);
    headers.set_key("x-api-key", key);
    let features = features(model, facts);
    if !features.is_empty() {
        headers.set("anthropic-beta", features.join(","));
    }
    if let (Some(name), Some(session)) = (facts.compat.session_header, &options.session_id)
        && facts.is_cached
    {
        headers.set(name, session);
    }
    headers.apply_model(&model.headers);
    headers.apply(&options.headers);
    headers.into_list()
}

/// The beta features that the body makes use of.
fn features(model: &Model, facts: &Facts<'_>) -> Vec<&'static str> {
    let mut features = Vec::new();
    if facts.has_tools && !facts.compat.eager_tool_input {
        features.push(FINE_GRAINED_TOOLS);
    }
    if facts.interleaved {
        features.push(INTERLEAVED_THINKING);
    }
    if !compat::fallback_models(model).is_empty() {
        features.push(SERVER_SIDE_FALLBACK);
    }
    features
}
