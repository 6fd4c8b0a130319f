//! One server of a configuration: started when it is needed, and again when it has died.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{ServerReport, ServerState, ServersOptions};
use crate::{
    abort::{AbortController, AbortSignal},
    error::{Error, ErrorKind, Result},
    mcp::{
        client::{Client, Notice, ToolList},
        config::{Entry, Server},
        definition::ToolDefinition,
        transport::{Http, HttpServerOptions, Stdio},
    },
    thread::{timer, turn::Turns},
};

pub(super) struct Slot {
    pub(super) name: String,
    entry: Entry,
    options: ServersOptions,
    /// Told when the list of tools has changed.
    changed: Arc<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
    /// Whose turn it is to connect.
    turns: Turns,
    closing: AbortController,
}

#[derive(Default)]
struct State {
    client: Option<Client>,
    tools: Vec<ToolDefinition>,
    faults: Vec<String>,
    /// Why it is not connected.
    error: Option<String>,
    instructions: Option<String>,
    /// How often it has died or could not be started since it last did something.
    failures: u32,
    retry_at: Option<Instant>,
}

impl Slot {
    pub(super) fn new(
        name: String,
        entry: Entry,
        options: ServersOptions,
        changed: Arc<dyn Fn() + Send + Sync>,
    ) -> Arc<Slot> {
        let (state, turns, closing) = (Mutex::default(), Turns::new(()), AbortController::new());
        Arc::new(Slot { name, entry, options, changed, state, turns, closing })
    }

    /// Whether it is to be connected at all.
    pub(super) fn is_used(&self) -> bool {
        self.entry.enabled && self.entry.server.is_ok()
    }

    /// The client, connected anew if need be.
    pub(super) fn client(self: &Arc<Slot>, signal: &AbortSignal) -> Result<Client> {
        if let Some(client) = self.present() {
            return Ok(client);
        }
        let _turn = self.turns.wait(signal.channel()).ok_or_else(Error::aborted)?;
        match self.present() {
            Some(client) => Ok(client),
            None => self.refuse_early().and_then(|()| self.connect(signal)),
        }
    }

    fn present(&self) -> Option<Client> {
        self.state.lock().client.clone().filter(|client| !client.is_closed())
    }

    /// Refuses to start a server again and again without a pause.
    fn refuse_early(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.client.take().is_some() {
            self.count_failure(&mut state);
        }
        let now = Instant::now();
        match state.retry_at.filter(|at| *at > now) {
            None => Ok(()),
            Some(at) => {
                let why = state.error.as_deref().unwrap_or("it has ended");
                let left = (at - now).as_secs_f64().ceil();
                Err(self.down(&format!("{why}; it is not started again before {left} s from now")))
            }
        }
    }

    fn count_failure(&self, state: &mut State) {
        let doubled = 2_u32.saturating_pow(state.failures.saturating_sub(1));
        let pause = if state.failures == 0 {
            Duration::ZERO
        } else {
            self.options.restart_pause.saturating_mul(doubled)
        };
        state.failures = state.failures.saturating_add(1);
        state.retry_at = timer::after(pause.min(self.options.longest_restart_pause));
    }

    fn connect(self: &Arc<Slot>, signal: &AbortSignal) -> Result<Client> {
        if self.closing.signal().is_aborted() {
            return Err(self.down("it was closed"));
        }
        let limit = AbortController::child_of(signal);
        let abort = limit.clone();
        let _hook = self.closing.signal().on_abort(move || abort.abort());
        if let Some(deadline) = timer::after(self.options.connect_timeout) {
            limit.abort_at(deadline);
        }
        let result = self.open(&limit.signal()).and_then(|client| {
            let list = list(&client, &limit.signal())?;
            Ok((client, list))
        });
        let is_late = limit.signal().is_aborted() && !signal.is_aborted();
        match result {
            Ok((client, list)) => {
                self.keep(&client, list);
                Ok(client)
            }
            Err(_) if signal.is_aborted() => Err(Error::aborted()),
            Err(error) => {
                let text = if is_late {
                    let limit = self.options.connect_timeout.as_secs_f64();
                    format!("it was not ready within {limit} s")
                } else {
                    error.message().to_owned()
                };
                self.fail(&text);
                Err(Error::from_failure(error.failure().clone(), self.down(&text).message()))
            }
        }
    }

