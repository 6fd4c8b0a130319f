//! OpenAI's chat completions, the API that most servers speak: OpenRouter, DeepSeek, Groq, vLLM, llama.cpp, Ollama, LM Studio
//! and others.
//!
//! # Flags
//!
//! What a server does otherwise than others is said in [`Model::compat`](crate::Model::compat). What is not said there follows
//! from the provider and the address. Unknown flags do no harm.
//!
//! | flag | meaning |
//! |---|---|
//! | `supportsStore` | takes `store: false` |
//! | `supportsDeveloperRole` | takes the prompt of a reasoning model as `developer` |
//! | `supportsReasoningEffort` | takes `reasoning_effort` |
//! | `supportsUsageInStreaming` | takes `stream_options` (default true) |
//! | `supportsFinishReason` | says why a response ended (default true) |
//! | `maxTokensField` | `max_tokens` or `max_completion_tokens` |
//! | `requiresToolResultName` | wants the tool's name in results |
//! | `requiresAssistantAfterToolResult` | wants an assistant line between results and a user message |
//! | `requiresNonNullAssistantContent` | wants `""` where a response has no text |
//! | `requiresToolsWithToolHistory` | wants `tools: []` where the transcript has calls |
//! | `requiresThinkingAsText` | takes thinking back as text only |
//! | `requiresReasoningContentOnAssistantMessages` | wants `reasoning_content` in every response that comes back |
//! | `thinkingFormat` | `openai`, `openrouter`, `deepseek`, `zai`, `qwen`, `qwen-chat-template`, `chat-template`, `baseten`, `together`, `string-thinking`, `ant-ling` |
//! | `chatTemplateKwargs`, `chatTemplateArgs` | arguments of the template; `{"$var": "thinking.enabled"}` (`.effort`, `.budget`) is filled in, with `omitWhenOff` only while thinking |
//! | `thinkingTokenBudgetField`, `supportsThinkingTokenBudget` | the field for a budget of thinking tokens |
//! | `openRouterRouting` | sent as `provider` |
//! | `vercelGatewayRouting` | `only` and `order`, sent as `providerOptions.gateway` |
//! | `zaiToolStream` | takes `tool_stream` |
//! | `supportsOpenAIGrammarTools` | takes tools with a grammar |
//! | `supportsStrictMode` | takes `strict` |
//! | `supportsMidConvoSystemMessages` | takes system messages anywhere |
//! | `supportsMidConvoToolAdditions` | takes new tools in them |
//! | `cacheControlFormat` | `anthropic`: takes cache markers |
//! | `promptCacheKeyMode` | `auto`, `enabled`, `disabled` |
//! | `supportsLongCacheRetention` | keeps a prompt for a day |
//! | `sendSessionAffinityHeaders`, `sessionAffinityFormat` | which headers name the conversation: `openai`, `openai-nosession`, `openrouter` |
//! | `vllmPriority` | sent as `priority` |
//!
//! # The API's own options
//!
//! [`StreamOptions::native`](crate::StreamOptions::native) takes `reasoningEffort`, `thinkingBudgets` and `toolChoice` (in the
//! vendor's form).

use std::fmt;

use crate::{
    abort::AbortSignal,
    error::Error,
    message::now_ms,
    provider::{
        ProviderOptions,
        driver::{FrameDecoder, ProviderStream},
        grammar::GrammarTools,
        openai_completions::{compat::Compat, response::Decoder},
    },
    stream::{AssistantStream, StreamFn, StreamRequest},
    trace,
};

mod compat;
mod details;
mod messages;
mod request;
mod response;
mod thinking;
mod tools;

/// The stream function for servers that speak OpenAI's chat completions.
///
/// # Examples
///
/// ```no_run
/// use steerage::{
///     AbortSignal, Message, Model, StreamFn, StreamRequest,
///     provider::{ProviderOptions, openai_completions::OpenAiCompletions},
///     stream::collect,
/// };
///
/// let local = OpenAiCompletions::new(ProviderOptions::default());
/// let model = Model::openai_compatible("qwen3:4b", "http://localhost:11434/v1");
/// let request = StreamRequest::new(model.clone(), [Message::user("Hello!")]);
/// let mut stream = local.stream(request, &AbortSignal::never())?;
/// let answer = collect(&model, &mut *stream);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct OpenAiCompletions {
    options: ProviderOptions,
}

impl OpenAiCompletions {
    /// Makes the stream function.
    pub fn new(options: ProviderOptions) -> OpenAiCompletions {
        OpenAiCompletions { options }
    }
}

impl StreamFn for OpenAiCompletions {
    /// Prepares the request, which is sent when the first event is asked for. All failures are events.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let compat = Compat::of(&request.model);
        let built = request::build(&request, &self.options, &compat);
        let (call, grammar_tools) = match built {
            Ok((call, grammar_tools)) => (Ok(call), grammar_tools),
            Err(error) => (Err(error), GrammarTools::default()),
        };
        let seed = format!("call_{:x}", now_ms());
        let model = request.model.clone();
        let decoder = Decoder::new(model, compat.supports_finish_reason, grammar_tools, seed);
        Ok(trace::attend(
            &request,
            ProviderStream::new(call, decoder, &request, &self.options, signal),
        ))
    }
}

/// Makes the decoder of a response to `request`. Ids that the server does not give are always the same.
pub(crate) fn decoder(request: &StreamRequest) -> Result<Box<dyn FrameDecoder>, Error> {
    let compat = Compat::of(&request.model);
    let provider = ProviderOptions::default();
    let (_, grammar_tools) = request::build(request, &provider, &compat)?;
    let model = request.model.clone();
    let finishes = compat.supports_finish_reason;
    Ok(Box::new(Decoder::new(model, finishes, grammar_tools, "call".to_owned())))
}

impl fmt::Debug for OpenAiCompletions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiCompletions").field("options", &self.options).finish()
    }
}
