//! The servers of a configuration as tools of an agent.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use crossbeam_channel::{bounded, select};
use parking_lot::Mutex;

use crate::{
    abort::AbortSignal,
    agent::{Agent, WeakAgent},
    auth::CredentialStore,
    error::{Error, Result},
    http::HttpClient,
    mcp::{
        client::{Client, ClientOptions},
        config::Config,
        content,
        oauth::{Loopback, OAuth, OAuthOptions, OpenFn},
        servers::slot::Slot,
        transport::{Authorization, patient_client},
    },
    thread,
    tool::Tool,
};

mod slot;
mod tool;

/// Makes the options of the client of the server with this name.
pub type ClientOptionsFn = Arc<dyn Fn(&str) -> ClientOptions + Send + Sync>;

/// Makes what signs in to servers at an address: tokens are kept in `store`, `open` shows the user the page of a sign-in, and
/// the answer comes by a port of the machine ([`Loopback`]). For [`ServersOptions::authorization`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use steerage::{auth::FileStore, mcp::{ServersOptions, servers::sign_in}};
///
/// let store = Arc::new(FileStore::new("/home/me/.config/my-game/auth.json"));
/// let authorization = sign_in(store, Arc::new(|page| {
///     println!("please sign in at {page}");
///     Ok(())
/// }));
/// let options = ServersOptions { authorization: Some(authorization), ..ServersOptions::default() };
/// # assert!(options.authorization.is_some());
/// ```
pub fn sign_in(store: Arc<dyn CredentialStore>, open: OpenFn) -> AuthorizationFn {
    Arc::new(move |_, url, entry| {
        let open = open.clone();
        let browser = Loopback::new(move |page| open(page)).port(entry.callback_port.unwrap_or(0));
        let entry = entry.clone();
        let mut options = OAuthOptions::with_store(url, store.clone());
        options.browser = Some(Arc::new(browser));
        options.client_name = entry.client_name.unwrap_or(options.client_name);
        (options.client_id, options.client_secret) = (entry.client_id, entry.client_secret);
        (options.scope, options.metadata_url) = (entry.scope, entry.metadata_url);
        Some(Arc::new(OAuth::new(options)))
    })
}

/// Makes what gets the tokens of a server at an address, from its name, its address and what the configuration says.
pub type AuthorizationFn = Arc<
    dyn Fn(&str, &str, &crate::mcp::config::OAuthEntry) -> Option<Arc<dyn Authorization>>
        + Send
        + Sync,
>;

/// How the servers of a configuration are used.
#[derive(Clone)]
pub struct ServersOptions {
    /// Makes the options of the client of each server: what it answers servers, who hears their notices. Default: the
    /// defaults of [`ClientOptions`].
    pub client: ClientOptionsFn,
    /// Makes what signs in to servers at an address. Default: nobody.
    pub authorization: Option<AuthorizationFn>,
    /// What sends requests to servers at an address. Default: one for all MCP servers of the process.
    pub http: HttpClient,
    /// How long a server may take to start and list its tools. Default: 60 seconds.
    pub connect_timeout: Duration,
    /// How many bytes of text of one result a model sees; the whole text stays in the result's details. Default: 20 KiB.
    pub max_output_bytes: usize,
    /// How long to wait before a server that has died twice in a row is started again; twice as long each further time.
    /// The first time it is started at once. Default: 1 second.
    pub restart_pause: Duration,
    /// The longest such pause. Default: 30 seconds.
    pub longest_restart_pause: Duration,
}

/// How a server is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// Its name in the configuration.
    pub name: String,
    /// Whether it can be used.
    pub state: ServerState,
    /// What it is for: the first line of its description, or of what it says of itself; may be empty.
    pub summary: String,
    /// How many tools it has.
    pub tools: usize,
    /// What is wrong with it, and with those of its tools that cannot be used.
    pub faults: Vec<String>,
}

/// Whether a server can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// It is connected.
    Connected,
    /// It is not; the next call of one of its tools tries to start it again.
    Down,
    /// Its entry of the configuration is faulty.
    Invalid,
    /// The configuration says not to use it.
    Disabled,
}