    fn open(self: &Arc<Slot>, signal: &AbortSignal) -> Result<Client> {
        let mut options = (self.options.client)(&self.name);
        options.timeout = self.entry.timeout.or(options.timeout);
        let (slot, listener) = (Arc::downgrade(self), options.on_notice.take());
        options.on_notice = Some(Arc::new(move |notice: &Notice| {
            if let (Notice::ToolsChanged, Some(slot)) = (notice, slot.upgrade()) {
                slot.list_again();
            }
            if let Some(listener) = &listener {
                listener(notice);
            }
        }));
        match &self.entry.server {
            Ok(Server::Stdio(server)) => {
                Client::connect(Stdio::new(server.clone()), options, signal)
            }
            Ok(Server::Http { url, headers, oauth }) => {
                let authorization = self.options.authorization.as_ref();
                let server = HttpServerOptions {
                    headers: headers.clone(),
                    authorization: authorization.and_then(|make| make(&self.name, url, oauth)),
                    client: self.options.http.clone(),
                    ..HttpServerOptions::new(url)
                };
                Client::connect(Http::new(server), options, signal)
            }
            Err(fault) => Err(Error::new(ErrorKind::Configuration, fault)),
        }
    }

    fn keep(&self, client: &Client, list: ToolList) {
        let (is_other, before) = {
            let mut state = self.state.lock();
            let is_other = state.tools != list.tools;
            state.tools = list.tools;
            state.faults = list.faults;
            state.error = None;
            state.instructions.clone_from(&client.server().instructions);
            (is_other, state.client.replace(client.clone()))
        };
        drop(before);
        if is_other {
            (self.changed)();
        }
    }

    /// Lists the tools anew, on the thread of the client's notices.
    fn list_again(&self) {
        let Some(client) = self.present() else { return };
        let limit = AbortController::child_of(&client.closed());
        if let Some(deadline) = timer::after(self.options.connect_timeout) {
            limit.abort_at(deadline);
        }
        match client.list_tools(&limit.signal()) {
            Ok(list) => self.keep(&client, list),
            Err(error) if client.is_closed() => drop(error),
            Err(error) => self.note(&format!("its tools could not be listed anew: {error}")),
        }
    }

    /// Notes that it did what it was asked to: whatever comes next is no series.
    pub(super) fn succeeded(&self) {
        let mut state = self.state.lock();
        (state.failures, state.retry_at) = (0, None);
    }

    /// Notes that it could not be started.
    pub(super) fn fail(&self, why: &str) {
        let mut state = self.state.lock();
        state.error = Some(why.to_owned());
        self.count_failure(&mut state);
    }

    /// Notes something that is wrong with one of its tools.
    pub(super) fn note(&self, fault: &str) {
        let mut state = self.state.lock();
        if !state.faults.iter().any(|it| it == fault) {
            state.faults.push(fault.to_owned());
        }
    }

    pub(super) fn definitions(&self) -> Vec<ToolDefinition> {
        self.state.lock().tools.clone()
    }

    pub(super) fn instructions(&self) -> Option<(String, String)> {
        let text = self.state.lock().instructions.clone()?;
        Some((self.name.clone(), text))
    }

    pub(super) fn report(&self) -> ServerReport {
        let state = self.state.lock();
        let is_open = state.client.as_ref().is_some_and(|client| !client.is_closed());
        let (now, fault) = match &self.entry.server {
            Err(fault) => (ServerState::Invalid, Some(fault.clone())),
            Ok(_) if !self.entry.enabled => (ServerState::Disabled, None),
            Ok(_) if is_open => (ServerState::Connected, None),
            Ok(_) => {
                let why = state.error.as_deref().unwrap_or("the server has ended");
                (ServerState::Down, Some(why.to_owned()))
            }
        };
        let about = self.entry.description.as_ref().or(state.instructions.as_ref());
        let summary = about.and_then(|text| text.trim().lines().next()).unwrap_or_default();
        ServerReport {
            name: self.name.clone(),
            state: now,
            summary: summary.trim().to_owned(),
            tools: state.tools.len(),
            faults: fault.into_iter().chain(state.faults.iter().cloned()).collect(),
        }
    }

    pub(super) fn close(&self) {
        self.closing.abort();
        let client = self.state.lock().client.take();
        if let Some(client) = client {
            client.close();
        }
    }

    fn down(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::Network,
            format!("the MCP server `{}` cannot be used: {why}", self.name),
        )
    }
}

fn list(client: &Client, signal: &AbortSignal) -> Result<ToolList> {
    if client.server().can("tools") { client.list_tools(signal) } else { Ok(ToolList::default()) }
}

pub(super) fn unknown(name: &str) -> Error {
    let text = format!("no MCP server of the configuration is called `{name}`");
    Error::new(ErrorKind::Configuration, text)
}
