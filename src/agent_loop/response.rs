//! One request and the message that it gives.

use std::sync::Arc;

use crate::{
    abort::AbortController,
    agent_loop::{config::RunContext, guard, turns::Run},
    error::{Error, ErrorKind, Failure},
    event::AgentEvent,
    message::Message,
    model::ThinkingLevel,
    stream::{AssistantStream, LiveMessage, StreamEvent, StreamRequest, Transcript},
    thread,
};

/// How many updates go to the listeners as one batch at most, so that a burst cannot hold back what they do.
const LONGEST_BATCH: usize = 256;

/// A response that is being read.
struct Reading<'a> {
    live: &'a LiveMessage,
    interrupt: &'a AbortController,
    /// The start and updates that the listeners have not been told of.
    batch: Vec<AgentEvent>,
}

impl Run<'_> {
    /// Asks the model once and returns its finished message, which stands in the context then. Its end is announced later.
    ///
    /// After an abort nothing is asked: the message says that it was aborted.
    pub(super) fn respond(&mut self) -> Result<Arc<Message>, Error> {
        let request = self.prepare()?;
        let live = LiveMessage::of(&self.config.model);
        let mut started = false;
        if let Some(request) = request {
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
                    self.read(&mut *stream, &mut reading, &mut started)?;
                }
                Err(error) => return Err(error),
            }
        }
        if self.signal.is_aborted() {
            live.fail("the run was aborted", Failure::new(ErrorKind::Aborted));
        }
        live.close_unfinished();
        let level = self.config.thinking_level;
        let message = live.finish(|message| message.thinking_level = Some(level));
        if !started {
            self.post(AgentEvent::MessageStart { message: message.clone() })?;
        }
        self.keep(message.clone());
        self.post(AgentEvent::MessageEnd { message: message.clone() })?;
        Ok(message)
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
                Ok(None) => return self.flush(reading),
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
                event if event.is_terminal() => return self.flush(reading),
                event if *started && event.is_update() => {
                    reading
                        .batch
                        .push(AgentEvent::MessageUpdate { message: reading.live.clone(), event });
                }
                _ => continue,
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
