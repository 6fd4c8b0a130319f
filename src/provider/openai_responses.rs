//! OpenAI's Responses API (<https://platform.openai.com/docs/api-reference/responses>), and servers that speak it: xAI,
//! Meta, OpenCode and gateways.
//!
//! Nothing is stored at the vendor: each request holds the whole transcript, and reasoning travels encrypted within it.
//!
//! # Flags
//!
//! What a server does otherwise than others is said in [`Model::compat`](crate::Model::compat). Unknown flags do no harm.
//!
//! | flag | meaning |
//! |---|---|
//! | `supportsDeveloperRole` | takes the prompt of a reasoning model as `developer` (default true) |
//! | `supportsMidConvoSystemMessages` | takes system messages anywhere |
//! | `supportsAdditionalTools` | takes all changes of the tools in them |
//! | `supportsToolSearch` | takes new tools in them, as what a search for tools found |
//! | `supportsStrictMode` | takes `strict` |
//! | `supportsOpenAIGrammarTools` | takes tools with a grammar |
//! | `supportsMaxOutputTokens` | takes `max_output_tokens` (default true) |
//! | `supportsLongCacheRetention` | keeps a prompt for a day (default true) |
//! | `supportsExplicitPromptCacheMode` | takes `prompt_cache_options` |
//! | `promptCacheKeyMode` | `disabled`: takes no `prompt_cache_key` |
//! | `sessionAffinityFormat` | which headers name the conversation: `openai`, `openai-nosession`, `openrouter` |
//!
//! # The API's own options
//!
//! [`StreamOptions::native`](crate::StreamOptions::native) takes `reasoningEffort`, `reasoningSummary` (`auto`, `detailed`,
//! `concise`), `serviceTier` and `toolChoice` (in the vendor's form).

use std::fmt;

use crate::{
    abort::AbortSignal,
    error::Error,
    message::now_ms,
    provider::{
        ProviderOptions,
        driver::{FrameDecoder, ProviderStream},
        grammar::GrammarTools,
        openai_responses::{compat::Compat, request::Site, response::Decoder},
    },
    stream::{AssistantStream, StreamFn, StreamRequest},
    trace,
};

pub(super) mod compat;
mod input;
pub(super) mod request;
pub(super) mod response;
mod tools;

/// The stream function for OpenAI's Responses API, and for servers that speak it.
///
/// # Examples
///
/// ```no_run
/// use steerage::{
///     AbortSignal, Message, Model, StreamFn, StreamRequest,
///     provider::{ProviderOptions, openai_responses::OpenAiResponses},
///     stream::collect,
/// };
///
/// let key = std::env::var("OPENAI_API_KEY").ok().map(Into::into);
/// let openai = OpenAiResponses::new(ProviderOptions { api_key: key, ..ProviderOptions::default() });
/// let model = Model {
///     id: "gpt-5".to_owned(),
///     api: "openai-responses".to_owned(),
///     provider: "openai".to_owned(),
///     base_url: "https://api.openai.com/v1".to_owned(),
///     reasoning: true,
///     ..Model::default()
/// };
/// let request = StreamRequest::new(model.clone(), [Message::user("Hello!")]);
/// let mut stream = openai.stream(request, &AbortSignal::never())?;
/// let answer = collect(&model, &mut *stream);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct OpenAiResponses {
    options: ProviderOptions,
}

impl OpenAiResponses {
    /// Makes the stream function.
    pub fn new(options: ProviderOptions) -> OpenAiResponses {
        OpenAiResponses { options }
    }
}

impl StreamFn for OpenAiResponses {
    /// Prepares the request, which is sent when the first event is asked for. All failures are events.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let compat = Compat::of(&request.model);
        let site = Ok(Site::of(&request));
        Ok(start(&request, &self.options, &compat, site, signal))
    }
}

/// Prepares a stream for a server that speaks this API, wherever it is.
pub(super) fn start(
    request: &StreamRequest,
    provider: &ProviderOptions,
    compat: &Compat,
    site: Result<Site, Error>,
    signal: &AbortSignal,
) -> Box<dyn AssistantStream> {
    let built = site.and_then(|site| request::build(request, provider, compat, &site));
    let (call, grammar_tools) = match built {
        Ok((call, grammar_tools)) => (Ok(call), grammar_tools),
        Err(error) => (Err(error), GrammarTools::default()),
    };
    let decoder = Decoder::new(request, compat, grammar_tools, now_ms());
    trace::attend(request, ProviderStream::new(call, decoder, request, provider, signal))
}

/// The decoder of the response to a request that is never sent.
pub(crate) fn decoder(request: &StreamRequest) -> Result<Box<dyn FrameDecoder>, Error> {
    decoder_with(request, &Compat::of(&request.model))
}

/// The same for other flags.
pub(super) fn decoder_with(
    request: &StreamRequest,
    compat: &Compat,
) -> Result<Box<dyn FrameDecoder>, Error> {
    let provider = ProviderOptions::default();
    let (_, grammar_tools) = request::build(request, &provider, compat, &Site::of(request))?;
    Ok(Box::new(Decoder::new(request, compat, grammar_tools, 0)))
}

impl fmt::Debug for OpenAiResponses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiResponses").field("options", &self.options).finish()
    }
}