/// The servers of a configuration, connected. Clones are handles to the same servers, and so are their tools: when the last
/// of them is dropped the servers are closed, on threads of their own. [`close`](Self::close) does so at once and waits.
///
/// Each tool of each server is a tool of an agent, under the name of [`tool_name`](crate::mcp::naming::tool_name). A
/// server that fails stops no other. One that has died is started again by the next call of one of its tools, after a
/// pause if that happens again and again; the call during which it died fails, and the model is told that nobody knows
/// whether it took effect.
///
/// The details of a result say which server and tool it is from, and hold the whole text where the model got only a part.
///
/// # Examples
///
/// ```no_run
/// use steerage::{AbortSignal, Agent, AgentOptions, Builtin, mcp::{Config, Servers, ServersOptions}};
///
/// let config = Config::from_file("mcp.json")?;
/// let servers = Servers::connect(config, ServersOptions::default(), &AbortSignal::never())?;
/// for report in servers.reports() {
///     println!("{}: {:?}, {} tools {:?}", report.name, report.state, report.tools, report.faults);
/// }
/// let agent = Agent::new(Builtin::model(), AgentOptions { tools: servers.tools(), ..AgentOptions::default() })?;
/// let _following = servers.follow(&agent);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone)]
pub struct Servers {
    inner: Arc<Inner>,
}

/// Keeps the tools of an agent up to date; dropping it ends that. See [`Servers::follow`].
#[must_use = "dropping the guard ends the following"]
#[derive(Debug)]
pub struct Following {
    inner: Weak<Inner>,
    id: u64,
}

struct Inner {
    options: ServersOptions,
    slots: Vec<Arc<Slot>>,
    names: Mutex<Names>,
    followers: Mutex<Followers>,
}

/// The names that tools were given, by server and tool: a tool keeps its name whatever comes and goes.
#[derive(Default)]
struct Names {
    given: HashMap<(String, String), String>,
}

#[derive(Default)]
struct Followers {
    next: u64,
    agents: Vec<(u64, WeakAgent)>,
}

impl Default for ServersOptions {
    fn default() -> ServersOptions {
        ServersOptions {
            client: Arc::new(|_| ClientOptions::default()),
            authorization: None,
            http: patient_client(),
            connect_timeout: Duration::from_mins(1),
            max_output_bytes: content::MAX_OUTPUT_BYTES,
            restart_pause: Duration::from_secs(1),
            longest_restart_pause: Duration::from_secs(30),
        }
    }
}

impl Servers {
    /// Connects to all servers at the same time and lists their tools. Servers that fail are reported, not an error.
    ///
    /// Fails only with [`Aborted`](crate::ErrorKind::Aborted).
    pub fn connect(
        config: Config,
        options: ServersOptions,
        signal: &AbortSignal,
    ) -> Result<Servers> {
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| {
            let slots = config.servers.into_iter();
            let slots = slots
                .map(|(name, entry)| {
                    let inner = inner.clone();
                    let changed = move || {
                        if let Some(inner) = inner.upgrade() {
                            inner.changed();
                        }
                    };
                    Slot::new(name, entry, options.clone(), Arc::new(changed))
                })
                .collect();
            Inner { options, slots, names: Mutex::default(), followers: Mutex::default() }
        });
        let servers = Servers { inner };
        servers.start(signal)?;
        Ok(servers)
    }

    fn start(&self, signal: &AbortSignal) -> Result<()> {
        let (done, finished) = bounded(self.inner.slots.len());
        let mut count = 0;
        for slot in self.inner.slots.iter().filter(|slot| slot.is_used()) {
            let (job, done, signal) = (slot.clone(), done.clone(), signal.clone());
            let run = move || {
                if let Err(panic) = thread::catch(|| drop(job.client(&signal))) {
                    job.fail(&panic);
                }
                let _ = done.send(());
            };
            match thread::spawn(&format!("mcp-start-{}", slot.name), run) {
                Ok(_) => count += 1,
                Err(error) => slot.fail(&format!("no thread to start it: {error}")),
            }
        }
        for _ in 0..count {
            select! {
                recv(finished) -> _ => (),
                recv(signal.channel()) -> _ => return Err(Error::aborted()),
            }
        }
        if signal.is_aborted() { Err(Error::aborted()) } else { Ok(()) }
    }

    /// The tools of all servers that are or were connected, in the order of the configuration. A server that could not be
    /// started has none until [`client`](Self::client) has started it.
    pub fn tools(&self) -> Vec<Tool> {
        self.inner.tools()
    }

    /// How each server is doing, in the order of the configuration.
    pub fn reports(&self) -> Vec<ServerReport> {
        self.inner.slots.iter().map(|slot| slot.report()).collect()
    }

    /// What the connected servers tell a model about themselves, each with its name, for the system prompt.
    pub fn instructions(&self) -> Vec<(String, String)> {
        self.inner.slots.iter().filter_map(|slot| slot.instructions()).collect()
    }

    /// The client of a server, connected again if need be: for resources, prompts and whatever else it offers.
    pub fn client(&self, name: &str, signal: &AbortSignal) -> Result<Client> {
        let slot = self.inner.slots.iter().find(|slot| slot.name == name);
        slot.ok_or_else(|| slot::unknown(name))?.client(signal)
    }

    /// Keeps the tools of `agent` up to date while the guard lives: when the list of a server changes, the tools of these
    /// servers are replaced, its other tools stay. A run that is active goes on with what it began with, unless a
    /// `prepare_request` hook gives it [`tools_now`](Self::tools_now).
    pub fn follow(&self, agent: &Agent) -> Following {
        let id = {
            let mut followers = self.inner.followers.lock();
            followers.next += 1;
            let id = followers.next;
            followers.agents.push((id, agent.downgrade()));
            id
        };
        // The list may have changed since the agent was made.
        self.inner.update(agent);
        Following { inner: Arc::downgrade(&self.inner), id }
    }

    /// The tools that a run with `present` tools should have now; `None` if they are the same. For `prepare_request`.
    pub fn tools_now(&self, present: &[Tool]) -> Option<Vec<Tool>> {
        self.inner.tools_now(present)
    }

    /// Closes all servers and waits until they are gone, some seconds at most. Calls that are under way fail.
    pub fn close(&self) {
        let (done, finished) = bounded::<()>(0);
        for slot in &self.inner.slots {
            let (job, done) = (slot.clone(), done.clone());
            let close = move || {
                job.close();
                drop(done);
            };
            if thread::spawn(&format!("mcp-close-{}", slot.name), close).is_err() {
                slot.close();
            }
        }
        drop(done);
        // Nothing is ever sent: it ends when the last of them is done.
        let _ = finished.recv();
    }
}

