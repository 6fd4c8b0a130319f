//! The responses of a scripted server as data.

use std::{fmt, time::Duration};

use crate::abort::AbortController;

/// A response and how it is sent.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status. Default: 200.
    pub status: u16,
    /// The words after the status. Default: none.
    pub reason: String,
    /// The headers in order. Those of the framing are added.
    pub headers: Vec<(String, String)>,
    /// How long the head waits. Default: no time.
    pub delay: Duration,
    /// Holds the head back until it is open. Default: none.
    pub gate: Option<Gate>,
    /// The body, each chunk written for itself.
    pub chunks: Vec<Chunk>,
    /// Joins the chunks and cuts the body anew every so many bytes. Default: off.
    pub split_every: Option<usize>,
    /// How the end of the body is told. Default: chunked.
    pub framing: Framing,
    /// How many bytes more than there are `content-length` promises. Default: 0.
    pub extra_length: usize,
    /// What follows on the last chunk. Default: a proper end.
    pub end: End,
    /// Whether there is an answer at all. Default: there is.
    pub behavior: Behavior,
}

/// A piece of a body.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How long it waits.
    pub delay: Duration,
    /// Holds it back until it is open.
    pub gate: Option<Gate>,
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// By chunks, each with its length, and an empty one at the end.
    #[default]
    Chunked,
    /// By `content-length`.
    Length,
    /// By the end of the connection.
    Close,
}

/// What follows on the last chunk of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// The end that the framing asks for.
    #[default]
    Normal,
    /// The connection is closed, whatever the framing asks for.
    Destroy,
    /// The connection is reset. Over TLS it is closed.
    Reset,
    /// Nothing, until the other side closes the connection.
    Hang,
}

/// Whether a request gets an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Behavior {
    /// It does.
    #[default]
    Answer,
    /// The connection is closed instead.
    CloseBeforeHeaders,
    /// Nothing is sent, until the other side closes the connection.
    HangBeforeHeaders,
}

/// Holds something back until it is opened, once and for all of its clones.
#[derive(Clone, Default)]
pub struct Gate {
    pub(crate) opened: AbortController,
}

impl Default for Response {
    fn default() -> Response {
        Response {
            status: 200,
            reason: String::new(),
            headers: Vec::new(),
            delay: Duration::ZERO,
            gate: None,
            chunks: Vec::new(),
            split_every: None,
            framing: Framing::default(),
            extra_length: 0,
            end: End::default(),
            behavior: Behavior::default(),
        }
    }
}

impl Response {
    /// Makes an answer with a status and no body.
    pub fn new(status: u16) -> Response {
        Response { status, ..Response::default() }
    }

    /// Makes an answer that streams server-sent events, each text a chunk.
    pub fn events<T: Into<Vec<u8>>>(chunks: impl IntoIterator<Item = T>) -> Response {
        let mut response = Response::new(200).header("content-type", "text/event-stream");
        response.chunks = chunks.into_iter().map(Chunk::new).collect();
        response
    }

    /// Makes an answer with a JSON body of known length.
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Response {
        let response = Response::new(status).header("content-type", "application/json");
        response.chunk(body).framing(Framing::Length)
    }

    /// Closes the connection instead of an answer.
    pub fn close() -> Response {
        Response { behavior: Behavior::CloseBeforeHeaders, ..Response::default() }
    }

    /// Sends nothing.
    pub fn hang() -> Response {
        Response { behavior: Behavior::HangBeforeHeaders, ..Response::default() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Response {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a chunk.
    #[must_use]
    pub fn chunk(mut self, bytes: impl Into<Vec<u8>>) -> Response {
        self.chunks.push(Chunk::new(bytes));
        self
    }

    /// Adds a chunk that waits for a gate.
    #[must_use]
    pub fn chunk_behind(mut self, gate: &Gate, bytes: impl Into<Vec<u8>>) -> Response {
        self.chunks.push(Chunk { gate: Some(gate.clone()), ..Chunk::new(bytes) });
        self
    }

    /// Makes `text` the whole body, with its length told.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Response {
        self.chunk(text.into()).framing(Framing::Length)
    }

    /// Sets how the end of the body is told.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Response {
        self.framing = framing;
        self
    }

    /// Sets what follows on the last chunk.
    #[must_use]
    pub fn end(mut self, end: End) -> Response {
        self.end = end;
        self
    }

    /// Returns the pieces of the body as they are written.
    pub(crate) fn pieces(&self) -> Vec<Chunk> {
        let Some(size) = self.split_every.filter(|it| *it > 0) else { return self.chunks.clone() };
        let whole: Vec<u8> = self.chunks.iter().flat_map(|it| it.bytes.iter().copied()).collect();
        whole.chunks(size).map(Chunk::new).collect()
    }
}

impl Chunk {
    /// Makes a chunk that waits for nothing.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Chunk {
        Chunk { bytes: bytes.into(), ..Chunk::default() }
    }
}

impl Gate {
    /// Makes a closed gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Opens it.
    pub fn open(&self) {
        self.opened.abort();
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("open", &self.opened.signal().is_aborted()).finish()
    }
}
