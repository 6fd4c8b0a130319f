//! What a server of this API does otherwise than others: flags of the model, or else what its address tells.

use serde_json::{Map, Value};

use crate::{model::Model, provider::flags::Flags};

/// The flags of a model, each as the model says or as its provider and address suggest.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the documented list")]
pub(super) struct Compat {
    pub(super) supports_store: bool,
    pub(super) supports_developer_role: bool,
    pub(super) supports_reasoning_effort: bool,
    pub(super) supports_usage_in_streaming: bool,
    pub(super) supports_finish_reason: bool,
    pub(super) max_tokens_field: &'static str,
    pub(super) requires_tool_result_name: bool,
    pub(super) requires_assistant_after_tool_result: bool,
    pub(super) requires_non_null_assistant_content: bool,
    pub(super) requires_tools_with_tool_history: bool,
    pub(super) requires_thinking_as_text: bool,
    pub(super) requires_reasoning_content: bool,
    pub(super) thinking_format: ThinkingFormat,
    pub(super) chat_template_kwargs: Map<String, Value>,
    pub(super) chat_template_args: Map<String, Value>,
    pub(super) openrouter_routing: Option<Value>,
    pub(super) vercel_routing: Map<String, Value>,
    pub(super) zai_tool_stream: bool,
    pub(super) thinking_budget_field: Option<String>,
    pub(super) supports_grammar_tools: bool,
    pub(super) supports_later_system_messages: bool,
    pub(super) supports_tool_additions: bool,
    pub(super) supports_strict_mode: bool,
    pub(super) has_cache_markers: bool,
    pub(super) sends_affinity: bool,
    pub(super) affinity_format: AffinityFormat,
    pub(super) cache_key_mode: CacheKeyMode,
    pub(super) supports_long_cache: bool,
    pub(super) vllm_priority: Option<Value>,
}

/// How a server is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingFormat {
    OpenAi,
    OpenRouter,
    DeepSeek,
    Zai,
    Qwen,
    QwenChatTemplate,
    ChatTemplate,
    Baseten,
    Together,
    StringThinking,
    AntLing,
}

/// Which headers keep a conversation on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AffinityFormat {
    All,
    WithoutSession,
    OneOfOpenRouter,
}

/// When the cache key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheKeyMode {
    Auto,
    Enabled,
    Disabled,
}

impl Compat {
    pub(super) fn of(model: &Model) -> Compat {
        let flags = Flags(&model.compat);
        let hosts = Host::all_of(model);
        let is = |host| hosts.contains(&host);
        let is_any = |some: &[Host]| some.iter().any(|host| hosts.contains(host));
        let flag = |name: &str, default: bool| flags.bool(name).unwrap_or(default);
        Compat {
            supports_store: flag("supportsStore", !is_any(WITHOUT_STORE)),
            supports_developer_role: flag("supportsDeveloperRole", is(Host::OpenAi)),
            supports_reasoning_effort: flag("supportsReasoningEffort", !is_any(WITHOUT_EFFORT)),
            supports_usage_in_streaming: flag("supportsUsageInStreaming", true),
            supports_finish_reason: flag("supportsFinishReason", true),
            max_tokens_field: max_tokens_field(&flags, is_any(WITH_MAX_TOKENS)),
            requires_tool_result_name: flag("requiresToolResultName", false),
            requires_assistant_after_tool_result: flag("requiresAssistantAfterToolResult", false),
            requires_non_null_assistant_content: flag("requiresNonNullAssistantContent", false),
            requires_tools_with_tool_history: flag("requiresToolsWithToolHistory", false),
            requires_thinking_as_text: flag("requiresThinkingAsText", false),
            requires_reasoning_content: flag(
                "requiresReasoningContentOnAssistantMessages",
                is(Host::DeepSeek),
            ),
            thinking_format: thinking_format(&flags, &hosts),
            chat_template_kwargs: flags.object("chatTemplateKwargs"),
            chat_template_args: flags.object("chatTemplateArgs"),
            openrouter_routing: flags
                .0
                .get("openRouterRouting")
                .filter(|it| it.is_object())
                .cloned(),
            vercel_routing: flags.object("vercelGatewayRouting"),
            zai_tool_stream: flag("zaiToolStream", false),
            thinking_budget_field: thinking_budget_field(&flags),
            supports_grammar_tools: flag("supportsOpenAIGrammarTools", false),
            supports_later_system_messages: flag("supportsMidConvoSystemMessages", false),
            supports_tool_additions: flag("supportsMidConvoToolAdditions", false),
            supports_strict_mode: flag("supportsStrictMode", false),
            has_cache_markers: match flags.text("cacheControlFormat") {
                Some(format) => format == "anthropic",
                None => model.provider == "openrouter" && model.id.starts_with("anthropic/"),
            },
            sends_affinity: flag("sendSessionAffinityHeaders", is(Host::OpenRouter)),
            affinity_format: affinity_format(&flags, &hosts),
            cache_key_mode: match flags.text("promptCacheKeyMode") {
                Some("enabled") => CacheKeyMode::Enabled,
                Some("disabled") => CacheKeyMode::Disabled,
                _ => CacheKeyMode::Auto,
            },
            supports_long_cache: flag("supportsLongCacheRetention", !is_any(WITHOUT_LONG_CACHE)),
            vllm_priority: flags.0.get("vllmPriority").filter(|it| it.is_number()).cloned(),
        }
    }
}

/// Servers that are known by the name of their provider or by their address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    OpenAi,
    Zai,
    Together,
    Moonshot,
    OpenRouter,
    CloudflareWorkers,
    CloudflareGateway,
    Nvidia,
    AntLing,
    Cerebras,
    DeepSeek,
    Xai,
    Chutes,
    OpenCode,
}

