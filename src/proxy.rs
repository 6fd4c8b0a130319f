//! Models behind a server that holds the keys: the program asks it, and it asks the vendor.
//!
//! Programs that are given to others (desktop programs, games) must not carry a vendor's key. [`stream_proxy`] is a stream
//! function for them: it sends each request to a server of yours, with a token that says who asks, and gets this library's
//! own events back. What a server needs is here too ([`ProxyRequest`], [`serve`]); `examples/proxy_server` is a small one.
//!
//! # The protocol
//!
//! A request is `POST {url}/api/stream` with `authorization: Bearer {token}` and the body `{model, context, options}`: the
//! whole model; `{messages}`, among which prompt and tools are system messages; and of the options those that are set:
//! `temperature`, `samplingParams`, `maxTokens`, `reasoning`, `cacheRetention`, `sessionId`, `disableContinuation`,
//! `headers`, `metadata`, `transport`, `thinkingBudgets`, `maxRetryDelayMs`, `toolChoice`. A key is never
//! sent, nor a header whose name sounds like one (`auth`, `key`, `token`, `secret`, `cookie`, `password`).
//!
//! The answer consists of lines `data: {…}`, each an event, without the message so far: `start`; `text_start`,
//! `text_delta`, `text_end {contentSignature?}`; the same of `thinking`; `toolcall_start {id, toolName}`, `toolcall_delta`,
//! `toolcall_end {toolCall}`; and at last `done {reason, usage, providerThinkingLevel?}` or `error {reason, errorMessage,
//! usage}`. This library's own servers add what they know beyond that, which others skip: `content` where it differs from
//! the deltas, `initial`, `signature` of a block that has ended, `responseId`, `responseModel`, `rawStopReason`,
//! `diagnostics`, and `failure`, an error for programs. A refusal has a status of its own and the reason as JSON: `{"error": "…"}`.

use std::{fmt, sync::Arc};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind},
    message::now_ms,
    model::Model,
    provider::{
        ProviderOptions,
        driver::{FrameDecoder, ProviderStream},
        pi_messages::response::{Decoder, Dialect},
    },
    secret::{Secret, without_query},
    stream::{AssistantStream, StreamFn, StreamRequest},
    thread, trace,
};

mod answer;
mod request;

pub use crate::proxy::{answer::serve, request::ProxyRequest};

/// Asks for the token of a request. It runs on the thread that makes the request and may block.
type TokenSource = Arc<dyn Fn(&AbortSignal) -> Result<Secret, Error> + Send + Sync>;

/// The stream function for models behind a server that holds the keys.
///
/// It ignores what only makes sense where the vendor is asked directly: the key and the variables of a request, and
/// [`native`](crate::StreamOptions::native) options.
#[derive(Clone)]
pub struct StreamProxy {
    url: String,
    token: TokenSource,
    options: ProviderOptions,
}

/// Makes the stream function for the server at `url`, which knows this program by `token`.
///
/// # Examples
///
/// ```
/// use steerage::{Agent, AgentOptions, Model, proxy::stream_proxy};
///
/// let model = Model {
///     id: "claude-sonnet-4-6".to_owned(),
///     provider: "anthropic".to_owned(),
///     ..Model::default()
/// };
/// let agent = Agent::new(model, AgentOptions {
///     stream: Some(stream_proxy("https://llm.example.com", "token of the user").into()),
///     ..AgentOptions::default()
/// })?;
/// # Ok::<(), steerage::Error>(())
/// ```
pub fn stream_proxy(url: impl Into<String>, token: impl Into<Secret>) -> StreamProxy {
    let token = token.into();
    StreamProxy {
        url: url.into(),
        token: Arc::new(move |_| Ok(token.clone())),
        options: ProviderOptions::default(),
    }
}

impl StreamProxy {
    /// Asks `token` before each request instead, for tokens that run out. Its error, or panic, fails the request.
    #[must_use]
    pub fn with_token_from(
        self,
        token: impl Fn(&AbortSignal) -> Result<Secret, Error> + Send + Sync + 'static,
    ) -> StreamProxy {
        StreamProxy { token: Arc::new(token), ..self }
    }

    /// Sets how the server is reached. A key among the options is not sent.
    #[must_use]
    pub fn with_options(self, options: ProviderOptions) -> StreamProxy {
        StreamProxy { options, ..self }
    }

    fn token(&self, signal: &AbortSignal) -> Result<Secret, Error> {
        thread::catch(|| (self.token)(signal)).unwrap_or_else(|panic| {
            let message = format!("the source of the proxy's token panicked: {panic}");
            Err(Error::new(ErrorKind::Callback, message))
        })
    }
}

impl StreamFn for StreamProxy {
    /// Prepares the request, which is sent when the first event is asked for. All failures are events.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let call = if signal.is_aborted() {
            Err(Error::aborted())
        } else {
            self.token(signal).and_then(|token| request::build(&request, &self.url, &token))
        };
        let decoder = Decoder::new(now_ms(), Dialect::Proxy);
        // Errors are about the server, not about the vendor behind it.
        let server = Model {
            api: "proxy".to_owned(),
            provider: "proxy".to_owned(),
            base_url: self.url.clone(),
            ..(*request.model).clone()
        };
        let stream = ProviderStream::new(call, decoder, &request, &self.options, signal);
        Ok(trace::attend(&request, stream.told_as(server)))
    }
}

impl From<StreamProxy> for Arc<dyn StreamFn> {
    fn from(proxy: StreamProxy) -> Arc<dyn StreamFn> {
        Arc::new(proxy)
    }
}

/// The decoder of the response to a request that is never sent: its clock stands still.
pub(crate) fn decoder() -> Box<dyn FrameDecoder> {
    Box::new(Decoder::new(0, Dialect::Proxy))
}

impl fmt::Debug for StreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamProxy")
            .field("url", &without_query(&self.url))
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
