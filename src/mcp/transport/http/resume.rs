//! Streams of messages, and how one that broke is taken up again where it stood.

use std::time::{Duration, Instant};

use super::{EVENTS, Shared, failure};
use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    http::{HttpResponse, Method},
    sse::{SseDecoder, SseOptions},
};

/// A stream that is being read, and where it stands.
pub(super) struct Reading {
    response: Option<HttpResponse>,
    pub(super) last_id: Option<String>,
    pub(super) retry: Option<Duration>,
    /// Whether something came since it was opened last.
    pub(super) is_alive: bool,
}

/// How a stream ended.
pub(super) enum End {
    /// The answer that was waited for has come.
    Answered,
    /// The server closed it.
    Closed,
    /// It broke.
    Broken(Error),
}

impl Reading {
    pub(super) fn new(response: HttpResponse) -> Reading {
        Reading { response: Some(response), last_id: None, retry: None, is_alive: false }
    }

    /// A stream that is yet to be opened.
    pub(super) fn later() -> Reading {
        Reading { response: None, last_id: None, retry: None, is_alive: false }
    }

    /// Puts a new stream in place of the one that ended.
    pub(super) fn reopen(&mut self, response: HttpResponse) {
        self.response = Some(response);
        self.is_alive = false;
    }
}

impl Shared {
    /// Reads until the answer to `id` is here; a stream that broke before is taken up again, if the server has said where.
    pub(super) fn read_to_answer(
        &self,
        mut reading: Reading,
        id: u64,
        signal: &AbortSignal,
    ) -> Result<()> {
        let mut tries = 0;
        let mut end = self.read(&mut reading, Some(id), None);
        loop {
            let why = match end {
                End::Answered => return Ok(()),
                End::Closed => Error::new(
                    ErrorKind::Network,
                    "the MCP server closed the stream without the answer to the request",
                ),
                End::Broken(error) => error,
            };
            if signal.is_aborted() {
                return Err(Error::aborted());
            }
            if reading.is_alive {
                tries = 0;
            }
            if reading.last_id.is_none()
                || why.kind() != ErrorKind::Network && !failure::may_pass(&why)
                || tries >= self.options.reconnect.most_tries
            {
                return Err(why);
            }
            let pause = self.options.reconnect.pause(reading.retry, tries);
            tries += 1;
            if signal.wait_timeout(pause) {
                return Err(Error::aborted());
            }
            end = match self.get(reading.last_id.as_deref(), signal) {
                Ok(response) => {
                    reading.reopen(response);
                    self.read(&mut reading, Some(id), None)
                }
                Err(error) => {
                    reading.is_alive = false;
                    if failure::may_pass(&error) { End::Broken(error) } else { return Err(error) }
                }
            };
        }
    }

    /// Asks for a stream, from where another one ended.
    pub(super) fn get(&self, last_id: Option<&str>, signal: &AbortSignal) -> Result<HttpResponse> {
        let response = self.authorized(signal, |token| {
            let request = self.request(Method::Get, token, true).header("accept", EVENTS);
            match last_id {
                Some(id) => request.header("last-event-id", id),
                None => request,
            }
        })?;
        let kind = response.header("content-type").unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with(EVENTS) {
            return Ok(response);
        }
        let text = format!("the MCP server at {} opened no stream of events", response.host());
        Err(Error::new(ErrorKind::Protocol, text))
    }

    /// Reads a stream to its end, or to the answer to `id`, and delivers what is in it. `quiet` is how long nothing may
    /// come.
    pub(super) fn read(
        &self,
        reading: &mut Reading,
        id: Option<u64>,
        quiet: Option<Duration>,
    ) -> End {
        let Some(mut response) = reading.response.take() else { return End::Closed };
        let options =
            SseOptions { max_bytes: self.options.max_message_bytes, ..SseOptions::default() };
        let mut decoder = SseDecoder::new(options);
        loop {
            response.set_deadline(quiet.map(|quiet| Instant::now() + quiet));
            let amount = match response.fill() {
                Ok([]) => {
                    decoder.finish();
                    0
                }
                Ok(bytes) => {
                    decoder.push(bytes);
                    bytes.len()
                }
                Err(error) => return End::Broken(error),
            };
            response.consume(amount);
            let result = self.take_frames(&mut decoder, reading, id);
            match result {
                Ok(true) => {
                    // The server should close it now; then the connection serves the next request.
                    response.finish();
                    return End::Answered;
                }
                Ok(false) if amount == 0 => return End::Closed,
                Ok(false) => (),
                Err(error) => return End::Broken(error),
            }
        }
    }

    /// Delivers the frames that are whole; tells whether the answer to `id` was among them.
    fn take_frames(
        &self,
        decoder: &mut SseDecoder,
        reading: &mut Reading,
        id: Option<u64>,
    ) -> Result<bool> {
        let mut is_answered = false;
        while let Some(frame) = decoder.next_frame() {
            let frame = frame?;
            if matches!(frame.event, None | Some("message")) {
                is_answered |= self.deliver(frame.data.as_bytes(), id);
            }
            reading.is_alive = true;
        }
        if let Some(last) = decoder.last_event_id()
            && reading.last_id.as_deref() != Some(last)
        {
            reading.last_id = Some(last.to_owned());
            reading.is_alive = true;
        }
        reading.retry = decoder.retry().or(reading.retry);
        Ok(is_answered)
    }
}
