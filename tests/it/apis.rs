//! All wire APIs, for tests that go through each of them.

use std::sync::Arc;

use steerage::{
    AbortSignal, StreamFn, StreamRequest,
    provider::{
        ProviderOptions, anthropic::AnthropicMessages,
        azure_openai_responses::AzureOpenAiResponses, google_generative_ai::GoogleGenerativeAi,
        google_vertex::GoogleVertex, mistral::MistralConversations,
        openai_completions::OpenAiCompletions, openai_responses::OpenAiResponses,
        pi_messages::PiMessages,
    },
    proxy::stream_proxy,
};

mod together;

/// Their names.
pub(crate) const ALL: [&str; 8] = [
    "openai-completions",
    "anthropic-messages",
    "openai-responses",
    "azure-openai-responses",
    "google-generative-ai",
    "google-vertex",
    "mistral-conversations",
    "pi-messages",
];

/// The same, and the protocol of the proxy.
pub(crate) fn with_proxy() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().chain(["proxy"])
}

/// The stream function of an API.
pub(crate) fn stream_fn(api: &str, options: ProviderOptions) -> Arc<dyn StreamFn> {
    match api {
        "anthropic-messages" => Arc::new(AnthropicMessages::new(options)),
        "azure-openai-responses" => Arc::new(AzureOpenAiResponses::new(options)),
        "google-generative-ai" => Arc::new(GoogleGenerativeAi::new(options)),
        "google-vertex" => Arc::new(GoogleVertex::new(options)),
        "mistral-conversations" => Arc::new(MistralConversations::new(options)),
        "openai-completions" => Arc::new(OpenAiCompletions::new(options)),
        "openai-responses" => Arc::new(OpenAiResponses::new(options)),
        "pi-messages" => Arc::new(PiMessages::new(options)),
        "proxy" => Arc::new(move |request: StreamRequest, signal: &AbortSignal| {
            // Tests say where the server is and what key it wants as for any other API.
            let key = request.options.api_key.clone().or(options.api_key.clone());
            let proxy = stream_proxy(&*request.model.base_url, key.unwrap_or_default());
            proxy.with_options(options.clone()).stream(request, signal)
        }),
        other => panic!("no stream function for the API {other}"),
    }
}

/// The body of an answer that says `Hi`.
pub(crate) fn hi(api: &str) -> &'static str {
    match api {
        "anthropic-messages" => concat!(
            "event: message_start\n",
            r#"data: {"type":"message_start","message":{"id":"1","usage":{"input_tokens":1,"output_tokens":1}}}"#,
            "\n\nevent: content_block_start\n",
            r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            "\n\nevent: content_block_delta\n",
            r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
            "\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}",
            "\n\nevent: message_delta\n",
            r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#,
            "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
        "openai-completions" | "mistral-conversations" => concat!(
            r#"data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#,
            "\n\ndata: [DONE]\n\n",
        ),
        "openai-responses" | "azure-openai-responses" => concat!(
            "event: response.output_item.done\n",
            r#"data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"Hi"}]}}"#,
            "\n\nevent: response.completed\n",
            r#"data: {"type":"response.completed","response":{"id":"1","status":"completed"}}"#,
            "\n\n",
        ),
        "google-generative-ai" | "google-vertex" => concat!(
            r#"data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}"#,
            "\n\n",
        ),
        "pi-messages" | "proxy" => concat!(
            r#"data: {"type":"text_start","contentIndex":0}"#,
            "\n\n",
            r#"data: {"type":"text_delta","contentIndex":0,"delta":"Hi"}"#,
            "\n\n",
            r#"data: {"type":"done","reason":"stop","usage":{"input":1,"output":1}}"#,
            "\n\n",
        ),
        other => panic!("no answer of the API {other}"),
    }
}
