//! The one error of this crate: opaque, with a [`kind`](Error::kind) for each way to recover.

use std::{error, fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub(crate) mod wording;

/// The usual result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what to do about it.
///
/// Branch on [`kind`](Error::kind), show the rest to people. The text never holds a key or a token.
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    failure: Failure,
    message: String,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// What a caller can do about an error: one variant for each recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ErrorKind {
    /// A run is active: wait for it, steer it or abort it.
    Busy,
    /// There is nothing to continue from: prompt instead.
    NothingToContinue,
    /// The transcript ends with an assistant message and nothing is queued: prompt, steer or queue a follow-up.
    EndsWithAssistant,
    /// A listener, hook or tool waits for the run that waits for it: do not wait there.
    WouldDeadlock,
    /// The vendor knows no such key, or the key may not do this: check the key.
    Auth,
    /// Too many requests: wait [`Failure::retry_after`] and try again.
    RateLimited,
    /// The account has no money or quota left: waiting does not help.
    Quota,
    /// The vendor is overloaded or failed inside: try again later, or elsewhere.
    Overloaded,
    /// The transcript is too long for the model: shorten it.
    ContextOverflow,
    /// The vendor refuses the request as it stands: change it.
    InvalidRequest,
    /// The model or the vendor's policy refuses to answer.
    Refused,
    /// The connection failed or timed out: try again.
    Network,
    /// The other side broke the protocol: an answer that ended too early, or that is not what was agreed on.
    Protocol,
    /// The run was aborted by the host.
    Aborted,
    /// A tool failed.
    Tool,
    /// A hook, listener or stream function of the host failed or panicked.
    Callback,
    /// A limit that the host set was reached: a deadline, a budget, a size.
    Limit,
    /// The program set something up wrongly: a schema, a URL, a model, a file.
    Configuration,
}

/// The facts of a failure as data: the part of an [`Error`] that an assistant message keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// What a caller can do about it.
    pub kind: ErrorKind,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The vendor's own code or type, for example `context_length_exceeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The vendor's id of the request, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the server asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Whether the same request may succeed later.
    #[serde(default)]
    pub retryable: bool,
}

impl Failure {
    /// Makes a failure that knows its kind only; `retryable` follows from the kind.
    pub fn new(kind: ErrorKind) -> Failure {
        let retryable =
            matches!(kind, ErrorKind::RateLimited | ErrorKind::Overloaded | ErrorKind::Network);
        Failure {
            kind,
            status: None,
            code: None,
            request_id: None,
            retry_after_ms: None,
            retryable,
        }
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }

    /// Whether the transcript was too long for the model.
    pub fn is_overflow(&self) -> bool {
        self.kind == ErrorKind::ContextOverflow
    }
}

impl Error {
    /// Makes an error; `message` is lower case without a full stop and names the thing.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::from_failure(Failure::new(kind), message)
    }

    /// Makes an error from the facts of a failure.
    pub fn from_failure(failure: Failure, message: impl Into<String>) -> Error {
        Error { inner: Box::new(Inner { failure, message: message.into(), source: None }) }
    }

    /// Keeps the error underneath, for [`source`](error::Error::source).
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Error {
        self.inner.source = Some(source.into());
        self
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.inner.failure.kind
    }

    /// The facts: status, vendor's code, request id, how long to wait.
    pub fn failure(&self) -> &Failure {
        &self.inner.failure
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.inner.failure.retryable
    }

    /// The text alone, as [`Display`](fmt::Display) shows it.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Makes the error of work that an abort stopped, for tools and stream functions of one's own.
    pub fn aborted() -> Error {
        Error::new(ErrorKind::Aborted, "the run was aborted")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { failure, message, source } = &*self.inner;
        f.debug_struct("Error")
            .field("message", message)
            .field("failure", failure)
            .field("source", source)
            .finish()
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.inner.source.as_deref().map(|source| source as &(dyn error::Error + 'static))
    }
}
