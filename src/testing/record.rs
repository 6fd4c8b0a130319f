//! Records what a model really said to a file, and plays it again without a network: for tests, and for bug reports.
//!
//! [`Recorder`] stands in front of any stream function and writes down each exchange as it happens; [`Replay`] gives the
//! same events again, in the order of the requests, and says where a request is not the recorded one.
//!
//! # The file
//!
//! JSON, one object a line, written as it happens. The first line is `{"recording":1}`, the version of this format. Each
//! further line has `exchange`, the number of the request from 0 on, and one of
//!
//! | field | what |
//! |---|---|
//! | `request` | what was asked: `model`, `messages`, `options` |
//! | `sent` | `method`, `url`, `headers` of the HTTP request |
//! | `payload` | its body |
//! | `received` | `status`, `headers` of the answer |
//! | `frame` | an event of the vendor |
//! | `event` | an event of the stream, as [`StreamEvent`] is written in JSON |
//! | `refused` | the error of a stream function that made no stream: `message`, `failure` |
//!
//! `sent`, `payload`, `received` and `frame` are there for people: a replay needs the request and the events alone.
//!
//! # Secrets
//!
//! Keys are taken out everywhere, `***` stands in their place: the key of the request and the one that a provider found for
//! it, what is in headers, variables and queries under a name that sounds like a key, and what [`Recorder::with_secrets`]
//! names. Of a key that comes in small pieces the first quarter may stay. All else that is said stays as it is: look at it
//! before you send a recording to someone.

use std::{
    fmt,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    secret::{REMOVED, Secret, scrub_json, sounds_secret},
    stream::{
        AssistantStream, RequestHooks, RequestMeta, ResponseMeta, StreamEvent, StreamFn,
        StreamRequest,
    },
    testing::record::pieces::Pieces,
};

mod asked;
mod pieces;
mod replay;

pub use crate::testing::record::replay::Replay;

/// The version of the format.
const VERSION: u64 = 1;

/// A stream function that asks another one and writes down what is said. Clones write to the same file.
///
/// # Examples
///
/// ```
/// use steerage::{Agent, AgentOptions, testing::{Recorder, Replay, Scripted}};
///
/// let file = std::env::temp_dir().join(format!("recorded-{}.jsonl", std::process::id()));
/// let model = Scripted::new(["Hello!"]); // Models::from_env() as a rule
/// let recorder = Recorder::create(&file, model.clone())?;
/// let ask = |stream| {
///     let options = AgentOptions { stream: Some(stream), ..AgentOptions::default() };
///     Agent::new(model.model(), options)?.prompt("Hi")?.wait()
/// };
/// ask(recorder.into())?;
/// // Later, without a network:
/// assert_eq!(ask(Replay::open(&file)?.into())?.text, "Hello!");
/// # std::fs::remove_file(file).ok();
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone)]
pub struct Recorder {
    stream: Arc<dyn StreamFn>,
    log: Arc<Log>,
    secrets: Vec<Secret>,
}

struct Log {
    path: PathBuf,
    file: Mutex<File>,
    exchanges: AtomicUsize,
}

impl Recorder {
    /// Records what `stream` says to a new file at `path`; one that is there already is overwritten.
    pub fn create(
        path: impl AsRef<Path>,
        stream: impl Into<Arc<dyn StreamFn>>,
    ) -> Result<Recorder> {
        let path = path.as_ref().to_owned();
        let file = File::create(&path).map_err(|error| not_written(&path, error))?;
        let log = Log { path, file: Mutex::new(file), exchanges: AtomicUsize::new(0) };
        log.write(&json!({"recording": VERSION}))?;
        Ok(Recorder { stream: stream.into(), log: Arc::new(log), secrets: Vec::new() })
    }

    /// Takes these out too, wherever they stand.
    #[must_use]
    pub fn with_secrets(mut self, secrets: impl IntoIterator<Item = Secret>) -> Recorder {
        self.secrets.extend(secrets);
        self
    }
}

impl StreamFn for Recorder {
    /// Asks the other stream function. A line that cannot be written ends the stream with an error.
    fn stream(
        &self,
        mut request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>> {
        let number = self.log.exchanges.fetch_add(1, Ordering::Relaxed);
        let mut secrets = self.secrets.clone();
        secrets.extend(asked::secrets(&request));
        let asked = asked::to_json(&request)?;
        let state = State { asked: Some(asked), secrets, pieces: Pieces::default() };
        let exchange = Arc::new(Exchange { log: self.log.clone(), number, state: state.into() });
        exchange.hook_into(&mut request.options.hooks);
        match self.stream.stream(request, signal) {
            Ok(stream) => Ok(Box::new(Recorded { stream, exchange, is_over: false })),
            Err(error) => {
                let refused = json!({"message": error.message(), "failure": error.failure()});
                exchange.write("refused", refused)?;
                Err(error)
            }
        }
    }
}

/// One request and what is said to it.
struct Exchange {
    log: Arc<Log>,
    number: usize,
    state: Mutex<State>,
}

struct State {
    /// The request, until it is written. It waits for the first other line: by then all keys are known.
    asked: Option<Value>,
    secrets: Vec<Secret>,
    /// What came so far of texts that come in pieces.
    pieces: Pieces,
}

impl Exchange {
    /// Writes a line, and the request before it.
    fn write(&self, field: &str, value: Value) -> Result<()> {
        self.write_asked()?;
        self.write_line(field, value)
    }

