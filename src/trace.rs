//! Spans of `tracing` for what an agent does, with the attributes of OpenTelemetry's conventions for generative AI.
//!
//! Three kinds, all of the target `steerage` and the level `info`: `invoke_agent` for a run, `chat` for a request, and
//! `execute_tool` for a tool at work, each within the one that caused it, whatever threads they are on. They say who was
//! asked and what it took, never what was said: no text, no arguments, no words of an error. Where nobody listens a span
//! costs the look whether somebody does.
//!
//! Source: <https://github.com/open-telemetry/semantic-conventions-genai>.

use serde_json::json;
use tracing::{Span, field};

use crate::{
    error::ErrorKind,
    message::{AssistantMessage, StopReason},
    model::Model,
    stream::StreamRequest,
    usage::Usage,
};

#[cfg(feature = "providers")]
mod asking;

#[cfg(feature = "providers")]
pub(crate) use crate::trace::asking::{attend, traced};

const TARGET: &str = "steerage";
const CHAT: &str = "chat";

/// The span of a run, within what this thread is at work on.
pub(crate) fn agent(model: &Model, session: Option<&str>) -> Span {
    tracing::info_span!(
        target: TARGET,
        "invoke_agent",
        otel.kind = "internal",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.provider.name = provider(&model.provider),
        gen_ai.request.model = &*model.id,
        gen_ai.conversation.id = session,
        gen_ai.usage.input_tokens = field::Empty,
        gen_ai.usage.output_tokens = field::Empty,
        otel.status_code = field::Empty,
        "error.type" = field::Empty,
    )
}

/// The span of a request, within what this thread is at work on.
pub(crate) fn chat(request: &StreamRequest) -> Span {
    let StreamRequest { model, options, .. } = request;
    tracing::info_span!(
        target: TARGET,
        CHAT,
        otel.name = format!("{CHAT} {}", model.id),
        otel.kind = "client",
        gen_ai.operation.name = CHAT,
        gen_ai.provider.name = provider(&model.provider),
        gen_ai.request.model = &*model.id,
        gen_ai.request.max_tokens = options.max_tokens,
        gen_ai.request.temperature = options.temperature,
        gen_ai.conversation.id = options.session_id.as_deref(),
        server.address = host(&model.base_url),
        gen_ai.response.id = field::Empty,
        gen_ai.response.model = field::Empty,
        gen_ai.response.finish_reasons = field::Empty,
        gen_ai.usage.input_tokens = field::Empty,
        gen_ai.usage.output_tokens = field::Empty,
        gen_ai.usage.cache_read.input_tokens = field::Empty,
        gen_ai.usage.cache_creation.input_tokens = field::Empty,
        gen_ai.usage.reasoning.output_tokens = field::Empty,
        otel.status_code = field::Empty,
        "error.type" = field::Empty,
    )
}

/// The span of a tool at work, within what this thread is at work on.
pub(crate) fn tool(name: &str, id: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "execute_tool",
        otel.name = format!("execute_tool {name}"),
        otel.kind = "internal",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = name,
        gen_ai.tool.call.id = id,
        "gen_ai.tool.type" = "function",
        otel.status_code = field::Empty,
        "error.type" = field::Empty,
    )
}

/// Notes what came of a request.
pub(crate) fn answered(span: &Span, message: &AssistantMessage) {
    if span.is_disabled() {
        return;
    }
    let AssistantMessage { response_id, response_model, usage, stop_reason, .. } = message;
    said(span, response_id.as_deref(), response_model.as_deref(), Some(usage));
    finished(span, *stop_reason);
    if let Some(failure) = &message.failure {
        failed(span, failure.kind);
    }
}

fn said(span: &Span, id: Option<&str>, model: Option<&str>, usage: Option<&Usage>) {
    if let Some(id) = id {
        span.record("gen_ai.response.id", id);
    }
    if let Some(model) = model {
        span.record("gen_ai.response.model", model);
    }
    let Some(usage) = usage.filter(|usage| **usage != Usage::default()) else { return };
    used(span, usage);
    if usage.cache_read > 0 {
        span.record("gen_ai.usage.cache_read.input_tokens", usage.cache_read);
    }
    if usage.cache_write > 0 {
        span.record("gen_ai.usage.cache_creation.input_tokens", usage.cache_write);
    }
    if let Some(reasoning) = usage.reasoning {
        span.record("gen_ai.usage.reasoning.output_tokens", reasoning);
    }
}

/// Notes tokens; those of the cache are part of the input here.
pub(crate) fn used(span: &Span, usage: &Usage) {
    span.record("gen_ai.usage.input_tokens", usage.prompt_tokens());
    span.record("gen_ai.usage.output_tokens", usage.output);
}

fn finished(span: &Span, reason: StopReason) {
    let reason = match reason {
        StopReason::Stop => "stop",
        StopReason::Length => "length",
        StopReason::ToolUse => "tool_call",
        _ => "error",
    };
    span.record("gen_ai.response.finish_reasons", field::debug([reason]));
}

/// Notes a failure by its kind.
pub(crate) fn failed(span: &Span, kind: ErrorKind) {
    if !span.is_disabled() {
        let kind = json!(kind);
        span.record("error.type", kind.as_str().unwrap_or("_OTHER"));
        span.record("otel.status_code", "ERROR");
    }
}

/// The name of a provider in the conventions, where they have one of their own.
fn provider(id: &str) -> &str {
    match id {
        "azure" => "azure.ai.openai",
        "amazon-bedrock" => "aws.bedrock",
        "google" => "gcp.gemini",
        "google-vertex" => "gcp.vertex_ai",
        "mistral" => "mistral_ai",
        "moonshotai" | "moonshotai-cn" => "moonshot_ai",
        "xai" => "x_ai",
        id => id,
    }
}

/// The host of an address, without what may be secret in it.
fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    let name =
        authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|it| it.is_ascii_digit()));
    Some(name.map_or(authority, |(name, _)| name)).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_have_the_names_of_the_conventions() {
        let names = ["anthropic", "google", "google-vertex", "azure", "mistral", "xai", "my-own"];
        assert_eq!(
            names.map(provider),
            [
                "anthropic",
                "gcp.gemini",
                "gcp.vertex_ai",
                "azure.ai.openai",
                "mistral_ai",
                "x_ai",
                "my-own"
            ]
        );
    }

    #[test]
    fn of_an_address_the_host_alone_is_told() {
        let hosts = [
            ("https://api.example/v1", Some("api.example")),
            ("http://me:pass@api.example:8080?key=x", Some("api.example")),
            ("http://[::1]:8080/v1", Some("[::1]")),
            ("", None),
            ("https://", None),
            ("api.example", None),
        ];
        for (url, expected) in hosts {
            assert_eq!(host(url), expected, "{url}");
        }
    }
}
