//! Streamable HTTP: every message is a POST, answered by one message or a stream of them.
//!
//! See "Streamable HTTP" at <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    abort::{AbortController, AbortSignal},
    error::{Error, ErrorKind, Result},
    http::{HttpClient, HttpOptions, HttpRequest, Method},
    jsonrpc::Message,
    mcp::{
        config::host,
        transport::{Inbox, MAX_MESSAGE_BYTES, Transport},
    },
    secret::Secret,
    thread::{self, timer},
};

mod exchange;
mod failure;
mod resume;
mod unasked;

/// How long the end of a session may take to be told.
const GOODBYE: Duration = Duration::from_secs(1);

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Where a server is and how it is asked.
#[derive(Clone)]
pub struct HttpServerOptions {
    /// The address of the server's MCP endpoint.
    pub url: String,
    /// Headers of every request. Those whose name sounds like a key are kept out of errors and logs. Default: none.
    pub headers: Vec<(String, String)>,
    /// Gets and renews tokens. Default: nobody; a server that wants a token is an error of the kind
    /// [`Auth`](ErrorKind::Auth).
    pub authorization: Option<Arc<dyn Authorization>>,
    /// Whether a stream is kept open for what the server says unasked. Default: yes.
    pub open_stream: bool,
    /// The longest message that is taken, in bytes. Default: 16 MiB.
    pub max_message_bytes: usize,
    /// How a stream that broke is taken up again.
    pub reconnect: Reconnect,
    /// What sends the requests. Default: one for all MCP servers of the process, with no limits of its own: a request
    /// ends when the one who made it does not want to wait any more.
    pub client: HttpClient,
}

/// How a stream that broke is taken up again, where the server does not say how long to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconnect {
    /// How long to wait at first; twice as long each further time. Default: 1 second.
    pub first_pause: Duration,
    /// The longest pause. Default: 30 seconds.
    pub longest_pause: Duration,
    /// How often it is tried in a row. Default: 5.
    pub most_tries: u32,
}

/// Gets and renews the tokens of a server. It may block, and is called from any thread, also several at once.
pub trait Authorization: Send + Sync {
    /// The token for the next request, if there is one.
    fn token(&self, signal: &AbortSignal) -> Result<Option<Secret>>;

    /// Deals with a refusal; tells whether the request should be sent once more, with the token that is there then.
    fn refused(&self, refusal: &Refusal<'_>, signal: &AbortSignal) -> Result<bool>;
}

/// A request that a server refused for want of a token, or of a better one.
#[derive(Debug, Clone, Copy)]
pub struct Refusal<'a> {
    /// The status, 401 or 403.
    pub status: u16,
    /// What the server says about it, from `www-authenticate`.
    pub challenge: Option<&'a str>,
    /// The token that the request carried.
    pub token: Option<&'a Secret>,
}

/// The transport for a server at an address.
pub struct Http {
    shared: Arc<Shared>,
}

struct Shared {
    options: HttpServerOptions,
    number: u64,
    inbox: OnceLock<Inbox>,
    session: Mutex<Session>,
    closing: AbortController,
}

#[derive(Default)]
struct Session {
    id: Option<String>,
    version: Option<String>,
    /// Ends the stream for what the server says unasked.
    stream: Option<AbortController>,
}

impl HttpServerOptions {
    /// Makes options for the server at `url`.
    pub fn new(url: impl Into<String>) -> HttpServerOptions {
        HttpServerOptions {
            url: url.into(),
            headers: Vec::new(),
            authorization: None,
            open_stream: true,
            max_message_bytes: MAX_MESSAGE_BYTES,
            reconnect: Reconnect::default(),
            client: patient_client(),
        }
    }
}

impl Default for Reconnect {
    fn default() -> Reconnect {
        Reconnect {
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            most_tries: 5,
        }
    }
}

impl Reconnect {
    /// How long to wait before the next try. A server that says "at once" each time must not keep the program busy.
    fn pause(&self, said: Option<Duration>, before: u32) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(20);
        let doubled = || self.first_pause.saturating_mul(2_u32.saturating_pow(before));
        match said {
            Some(said) => said.max(SHORTEST),
            None => doubled().min(self.longest_pause),
        }
    }
}

/// The client of the process for MCP: calls may be silent for as long as they like.
pub(crate) fn patient_client() -> HttpClient {
    static CLIENT: OnceLock<HttpClient> = OnceLock::new();
    let options = HttpOptions {
        first_byte_timeout: None,
        idle_timeout: None,
        max_body_bytes: u64::MAX,
        ..HttpOptions::default()
    };
    // Only certificates and proxies of the program's own choice can be faulty.
    let make = || HttpClient::new(options).unwrap_or_else(|_| HttpClient::shared());
    CLIENT.get_or_init(make).clone()
}

