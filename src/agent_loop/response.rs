//! One request and the message that it gives.

use std::{iter, sync::Arc};

use tracing::Span;

use crate::{
    abort::AbortController,
    agent_loop::{calls::Prepared, config::RunContext, guard, retry::Verdict, turns::Run},
    error::{Error, ErrorKind, Failure},
    event::AgentEvent,
    message::Message,
    model::ThinkingLevel,
    stream::{AssistantStream, LiveMessage, StreamEvent, StreamRequest, Transcript},
    thread, trace,
};

/// How many updates go to the listeners as one batch at most, so that a burst cannot hold back what they do.
const LONGEST_BATCH: usize = 1024;

const ABORTED: &str = "the run was aborted";

/// What came of a request.
pub(super) struct Response {
    pub(super) message: Arc<Message>,
    /// The first of its calls, which were announced with its end.
    pub(super) started: Vec<Prepared>,
}

/// What came of asking once.
struct Asked {
    live: LiveMessage,
    /// Updates that the listeners have not been told of.
    tail: Vec<AgentEvent>,
    span: Span,
}

/// A response that is being read.
struct Reading<'a> {
    live: &'a LiveMessage,
    interrupt: &'a AbortController,
    /// The start and updates that the listeners have not been told of.
    batch: Vec<AgentEvent>,
}

