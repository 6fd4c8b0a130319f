//! The API of Gemini (<https://ai.google.dev/api/generate-content>), and servers that speak it.
//!
//! The base URL ends with the version of the API: `https://generativelanguage.googleapis.com/v1beta`. What a model takes
//! follows from its id: Gemini 3 and later have ids of calls, images in results, strict tools and levels of thinking; those
//! before think by budgets of tokens. Later system messages are joined with the first.
//!
//! # The API's own options
//!
//! [`StreamOptions::native`](crate::StreamOptions::native) takes `toolChoice` (`auto`, `none`, `any`) and `thinking`: an
//! object of `enabled`, `budgetTokens` and `level` (`MINIMAL`, `LOW`, `MEDIUM`, `HIGH`).

use std::fmt;

use crate::{
    abort::AbortSignal,
    error::Error,
    message::now_ms,
    provider::{
        ProviderOptions,
        driver::{FrameDecoder, ProviderStream},
        google::{
            request::{self, ACTION},
            response::Decoder,
            thinking::Budgets,
        },
        headers::endpoint,
    },
    stream::{AssistantStream, StreamFn, StreamRequest},
    trace,
};

/// Tokens to think with, for models that take a budget.
const BUDGETS: Budgets = Budgets(&[
    ("2.5-pro", [128, 2048, 8192, 32_768]),
    ("2.5-flash-lite", [512, 2048, 8192, 24_576]),
    ("2.5-flash", [128, 2048, 8192, 24_576]),
]);

/// The stream function for the API of Gemini.
///
/// # Examples
///
/// ```no_run
/// use steerage::{
///     AbortSignal, Message, Model, StreamFn, StreamRequest,
///     provider::{ProviderOptions, google_generative_ai::GoogleGenerativeAi},
///     stream::collect,
/// };
///
/// let key = std::env::var("GEMINI_API_KEY").ok().map(Into::into);
/// let google =
///     GoogleGenerativeAi::new(ProviderOptions { api_key: key, ..ProviderOptions::default() });
/// let model = Model {
///     id: "gemini-2.5-flash".to_owned(),
///     api: "google-generative-ai".to_owned(),
///     provider: "google".to_owned(),
///     base_url: "https://generativelanguage.googleapis.com/v1beta".to_owned(),
///     reasoning: true,
///     ..Model::default()
/// };
/// let request = StreamRequest::new(model.clone(), [Message::user("Hello!")]);
/// let mut stream = google.stream(request, &AbortSignal::never())?;
/// let answer = collect(&model, &mut *stream);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct GoogleGenerativeAi {
    options: ProviderOptions,
}

impl GoogleGenerativeAi {
    /// Makes the stream function.
    pub fn new(options: ProviderOptions) -> GoogleGenerativeAi {
        GoogleGenerativeAi { options }
    }
}

impl StreamFn for GoogleGenerativeAi {
    /// Prepares the request, which is sent when the first event is asked for. All failures are events.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let id = &request.model.id;
        let is_path = id.starts_with("models/") || id.starts_with("tunedModels/");
        let path = if is_path { format!("/{id}{ACTION}") } else { format!("/models/{id}{ACTION}") };
        let url = endpoint(&request.model.base_url, &path);
        let call = request::build(&request, &self.options, url, &BUDGETS);
        let decoder = Decoder::new(request.model.clone(), now_ms());
        Ok(trace::attend(
            &request,
            ProviderStream::new(call, decoder, &request, &self.options, signal),
        ))
    }
}

/// The decoder of the response to a request that is never sent: its clock stands still.
pub(crate) fn decoder(request: &StreamRequest) -> Box<dyn FrameDecoder> {
    Box::new(Decoder::new(request.model.clone(), 0))
}

impl fmt::Debug for GoogleGenerativeAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoogleGenerativeAi").field("options", &self.options).finish()
    }
}
