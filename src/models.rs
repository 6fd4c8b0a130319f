//! The registry of providers and their models, and the usual stream function.
//!
//! [`Models`] knows the providers of the [catalogue](crate::catalogue) and those that a program adds, finds the key of each,
//! and sends a request by the wire API that its model names.
//!
//! # Where a key comes from
//!
//! The first that gives one: [`StreamOptions::api_key`](crate::StreamOptions::api_key), [`ModelsOptions::key`], the
//! [`Credentials`] that were stored, and the [`KeySource`] of the provider, which for those of the catalogue is a variable
//! (what is missing is named by the error). A stored credential is the only one of its provider: if its token cannot be
//! renewed, no other source is asked. A request that brings a header of
//! its own for the key (`authorization`, `x-api-key`, `api-key`, `x-goog-api-key`, `cf-aig-authorization`) needs no other.
//!
//! # A server of one's own
//!
//! ```
//! use steerage::models::{KeySource, Models, Provider};
//!
//! let models = Models::from_env();
//! models.add(Provider::new("desk", "http://localhost:1234/v1"));
//! models.add(Provider {
//!     api: "anthropic-messages".to_owned(),
//!     key: KeySource::env("GATEWAY_KEY"),
//!     headers: vec![("x-team".to_owned(), Some("games".to_owned()))],
//!     ..Provider::new("gateway", "https://llm.example.com")
//! });
//! let model = models.get("desk", "qwen3-4b")?;
//! assert_eq!(model.base_url, "http://localhost:1234/v1");
//! # Ok::<(), steerage::Error>(())
//! ```

//!
//! # Certificates and proxies
//!
//! They belong to the [`HttpClient`] that sends the requests:
//!
//! ```
//! use steerage::{
//!     Models,
//!     models::ModelsOptions,
//!     provider::{HttpClient, HttpOptions, ProxyChoice},
//! };
//!
//! let proxy = ProxyChoice::Url {
//!     url: "http://proxy.example.com:3128".into(),
//!     except: vec!["intern.example.com".to_owned()],
//! };
//! let client = HttpClient::new(HttpOptions {
//!     proxy,
//!     // Trusted in place of the built-in authorities; `client_certificate` is what this client shows.
//!     ca_certificates: std::fs::read_to_string("/etc/ssl/our-authority.pem").ok(),
//!     ..HttpOptions::default()
//! })?;
//! let models = Models::with_options(ModelsOptions { client, ..ModelsOptions::default() });
//! # Ok::<(), steerage::Error>(())
//! ```

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::RwLock;

use crate::{
    abort::AbortSignal,
    auth::Credentials,
    clock::{Clock, SystemClock},
    error::{Error, ErrorKind, Result},
    message::AssistantMessage,
    model::Model,
    models::{entry::Entry, wires::Wires},
    provider::{HttpClient, ProviderOptions},
    secret::Secret,
    stream::{AssistantStream, Identity, StreamEvent, StreamFn, StreamRequest, collect},
    trace,
};

mod dispatch;
mod entry;
mod environment;
mod keys;
mod known;
mod listing;
mod near;
mod overlay;
mod provider;
mod refresh;
mod wires;

pub use crate::models::{
    environment::Environment,
    listing::Listing,
    provider::{KeySource, Provider},
};

/// Gives the key for a provider, named by its id; `None` leaves it to the next source. It runs on the thread that makes the
/// request and may block there until the signal fires.
pub type KeyFn = Arc<dyn Fn(&str, &AbortSignal) -> Result<Option<Secret>> + Send + Sync>;

/// The registry of providers and the usual stream function.
///
/// Clones are handles to the same registry and may be used from any thread; what is added later is seen by all.
///
/// # Examples
///
/// ```no_run
/// use steerage::{AbortSignal, Agent, AgentOptions, Message, Models, StreamRequest};
///
/// let models = Models::from_env();
/// let model = models.get("anthropic", "claude-sonnet-4-6")?;
///
/// // With an agent.
/// let options = AgentOptions { stream: Some(models.clone().into()), ..AgentOptions::default() };
/// let agent = Agent::new(model.clone(), options)?;
/// println!("{}", agent.prompt("Hello!")?.wait()?.text);
///
/// // Without one.
/// let request = StreamRequest::new(model, [Message::user("Hello!")]);
/// let answer = models.complete(request, &AbortSignal::never())?;
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone)]
pub struct Models {
    inner: Arc<Inner>,
}

struct Inner {
    options: ModelsOptions,
    wires: RwLock<Wires>,
    /// In the order of the catalogue, then as they were added.
    entries: RwLock<Vec<Arc<Entry>>>,
}

