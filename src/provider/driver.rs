//! Runs one request: sends it, feeds the frames of its answer to a decoder, and hands out the events.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind},
    http::{self, HttpRequest, HttpResponse, Retries, RetryPolicy},
    model::Model,
    partial_json::repair::from_str_repaired,
    provider::{ProviderOptions, failure},
    secret::{REMOVED, Secret, scrub, scrub_json, without_query},
    sse::{DataLines, SseDecoder, SseOptions},
    stream::{
        AssistantStream, RequestHooks, RequestMeta, ResponseMeta, StreamEvent, StreamRequest,
    },
    thread,
};

/// Says that an answer is none of the API that was asked.
const FOREIGN: &str = "which is nothing of the API";

/// How long the end of a body may take once the response is complete.
const END_TIME: Duration = Duration::from_millis(500);

/// Events that wait to be handed out.
pub(crate) type Events = VecDeque<StreamEvent>;

/// Understands the frames of one response. It does no I/O: the same frames give the same events, however they arrived.
///
/// After an error, or after it gave a terminal event, it is asked nothing more.
pub(crate) trait FrameDecoder: Send {
    /// Takes a frame. An error ends the stream; what was pushed before it still counts.
    fn frame(&mut self, event: Option<&str>, data: &str, events: &mut Events) -> Result<(), Error>;

    /// Takes the end of the body: gives the terminal event, or an error if something is missing.
    fn end(&mut self, events: &mut Events) -> Result<(), Error>;

    /// Whether the response is complete but for the end of the body. Then silence is taken for the end before long; a
    /// connection that breaks is still an error.
    fn is_complete(&self) -> bool {
        false
    }

    /// What several `data` lines of one frame are.
    fn data_lines(&self) -> DataLines {
        DataLines::Joined
    }

    /// Asks whether a request that was refused, before anything was handed out, shall be sent once more in another form.
    /// By default it is not.
    fn resend(&mut self, error: &Error) -> Option<Call> {
        let _ = error;
        None
    }

    /// Prepares for the terminal event of a failure, which follows. By default nothing is left to say.
    fn fail(&mut self, error: &Error, events: &mut Events) {
        let _ = (error, events);
    }
}

/// A request that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Call {
    /// Where and how; its body is made of `payload`.
    pub(crate) http: HttpRequest,
    /// The body, for hooks to see and change. Null where `http` has its body already, which no hook sees.
    pub(crate) payload: Value,
    /// Puts right what a hook must not change. None for most.
    pub(crate) after_hook: Option<fn(&mut Value)>,
}

/// The stream of one request.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct ProviderStream<D> {
    state: State,
    decoder: D,
    events: Events,
    sse: SseDecoder,
    has_begun: bool,
    has_frames: bool,
    /// Whether a frame meant something.
    has_meaning: bool,
    last_frame: Instant,
    /// Whether a frame came since that was noted; the clock is not asked for each.
    has_new_frame: bool,
    /// When the wait for the end of the body began.
    complete_since: Option<Instant>,
    context: Context,
}

/// What stays the same from the request to the end of its response.
struct Context {
    model: Arc<Model>,
    /// Who answers, as errors tell it.
    told: Arc<Model>,
    hooks: RequestHooks,
    policy: RetryPolicy,
    provider: ProviderOptions,
    secrets: Vec<Secret>,
    signal: AbortSignal,
}

enum State {
    Unsent(Box<Call>),
    Reading(HttpResponse),
    /// The terminal event is in the queue or out; the response is kept if its connection is worth it.
    Ended(Option<HttpResponse>),
}

