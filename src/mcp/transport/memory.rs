//! A pair of ends in memory, for tests: one is a transport, the other is whatever plays the server.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    jsonrpc::Message,
    mcp::transport::{Inbox, Transport},
};

/// The end that a client gets.
pub struct Memory {
    outgoing: Mutex<Option<Sender<Message>>>,
    inbox: Sender<Inbox>,
}

/// The end that a test plays the server with. Dropping it closes the connection.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use std::time::Duration;
/// use steerage::{AbortSignal, jsonrpc::Message, mcp::{Client, ClientOptions, transport::memory}};
///
/// let (transport, server) = memory::pair();
/// let play = std::thread::Builder::new().spawn(move || {
///     server.answer("initialize", json!({
///         "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"},
///     }));
///     server.receive(Duration::from_secs(10)) // notifications/initialized
/// })?;
/// let client = Client::connect(transport, ClientOptions::default(), &AbortSignal::never())?;
/// assert_eq!(client.server().name, "s");
/// assert_eq!(play.join().unwrap().unwrap(), Message::notification("notifications/initialized", None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryServer {
    incoming: Receiver<Message>,
    inbox: Receiver<Inbox>,
    started: Mutex<Option<Inbox>>,
}

/// How long a server in a test waits for the client.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes two connected ends.
pub fn pair() -> (Memory, MemoryServer) {
    let (outgoing, incoming) = unbounded();
    let (inbox, started) = unbounded();
    let client = Memory { outgoing: Mutex::new(Some(outgoing)), inbox };
    (client, MemoryServer { incoming, inbox: started, started: Mutex::new(None) })
}

impl MemoryServer {
    /// Waits for the next message of the client; `None` if it closed the connection or said nothing so long.
    pub fn receive(&self, limit: Duration) -> Option<Message> {
        self.incoming.recv_timeout(limit).ok()
    }

    /// Waits for the next request and returns it as id, method and parameters; notifications are passed over.
    pub fn request(&self) -> Option<(crate::jsonrpc::Id, String, serde_json::Value)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Message::Request { id, method, params } = self.receive(left)? {
                return Some((id, method, params.unwrap_or_default()));
            }
        }
    }

    /// Waits for a request with this method, answers it and returns its parameters. Other messages are passed over.
    pub fn answer(&self, method: &str, result: serde_json::Value) -> Option<serde_json::Value> {
        loop {
            let (id, asked, params) = self.request()?;
            if asked == method {
                self.send(Message::Response { id: Some(id), outcome: Ok(result) });
                return Some(params);
            }
        }
    }

    /// Sends a message to the client.
    pub fn send(&self, message: Message) {
        if let Some(inbox) = self.inbox() {
            inbox.message(message);
        }
    }

    /// Closes the connection with a reason.
    pub fn close(&self, why: &str) {
        if let Some(inbox) = self.inbox() {
            inbox.closed(Error::new(ErrorKind::Network, why));
        }
    }

    fn inbox(&self) -> Option<Inbox> {
        let mut started = self.started.lock();
        if started.is_none() {
            *started = self.inbox.recv_timeout(PATIENCE).ok();
        }
        started.clone()
    }
}

impl Transport for Memory {
    fn start(&self, inbox: Inbox, _signal: &AbortSignal) -> Result<()> {
        let _ = self.inbox.send(inbox);
        Ok(())
    }

    fn send(&self, message: Message, _signal: &AbortSignal) -> Result<()> {
        let gone = || Error::new(ErrorKind::Network, "the other end of the connection is gone");
        let outgoing = self.outgoing.lock().clone().ok_or_else(gone)?;
        outgoing.send(message).map_err(|_| gone())
    }

    fn close(&self) {
        self.outgoing.lock().take();
    }
}

impl Drop for MemoryServer {
    fn drop(&mut self) {
        if let Some(inbox) = self.started.lock().take() {
            inbox.closed(Error::new(ErrorKind::Network, "the MCP server closed the connection"));
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl fmt::Debug for MemoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryServer").finish_non_exhaustive()
    }
}
