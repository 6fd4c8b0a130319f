//! Mistral's chat completions (<https://docs.mistral.ai/api/endpoint/chat>).
//!
//! They are like OpenAI's, but thinking is part of the content, and ids of calls have nine letters and digits.
//!
//! # Flags
//!
//! What a server does otherwise than others is said in [`Model::compat`](crate::Model::compat). Unknown flags do no harm.
//!
//! | flag | meaning |
//! |---|---|
//! | `supportsMidConvoSystemMessages` | takes system messages anywhere |
//! | `supportsStrictMode` | holds tools to their schema |
//!
//! # The API's own options
//!
//! [`StreamOptions::native`](crate::StreamOptions::native) takes `toolChoice` (in the vendor's form), `promptMode` and
//! `reasoningEffort`.

use std::fmt;

use crate::{
    abort::AbortSignal,
    error::Error,
    provider::{
        ProviderOptions,
        driver::{FrameDecoder, ProviderStream},
        mistral::response::Decoder,
    },
    stream::{AssistantStream, StreamFn, StreamRequest},
    trace,
};

mod messages;
mod request;
mod response;

/// The stream function for Mistral's API.
///
/// # Examples
///
/// ```no_run
/// use steerage::{
///     AbortSignal, Message, Model, StreamFn, StreamRequest,
///     provider::{ProviderOptions, mistral::MistralConversations},
///     stream::collect,
/// };
///
/// let key = std::env::var("MISTRAL_API_KEY").ok().map(Into::into);
/// let mistral =
///     MistralConversations::new(ProviderOptions { api_key: key, ..ProviderOptions::default() });
/// let model = Model {
///     id: "mistral-large-latest".to_owned(),
///     api: "mistral-conversations".to_owned(),
///     provider: "mistral".to_owned(),
///     base_url: "https://api.mistral.ai".to_owned(),
///     ..Model::default()
/// };
/// let request = StreamRequest::new(model.clone(), [Message::user("Hello!")]);
/// let mut stream = mistral.stream(request, &AbortSignal::never())?;
/// let answer = collect(&model, &mut *stream);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct MistralConversations {
    options: ProviderOptions,
}

impl MistralConversations {
    /// Makes the stream function.
    pub fn new(options: ProviderOptions) -> MistralConversations {
        MistralConversations { options }
    }
}

impl StreamFn for MistralConversations {
    /// Prepares the request, which is sent when the first event is asked for. All failures are events.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let call = request::build(&request, &self.options);
        let decoder = Decoder::new(request.model.clone());
        Ok(trace::attend(
            &request,
            ProviderStream::new(call, decoder, &request, &self.options, signal),
        ))
    }
}

/// The decoder of the response to a request that is never sent.
pub(crate) fn decoder(request: &StreamRequest) -> Box<dyn FrameDecoder> {
    Box::new(Decoder::new(request.model.clone()))
}

impl fmt::Debug for MistralConversations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MistralConversations").field("options", &self.options).finish()
    }
}
