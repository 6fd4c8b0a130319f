//! Gemini at Google's Vertex AI (<https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference>), with a
//! key ("express mode").
//!
//! Bodies and events are those of [`google_generative_ai`](super::google_generative_ai). A base URL with `{location}` in it,
//! as the catalogue has it, stands for the global endpoint, which takes keys; another one is asked as it is, with `/v1`
//! unless it has a version already. The key goes into the header `x-goog-api-key`. Whoever has a token instead sets the
//! header `authorization` and the address of the project as the base URL.
//!
//! # The API's own options
//!
//! Those of [`google_generative_ai`](super::google_generative_ai).

use std::fmt;

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind},
    message::now_ms,
    model::Model,
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
    secret::Secret,
    stream::{AssistantStream, StreamFn, StreamRequest},
    trace,
};

/// The endpoint that takes keys.
const GLOBAL: &str = "https://aiplatform.googleapis.com";

/// Stands for the credentials of the machine where a key is expected.
const OWN_CREDENTIALS: &str = "gcp-vertex-credentials";

/// Tokens to think with, for models that take a budget.
const BUDGETS: Budgets =
    Budgets(&[("2.5-pro", [128, 2048, 8192, 32_768]), ("2.5-flash", [128, 2048, 8192, 24_576])]);

/// The stream function for Gemini at Vertex AI.
///
/// # Examples
///
/// ```no_run
/// use steerage::{
///     AbortSignal, Message, Model, StreamFn, StreamRequest,
///     provider::{ProviderOptions, google_vertex::GoogleVertex},
///     stream::collect,
/// };
///
/// let key = std::env::var("GOOGLE_CLOUD_API_KEY").ok().map(Into::into);
/// let vertex = GoogleVertex::new(ProviderOptions { api_key: key, ..ProviderOptions::default() });
/// let model = Model {
///     id: "gemini-2.5-flash".to_owned(),
///     api: "google-vertex".to_owned(),
///     provider: "google-vertex".to_owned(),
///     base_url: "https://aiplatform.googleapis.com".to_owned(),
///     reasoning: true,
///     ..Model::default()
/// };
/// let request = StreamRequest::new(model.clone(), [Message::user("Hello!")]);
/// let mut stream = vertex.stream(request, &AbortSignal::never())?;
/// let answer = collect(&model, &mut *stream);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct GoogleVertex {
    options: ProviderOptions,
}

impl GoogleVertex {
    /// Makes the stream function.
    pub fn new(options: ProviderOptions) -> GoogleVertex {
        GoogleVertex { options }
    }
}

impl StreamFn for GoogleVertex {
    /// Prepares the request, which is sent when the first event is asked for. All failures are events.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let call = check_key(&request, &self.options)
            .and_then(|()| request::build(&request, &self.options, url(&request.model), &BUDGETS));
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

/// A key must be one. None at all is fine for a server of one's own, and for a header that stands in its place.
fn check_key(request: &StreamRequest, provider: &ProviderOptions) -> Result<(), Error> {
    let key = request.options.api_key.as_ref().or(provider.api_key.as_ref());
    let key = key.map(Secret::expose).filter(|key| !key.trim().is_empty());
    let is_placeholder = |key: &str| key.starts_with('<') && key.ends_with('>');
    let why = match key {
        Some(OWN_CREDENTIALS) => "credentials of the machine are not read",
        Some(key) if is_placeholder(key) => "the key is a placeholder",
        None if is_default(&request.model) && !brings_header(request) => "there is no key",
        _ => return Ok(()),
    };
    let message = format!(
        "the model `{}` at Vertex AI cannot be asked: {why}; set GOOGLE_CLOUD_API_KEY, or give a key",
        request.model.id
    );
    Err(Error::new(ErrorKind::Auth, message))
}

fn brings_header(request: &StreamRequest) -> bool {
    let is_key = |name: &str| {
        name.eq_ignore_ascii_case("authorization") || name.eq_ignore_ascii_case("x-goog-api-key")
    };
    request.options.headers.iter().any(|(name, value)| value.is_some() && is_key(name))
        || request.model.headers.keys().any(|name| is_key(name))
}

fn is_default(model: &Model) -> bool {
    model.base_url.contains("{location}")
}

fn url(model: &Model) -> String {
    let base = if is_default(model) { GLOBAL } else { &model.base_url };
    let version = if has_version(base) { "" } else { "/v1" };
    let path = match model.id.split_once('/') {
        None => format!("publishers/google/models/{}", model.id),
        Some(("publishers" | "projects", _)) => model.id.clone(),
        Some(("models", id)) => format!("publishers/google/models/{id}"),
        Some((publisher, id)) => format!("publishers/{publisher}/models/{id}"),
    };
    endpoint(base, &format!("{version}/{path}{ACTION}"))
}

/// Whether a URL has a segment like `v1` or `v1beta1`.
fn has_version(url: &str) -> bool {
    let path = url.split('?').next().unwrap_or_default();
    path.split('/').skip(3).any(|segment| {
        let Some(version) = segment.strip_prefix('v') else { return false };
        let rest = version.trim_start_matches(|it: char| it.is_ascii_digit());
        rest.len() < version.len()
            && (rest.is_empty() || rest.starts_with("alpha") || rest.starts_with("beta"))
    })
}

impl fmt::Debug for GoogleVertex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoogleVertex").field("options", &self.options).finish()
    }
}
