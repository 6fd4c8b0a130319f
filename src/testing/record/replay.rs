//! Plays a recording.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Failure, Result},
    secret::scrub_json,
    stream::{AssistantStream, Playback, StreamEvent, StreamFn, StreamRequest},
    testing::record::{VERSION, asked},
};

/// A stream function that gives the events of a recording again, without a network.
///
/// Requests take the exchanges in the order of the recording; of requests that are made at the same time each takes the one
/// that is its own. What they are compared by is what the model says depends on: the model's provider, id and API; the
/// messages, but for their times; levels of thinking, temperature, caps, tool choice and options of the API. A request that
/// was not recorded is an error event that says where it differs. Hooks are not called. Clones play on from the same place.
#[derive(Clone)]
pub struct Replay {
    path: PathBuf,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

#[derive(Default)]
struct Exchange {
    request: Value,
    events: Vec<StreamEvent>,
    refused: Option<Refused>,
    is_used: bool,
}

/// A line of a recording.
#[derive(Deserialize)]
struct Line {
    recording: Option<u64>,
    exchange: Option<usize>,
    request: Option<Value>,
    event: Option<StreamEvent>,
    refused: Option<Refused>,
}

#[derive(Deserialize)]
struct Refused {
    message: String,
    failure: Failure,
}

impl Replay {
    /// Reads a recording that a [`Recorder`](super::Recorder) made. An error says which line is none of a recording.
    pub fn open(path: impl AsRef<Path>) -> Result<Replay> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| {
            let message = format!("the recording {} cannot be read: {error}", path.display());
            Error::new(ErrorKind::Configuration, message).with_source(error)
        })?;
        // The last line of a process that was ended may be half a line.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut exchanges: Vec<Exchange> = Vec::new();
        for (index, text) in whole.lines().enumerate() {
            let fault = |why: String| {
                let place = format!("line {} of the recording {}", index + 1, path.display());
                Error::new(ErrorKind::Configuration, format!("{place} cannot be read: {why}"))
            };
            let line: Line =
                serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
            match (index, line.recording, line.exchange) {
                (0, Some(VERSION), _) => (),
                (0, Some(other), _) => {
                    return Err(fault(format!("the version {other} is not known")));
                }
                (0, None, _) => return Err(fault("it is no recording".to_owned())),
                (_, _, Some(number)) if number <= exchanges.len() + MOST_AT_ONCE => {
                    if exchanges.len() <= number {
                        exchanges.resize_with(number + 1, Exchange::default);
                    }
                    exchanges[number].add(line);
                }
                _ => return Err(fault("it belongs to no exchange".to_owned())),
            }
        }
        if whole.is_empty() {
            let message = format!("the recording {} is empty", path.display());
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        Ok(Replay { path: path.to_owned(), exchanges: Arc::new(Mutex::new(exchanges)) })
    }

    /// How many exchanges were not asked for so far.
    pub fn unused(&self) -> usize {
        self.exchanges.lock().iter().filter(|it| !it.is_used).count()
    }

    /// Takes the exchange of a request.
    fn take(&self, asked: &Value) -> Result<Exchange> {
        let mut exchanges = self.exchanges.lock();
        let path = self.path.display();
        let mut first = None;
        for (number, exchange) in exchanges.iter_mut().enumerate().filter(|(_, it)| !it.is_used) {
            match asked::difference(&exchange.request, asked) {
                None => {
                    let used = Exchange { is_used: true, ..Exchange::default() };
                    return Ok(std::mem::replace(exchange, used));
                }
                Some(difference) => _ = first.get_or_insert((number, difference)),
            }
        }
        let message = match first {
            Some((number, difference)) => {
                let number = number + 1;
                format!(
                    "the request is not the one that comes next in the recording {path} (number {number}): {difference}"
                )
            }
            None => {
                let count = exchanges.len();
                format!("the recording {path} has no request left: all {count} were asked for")
            }
        };
        Err(Error::new(ErrorKind::InvalidRequest, message))
    }
}

/// So many exchanges may have begun before the first line of one is written.
const MOST_AT_ONCE: usize = 4096;

impl Exchange {
    fn add(&mut self, line: Line) {
        if let Some(request) = line.request {
            self.request = request;
        }
        self.events.extend(line.event);
        if line.refused.is_some() {
            self.refused = line.refused;
        }
    }
}

impl StreamFn for Replay {
    /// Gives the events that were recorded for the request, as fast as they are read.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>> {
        let mut asked = asked::to_json(&request)?;
        scrub_json(&mut asked, &asked::secrets(&request));
        let events = match self.take(&asked) {
            Ok(Exchange { refused: Some(Refused { message, failure }), .. }) => {
                return Err(Error::from_failure(failure, message));
            }
            Ok(Exchange { mut events, .. }) => {
                if !events.last().is_some_and(StreamEvent::is_terminal) {
                    // Whoever asked did not read on.
                    let message = "the recording of this answer ends here: it was not read on";
                    events.push(StreamEvent::failed(&Error::new(ErrorKind::Protocol, message)));
                }
                events
            }
            Err(error) => vec![StreamEvent::failed(&error)],
        };
        Ok(Box::new(Playback::of_events(events.into_iter(), None, signal)))
    }
}

impl From<Replay> for Arc<dyn StreamFn> {
    fn from(replay: Replay) -> Arc<dyn StreamFn> {
        Arc::new(replay)
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("path", &self.path)
            .field("unused", &self.unused())
            .finish_non_exhaustive()
    }
}
