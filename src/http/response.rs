//! An answer: status and headers at once, the body as it arrives.

use std::{
    borrow::Cow,
    fmt, io,
    sync::Arc,
    time::{Duration, Instant},
};

use ureq::BodyReader;

use crate::{
    error::{Error, ErrorKind, Result},
    http::{
        failure::Place,
        retry::Refusal,
        ticket::{Phase, Ticket},
    },
    secret::{Secret, scrub},
};

/// How long and how far [`HttpResponse::finish`] reads on for the sake of the connection.
const FINISH_TIME: Duration = Duration::from_millis(200);
const FINISH_BYTES: u64 = 64 << 10;

/// How long the body of a failed request may take: it is short and nobody waits for it gladly.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// An answer whose head has arrived.
///
/// The body is read piece by piece, from any thread. A body that was read to its end leaves the connection to the next
/// request; dropping the answer earlier closes the connection, which cancels the request.
pub struct HttpResponse {
    status: u16,
    headers: Vec<(String, String)>,
    body: Incoming,
    context: Context,
    pub(crate) refusal: Option<Refusal>,
}

/// What an answer keeps of its request.
pub(crate) struct Context {
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) host: String,
    pub(crate) idle: Option<Duration>,
    pub(crate) max_bytes: u64,
    pub(crate) max_error_bytes: u64,
    pub(crate) secrets: Arc<[Secret]>,
}

struct Incoming {
    reader: BodyReader<'static>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    read: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    /// The text below says an end where there was none, once it was asked again after a failure.
    Failed,
}

impl HttpResponse {
    pub(crate) fn new(
        status: u16,
        headers: Vec<(String, String)>,
        reader: BodyReader<'static>,
        context: Context,
    ) -> HttpResponse {
        let body =
            Incoming { reader, buffer: Vec::new(), start: 0, end: 0, read: 0, state: State::Open };
        HttpResponse { status, headers, body, context, refusal: None }
    }

    /// Returns the status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Tells whether the status is one of success, 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the headers in order, their names in lower case.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Returns the first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Returns why the server's wish to be asked later was not followed: it was longer than the policy allows.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Returns the host that was asked, for texts.
    pub fn host(&self) -> &str {
        &self.context.host
    }

    /// Takes the keys of the request out of `text`.
    pub fn scrub(&self, text: &str) -> String {
        scrub(text, &*self.context.secrets)
    }

    /// Tells whether bytes of the body are here already, so that the next read does not block.
    pub fn more_is_ready(&self) -> bool {
        self.body.start < self.body.end
    }

    /// Waits for bytes of the body and returns all that are here; nothing at the end. [`consume`](Self::consume) says
    /// how many were used.
    ///
    /// A network error that comes from a limit of time leaves the body as it is: reading may go on. A body of unknown
    /// length ends with the connection, also when the server was cut off: only what is in it tells whether it is whole.
    pub fn fill(&mut self) -> Result<&[u8]> {
        if self.context.ticket.signal.is_aborted() {
            return Err(Error::aborted());
        }
        if self.body.start == self.body.end {
            self.read_more()?;
        }
        Ok(&self.body.buffer[self.body.start..self.body.end])
    }

    /// Returns what `fill` would return without waiting for the server; `None` if that cannot be told without.
    pub(crate) fn fill_ready(&mut self) -> Result<Option<&[u8]>> {
        // A wait whose time is over does not touch the connection.
        self.set_deadline(Some(Instant::now()));
        let is_ready = match self.fill().map(drop) {
            Ok(()) => true,
            Err(_) if self.body.state == State::Open => false,
            Err(error) => return Err(error),
        };
        self.set_deadline(None);
        Ok(is_ready.then(|| &self.body.buffer[self.body.start..self.body.end]))
    }

    /// Takes `amount` of the bytes that [`fill`](Self::fill) returned.
    pub fn consume(&mut self, amount: usize) {
        self.body.start = self.body.start.saturating_add(amount).min(self.body.end);
    }