    /// Writes the request, if that has not been done.
    fn write_asked(&self) -> Result<()> {
        let asked = self.state.lock().asked.take();
        asked.map_or(Ok(()), |asked| self.write_line("request", asked))
    }

    fn write_line(&self, field: &str, mut value: Value) -> Result<()> {
        {
            let State { secrets, pieces, .. } = &mut *self.state.lock();
            scrub_json(&mut value, secrets);
            if matches!(field, "frame" | "event") {
                pieces.scrub(field, &mut value, secrets);
            }
        }
        self.log.write(&json!({"exchange": self.number, field: value}))
    }

    /// Has the hooks of the host record what they see, each in its turn.
    fn hook_into(self: &Arc<Exchange>, hooks: &mut RequestHooks) {
        let RequestHooks { on_request, on_payload, on_response, on_provider_stream_event } =
            hooks.clone();
        let this = self.clone();
        hooks.on_request = Some(Arc::new(move |meta, model| {
            this.sent(meta)?;
            on_request.as_ref().map_or(Ok(()), |hook| hook(meta, model))
        }));
        let this = self.clone();
        hooks.on_payload = Some(Arc::new(move |payload, model| {
            let changed = on_payload.as_ref().map_or(Ok(None), |hook| hook(payload, model))?;
            this.write("payload", changed.as_ref().unwrap_or(payload).clone())?;
            Ok(changed)
        }));
        let this = self.clone();
        hooks.on_response = Some(Arc::new(move |meta, model| {
            this.received(meta)?;
            on_response.as_ref().map_or(Ok(()), |hook| hook(meta, model))
        }));
        let this = self.clone();
        hooks.on_provider_stream_event = Some(Arc::new(move |frame, model| {
            this.write("frame", frame.clone())?;
            on_provider_stream_event.as_ref().map_or(Ok(()), |hook| hook(frame, model))
        }));
    }

    fn sent(&self, meta: &RequestMeta) -> Result<()> {
        self.state.lock().secrets.extend_from_slice(meta.secrets());
        let headers = headers(&meta.headers);
        self.write("sent", json!({"method": meta.method, "url": meta.url, "headers": headers}))
    }

    fn received(&self, meta: &ResponseMeta) -> Result<()> {
        let headers = headers(&meta.headers);
        self.write("received", json!({"status": meta.status, "headers": headers}))
    }
}

/// Headers as fields; several of one name are joined.
fn headers(list: &[(String, String)]) -> Map<String, Value> {
    let mut fields: Map<String, Value> = Map::new();
    for (name, value) in list {
        let value = if sounds_secret(name) { REMOVED } else { value };
        match fields.get_mut(name) {
            Some(Value::String(text)) => *text = format!("{text}, {value}"),
            _ => _ = fields.insert(name.clone(), value.into()),
        }
    }
    fields
}

impl Log {
    fn write(&self, line: &Value) -> Result<()> {
        let mut file = self.file.lock();
        // In one piece: what a process that ends leaves is whole lines.
        file.write_all(format!("{line}\n").as_bytes())
            .map_err(|error| not_written(&self.path, error))
    }
}

fn not_written(path: &Path, error: std::io::Error) -> Error {
    let message = format!("the recording {} cannot be written: {error}", path.display());
    Error::new(ErrorKind::Configuration, message).with_source(error)
}

/// A stream whose events are written down.
struct Recorded {
    stream: Box<dyn AssistantStream>,
    exchange: Arc<Exchange>,
    is_over: bool,
}

impl Iterator for Recorded {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        if self.is_over {
            return None;
        }
        let event = self.stream.next()?;
        self.is_over = event.is_terminal();
        match self.exchange.write("event", json!(event)) {
            Ok(()) => Some(event),
            Err(error) => {
                self.is_over = true;
                Some(StreamEvent::failed(&error))
            }
        }
    }
}

impl AssistantStream for Recorded {
    fn more_is_ready(&self) -> bool {
        !self.is_over && self.stream.more_is_ready()
    }

    fn may_read_ahead(&self) -> bool {
        self.stream.may_read_ahead()
    }
}

impl Drop for Recorded {
    /// Notes the request of a stream that was never read.
    fn drop(&mut self) {
        if let Err(error) = self.exchange.write_asked() {
            tracing::warn!(%error, "a request was not recorded");
        }
    }
}

impl From<Recorder> for Arc<dyn StreamFn> {
    fn from(recorder: Recorder) -> Arc<dyn StreamFn> {
        Arc::new(recorder)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("path", &self.log.path).finish_non_exhaustive()
    }
}
