//! Anthropic's Messages API, and servers that speak it.
//!
//! # Flags
//!
//! What a server does otherwise than others is said in [`Model::compat`](crate::Model::compat). Unknown flags do no harm.
//!
//! | flag | meaning |
//! |---|---|
//! | `supportsEagerToolInputStreaming` | takes `eager_input_streaming` of a tool; else a beta feature is asked for (default true) |
//! | `supportsLongCacheRetention` | keeps a prompt for an hour (default true) |
//! | `supportsCacheControlOnTools` | takes a cache mark on a tool (default true) |
//! | `supportsTemperature` | takes `temperature` (default true) |
//! | `forceAdaptiveThinking` | is asked to think by an effort instead of a budget of tokens |
//! | `allowEmptySignature` | takes unsigned thinking back as thinking instead of as text |
//! | `supportsStrictTools` | has a strict mode for tools |
//! | `supportsMidConvoSystemMessages` | takes system messages before an answer and at the end |
//! | `sendSessionAffinityHeaders` | wants a header that names the conversation (default true for OpenRouter) |
//! | `sessionAffinityFormat` | which one: `openrouter` is `x-session-id`, others are `x-session-affinity` |
//! | `allowedFallbackModels` | up to three of `{model, cost}` that may answer when the model refuses |
//!
//! # The API's own options
//!
//! [`StreamOptions::native`](crate::StreamOptions::native) takes `thinkingEnabled`, `thinkingBudgetTokens` (1,024 unless
//! set), `effort`, `thinkingDisplay` (`summarized` unless set), `interleavedThinking` (true unless set) and `toolChoice` (a
//! type, or an object as the API has it).

use std::{fmt, mem, sync::Arc};

use crate::{
    abort::AbortSignal,
    error::Error,
    message::{Diagnostic, now_ms},
    provider::{
        ProviderOptions,
        anthropic::{
            response::Decoder,
            strict::{Strict, StrictMemory},
        },
        driver::{Call, Events, FrameDecoder, ProviderStream},
    },
    secret::Secret,
    stream::{AssistantStream, ResponseInfo, StreamEvent, StreamFn, StreamRequest},
    trace,
};

mod cache;
mod compat;
mod failure;
mod frames;
mod headers;
mod messages;
mod request;
mod response;
mod strict;
mod thinking;
mod tools;
mod usage;

/// The stream function for Anthropic's API, and for servers that speak it.
///
/// Clones share which sessions have too many strict tools, so that their requests do not fail first.
///
/// # Examples
///
/// ```no_run
/// use steerage::{
///     AbortSignal, Message, Model, StreamFn, StreamOptions, StreamRequest,
///     provider::{ProviderOptions, anthropic::AnthropicMessages},
///     stream::collect,
/// };
///
/// let key = std::env::var("ANTHROPIC_API_KEY").ok().map(Into::into);
/// let anthropic =
///     AnthropicMessages::new(ProviderOptions { api_key: key, ..ProviderOptions::default() });
/// let model = Model {
///     id: "claude-sonnet-4-6".to_owned(),
///     api: "anthropic-messages".to_owned(),
///     provider: "anthropic".to_owned(),
///     base_url: "https://api.anthropic.com".to_owned(),
///     max_tokens: 64_000,
///     ..Model::default()
/// };
/// let request = StreamRequest::new(model.clone(), [Message::user("Hello!")]);
/// let mut stream = anthropic.stream(request, &AbortSignal::never())?;
/// let answer = collect(&model, &mut *stream);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct AnthropicMessages {
    options: Arc<ProviderOptions>,
    memory: Arc<StrictMemory>,
}

impl AnthropicMessages {
    /// Makes a provider.
    pub fn new(options: ProviderOptions) -> AnthropicMessages {
        AnthropicMessages { options: Arc::new(options), memory: Arc::default() }
    }
}

impl StreamFn for AnthropicMessages {
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let key = self.options.api_key.as_ref();
        let prepared = request::prepare(&request, key, self.memory.strict_for(&request));
        let prefers_strict = prepared.as_ref().is_ok_and(|it| it.prefers_strict);
        let exchange = Exchange {
            decoder: Decoder::new(request.model.clone(), now_ms()),
            second_try: prefers_strict.then(|| SecondTry {
                request: request.clone(),
                key: key.cloned(),
                memory: self.memory.clone(),
            }),
            notes: Vec::new(),
        };
        let call = prepared.map(|it| it.call);
        Ok(trace::attend(
            &request,
            ProviderStream::new(call, exchange, &request, &self.options, signal),
        ))
    }
}

/// The decoder of the response to a request that is never sent: its clock stands still.
pub(crate) fn decoder(request: &StreamRequest) -> Box<dyn FrameDecoder> {
    let decoder = Decoder::new(request.model.clone(), 0);
    Box::new(Exchange { decoder, second_try: None, notes: Vec::new() })
}

/// The decoder of a response, and what to do if the request is refused for its strict tools.
struct Exchange {
    decoder: Decoder,
    second_try: Option<SecondTry>,
    /// Told with the first event.
    notes: Vec<Diagnostic>,
}

struct SecondTry {
    request: StreamRequest,
    key: Option<Secret>,
    memory: Arc<StrictMemory>,
}

impl Exchange {
    fn tell(&mut self, events: &mut Events) {
        if !self.notes.is_empty() {
            let diagnostics = mem::take(&mut self.notes);
            let info = ResponseInfo { diagnostics, ..ResponseInfo::default() };
            events.push_back(StreamEvent::Info(Box::new(info)));
        }
    }
}

impl FrameDecoder for Exchange {
    fn frame(&mut self, event: Option<&str>, data: &str, events: &mut Events) -> Result<(), Error> {
        self.tell(events);
        self.decoder.event(event.unwrap_or_default(), data, events)
    }

    fn end(&mut self, events: &mut Events) -> Result<(), Error> {
        self.tell(events);
        self.decoder.finish(events)
    }

    fn is_complete(&self) -> bool {
        self.decoder.is_complete()
    }

    fn resend(&mut self, error: &Error) -> Option<Call> {
        let SecondTry { request, key, memory } = self.second_try.take()?;
        if !strict::is_too_much(error) {
            return None;
        }
        let prepared = request::prepare(&request, key.as_ref(), Strict::RequiredOnly).ok()?;
        memory.remember(&request);
        self.notes.push(strict::note(error));
        Some(prepared.call)
    }

    fn fail(&mut self, _error: &Error, events: &mut Events) {
        self.tell(events);
        self.decoder.fail(events);
    }
}

impl fmt::Debug for AnthropicMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicMessages").field("options", &self.options).finish_non_exhaustive()
    }
}