impl Http {
    /// Makes a transport; nothing is sent before a client connects.
    pub fn new(options: HttpServerOptions) -> Http {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let shared = Shared {
            options,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            inbox: OnceLock::new(),
            session: Mutex::default(),
            closing: AbortController::new(),
        };
        Http { shared: Arc::new(shared) }
    }
}

impl Transport for Http {
    fn start(&self, inbox: Inbox, signal: &AbortSignal) -> Result<()> {
        if signal.is_aborted() {
            return Err(Error::aborted());
        }
        let _ = self.shared.inbox.set(inbox);
        Ok(())
    }

    fn send(&self, message: Message, signal: &AbortSignal) -> Result<()> {
        if self.shared.closing.signal().is_aborted() {
            return Err(self.shared.closed());
        }
        let Some(id) = message.request_id().and_then(crate::jsonrpc::Id::as_u64) else {
            return self.shared.tell(&message, signal);
        };
        let (shared, signal) = (self.shared.clone(), signal.clone());
        let run = move || shared.ask(&message, id, &signal);
        thread::spawn(&format!("mcp-http-{}", self.shared.number), run).map(drop).map_err(|error| {
            let text = format!("no thread for a request to an MCP server: {error}");
            Error::new(ErrorKind::Configuration, text)
        })
    }

    fn agreed(&self, version: &str) {
        self.shared.session.lock().version = Some(version.to_owned());
    }

    fn ready(&self, signal: &AbortSignal) {
        if self.shared.options.open_stream {
            self.shared.open_stream(signal);
        }
    }

    fn forget_session(&self) {
        let stream = {
            // The number stays until there is a new one: a request without one would be a mistake, one with the old one
            // is told that the session is lost.
            let mut session = self.shared.session.lock();
            session.stream.take()
        };
        if let Some(stream) = stream {
            stream.abort();
        }
    }

    fn close(&self) {
        self.shared.close();
    }
}

impl Shared {
    /// A request with everything that each of them carries, but for the one that begins a session.
    fn request(&self, method: Method, token: Option<&Secret>, in_session: bool) -> HttpRequest {
        let mut request = HttpRequest::get(&self.options.url);
        request.method = method;
        let set = |name: &str| token.is_some() && name.eq_ignore_ascii_case("authorization");
        for (name, value) in &self.options.headers {
            if !set(name) {
                request = request.header(name, value);
            }
        }
        let (id, version) = {
            let session = self.session.lock();
            let of_session = |text: &Option<String>| text.clone().filter(|_| in_session);
            (of_session(&session.id), of_session(&session.version))
        };
        if let Some(id) = id {
            request = request.secret_header("mcp-session-id", &Secret::new(id));
        }
        if let Some(version) = version {
            request = request.header("mcp-protocol-version", version);
        }
        match token {
            Some(token) => {
                let bearer = Secret::new(format!("Bearer {}", token.expose()));
                request.secret_header("authorization", &bearer)
            }
            None => request,
        }
    }

    fn token(&self, signal: &AbortSignal) -> Result<Option<Secret>> {
        match &self.options.authorization {
            Some(authorization) => authorization.token(signal),
            None => Ok(None),
        }
    }

    fn inbox(&self) -> Option<&Inbox> {
        self.inbox.get()
    }

    /// A signal that also fires when the transport is closed.
    fn until_closed(&self, signal: &AbortSignal) -> (AbortSignal, crate::abort::AbortHook) {
        let run = AbortController::child_of(signal);
        let signal = run.signal();
        (signal, self.closing.signal().on_abort(move || run.abort()))
    }

    fn closed(&self) -> Error {
        let text = format!("the connection to {} was closed", host(&self.options.url));
        Error::new(ErrorKind::Network, text)
    }

    fn close(&self) {
        if self.closing.signal().is_aborted() {
            return;
        }
        self.closing.abort();
        if self.session.lock().id.is_none() {
            return;
        }
        let limit = AbortController::new();
        if let Some(deadline) = timer::after(GOODBYE) {
            limit.abort_at(deadline);
        }
        let signal = limit.signal();
        let goodbye = self.token(&signal).and_then(|token| {
            let request = self.request(Method::Delete, token.as_ref(), true);
            self.options.client.send(&request, &signal)
        });
        match goodbye {
            Ok(response) => response.finish(),
            Err(error) => tracing::debug!(%error, "a session of an MCP server was not ended"),
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        // The client has closed it long before; this is for a transport that is used without one.
        self.shared.closing.abort();
    }
}

impl fmt::Debug for HttpServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpServerOptions")
            .field("host", &host(&self.url))
            .field("headers", &headers)
            .field("authorization", &self.authorization.is_some())
            .field("open_stream", &self.open_stream)
            .field("max_message_bytes", &self.max_message_bytes)
            .field("reconnect", &self.reconnect)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("options", &self.shared.options).finish_non_exhaustive()
    }
}
