//! How messages travel: the trait, and the transports of the specification.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use crate::{
    abort::AbortSignal,
    error::{Error, Result},
    jsonrpc::Message,
};

mod http;
pub mod memory;
mod process;
mod stdio;

pub(crate) use crate::mcp::transport::http::patient_client;
pub use crate::mcp::transport::{
    http::{Authorization, Http, HttpServerOptions, Reconnect, Refusal},
    stdio::{StderrSink, Stdio, StdioOptions},
};

/// The code of a [`Failure`](crate::Failure) of a request to a session that the server does not know any more.
pub const SESSION_LOST: &str = "session_lost";

/// The longest message that is taken, in bytes, unless options say otherwise: 16 MiB.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Carries messages to a server and gives those of the server to an [`Inbox`].
///
/// All methods may be called from any thread, several at the same time.
pub trait Transport: Send + Sync {
    /// Opens the connection; messages go to `inbox` from now on. Called once.
    fn start(&self, inbox: Inbox, signal: &AbortSignal) -> Result<()>;

    /// Sends a message. What goes wrong with a request later, and concerns it alone, is told to [`Inbox::failed`].
    ///
    /// `signal` fires when nobody waits for the answer any more.
    fn send(&self, message: Message, signal: &AbortSignal) -> Result<()>;

    /// Tells the revision that both sides agreed on.
    fn agreed(&self, version: &str) {
        let _ = version;
    }

    /// Tells that the server knows that the client is ready. It may wait a moment until the server can speak too.
    fn ready(&self, signal: &AbortSignal) {
        let _ = signal;
    }

    /// Forgets the session that the server has lost, so that a new one can be opened.
    fn forget_session(&self) {}

    /// Ends the connection, politely, then firmly. It may take some seconds; calling it again does nothing.
    fn close(&self);
}

/// Takes what a transport receives. Cloning it copies a pointer; it does not keep the client alive.
#[derive(Clone)]
pub struct Inbox {
    receiver: Weak<dyn Receive>,
}

/// The other end of an [`Inbox`].
pub(crate) trait Receive: Send + Sync {
    fn message(self: Arc<Self>, message: Message);
    fn failed(&self, id: u64, error: Error);
    fn fault(&self, text: String);
    fn closed(&self, why: Error);
}

impl Inbox {
    pub(crate) fn new(receiver: &Arc<impl Receive + 'static>) -> Inbox {
        let receiver: Weak<dyn Receive> = Arc::downgrade(receiver) as Weak<dyn Receive>;
        Inbox { receiver }
    }

    /// Delivers a message. It does not block.
    pub fn message(&self, message: Message) {
        if let Some(receiver) = self.receiver.upgrade() {
            receiver.message(message);
        }
    }

    /// Reports that there will be no answer to the request with this id, and why.
    pub fn failed(&self, id: u64, error: Error) {
        if let Some(receiver) = self.receiver.upgrade() {
            receiver.failed(id, error);
        }
    }

    /// Reports something that harms no request: a line that is no message, a stream that could not be opened.
    pub fn fault(&self, text: impl Into<String>) {
        if let Some(receiver) = self.receiver.upgrade() {
            receiver.fault(text.into());
        }
    }

    /// Reports that the connection is gone: every open request fails with `why`. Only the first report counts.
    pub fn closed(&self, why: Error) {
        if let Some(receiver) = self.receiver.upgrade() {
            receiver.closed(why);
        }
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}
