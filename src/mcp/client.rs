//! The client of one server.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    jsonrpc::Message,
    mcp::{
        client::core::Core,
        definition::{Root, ServerInfo},
        transport::{Inbox, Transport},
    },
};

mod core;
mod methods;
mod notice;
mod serve;

pub use crate::mcp::client::{
    core::{CallOptions, Progress},
    methods::ToolList,
    notice::{Notice, NoticeListener},
    serve::{Ask, Elicitation, ElicitationAnswer, Handler, Sampling},
};

/// The revision that is asked for.
pub const PROTOCOL_VERSION: &str = "2025-11-25";

/// The revisions that a server may answer with.
const KNOWN_VERSIONS: [&str; 4] = [PROTOCOL_VERSION, "2025-06-18", "2025-03-26", "2024-11-05"];

/// The code of a [`Failure`](crate::Failure) of a request whose answer will not come although it may have taken effect.
pub(crate) const CONNECTION_LOST: &str = "connection_lost";

/// How a client presents itself, how patient it is, and what it answers servers.
#[derive(Clone)]
pub struct ClientOptions {
    /// The name that servers see. Default: `steerage`.
    pub name: String,
    /// The version that servers see. Default: that of this crate.
    pub version: String,
    /// How long a request may take without a sign of life; each progress notification starts it anew. `None`: any time.
    /// Default: 60 seconds.
    pub timeout: Option<Duration>,
    /// How long a request may take in all. Default: any time.
    pub max_time: Option<Duration>,
    /// The folders that servers are told of when they ask; `None` says that nobody answers such a question. Default: none.
    pub roots: Option<Arc<dyn Fn() -> Vec<Root> + Send + Sync>>,
    /// Answers a server that wants a model asked. Default: nobody.
    pub sampling: Option<Handler<Sampling>>,
    /// Whether `sampling` can ask with tools. Default: no.
    pub sampling_with_tools: bool,
    /// Answers a server that wants the user asked. Default: nobody.
    pub elicitation: Option<Handler<Elicitation>>,
    /// Whether `elicitation` can also send the user to a URL. Default: no.
    pub elicitation_by_url: bool,
    /// Is told what the server says unasked, on a thread of its own, one after the other. Default: nobody.
    pub on_notice: Option<NoticeListener>,
    /// Further capabilities to tell servers of. Default: none.
    pub capabilities: Map<String, Value>,
}

/// A client of one server. Clones are handles to the same connection; the last one that is dropped closes it, on a thread
/// of its own.
///
/// All methods block until the answer is here, the signal fires or the time is up, and may be called from any thread;
/// any number of requests may be under way. A server's error is an [`Error`] of the kind
/// [`InvalidRequest`](ErrorKind::InvalidRequest) with the server's code as [`code`](crate::Failure::code); a closed
/// connection is [`Network`](ErrorKind::Network), a time limit [`Limit`](ErrorKind::Limit).
///
/// # Examples
///
/// ```no_run
/// use serde_json::Map;
/// use steerage::{AbortSignal, mcp::{CallOptions, Client, ClientOptions, Stdio, StdioOptions}};
///
/// let signal = AbortSignal::never();
/// let server = Stdio::new(StdioOptions::new("npx", ["-y", "@modelcontextprotocol/server-everything"]));
/// let client = Client::connect(server, ClientOptions::default(), &signal)?;
/// for tool in client.list_tools(&signal)?.tools {
///     println!("{}", tool.name);
/// }
/// let arguments = Map::from_iter([("message".to_owned(), "hello".into())]);
/// let result = client.call_tool("echo", &arguments, &CallOptions::default(), &signal)?;
/// println!("{:?}", result.content);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

struct Handle {
    core: Arc<Core>,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            name: "steerage".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            timeout: Some(Duration::from_mins(1)),
            max_time: None,
            roots: None,
            sampling: None,
            sampling_with_tools: false,
            elicitation: None,
            elicitation_by_url: false,
            on_notice: None,
            capabilities: Map::new(),
        }
    }
}