/// How a [`Models`] finds keys and reaches servers.
#[derive(Clone)]
pub struct ModelsOptions {
    /// Sends the requests; own certificates and proxies are set here. Default: the client of the process.
    pub client: HttpClient,
    /// How long a stream may go on without an event. Default: for ever, see [`ProviderOptions::event_timeout`].
    pub event_timeout: Option<Duration>,
    /// How many bytes one event may have. Default: 16 MiB.
    pub max_event_bytes: usize,
    /// The time, for pauses between attempts. Default: the system's.
    pub clock: Arc<dyn Clock>,
    /// Whether the providers of the catalogue are there. Default: true.
    pub catalogue: bool,
    /// Where variables are looked up: keys, account ids. Default: the environment of the process.
    pub environment: Environment,
    /// Asked for the key of each request that brings none, before the provider's own source. Default: none.
    pub key: Option<KeyFn>,
    /// Keys and tokens that are stored, asked before the provider's own source. Default: none.
    pub credentials: Option<Credentials>,
    /// Who the program is, where a request does not say. Default: nobody.
    pub identity: Option<Identity>,
}

impl Models {
    /// Makes a registry with every provider of the catalogue; their keys are looked up in the environment when they are
    /// needed.
    pub fn from_env() -> Models {
        Models::with_options(ModelsOptions::default())
    }

    /// Makes a registry with every provider of the catalogue that looks at no environment: keys come with the requests, from
    /// [`Provider::key`], or from the options.
    pub fn new() -> Models {
        let environment = Environment::Empty;
        Models::with_options(ModelsOptions { environment, ..ModelsOptions::default() })
    }

    /// Makes a registry.
    pub fn with_options(options: ModelsOptions) -> Models {
        let wires = Wires::new(&ProviderOptions {
            api_key: None,
            client: options.client.clone(),
            event_timeout: options.event_timeout,
            max_event_bytes: options.max_event_bytes,
            clock: options.clock.clone(),
        });
        let entries = if options.catalogue { known::entries() } else { Vec::new() };
        let inner = Inner { options, wires: RwLock::new(wires), entries: RwLock::new(entries) };
        Models { inner: Arc::new(inner) }
    }

    /// Adds a provider, in place of the one of that id. Where it replaces one of the catalogue, the models of the catalogue
    /// stay, at the provider's base URL if it has one.
    pub fn add(&self, provider: Provider) {
        self.put(&provider.id.clone(), |before| Entry::new(provider, before));
    }

    /// Adds a model to its provider, in place of one of that id. A provider that is not known yet is made, at the address of
    /// the model and without a key.
    pub fn add_model(&self, model: Model) {
        self.put(&model.provider.clone(), |before| {
            let mut provider = match before {
                Some(entry) => (*entry.provider).clone(),
                None => Provider {
                    api: model.api.clone(),
                    ..Provider::new(&model.provider, &model.base_url)
                },
            };
            provider.models.retain(|it| it.id != model.id);
            provider.models.push(model);
            Entry::new(provider, before)
        });
    }

    /// Lays a catalogue of one's own over what is there.
    ///
    /// The text is a JSON object, by provider. A provider is an object with any of `name`, `baseUrl`, `api`, `headers`,
    /// `compat`, `apiKeyEnv` (a variable or a list of them) and `models`, or only the list of models. A model that is known
    /// already keeps the fields that are not named. The whole may be wrapped in `{"providers": …}`.
    ///
    /// # Examples
    ///
    /// ```
    /// use steerage::Models;
    ///
    /// let models = Models::from_env();
    /// models.add_json(
    ///     r#"{
    ///         "anthropic": [{"id": "claude-sonnet-4-6", "contextWindow": 200000}],
    ///         "desk": {"baseUrl": "http://localhost:1234/v1", "models": [{"id": "qwen3-4b", "contextWindow": 32768}]}
    ///     }"#,
    /// )?;
    /// let model = models.get("anthropic", "claude-sonnet-4-6")?;
    /// assert_eq!((model.context_window, model.cost.input), (200_000, 3.0));
    /// # Ok::<(), steerage::Error>(())
    /// ```
    pub fn add_json(&self, text: &str) -> Result<()> {
        overlay::apply(self, text)
    }

    /// Takes a provider out; tells whether it was there.
    pub fn remove(&self, provider: &str) -> bool {
        let mut entries = self.inner.entries.write();
        let before = entries.len();
        entries.retain(|entry| entry.provider.id != provider);
        entries.len() < before
    }

    /// Sets the stream function of a wire API, which a model names by [`Model::api`]: one that this crate does not have, or
    /// another one in place of its own.
    pub fn set_api(&self, api: impl Into<String>, stream: impl Into<Arc<dyn StreamFn>>) {
        let before = self.inner.wires.write().set(api.into(), stream.into());
        drop(before);
    }

    /// The wire APIs that there is a stream function for.
    pub fn apis(&self) -> Vec<String> {
        self.inner.wires.read().names().map(str::to_owned).collect()
    }

    /// The provider of that id, to be looked at, or changed and added again.
    pub fn provider(&self, id: &str) -> Result<Provider> {
        Ok((*self.entry(id)?.provider).clone())
    }

    /// The ids of all providers: those of the catalogue in its order, then those that were added.
    pub fn providers(&self) -> Vec<String> {
        self.entries().iter().map(|entry| entry.provider.id.clone()).collect()
    }

