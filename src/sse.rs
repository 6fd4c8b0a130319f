//! Server-sent events: bytes in, frames out.

use std::{fmt, mem, ops::Range, str, time::Duration};

use memchr::memchr2;

use crate::error::{Error, ErrorKind, Result};

/// How much of the lines that are no event stream is kept, see [`SseDecoder::foreign_text`].
const FOREIGN_LIMIT: usize = 16 << 10;

/// Settings of an [`SseDecoder`].
#[derive(Debug, Clone)]
pub struct SseOptions {
    /// The longest line, and the longest data of one frame, in bytes. 16 MiB by default.
    pub max_bytes: usize,
    /// What several `data` lines of one frame are. [`DataLines::Joined`] by default.
    pub data_lines: DataLines,
}

/// What several `data` lines of one frame are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DataLines {
    /// One text with line feeds between them, as the standard has it.
    #[default]
    Joined,
    /// A frame each, at once when the line ends. Gemini's own clients read it this way.
    Separate,
}

/// One event of the stream. It borrows from the decoder until the next one is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseFrame<'a> {
    /// The name of the event; none is what the standard calls `message`.
    pub event: Option<&'a str>,
    /// The data, never blank.
    pub data: &'a str,
}

/// Takes the bytes of an event stream apart, however they were cut on their way.
///
/// Lines end with LF, CRLF or CR in any mix. Comments and unknown fields are skipped; so are frames without data or with
/// blank data, which some servers send to keep a connection open. Bytes that are no UTF-8 become U+FFFD in their
/// line and harm nothing else. Nothing is allocated for a frame once the buffers have grown to the size of the longest one.
///
/// Two clocks of a reader hang on it: everything that comes, comments included, is activity of the connection
/// ([`bytes_seen`](SseDecoder::bytes_seen)); frames are activity of the model.
///
/// # Examples
///
/// ```
/// use steerage::sse::{SseDecoder, SseOptions};
///
/// let mut decoder = SseDecoder::new(SseOptions::default());
/// let mut texts = Vec::new();
/// for chunk in ["event: greeting\r\nda", "ta: hello\r", "\n\r\n: still here\n\ndata: bye"] {
///     decoder.push(chunk.as_bytes());
///     while let Some(frame) = decoder.next_frame() {
///         texts.push(frame?.data.to_owned());
///     }
/// }
/// assert_eq!(texts, ["hello"]);
/// decoder.finish();
/// assert_eq!(decoder.next_frame().transpose()?.map(|frame| frame.data), Some("bye"));
/// # Ok::<(), steerage::Error>(())
/// ```
pub struct SseDecoder {
    options: SseOptions,
    lines: Lines,
    frame: Frame,
    id: EventId,
    retry: Option<Duration>,
    foreign: String,
    has_failed: bool,
}

/// The bytes that have not been read yet, cut into lines.
struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to here there is no line end.
    scanned: usize,
    /// The last line ended with CR: an LF right after it belongs to it.
    after_cr: bool,
    is_first: bool,
    is_ended: bool,
    bytes_seen: u64,
}

/// The frame that is being put together.
#[derive(Default)]
struct Frame {
    event: String,
    data: String,
    has_data: bool,
    /// Whether the data is more than white space.
    is_complete: bool,
    is_returned: bool,
}

/// The id of the last complete frame, and that of the frame that is being put together.
#[derive(Default)]
struct EventId {
    last: String,
    next: String,
    is_new: bool,
}

enum Field {
    Event,
    Data,
    Id,
    Retry,
    /// A comment or a field without a meaning here.
    Ignored,
    /// No part of an event stream.
    Foreign,
}

impl SseDecoder {
    /// Makes a decoder that stands at the beginning of a stream.
    pub fn new(options: SseOptions) -> SseDecoder {
        SseDecoder {
            options,
            lines: Lines::new(),
            frame: Frame::default(),
            id: EventId::default(),
            retry: None,
            foreign: String::new(),
            has_failed: false,
        }
    }

