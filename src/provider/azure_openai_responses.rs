//! The Responses API of Azure OpenAI (<https://learn.microsoft.com/azure/ai-foundry/openai/how-to/responses>): OpenAI's
//! bodies and events ([`openai_responses`]) at an address of one's own.
//!
//! # Address
//!
//! The first of these that is set is asked: the option `azureBaseUrl`, the variable `AZURE_OPENAI_BASE_URL`, the resource
//! that the option `azureResourceName` or the variable `AZURE_OPENAI_RESOURCE_NAME` names, the model's base URL. The version
//! of the API is the option `azureApiVersion`, or else `AZURE_OPENAI_API_VERSION`, or else `v1`. The key goes into the header
//! `api-key`; for a token of Entra, remove that header (`None`) and set `authorization`.
//!
//! The model is called by the name of its deployment: the option `azureDeploymentName`, or else what
//! `AZURE_OPENAI_DEPLOYMENT_NAME_MAP` (`id=deployment,...`) has for its id, or else the id.
//!
//! # Flags and options
//!
//! Those of [`openai_responses`], where `supportsStrictMode` is true unless it is said
//! otherwise, and nothing is said of cache retention, sessions and tiers of service.
//! [`StreamOptions::native`](crate::StreamOptions::native) takes the options above besides.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind},
    http,
    provider::{
        ProviderOptions,
        driver::FrameDecoder,
        headers::{endpoint, has_host},
        openai_responses::{self, compat::Compat, request::Site},
        variable,
    },
    secret::without_query,
    stream::{AssistantStream, StreamFn, StreamRequest},
};

/// The stream function for the Responses API of Azure OpenAI.
///
/// # Examples
///
/// ```no_run
/// use steerage::{
///     AbortSignal, Message, Model, StreamFn, StreamRequest,
///     provider::{ProviderOptions, azure_openai_responses::AzureOpenAiResponses},
///     stream::collect,
/// };
///
/// let key = std::env::var("AZURE_OPENAI_API_KEY").ok().map(Into::into);
/// let azure =
///     AzureOpenAiResponses::new(ProviderOptions { api_key: key, ..ProviderOptions::default() });
/// let model = Model {
///     id: "gpt-5".to_owned(),
///     api: "azure-openai-responses".to_owned(),
///     provider: "azure".to_owned(),
///     base_url: "https://my-resource.openai.azure.com".to_owned(),
///     reasoning: true,
///     ..Model::default()
/// };
/// let request = StreamRequest::new(model.clone(), [Message::user("Hello!")]);
/// let mut stream = azure.stream(request, &AbortSignal::never())?;
/// let answer = collect(&model, &mut *stream);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct AzureOpenAiResponses {
    options: ProviderOptions,
}

impl AzureOpenAiResponses {
    /// Makes the stream function.
    pub fn new(options: ProviderOptions) -> AzureOpenAiResponses {
        AzureOpenAiResponses { options }
    }
}

impl StreamFn for AzureOpenAiResponses {
    /// Prepares the request, which is sent when the first event is asked for. All failures are events.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let compat = Compat::of_azure(&request.model);
        Ok(openai_responses::start(&request, &self.options, &compat, site(&request), signal))
    }
}

/// The decoder of the response to a request that is never sent.
pub(crate) fn decoder(request: &StreamRequest) -> Result<Box<dyn FrameDecoder>, Error> {
    openai_responses::decoder_with(request, &Compat::of_azure(&request.model))
}

/// Where models of Azure are asked that speak chat completions: an address below which their paths begin.
pub(crate) fn address(request: &StreamRequest) -> Result<String, Error> {
    Ok(with_usual_path(&base_url(request)?))
}

fn site(request: &StreamRequest) -> Result<Site, Error> {
    let version = setting(request, "azureApiVersion", "AZURE_OPENAI_API_VERSION");
    let version = version.unwrap_or_else(|| "v1".to_owned());
    let base = address(request)?;
    if let Err(error) = http::check_url(&base) {
        let message = format!(
            "the address of Azure OpenAI, `{}`, cannot be used: {error}",
            without_query(&base)
        );
        return Err(Error::new(ErrorKind::Configuration, message));
    }
    Ok(Site {
        url: endpoint(&base, &format!("/responses?api-version={version}")),
        model: deployment(request),
        key_header: Some("api-key"),
    })
}

fn base_url(request: &StreamRequest) -> Result<String, Error> {
    let resource = || setting(request, "azureResourceName", "AZURE_OPENAI_RESOURCE_NAME");
    let of_resource = || Some(format!("https://{}.openai.azure.com/openai/v1", resource()?));
    let of_model = || Some(request.model.base_url.clone()).filter(|url| !url.trim().is_empty());
    let base = setting(request, "azureBaseUrl", "AZURE_OPENAI_BASE_URL");
    let base = base.or_else(of_resource).or_else(of_model);
    base.map(|url| url.trim().trim_end_matches('/').to_owned()).ok_or_else(|| {
        let message = format!(
            "there is no address for the model `{}` at Azure: set AZURE_OPENAI_BASE_URL, AZURE_OPENAI_RESOURCE_NAME or the model's base URL",
            request.model.id
        );
        Error::new(ErrorKind::Configuration, message)
    })
}

/// The name that a model goes by at Azure.
pub(crate) fn deployment(request: &StreamRequest) -> String {
    let id = &request.model.id;
    let native = request.options.native.as_ref();
    if let Some(name) = native.and_then(|native| option(native, "azureDeploymentName")) {
        return name;
    }
    let map = variable(&request.options, "AZURE_OPENAI_DEPLOYMENT_NAME_MAP").unwrap_or_default();
    let pairs = map.split(',').filter_map(|pair| pair.split_once('='));
    let mut pairs = pairs.map(|(id, name)| (id.trim(), name.trim()));
    let found = pairs.find(|(it, name)| it == id && !name.is_empty());
    found.map_or_else(|| id.clone(), |(_, name)| name.to_owned())
}

/// An option of the API's own, or else a variable.
fn setting(request: &StreamRequest, name: &str, variable_name: &str) -> Option<String> {
    let native = request.options.native.as_ref().and_then(|native| option(native, name));
    native.or_else(|| variable(&request.options, variable_name)).map(|it| it.trim().to_owned())
}

fn option(native: &Map<String, Value>, name: &str) -> Option<String> {
    let text = native.get(name)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Puts the usual path behind a host of Azure that came without it, or with what is asked below it.
fn with_usual_path(base: &str) -> String {
    let hosts = ["openai.azure.com", "cognitiveservices.azure.com", "ai.azure.com"];
    if !hosts.iter().any(|host| has_host(base, host)) {
        return base.to_owned();
    }
    let (front, query) = base.split_once('?').map_or((base, ""), |(front, query)| (front, query));
    let front = front.trim_end_matches('/');
    let path_at = front.find("://").map_or(0, |at| at + 3);
    let path_at = front[path_at..].find('/').map_or(front.len(), |at| path_at + at);
    let (host, path) = front.split_at(path_at);
    let path = match path {
        "" | "/openai" | "/openai/v1/responses" => "/openai/v1",
        path => path,
    };
    let sign = if query.is_empty() { "" } else { "?" };
    format!("{host}{path}{sign}{query}")
}

impl fmt::Debug for AzureOpenAiResponses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureOpenAiResponses").field("options", &self.options).finish()
    }
}