/// Names of providers, and what stands somewhere in the address (proxies have it in their path).
const HOSTS: &[(Host, &[&str], &[&str])] = &[
    (Host::Zai, &["zai", "zai-coding-cn"], &["api.z.ai", "open.bigmodel.cn"]),
    (Host::Together, &["together"], &["api.together.ai", "api.together.xyz"]),
    (Host::Moonshot, &["moonshotai", "moonshotai-cn"], &["api.moonshot."]),
    (Host::OpenRouter, &["openrouter"], &["openrouter.ai"]),
    (Host::CloudflareWorkers, &["cloudflare-workers-ai"], &["api.cloudflare.com"]),
    (Host::CloudflareGateway, &["cloudflare-ai-gateway"], &["gateway.ai.cloudflare.com"]),
    (Host::Nvidia, &["nvidia"], &["integrate.api.nvidia.com"]),
    (Host::AntLing, &["ant-ling"], &["api.ant-ling.com"]),
    (Host::Cerebras, &["cerebras"], &["cerebras.ai"]),
    (Host::DeepSeek, &["deepseek"], &["deepseek.com"]),
    (Host::Xai, &["xai"], &["api.x.ai"]),
    (Host::Chutes, &[], &["chutes.ai"]),
    (Host::OpenCode, &["opencode"], &["opencode.ai"]),
    (Host::OpenAi, &["openai"], &["api.openai.com"]),
];

const WITHOUT_STORE: &[Host] = &[
    Host::Nvidia,
    Host::Cerebras,
    Host::Xai,
    Host::Together,
    Host::Chutes,
    Host::DeepSeek,
    Host::Zai,
    Host::Moonshot,
    Host::OpenCode,
    Host::CloudflareWorkers,
    Host::CloudflareGateway,
    Host::AntLing,
];

const WITHOUT_EFFORT: &[Host] = &[
    Host::Xai,
    Host::Zai,
    Host::Moonshot,
    Host::Together,
    Host::CloudflareGateway,
    Host::Nvidia,
    Host::AntLing,
];

const WITH_MAX_TOKENS: &[Host] = &[
    Host::Chutes,
    Host::DeepSeek,
    Host::Moonshot,
    Host::CloudflareGateway,
    Host::Together,
    Host::Nvidia,
    Host::AntLing,
    Host::Zai,
];

const WITHOUT_LONG_CACHE: &[Host] = &[
    Host::Together,
    Host::CloudflareWorkers,
    Host::CloudflareGateway,
    Host::Nvidia,
    Host::AntLing,
];

impl Host {
    /// A model may be reached through one server and be another's.
    fn all_of(model: &Model) -> Vec<Host> {
        let url = model.base_url.to_ascii_lowercase();
        let is = |(_, names, parts): &&(Host, &[&str], &[&str])| {
            names.contains(&model.provider.as_str()) || parts.iter().any(|part| url.contains(part))
        };
        HOSTS.iter().filter(is).map(|(host, ..)| *host).collect()
    }
}

fn max_tokens_field(flags: &Flags<'_>, is_old: bool) -> &'static str {
    match flags.text("maxTokensField") {
        Some("max_tokens") => "max_tokens",
        Some("max_completion_tokens") => "max_completion_tokens",
        _ if is_old => "max_tokens",
        _ => "max_completion_tokens",
    }
}

fn thinking_budget_field(flags: &Flags<'_>) -> Option<String> {
    let alias = flags.bool("supportsThinkingTokenBudget").unwrap_or(false);
    let named = flags.text("thinkingTokenBudgetField").map(str::to_owned);
    named.or_else(|| alias.then(|| "thinking_token_budget".to_owned()))
}

fn thinking_format(flags: &Flags<'_>, hosts: &[Host]) -> ThinkingFormat {
    match flags.text("thinkingFormat") {
        Some("openai") => ThinkingFormat::OpenAi,
        Some("openrouter") => ThinkingFormat::OpenRouter,
        Some("deepseek") => ThinkingFormat::DeepSeek,
        Some("zai") => ThinkingFormat::Zai,
        Some("qwen") => ThinkingFormat::Qwen,
        Some("qwen-chat-template") => ThinkingFormat::QwenChatTemplate,
        Some("chat-template") => ThinkingFormat::ChatTemplate,
        Some("baseten") => ThinkingFormat::Baseten,
        Some("together") => ThinkingFormat::Together,
        Some("string-thinking") => ThinkingFormat::StringThinking,
        Some("ant-ling") => ThinkingFormat::AntLing,
        _ => {
            let known = [
                (Host::DeepSeek, ThinkingFormat::DeepSeek),
                (Host::Zai, ThinkingFormat::Zai),
                (Host::Together, ThinkingFormat::Together),
                (Host::AntLing, ThinkingFormat::AntLing),
                (Host::OpenRouter, ThinkingFormat::OpenRouter),
            ];
            let found = known.iter().find(|(host, _)| hosts.contains(host));
            found.map_or(ThinkingFormat::OpenAi, |(_, format)| *format)
        }
    }
}

fn affinity_format(flags: &Flags<'_>, hosts: &[Host]) -> AffinityFormat {
    match flags.text("sessionAffinityFormat") {
        Some("openai") => AffinityFormat::All,
        Some("openai-nosession") => AffinityFormat::WithoutSession,
        Some("openrouter") => AffinityFormat::OneOfOpenRouter,
        _ if hosts.contains(&Host::OpenRouter) => AffinityFormat::OneOfOpenRouter,
        _ => AffinityFormat::All,
    }
}