    /// Takes the next bytes of the stream. Ask for frames until there is none before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.lines.push(bytes);
    }

    /// Says that the stream has come to its end, so that a last frame without its blank line counts as complete.
    ///
    /// Do not call it for a stream that broke off: what was cut must not look whole.
    pub fn finish(&mut self) {
        self.lines.is_ended = true;
    }

    /// Returns the next frame, or none until more bytes come.
    ///
    /// A line or a frame beyond [`SseOptions::max_bytes`] is an error of the kind [`Limit`](ErrorKind::Limit), and the last
    /// that is returned.
    pub fn next_frame(&mut self) -> Option<Result<SseFrame<'_>>> {
        if self.has_failed {
            return None;
        }
        match self.advance() {
            Ok(true) => {
                self.frame.is_returned = true;
                Some(Ok(self.frame.view()))
            }
            Ok(false) => None,
            Err(error) => {
                self.has_failed = true;
                Some(Err(error))
            }
        }
    }

    /// How many bytes were pushed so far.
    pub fn bytes_seen(&self) -> u64 {
        self.lines.bytes_seen
    }

    /// The id of the last complete frame that had one, skipped frames included: where to go on after a broken connection.
    pub fn last_event_id(&self) -> Option<&str> {
        (!self.id.last.is_empty()).then_some(&self.id.last)
    }

    /// How long the server asks to wait before going on after a broken connection.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The beginning (16 KiB) of the lines that belong to no event stream.
    ///
    /// Not empty when a server answers with something else, for example with an error as plain JSON, first thing or in the
    /// middle of the stream.
    pub fn foreign_text(&self) -> &str {
        &self.foreign
    }

    /// Reads lines until a frame is complete; tells whether one is.
    fn advance(&mut self) -> Result<bool> {
        self.frame.begin(self.options.data_lines);
        while let Some(line) = self.lines.next_line() {
            let line = &self.lines.bytes[line];
            self.check(line.len(), "line")?;
            if line.is_empty() {
                self.id.settle();
                if self.frame.is_complete {
                    return Ok(true);
                }
                self.frame.clear();
                continue;
            }
            let (field, value) = split_field(line);
            match field {
                Field::Event => self.frame.set_event(value),
                Field::Data => {
                    self.frame.add_data(value);
                    self.check(self.frame.data.len(), "frame")?;
                    if self.options.data_lines == DataLines::Separate {
                        if self.frame.is_complete {
                            return Ok(true);
                        }
                        self.frame.clear_data();
                    }
                }
                Field::Id => self.id.read(value),
                Field::Retry => self.retry = milliseconds(value).or(self.retry),
                Field::Ignored => {}
                Field::Foreign => keep_foreign(&mut self.foreign, line),
            }
        }
        self.check(self.lines.unfinished(), "line")?;
        let is_last = self.lines.is_ended && self.frame.is_complete;
        if is_last {
            self.id.settle();
        }
        Ok(is_last)
    }

    fn check(&self, length: usize, what: &str) -> Result<()> {
        let limit = self.options.max_bytes;
        if length <= limit {
            return Ok(());
        }
        let message = format!(
            "a {what} of the event stream is longer than {limit} bytes: raise max_bytes if the server is right"
        );
        Err(Error::new(ErrorKind::Limit, message))
    }
}