    /// Sets a time at which a blocked [`fill`](Self::fill) gives up, whatever the idle limit.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.context.ticket.set_deadline(deadline);
    }

    /// Reads the rest of the body; more than `limit` bytes are an error.
    pub fn read_to_limit(&mut self, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let piece = self.fill()?;
            if piece.is_empty() {
                return Ok(bytes);
            }
            let amount = piece.len();
            bytes.extend_from_slice(piece);
            self.consume(amount);
            if bytes.len() as u64 > limit {
                return Err(self.too_large(limit));
            }
        }
    }

    /// Reads the body of a failed request as text: as much as the client's options allow, within ten seconds. A body
    /// that breaks off is as good as one that ends; only an abort is an error.
    pub fn error_text(&mut self) -> Result<String> {
        self.keep_error_body()?;
        let text = self.scrub(&self.kept_text());
        self.body.start = self.body.end;
        Ok(text)
    }

    /// Reads on to the end so that the connection can be used again, but only as long as that is cheaper than a new
    /// one: 200 ms and 64 KiB.
    pub fn finish(mut self) {
        self.set_deadline(Some(Instant::now() + FINISH_TIME));
        let most = self.body.read + FINISH_BYTES;
        while self.body.read < most {
            match self.fill() {
                Ok([]) | Err(_) => return,
                Ok(piece) => {
                    let amount = piece.len();
                    self.consume(amount);
                }
            }
        }
    }

    /// Reads the body of a failed request into memory, which frees the connection. What is already there stays.
    pub(crate) fn keep_error_body(&mut self) -> Result<()> {
        if self.body.state != State::Open {
            return Ok(());
        }
        self.set_deadline(Some(Instant::now() + ERROR_TIME));
        let limit = self.context.max_error_bytes;
        let mut kept = Vec::new();
        while (kept.len() as u64) < limit {
            match self.fill() {
                Err(error) if error.kind() == ErrorKind::Aborted => return Err(error),
                Ok([]) | Err(_) => break,
                Ok(piece) => {
                    let amount = piece.len();
                    kept.extend_from_slice(piece);
                    self.consume(amount);
                }
            }
        }
        kept.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        self.body.start = 0;
        self.body.end = kept.len();
        self.body.buffer = kept;
        self.body.state = State::Ended;
        Ok(())
    }

    /// Returns the bytes that are in memory as text.
    pub(crate) fn kept_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body.buffer[self.body.start..self.body.end])
    }

    fn read_more(&mut self) -> Result<()> {
        const BUFFER: usize = 8 << 10;
        const LARGEST_BUFFER: usize = 64 << 10;
        match self.body.state {
            State::Open => {}
            State::Ended => return Ok(()),
            State::Failed => {
                let text = format!("the answer of {} has broken off already", self.context.host);
                return Err(Error::new(ErrorKind::Network, text));
            }
        }
        let size = self.body.buffer.len();
        if size == 0 {
            self.body.buffer = vec![0; BUFFER];
        } else if self.body.end == size && size < LARGEST_BUFFER {
            // It was filled to the brim: a burst.
            self.body.buffer = vec![0; size * 2];
        }
        let result = io::Read::read(&mut self.body.reader, &mut self.body.buffer);
        // An abort may look like an end.
        if self.context.ticket.signal.is_aborted() {
            self.body.state = State::Failed;
            return Err(Error::aborted());
        }
        match result {
            Ok(0) => self.body.state = State::Ended,
            Ok(amount) => {
                (self.body.start, self.body.end) = (0, amount);
                self.body.read += amount as u64;
                if self.body.read > self.context.max_bytes {
                    self.body.state = State::Failed;
                    return Err(self.too_large(self.context.max_bytes));
                }
            }
            Err(error) => return Err(self.broken(error)),
        }
        Ok(())
    }

    fn broken(&mut self, error: io::Error) -> Error {
        let error = ureq::Error::from(error);
        if !matches!(error, ureq::Error::Timeout(_)) {
            self.body.state = State::Failed;
        }
        let Context { host, idle, ticket, .. } = &self.context;
        // The number would be wrong if it was not the idle limit that was reached.
        let idle = idle.filter(|_| !ticket.has_deadline());
        let phase = Phase::Body;
        let place = Place { host, proxy: None, phase, connect: None, first_byte: None, idle };
        let error = place.error(&error);
        Error::from_failure(error.failure().clone(), self.scrub(error.message()))
    }

    fn too_large(&self, limit: u64) -> Error {
        let text = format!("the answer of {} is larger than {limit} bytes", self.context.host);
        Error::new(ErrorKind::Limit, text)
    }
}

impl io::Read for HttpResponse {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill().map_err(io::Error::other)?;
        let amount = piece.len().min(buffer.len());
        buffer[..amount].copy_from_slice(&piece[..amount]);
        self.consume(amount);
        Ok(amount)
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("host", &self.context.host)
            .finish_non_exhaustive()
    }
}

/// Returns the first header of this name.
pub(crate) fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}