impl<D: FrameDecoder> ProviderStream<D> {
    /// Prepares the stream. Nothing is sent before the first event is asked for. What failed on the way to `call` becomes
    /// the only event.
    pub(crate) fn new(
        call: Result<Call, Error>,
        decoder: D,
        request: &StreamRequest,
        provider: &ProviderOptions,
        signal: &AbortSignal,
    ) -> ProviderStream<D> {
        let StreamRequest { model, options, .. } = request;
        let retries = RetryPolicy::default();
        let policy = RetryPolicy {
            max_retries: options.max_retries.unwrap_or(retries.max_retries),
            max_retry_delay: options
                .max_retry_delay_ms
                .map_or(retries.max_retry_delay, Duration::from_millis),
        };
        let secrets = call.as_ref().map(|call| call.http.secrets()).unwrap_or_default();
        let context = Context {
            model: model.clone(),
            told: model.clone(),
            hooks: options.hooks.clone(),
            policy,
            provider: provider.clone(),
            secrets,
            signal: signal.clone(),
        };
        let sse =
            SseOptions { max_bytes: provider.max_event_bytes, data_lines: decoder.data_lines() };
        let mut stream = ProviderStream {
            state: State::Ended(None),
            decoder,
            events: Events::new(),
            sse: SseDecoder::new(sse),
            has_begun: false,
            has_frames: false,
            has_meaning: false,
            last_frame: Instant::now(),
            has_new_frame: false,
            complete_since: None,
            context,
        };
        match call.and_then(|call| check_address(call, model)) {
            Ok(call) => stream.state = State::Unsent(Box::new(call)),
            Err(error) => stream.fail(error),
        }
        stream
    }

    /// Has errors tell of `server`, where the vendor is not asked directly.
    pub(crate) fn told_as(mut self, server: Model) -> ProviderStream<D> {
        self.context.told = Arc::new(server);
        self
    }

    /// Puts at least one event into the queue, unless the stream has ended.
    fn advance(&mut self) {
        match mem::replace(&mut self.state, State::Ended(None)) {
            State::Unsent(call) => match self.context.send(*call) {
                Ok(response) => {
                    self.last_frame = Instant::now();
                    self.read(response);
                }
                Err(error) => match self.decoder.resend(&error) {
                    Some(call) if !self.context.signal.is_aborted() => {
                        self.state = State::Unsent(Box::new(call));
                        self.advance();
                    }
                    _ => self.fail(error),
                },
            },
            State::Reading(response) => self.read(response),
            ended @ State::Ended(_) => self.state = ended,
        }
    }

    /// Says that the response has begun. It has with its first bytes, which come with its head as a rule, so that listeners
    /// are told of both together.
    fn begin(&mut self) {
        if !mem::replace(&mut self.has_begun, true) {
            self.events.push_back(StreamEvent::Start);
            // The silence counts from when the next bytes are waited for.
            self.has_new_frame = true;
        }
    }

    /// Reads until there is an event.
    fn read(&mut self, mut response: HttpResponse) {
        let outcome = loop {
            if self.context.signal.is_aborted() {
                break Err(Error::aborted());
            }
            match self.decode() {
                Ok(()) if self.has_ended() => {
                    self.state = State::Ended(Some(response));
                    return;
                }
                Ok(()) if self.events.is_empty() => {}
                outcome => break outcome,
            }
            if let Err(error) = self.receive(&mut response) {
                break Err(error);
            }
        };
        match outcome {
            Ok(()) => self.state = State::Reading(response),
            Err(error) => self.fail(named(error, &response, &self.context.told)),
        }
    }

    /// Decodes frames that have arrived whole until there is an event.
    fn decode(&mut self) -> Result<(), Error> {
        while self.events.is_empty() {
            let Some(frame) = self.sse.next_frame() else { break };
            let frame = frame?;
            self.has_frames = true;
            self.has_new_frame = true;
            self.context.show_frame(frame.data)?;
            self.decoder.frame(frame.event, frame.data, &mut self.events)?;
        }
        self.has_meaning |= self.has_frames && !self.events.is_empty();
        Ok(())
    }