impl Run<'_> {
    /// Asks the model once and returns its finished message, which stands in the context then. Its end may be announced
    /// later.
    ///
    /// After an abort nothing is asked: the message says that it was aborted.
    pub(super) fn respond(&mut self) -> Result<Response, Error> {
        let mut started = false;
        let mut before = 0;
        let Asked { live, mut tail, span } = loop {
            let mut asked = self.ask(&mut started)?;
            if !self.retries(&mut asked, before, &mut started)? {
                break asked;
            }
            before += 1;
        };
        if self.signal.is_aborted() {
            live.fail(ABORTED, Failure::new(ErrorKind::Aborted));
            tail.clear();
        }
        let level = self.config.thinking_level;
        let message = live.finish(|message| message.thinking_level = Some(level));
        if let Some(message) = message.as_assistant() {
            trace::answered(&span, message);
        }
        drop(span);
        if !started {
            self.post(AgentEvent::MessageStart { message: message.clone() })?;
        }
        self.end(&live, message, tail)
    }

    /// Asks the model once; the message may be finished.
    fn ask(&mut self, started: &mut bool) -> Result<Asked, Error> {
        let request = self.prepare()?;
        let live = LiveMessage::of(&self.config.model);
        let mut tail = Vec::new();
        let span = request.as_ref().map_or_else(Span::none, trace::chat);
        if let Some(request) = request {
            let _entered = span.enter();
            let (stream, signal) = (self.config.stream.clone(), self.signal);
            // A signal of the request's own: a listener that fails ends the wait for the server too.
            let interrupt = AbortController::child_of(signal);
            let opened = match thread::catch(|| stream.stream(request, &interrupt.signal())) {
                Ok(opened) => opened,
                Err(panic) => Err(Error::new(ErrorKind::Callback, panic)),
            };
            match opened {
                _ if signal.is_aborted() => (),
                Ok(mut stream) => {
                    let mut reading =
                        Reading { live: &live, interrupt: &interrupt, batch: Vec::new() };
                    let read = self.read(&mut *stream, &mut reading, started);
                    read.inspect_err(|error| trace::failed(&span, error.kind()))?;
                    tail = reading.batch;
                }
                Err(error) => {
                    trace::failed(&span, error.kind());
                    return Err(error);
                }
            }
        }
        if !self.signal.is_aborted() {
            live.close_unfinished();
        }
        Ok(Asked { live, tail, span })
    }

    /// Tells that the model is asked again after a failure, and waits until it is time; false if the response stands.
    fn retries(
        &mut self,
        asked: &mut Asked,
        before: u32,
        started: &mut bool,
    ) -> Result<bool, Error> {
        let retry = self.config.retry.clone();
        if retry.max_retries == 0 || self.signal.is_aborted() {
            return Ok(false);
        }
        let response = asked.live.snapshot();
        let error_message = response.error_message.clone().unwrap_or_default();
        let delay = match guard(|| Ok(retry.decide(&response, before)))? {
            Verdict::Keep => return Ok(false),
            Verdict::TooLong(wanted) => {
                if let Some(failure) = response.failure {
                    asked.live.fail(&retry.too_long(wanted, &error_message), failure);
                }
                return Ok(false);
            }
            Verdict::Again(delay) => delay,
        };
        trace::answered(&asked.span, &response);
        // All that can be left is a start that nobody was told of: the next answer has its own.
        *started &= asked.tail.is_empty();
        self.emit(AgentEvent::RetryScheduled {
            attempt: before + 1,
            max_attempts: retry.max_retries,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            error_message,
        })?;
        let signal = self.signal;
        guard(|| Ok(retry.clock.sleep(delay, signal)))?;
        Ok(true)
    }

    /// Tells the last updates, the end of the message and the start of its calls, as far as nobody aborts the run
    /// meanwhile: then the message is an aborted one.
    fn end(
        &mut self,
        live: &LiveMessage,
        mut message: Arc<Message>,
        tail: Vec<AgentEvent>,
    ) -> Result<Response, Error> {
        if tail.is_empty() {
            self.keep(message.clone());
            self.post(AgentEvent::MessageEnd { message: message.clone() })?;
            return Ok(Response { message, started: Vec::new() });
        }
        for event in tail {
            self.post(event)?;
        }
        let mut started = self.known_to_run(&message).unwrap_or_default();
        let starts =
            started.iter().map(|it| AgentEvent::ToolExecutionStart { call: it.call.clone() });
        let end = AgentEvent::MessageEnd { message: message.clone() };
        let told = self.predict(iter::once(end).chain(starts).collect())?;
        started.truncate(told.saturating_sub(1));
        if told == 0 && self.signal.is_aborted() {
            message = live.withdraw(ABORTED, Failure::new(ErrorKind::Aborted));
        }
        self.keep(message.clone());
        if told == 0 {
            self.post(AgentEvent::MessageEnd { message: message.clone() })?;
        }
        Ok(Response { message, started })
    }

    /// Runs the hooks that make a request; `None` after an abort.
    fn prepare(&mut self) -> Result<Option<StreamRequest>, Error> {
        self.settle()?;
        let signal = self.signal;
        let hooks = self.config.hooks.clone();
        if signal.is_aborted() {
            return Ok(None);
        }
        if let Some(hook) = &hooks.prepare_request {
            let view = RunContext {
                model: &self.config.model,
                thinking_level: self.config.thinking_level,
                messages: &self.context,
                tools: &self.tools,
            };
            if let Some(changes) = guard(|| hook(&view, signal))? {
                self.change(changes);
            }
        }
        let mut messages = self.context.clone();
        for hook in [&hooks.transform_context, &hooks.convert_to_llm].into_iter().flatten() {
            if signal.is_aborted() {
                return Ok(None);
            }
            messages = guard(|| hook(messages, signal))?;
        }
        if hooks.convert_to_llm.is_none() {
            messages.retain(|message| !matches!(**message, Message::Custom(_)));
        }
        let mut options = self.config.request.clone();
        options.reasoning =
            Some(self.config.thinking_level).filter(|level| *level != ThinkingLevel::Off);
        if let Some(hook) = &hooks.get_api_key {
            if signal.is_aborted() {
                return Ok(None);
            }
            if let Some(key) = guard(|| hook(&self.config.model.provider, signal))? {
                options.api_key = Some(key);
            }
        }
        if signal.is_aborted() {
            return Ok(None);
        }
        let model = self.config.model.clone();
        let transcript = Transcript::new(messages).with_memo(self.config.memo.clone());
        Ok(Some(StreamRequest { model, transcript, options }))
    }

    /// Reads the stream to its end, telling the listeners of each update.
    fn read(
        &mut self,
        stream: &mut dyn AssistantStream,
        reading: &mut Reading<'_>,
        started: &mut bool,
    ) -> Result<(), Error> {
        loop {
            let next = thread::catch(|| stream.next());
            self.settle()?;
            // The signal comes before the result: what was read while it fired is not acted on.
            if self.signal.is_aborted() {
                return Ok(());
            }
            let mut event = match next {
                Ok(Some(event)) => event,
                Ok(None) => return self.leave(stream, reading),
                Err(panic) => return Err(Error::new(ErrorKind::Callback, panic)),
            };
            if let Err(error) = reading.live.apply(&mut event) {
                reading.live.fail(error.message(), error.failure().clone());
                return self.flush(reading);
            }
            match event {
                StreamEvent::Start if !*started => {
                    *started = true;
                    let message = Arc::new(Message::Assistant(reading.live.snapshot()));
                    let start = AgentEvent::MessageStart { message };
                    if stream.may_read_ahead() {
                        reading.batch.push(start);
                    } else {
                        self.emit(start)?;
                    }
                }
                event if event.is_terminal() => return self.leave(stream, reading),
                event if *started && event.is_update() => {
                    reading
                        .batch
                        .push(AgentEvent::MessageUpdate { message: reading.live.clone(), event });
                }
                // What is told of nothing may still be the last that is here.
                _ => (),
            }
            if reading.batch.len() >= LONGEST_BATCH || !stream.more_is_ready() {
                if stream.may_read_ahead() && !reading.batch.is_empty() {
                    let (batch, interrupt) =
                        (std::mem::take(&mut reading.batch), reading.interrupt);
                    self.with_sink(|sink| sink.post_updates(batch, interrupt))?;
                    continue;
                }
                self.flush(reading)?;
                if self.signal.is_aborted() {
                    return Ok(());
                }
            }
        }
    }

    /// Leaves the last updates for later where the stream may be ahead of the listeners anyway.
    fn leave(
        &mut self,
        stream: &dyn AssistantStream,
        reading: &mut Reading<'_>,
    ) -> Result<(), Error> {
        if stream.may_read_ahead() { Ok(()) } else { self.flush(reading) }
    }

    fn flush(&mut self, reading: &mut Reading<'_>) -> Result<(), Error> {
        match reading.batch.len() {
            0 => Ok(()),
            1 => reading.batch.pop().map_or(Ok(()), |event| self.emit(event)),
            _ => {
                let batch = std::mem::take(&mut reading.batch);
                self.with_sink(|sink| sink.emit_updates(batch))
            }
        }
    }
}