impl ClientOptions {
    fn advertised(&self) -> Map<String, Value> {
        let mut all = Map::new();
        if self.roots.is_some() {
            all.insert("roots".to_owned(), json!({"listChanged": true}));
        }
        if self.sampling.is_some() {
            let tools = if self.sampling_with_tools { json!({"tools": {}}) } else { json!({}) };
            all.insert("sampling".to_owned(), tools);
        }
        if self.elicitation.is_some() {
            let mut modes = json!({"form": {}});
            if self.elicitation_by_url {
                modes["url"] = json!({});
            }
            all.insert("elicitation".to_owned(), modes);
        }
        all.extend(self.capabilities.clone());
        all
    }

    fn initialize(&self) -> Value {
        json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": self.advertised(),
            "clientInfo": {"name": self.name, "version": self.version},
        })
    }
}

impl Client {
    /// Opens a connection and introduces both sides to each other. If that fails, the connection is closed.
    pub fn connect(
        transport: impl Transport + 'static,
        options: ClientOptions,
        signal: &AbortSignal,
    ) -> Result<Client> {
        let core = Core::new(Arc::new(transport), options)?;
        // From here on a failure drops the handle, which closes the connection.
        let client = Client { handle: Arc::new(Handle { core }) };
        let core = client.core();
        core.transport.start(Inbox::new(core), signal)?;
        core.introduce(signal)?;
        Ok(client)
    }

    /// Who answers at the other end.
    pub fn server(&self) -> Arc<ServerInfo> {
        self.core().server.lock().clone()
    }

    /// Sends a request of any method and returns its result.
    pub fn request(
        &self,
        method: &str,
        params: Option<Value>,
        options: &CallOptions<'_>,
        signal: &AbortSignal,
    ) -> Result<Value> {
        self.core().request(method, params, options, signal)
    }

    /// Sends a notification of any method.
    pub fn notify(&self, method: &str, params: Option<Value>, signal: &AbortSignal) -> Result<()> {
        self.core().refuse_closed()?;
        self.core().transport.send(Message::notification(method, params), signal)
    }

    /// Whether the connection is gone, closed by either side.
    pub fn is_closed(&self) -> bool {
        self.core().refuse_closed().is_err()
    }

    /// Returns a signal that fires when the connection is gone.
    pub fn closed(&self) -> AbortSignal {
        self.core().closed.signal()
    }

    /// Closes the connection and waits until the server is gone, some seconds at most. Open requests fail.
    pub fn close(&self) {
        self.core().shut("the MCP client was closed");
        self.core().transport.close();
    }

    fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }
}

impl Core {
    /// Says hello and hears who answers.
    fn introduce(&self, signal: &AbortSignal) -> Result<()> {
        let hello = self.options.initialize();
        let answer = self.once("initialize", Some(hello), &CallOptions::default(), signal)?;
        let info = ServerInfo::from_value(&answer).map_err(|problem| {
            let text = format!("the MCP server's answer to `initialize` cannot be used: {problem}");
            Error::new(ErrorKind::Protocol, text)
        })?;
        if !KNOWN_VERSIONS.contains(&info.protocol_version.as_str()) {
            let text = format!(
                "the MCP server {} speaks the revision {}, this client {} and older ones: use another \
                 version of the server",
                info.name, info.protocol_version, PROTOCOL_VERSION
            );
            return Err(Error::new(ErrorKind::Protocol, text));
        }
        self.transport.agreed(&info.protocol_version);
        *self.server.lock() = Arc::new(info);
        self.transport.send(Message::notification("notifications/initialized", None), signal)?;
        self.transport.ready(signal);
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.shut("the MCP client was dropped");
        self.core.close_aside();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.server().name)
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("name", &self.name)
            .field("timeout", &self.timeout)
            .field("max_time", &self.max_time)
            .field("capabilities", &self.advertised())
            .finish_non_exhaustive()
    }
}