impl Inner {
    fn tools(&self) -> Vec<Tool> {
        let mut tools = Vec::new();
        for slot in &self.slots {
            for definition in slot.definitions() {
                let name = self.names.lock().name(&slot.name, &definition.name);
                let most = self.options.max_output_bytes;
                let tool = tool::make(name, &definition, slot, most);
                match tool.schema() {
                    Ok(_) => tools.push(tool),
                    Err(error) => slot.note(error.message()),
                }
            }
        }
        tools
    }

    /// Whether a tool of this name is, or was, one of a server.
    fn is_ours(&self, name: &str) -> bool {
        self.names.lock().given.values().any(|given| given == name)
    }

    fn tools_now(&self, present: &[Tool]) -> Option<Vec<Tool>> {
        let ours = self.tools();
        let (old, mut others): (Vec<_>, Vec<_>) =
            present.iter().cloned().partition(|tool| self.is_ours(tool.name()));
        let is_same = old.len() == ours.len()
            && old.iter().zip(&ours).all(|(old, new)| old.is_declared_by(&new.declaration()));
        if is_same {
            return None;
        }
        others.extend(ours);
        Some(others)
    }

    /// Tells the agents that follow that the list of a server has changed.
    fn changed(&self) {
        let agents = {
            let mut followers = self.followers.lock();
            followers.agents.retain(|(_, agent)| agent.upgrade().is_some());
            followers.agents.clone()
        };
        for agent in agents.iter().filter_map(|(_, agent)| agent.upgrade()) {
            self.update(&agent);
        }
    }

    fn update(&self, agent: &Agent) {
        let Some(tools) = self.tools_now(&agent.state().tools) else { return };
        if let Err(error) = agent.configure(|options| options.tools = tools) {
            tracing::warn!(%error, "an agent did not take the tools of its MCP servers");
        }
    }
}

impl Names {
    fn name(&mut self, server: &str, tool: &str) -> String {
        let key = (server.to_owned(), tool.to_owned());
        if let Some(name) = self.given.get(&key) {
            return name.clone();
        }
        let is_taken = |name: &str| self.given.values().any(|given| given == name);
        let name = crate::mcp::naming::tool_name(server, tool, is_taken);
        self.given.insert(key, name.clone());
        name
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            let agent = {
                let mut followers = inner.followers.lock();
                let place = followers.agents.iter().position(|(id, _)| *id == self.id);
                place.map(|place| followers.agents.swap_remove(place))
            };
            drop(agent);
        }
    }
}

impl fmt::Debug for ServersOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServersOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("max_output_bytes", &self.max_output_bytes)
            .field("restart_pause", &self.restart_pause)
            .field("longest_restart_pause", &self.longest_restart_pause)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("servers", &self.reports()).finish()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("servers", &self.slots.len()).finish_non_exhaustive()
    }
}
