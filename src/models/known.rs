//! The providers of the catalogue: their names and the variables that hold their keys.

use std::sync::Arc;

use crate::{
    catalogue,
    models::{
        entry::Entry,
        listing::Listing,
        provider::{KeySource, Provider},
    },
};

/// Whose tokens are sent as `authorization`, although the provider's keys are not.
pub(super) const ANTHROPIC_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";

/// Id, name for people, and variables; the first that is set wins.
const KNOWN: &[(&str, &str, &[&str])] = &[
    ("ant-ling", "Ant Ling", &["ANT_LING_API_KEY"]),
    ("anthropic", "Anthropic", &[ANTHROPIC_TOKEN, "ANTHROPIC_API_KEY"]),
    ("azure", "Azure OpenAI", &["AZURE_OPENAI_API_KEY"]),
    ("baseten", "Baseten", &["BASETEN_API_KEY"]),
    ("cerebras", "Cerebras", &["CEREBRAS_API_KEY"]),
    ("cloudflare-ai-gateway", "Cloudflare AI Gateway", &["CLOUDFLARE_API_KEY"]),
    ("cloudflare-workers-ai", "Cloudflare Workers AI", &["CLOUDFLARE_API_KEY"]),
    ("deepseek", "DeepSeek", &["DEEPSEEK_API_KEY"]),
    ("fireworks", "Fireworks", &["FIREWORKS_API_KEY"]),
    ("google", "Google", &["GEMINI_API_KEY"]),
    ("google-vertex", "Google Vertex AI", &["GOOGLE_CLOUD_API_KEY"]),
    ("groq", "Groq", &["GROQ_API_KEY"]),
    ("huggingface", "Hugging Face", &["HF_TOKEN"]),
    ("kimi-coding", "Kimi For Coding", &["KIMI_API_KEY"]),
    ("meta", "Meta", &["META_API_KEY"]),
    ("minimax", "MiniMax", &["MINIMAX_API_KEY"]),
    ("minimax-cn", "MiniMax (China)", &["MINIMAX_CN_API_KEY"]),
    ("mistral", "Mistral", &["MISTRAL_API_KEY"]),
    ("moonshotai", "Moonshot AI", &["MOONSHOT_API_KEY"]),
    ("moonshotai-cn", "Moonshot AI (China)", &["MOONSHOT_API_KEY"]),
    ("nvidia", "NVIDIA NIM", &["NVIDIA_API_KEY"]),
    ("openai", "OpenAI", &["OPENAI_API_KEY"]),
    ("opencode", "OpenCode", &["OPENCODE_API_KEY"]),
    ("opencode-go", "OpenCode Go", &["OPENCODE_API_KEY"]),
    ("openrouter", "OpenRouter", &["OPENROUTER_API_KEY"]),
    (
        "qwen-token-plan",
        "Qwen Token Plan",
        &["QWEN_TOKEN_PLAN_TEAM_API_KEY", "QWEN_TOKEN_PLAN_API_KEY"],
    ),
    (
        "qwen-token-plan-cn",
        "Qwen Token Plan (China)",
        &["QWEN_TOKEN_PLAN_TEAM_CN_API_KEY", "QWEN_TOKEN_PLAN_CN_API_KEY"],
    ),
    (
        "qwen-token-plan-individual",
        "Qwen Token Plan, individual",
        &["QWEN_TOKEN_PLAN_INDIVIDUAL_API_KEY", "QWEN_TOKEN_PLAN_API_KEY"],
    ),
    (
        "qwen-token-plan-individual-cn",
        "Qwen Token Plan, individual (China)",
        &["QWEN_TOKEN_PLAN_INDIVIDUAL_CN_API_KEY", "QWEN_TOKEN_PLAN_CN_API_KEY"],
    ),
    ("together", "Together", &["TOGETHER_API_KEY"]),
    ("vercel-ai-gateway", "Vercel AI Gateway", &["AI_GATEWAY_API_KEY"]),
    ("xai", "xAI", &["XAI_API_KEY"]),
    ("xiaomi", "Xiaomi MiMo", &["XIAOMI_API_KEY"]),
    ("xiaomi-token-plan-ams", "Xiaomi Token Plan (Amsterdam)", &["XIAOMI_TOKEN_PLAN_AMS_API_KEY"]),
    ("xiaomi-token-plan-cn", "Xiaomi Token Plan (China)", &["XIAOMI_TOKEN_PLAN_CN_API_KEY"]),
    ("xiaomi-token-plan-sgp", "Xiaomi Token Plan (Singapore)", &["XIAOMI_TOKEN_PLAN_SGP_API_KEY"]),
    ("zai", "Z.ai", &["ZAI_API_KEY"]),
    ("zai-coding-cn", "Z.ai Coding (China)", &["ZAI_CODING_CN_API_KEY"]),
];

/// The providers of the catalogue in its order.
pub(super) fn entries() -> Vec<Arc<Entry>> {
    catalogue::providers().map(|(id, _)| Arc::new(Entry::catalogued(provider(id)))).collect()
}

fn provider(id: &str) -> Provider {
    let known = KNOWN.iter().find(|(it, ..)| *it == id);
    let (_, name, variables) = known.copied().unwrap_or((id, id, &[]));
    Provider {
        name: name.to_owned(),
        key: KeySource::Environment(variables.iter().map(|it| (*it).to_owned()).collect()),
        key_header: (id == "cloudflare-ai-gateway").then(|| "cf-aig-authorization".to_owned()),
        listing: match id {
            "anthropic" | "minimax" | "minimax-cn" => Listing::Anthropic,
            "google" => Listing::Gemini,
            "openrouter" => Listing::OpenRouter,
            "azure" | "cloudflare-ai-gateway" | "cloudflare-workers-ai" | "google-vertex" => {
                Listing::Unlisted
            }
            _ => Listing::OpenAi,
        },
        api: String::new(),
        ..Provider::new(id, "")
    }
}