impl Lines {
    fn new() -> Lines {
        Lines {
            bytes: Vec::new(),
            start: 0,
            scanned: 0,
            after_cr: false,
            is_first: true,
            is_ended: false,
            bytes_seen: 0,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes_seen += bytes.len() as u64;
        // Moving what is left is worth it when it is less than what was read: so each byte is moved once on average.
        if self.start >= self.bytes.len() - self.start {
            self.bytes.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next complete line, without its end.
    fn next_line(&mut self) -> Option<Range<usize>> {
        if self.after_cr && self.scanned < self.bytes.len() {
            self.after_cr = false;
            if self.bytes[self.scanned] == b'\n' {
                self.scanned += 1;
                self.start = self.scanned;
            }
        }
        let line = match memchr2(b'\n', b'\r', &self.bytes[self.scanned..]) {
            Some(length) => {
                let end = self.scanned + length;
                self.after_cr = self.bytes[end] == b'\r';
                self.scanned = end + 1;
                self.start..end
            }
            None => {
                self.scanned = self.bytes.len();
                if !self.is_ended || self.start == self.scanned {
                    return None;
                }
                self.start..self.scanned
            }
        };
        self.start = self.scanned;
        Some(self.without_mark(line))
    }

    /// Leaves out the byte order mark, which only the first line may have.
    fn without_mark(&mut self, line: Range<usize>) -> Range<usize> {
        let is_marked = self.is_first && self.bytes[line.clone()].starts_with(b"\xef\xbb\xbf");
        self.is_first = false;
        if is_marked { line.start + 3..line.end } else { line }
    }

    fn unfinished(&self) -> usize {
        self.bytes.len() - self.start
    }
}

impl Frame {
    /// Makes room for the next frame, if the last one was returned.
    fn begin(&mut self, data_lines: DataLines) {
        if mem::take(&mut self.is_returned) {
            match data_lines {
                DataLines::Joined => self.clear(),
                DataLines::Separate => self.clear_data(),
            }
        }
    }

    fn clear(&mut self) {
        self.event.clear();
        self.clear_data();
    }

    fn clear_data(&mut self) {
        self.data.clear();
        self.has_data = false;
        self.is_complete = false;
    }

    fn set_event(&mut self, name: &[u8]) {
        self.event.clear();
        push_lossy(&mut self.event, name);
    }

    fn add_data(&mut self, value: &[u8]) {
        if mem::replace(&mut self.has_data, true) {
            self.data.push('\n');
        }
        self.is_complete |= !value.trim_ascii().is_empty();
        push_lossy(&mut self.data, value);
    }

    fn view(&self) -> SseFrame<'_> {
        SseFrame { event: (!self.event.is_empty()).then_some(&self.event), data: &self.data }
    }
}

impl EventId {
    /// Takes the value of an `id` field; one with a NUL does not count.
    fn read(&mut self, value: &[u8]) {
        if !value.contains(&0) {
            self.next.clear();
            push_lossy(&mut self.next, value);
            self.is_new = true;
        }
    }

    fn settle(&mut self) {
        if mem::take(&mut self.is_new) {
            mem::swap(&mut self.last, &mut self.next);
        }
    }
}

impl Default for SseOptions {
    fn default() -> SseOptions {
        SseOptions { max_bytes: 16 << 20, data_lines: DataLines::default() }
    }
}

impl Default for SseDecoder {
    fn default() -> SseDecoder {
        SseDecoder::new(SseOptions::default())
    }
}

impl fmt::Debug for SseDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseDecoder")
            .field("options", &self.options)
            .field("bytes_seen", &self.bytes_seen())
            .field("unfinished", &self.lines.unfinished())
            .finish_non_exhaustive()
    }
}

fn split_field(line: &[u8]) -> (Field, &[u8]) {
    let (name, value) = match memchr::memchr(b':', line) {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => (line, &line[line.len()..]),
    };
    let field = match name {
        b"data" => Field::Data,
        b"event" => Field::Event,
        b"id" => Field::Id,
        b"retry" => Field::Retry,
        _ if name.iter().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_')) => {
            Field::Ignored
        }
        _ => Field::Foreign,
    };
    (field, value.strip_prefix(b" ").unwrap_or(value))
}

fn milliseconds(value: &[u8]) -> Option<Duration> {
    let digits = str::from_utf8(value).ok()?;
    let is_number = digits.bytes().all(|it| it.is_ascii_digit());
    if is_number { digits.parse().ok().map(Duration::from_millis) } else { None }
}

fn keep_foreign(foreign: &mut String, line: &[u8]) {
    if foreign.len() >= FOREIGN_LIMIT {
        return;
    }
    if !foreign.is_empty() {
        foreign.push('\n');
    }
    push_lossy(foreign, line);
    foreign.truncate(foreign.floor_char_boundary(FOREIGN_LIMIT));
}

fn push_lossy(text: &mut String, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(valid) => text.push_str(valid),
        Err(_) => text.push_str(&String::from_utf8_lossy(bytes)),
    }
}