    /// The ids of the providers that a request could go to now: there is a key, or none is needed.
    ///
    /// Callbacks are asked for their keys; one that fails has none.
    pub fn available(&self) -> Vec<String> {
        let has_key = |entry: &&Arc<Entry>| self.has_key(&entry.provider);
        self.entries().iter().filter(has_key).map(|entry| entry.provider.id.clone()).collect()
    }

    /// The models of a provider; none if it is not known. The first call for a provider of the catalogue unpacks them.
    pub fn models(&self, provider: &str) -> Vec<Arc<Model>> {
        self.entry(provider).map(|entry| entry.models().to_vec()).unwrap_or_default()
    }

    /// The model of that provider and id.
    ///
    /// A provider without a list of models, such as a server of one's own, takes any id. An error names what is alike.
    pub fn get(&self, provider: &str, id: &str) -> Result<Arc<Model>> {
        let entry = self.entry(provider)?;
        if let Some(model) = entry.find(id) {
            return Ok(model);
        }
        if entry.models().is_empty() {
            return Ok(Arc::new(entry.model_of(id)));
        }
        Err(self.no_model(&entry, id))
    }

    /// Asks a model and waits for the whole answer. An answer that failed or was aborted is an error, without what came of
    /// it; [`stream`](StreamFn::stream) and [`collect`] keep that.
    pub fn complete(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<AssistantMessage> {
        let model = request.model.clone();
        let message = collect(&model, &mut *self.stream(request, signal)?);
        match &message.failure {
            Some(failure) if message.is_failed() => {
                let text = message.error_message.clone().unwrap_or_default();
                Err(Error::from_failure(failure.clone(), text))
            }
            _ => Ok(message),
        }
    }

    fn entries(&self) -> Vec<Arc<Entry>> {
        self.inner.entries.read().clone()
    }

    fn entry(&self, id: &str) -> Result<Arc<Entry>> {
        let entries = self.entries();
        entries.iter().find(|entry| entry.provider.id == id).cloned().ok_or_else(|| {
            let ids = entries.iter().map(|entry| entry.provider.id.as_str());
            let message = format!(
                "there is no provider `{id}`{}; add one with Models::add",
                near::hint(id, ids)
            );
            Error::new(ErrorKind::Configuration, message)
        })
    }

    /// Puts the entry that `make` gives for the one before in its place. What was before is dropped after the lock.
    fn put(&self, id: &str, make: impl FnOnce(Option<&Entry>) -> Entry) {
        let mut entries = self.inner.entries.write();
        let place = entries.iter().position(|entry| entry.provider.id == id);
        let entry = Arc::new(make(place.map(|place| &*entries[place])));
        let before = match place {
            Some(place) => Some(std::mem::replace(&mut entries[place], entry)),
            None => {
                entries.push(entry);
                None
            }
        };
        drop(entries);
        drop(before);
    }

    /// Says which providers have a model of that id; nothing if none has.
    fn others_with(&self, id: &str) -> String {
        let entries = self.entries();
        let having = entries.iter().filter(|entry| entry.find(id).is_some()).take(3);
        let names: Vec<_> = having.map(|entry| format!("`{}`", entry.provider.id)).collect();
        match names.as_slice() {
            [] => String::new(),
            [only] => format!(" (but {only} has)"),
            some => format!(" (but {} have)", some.join(", ")),
        }
    }

    fn no_model(&self, entry: &Entry, id: &str) -> Error {
        let provider = &entry.provider.id;
        let models = entry.models();
        let mut hint = near::hint(id, models.iter().map(|model| model.id.as_str()));
        if hint.is_empty() {
            hint = self.others_with(id);
        }
        let message = format!(
            "the provider `{provider}` has no model `{id}`{hint}; add one that is missing with Models::add_model"
        );
        Error::new(ErrorKind::Configuration, message)
    }
}

impl StreamFn for Models {
    /// Finds key and wire API and passes the request on. All failures are events.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>> {
        match self.prepare(request, signal) {
            Ok((stream, request)) => trace::traced(&*stream, request, signal),
            Err(error) => {
                let event = match error.kind() {
                    ErrorKind::Aborted => StreamEvent::aborted(),
                    _ => StreamEvent::failed(&error),
                };
                Ok(Box::new(vec![event].into_iter()))
            }
        }
    }
}

impl From<Models> for Arc<dyn StreamFn> {
    fn from(models: Models) -> Arc<dyn StreamFn> {
        Arc::new(models)
    }
}

impl Default for Models {
    fn default() -> Models {
        Models::new()
    }
}

impl Default for ModelsOptions {
    fn default() -> ModelsOptions {
        let requests = ProviderOptions::default();
        ModelsOptions {
            client: requests.client,
            event_timeout: requests.event_timeout,
            max_event_bytes: requests.max_event_bytes,
            clock: Arc::new(SystemClock),
            catalogue: true,
            environment: Environment::Process,
            key: None,
            credentials: None,
            identity: None,
        }
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models")
            .field("providers", &self.providers().len())
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ModelsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelsOptions")
            .field("client", &self.client)
            .field("catalogue", &self.catalogue)
            .field("environment", &self.environment)
            .field("key", &self.key.is_some())
            .field("credentials", &self.credentials)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
