//! What a server says unasked, and the thread that tells the host.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased, unbounded};
use serde_json::Value;

use crate::{
    error::{Error, ErrorKind, Result},
    mcp::definition::LogLevel,
    thread,
};

/// Something that a server says unasked, or that happened to its connection.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// Its list of tools has changed.
    ToolsChanged,
    /// Its list of resources or resource templates has changed.
    ResourcesChanged,
    /// Its list of prompts has changed.
    PromptsChanged,
    /// A resource that was subscribed to has changed.
    ResourceUpdated {
        /// Which one.
        uri: String,
    },
    /// A line of its log.
    Log {
        /// How important it is.
        level: LogLevel,
        /// Which part of the server says it.
        logger: Option<String>,
        /// What it says.
        data: Value,
    },
    /// It sent something that is no message, or a stream of it broke; no request was harmed.
    Fault {
        /// What happened.
        text: String,
    },
    /// The connection is gone, and why. Nothing comes after it.
    Closed {
        /// Why.
        text: String,
    },
    /// A notification that this crate knows nothing of.
    Other {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
}

/// Is told of notices.
pub type NoticeListener = Arc<dyn Fn(&Notice) + Send + Sync>;

/// How many notices may wait for a slow listener; more are dropped, except those that something has changed.
const UNTOLD: usize = 1024;

/// Where notices go.
pub(super) struct Notices {
    /// What must not be lost: each at most once in the queue.
    sure: Sender<Notice>,
    /// What may be dropped if nobody listens fast enough.
    loose: Sender<Notice>,
    waiting: Arc<[AtomicBool; 3]>,
}

impl Notice {
    /// Reads a notification that is none of the client's own business.
    pub(super) fn from_message(method: String, params: Option<Value>) -> Notice {
        let params = params.unwrap_or_default();
        let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        match method.as_str() {
            "notifications/tools/list_changed" => Notice::ToolsChanged,
            "notifications/resources/list_changed" => Notice::ResourcesChanged,
            "notifications/prompts/list_changed" => Notice::PromptsChanged,
            "notifications/resources/updated" if text("uri").is_some() => {
                Notice::ResourceUpdated { uri: text("uri").unwrap_or_default() }
            }
            "notifications/message" => {
                let level = params.get("level").cloned().unwrap_or_default();
                let level = serde_json::from_value(level).unwrap_or(LogLevel::Info);
                let data = params.get("data").cloned().unwrap_or_default();
                Notice::Log { level, logger: text("logger"), data }
            }
            _ => Notice::Other { method, params },
        }
    }

    fn list(&self) -> Option<usize> {
        match self {
            Notice::ToolsChanged => Some(0),
            Notice::ResourcesChanged => Some(1),
            Notice::PromptsChanged => Some(2),
            _ => None,
        }
    }
}

impl Notices {
    /// Starts the thread of a listener. It ends when this value is dropped, or after `Closed`.
    pub(super) fn start(name: &str, listener: NoticeListener) -> Result<Notices> {
        let (sure, sure_queue) = unbounded();
        let (loose, loose_queue) = bounded(UNTOLD);
        let waiting: Arc<[AtomicBool; 3]> = Arc::default();
        let flags = waiting.clone();
        let run = move || {
            while let Some(notice) = next(&sure_queue, &loose_queue) {
                if let Some(list) = notice.list() {
                    flags[list].store(false, Ordering::Release);
                }
                if let Err(panic) = thread::catch(|| listener(&notice)) {
                    tracing::warn!(panic, "a listener for notices of an MCP server panicked");
                }
                if matches!(notice, Notice::Closed { .. }) {
                    return;
                }
            }
        };
        thread::spawn(name, run).map_err(|error| {
            Error::new(ErrorKind::Configuration, format!("no thread for an MCP client: {error}"))
        })?;
        Ok(Notices { sure, loose, waiting })
    }

    pub(super) fn tell(&self, notice: Notice) {
        match notice.list() {
            // A list that is known to be out of date need not be told of twice.
            Some(list) if self.waiting[list].swap(true, Ordering::AcqRel) => (),
            Some(_) => drop(self.sure.send(notice)),
            None if matches!(notice, Notice::Closed { .. }) => drop(self.sure.send(notice)),
            None => drop(self.loose.try_send(notice)),
        }
    }
}

/// Returns the next notice; that of the end comes after all others.
fn next(sure: &Receiver<Notice>, loose: &Receiver<Notice>) -> Option<Notice> {
    select_biased! {
        recv(loose) -> notice => notice.ok().or_else(|| sure.try_recv().ok()),
        recv(sure) -> notice => notice.ok(),
    }
}