    /// Waits for bytes and takes them, or takes the end.
    fn receive(&mut self, response: &mut HttpResponse) -> Result<(), Error> {
        if mem::take(&mut self.has_new_frame) {
            self.last_frame = Instant::now();
        }
        let is_complete = self.decoder.is_complete();
        let (since, limit) = if is_complete {
            (*self.complete_since.get_or_insert_with(Instant::now), Some(END_TIME))
        } else {
            (self.last_frame, self.context.provider.event_timeout)
        };
        let deadline = limit.and_then(|limit| since.checked_add(limit));
        response.set_deadline(deadline);
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late() {
            return if is_complete { self.finish(response) } else { Err(silent(response, limit)) };
        }
        let filled = response.fill();
        self.begin();
        match filled {
            Ok([]) => self.finish(response),
            Ok(bytes) => {
                let amount = bytes.len();
                self.sse.push(bytes);
                response.consume(amount);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Network && is_late() => {
                if is_complete {
                    self.finish(response)
                } else {
                    Err(silent(response, limit))
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the end of the body: a last frame without its blank line, then the end itself.
    fn finish(&mut self, response: &HttpResponse) -> Result<(), Error> {
        self.sse.finish();
        loop {
            let before = self.events.len();
            let Some(frame) = self.sse.next_frame() else { break };
            let frame = frame?;
            self.has_frames = true;
            self.context.show_frame(frame.data)?;
            self.decoder.frame(frame.event, frame.data, &mut self.events)?;
            if self.events.len() > before && self.has_ended() {
                return Ok(());
            }
        }
        if !self.decoder.is_complete()
            && let Some(error) = self.foreign_error()
        {
            return Err(error);
        }
        let result = self.decoder.end(&mut self.events);
        result.map_err(|error| self.explain(error, response))
    }

    /// The error that a server tells as JSON where an event stream should be, or in the middle of it.
    fn foreign_error(&self) -> Option<Error> {
        let body: Value = serde_json::from_str(self.sse.foreign_text().trim()).ok()?;
        let body = body.as_array().and_then(|list| list.first()).unwrap_or(&body);
        body.get("error").filter(|it| !it.is_null()).map(failure::in_stream)
    }

    /// Says more of an end that came too early: what arrived instead of an event stream of this API.
    fn explain(&self, error: Error, response: &HttpResponse) -> Error {
        let text = self.sse.foreign_text().trim();
        let says_something = |event: &StreamEvent| !matches!(event, StreamEvent::Start);
        if self.has_meaning || self.events.iter().any(says_something) {
            return error;
        }
        let kind = response.header("content-type").unwrap_or("no content type");
        let came = match (self.has_frames, text.is_empty()) {
            (true, _) => "events",
            (false, true) if kind.starts_with("text/event-stream") => return error,
            (false, true) => "no body",
            (false, false) => kind,
        };
        let Model { api, base_url, provider, .. } = &*self.context.told;
        let status = response.status();
        let (host, base_url) = (response.host(), without_query(base_url));
        let mut message = format!(
            "{error}: {host} (`{provider}`) answered {status} with {came}, {FOREIGN} `{api}`: check the model's base URL (`{base_url}`)"
        );
        if !text.is_empty() {
            message.push_str("; it begins with: ");
            message.extend(text.chars().take(200));
        }
        Error::from_failure(error.failure().clone(), message)
    }

    /// Decodes the next event if it is here already, so that `more_is_ready` can tell. Nothing more after an abort.
    fn look_ahead(&mut self) {
        let is_reading = matches!(self.state, State::Reading(_));
        if !is_reading || !self.events.is_empty() || self.context.signal.is_aborted() {
            return;
        }
        match self.decode() {
            Ok(()) if self.has_ended() => {
                if let State::Reading(response) = mem::replace(&mut self.state, State::Ended(None))
                {
                    self.state = State::Ended(Some(response));
                }
            }
            Ok(()) if self.events.is_empty() && self.decoder.is_complete() => self.look_for_end(),
            Ok(()) => {}
            Err(error) => {
                let error = match &self.state {
                    State::Reading(response) => named(error, response, &self.context.told),
                    _ => error,
                };
                self.fail(error);
            }
        }
    }

    /// Takes the end of a complete response if it came with the rest, so that it is told together with that.
    fn look_for_end(&mut self) {
        let State::Reading(mut response) = mem::replace(&mut self.state, State::Ended(None)) else {
            return;
        };
        match self.end_that_is_here(&mut response) {
            Ok(()) if self.has_ended() => self.state = State::Ended(Some(response)),
            Ok(()) => self.state = State::Reading(response),
            Err(error) => self.fail(named(error, &response, &self.context.told)),
        }
    }

    fn end_that_is_here(&mut self, response: &mut HttpResponse) -> Result<(), Error> {
        while self.events.is_empty() {
            match response.fill_ready()? {
                None => break,
                Some([]) => return self.finish(response),
                Some(bytes) => {
                    let amount = bytes.len();
                    self.sse.push(bytes);
                    response.consume(amount);
                    self.decode()?;
                }
            }
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.events.back().is_some_and(StreamEvent::is_terminal)
    }

    fn fail(&mut self, error: Error) {
        let error = if self.context.signal.is_aborted() { Error::aborted() } else { error };
        self.decoder.fail(&error, &mut self.events);
        self.events.push_back(match error.kind() {
            ErrorKind::Aborted => StreamEvent::aborted(),
            _ => StreamEvent::failed(&error),
        });
        self.state = State::Ended(None);
    }
}

impl Context {
    fn send(&self, call: Call) -> Result<HttpResponse, Error> {
        let Call { mut http, mut payload, after_hook } = call;
        if self.signal.is_aborted() {
            return Err(Error::aborted());
        }
        if let Some(hook) = &self.hooks.on_request {
            let shown = |(name, value): &(String, String)| {
                let value = if http.is_secret(name) { REMOVED } else { value };
                (name.clone(), scrub(value, &self.secrets))
            };
            let headers = http.headers.iter().map(shown).collect();
            let secrets = self.secrets.clone();
            let meta = RequestMeta::new(http.method.as_str(), &http.url, headers, secrets);
            self.run_hook("on_request", || hook(&meta, &self.model))?;
        }
        if let Some(hook) = self.hooks.on_payload.as_ref().filter(|_| !payload.is_null())
            && let Some(changed) = self.run_hook("on_payload", || hook(&payload, &self.model))?
        {
            payload = changed;
            if let Some(fix) = after_hook {
                fix(&mut payload);
            }
        }
        if !payload.is_null() {
            let body = serde_json::to_vec(&payload).map_err(|error| {
                let message = format!("the request body is no JSON: {error}");
                Error::new(ErrorKind::Configuration, message)
            })?;
            http.body = body.into();
        }
        // It may be as large as the body, and an abort shall not wait until it is gone.
        drop(payload);
        let retries = Retries {
            policy: &self.policy,
            clock: &*self.provider.clock,
            hint: Some(&failure::pause_in),
        };
        let mut response = self.provider.client.send_with_retries(&http, &retries, &self.signal)?;
        if !response.is_success() {
            let has_key = !self.secrets.is_empty();
            let now = self.provider.clock.now();
            return Err(failure::of_response(&mut response, &self.told, has_key, now)?);
        }
        if let Some(hook) = &self.hooks.on_response {
            let meta =
                ResponseMeta { status: response.status(), headers: response.headers().to_vec() };
            self.run_hook("on_response", || hook(&meta, &self.model))?;
        }
        Ok(response)
    }

    /// Shows a frame to the host, if it wants to see them.
    fn show_frame(&self, data: &str) -> Result<(), Error> {
        let Some(hook) = &self.hooks.on_provider_stream_event else { return Ok(()) };
        match from_str_repaired(data) {
            Ok(event) => self.run_hook("on_provider_stream_event", || hook(&event, &self.model)),
            // Whether this is an end mark or an error is for the decoder to say.
            Err(_) => Ok(()),
        }
    }

    /// Runs a hook of the host, unless the signal has fired meanwhile.
    fn run_hook<T>(&self, name: &str, body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        if self.signal.is_aborted() {
            return Err(Error::aborted());
        }
        thread::catch(body).unwrap_or_else(|panic| {
            Err(Error::new(ErrorKind::Callback, format!("the hook {name} panicked: {panic}")))
        })
    }
}

/// An address that cannot be asked is the model's: its error names both.
fn check_address(call: Call, model: &Model) -> Result<Call, Error> {
    let Err(error) = http::check_url(&call.http.url) else { return Ok(call) };
    let id = &model.id;
    let message = match http::check_url(&model.base_url) {
        _ if model.base_url.trim().is_empty() => {
            format!("the model `{id}` has no base URL: set it to where the model's server is")
        }
        Err(error) => format!("the base URL of the model `{id}` cannot be used: {error}"),
        Ok(()) => error.message().to_owned(),
    };
    Err(Error::new(ErrorKind::Configuration, message))
}

/// The error with whose answer it was and the vendor's id of the request.
fn named(error: Error, response: &HttpResponse, model: &Model) -> Error {
    let is_told = error.message().contains(FOREIGN);
    let error = if is_told { error } else { failure::in_answer(error, response, model) };
    let Some(id) = failure::request_id(response).filter(|_| error.kind() != ErrorKind::Aborted)
    else {
        return error;
    };
    let mut failure = error.failure().clone();
    failure.request_id.get_or_insert(id);
    Error::from_failure(failure, error.message())
}

/// Takes the keys of the request out of what a server says about it. Content is the model's and stays as it is.
fn clean(event: &mut StreamEvent, secrets: &[Secret]) {
    let clean = |text: &mut String| *text = scrub(text, secrets);
    match event {
        StreamEvent::Error { message, failure } => {
            clean(message);
            failure.code.iter_mut().chain(&mut failure.request_id).for_each(clean);
        }
        StreamEvent::Info(info) => {
            let texts =
                [&mut info.response_id, &mut info.response_model, &mut info.raw_stop_reason];
            texts.into_iter().flatten().for_each(clean);
            for note in &mut info.diagnostics {
                note.error
                    .iter_mut()
                    .chain(&mut note.details)
                    .for_each(|it| scrub_json(it, secrets));
            }
        }
        _ => (),
    }
}

fn silent(response: &HttpResponse, limit: Option<Duration>) -> Error {
    let message = format!(
        "{} sent no event within {} s, although the connection is open",
        response.host(),
        limit.unwrap_or_default().as_secs_f64()
    );
    Error::new(ErrorKind::Network, message)
}

impl<D: FrameDecoder> Iterator for ProviderStream<D> {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        if self.events.is_empty() {
            self.advance();
        }
        let mut event = self.events.pop_front()?;
        clean(&mut event, &self.context.secrets);
        self.look_ahead();
        Some(event)
    }
}

impl<D: FrameDecoder> AssistantStream for ProviderStream<D> {
    fn more_is_ready(&self) -> bool {
        !self.events.is_empty()
    }

    /// A hook that sees each frame runs between the events before and after it.
    fn may_read_ahead(&self) -> bool {
        self.context.hooks.on_provider_stream_event.is_none()
    }
}

impl<D> Drop for ProviderStream<D> {
    /// Cancels the request, or leaves the connection of a complete response to the next one.
    fn drop(&mut self) {
        if let State::Ended(Some(response)) = mem::replace(&mut self.state, State::Ended(None)) {
            response.finish();
        }
    }
}

impl<D> fmt::Debug for ProviderStream<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Unsent(_) => "unsent",
            State::Reading(_) => "reading",
            State::Ended(_) => "ended",
        };
        f.debug_struct("ProviderStream").field("state", &state).finish_non_exhaustive()
    }
}
