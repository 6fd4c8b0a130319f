//! The worker thread: runs the loop, reduces its events and tells the listeners.

use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};

use crate::{
    abort::AbortController,
    agent::{
        core::Core,
        delivery::{Course, Posted},
        run::{RunOutcome, RunState},
    },
    agent_loop::{EventSink, LoopConfig, LoopContext, RunStart, Surroundings, run_loop},
    error::{Error, ErrorKind, Failure},
    event::AgentEvent,
    message::{AssistantContent, AssistantMessage, Message, StopReason, now_ms},
    model::Model,
    thread::{self, Home, lineage},
    tool::Budget,
};

/// One run. It keeps the core alive until the run has ended; between runs the thread keeps nothing.
pub(super) struct Job {
    pub(super) core: Arc<Core>,
    pub(super) run: Arc<RunState>,
    pub(super) start: RunStart,
    pub(super) context: LoopContext,
    pub(super) config: LoopConfig,
    pub(super) line: lineage::Line,
    /// The budget of the run that this one serves.
    pub(super) above: Option<Arc<Budget>>,
}

impl Core {
    /// Hands a run to the worker thread, which is started for the first one.
    pub(super) fn dispatch(&self, job: Job) -> Result<(), Error> {
        let mut state = self.state.lock();
        let job = match &state.worker {
            Some((home, worker)) if home.is_here() => match worker.send(job) {
                Ok(()) => return Ok(()),
                Err(unsent) => unsent.0,
            },
            _ => job,
        };
        let (sender, receiver) = unbounded();
        thread::spawn(&format!("agent-run-{}", self.id), move || work(&receiver)).map_err(
            |error| {
                Error::new(ErrorKind::Configuration, "the agent's thread could not be started")
                    .with_source(error)
            },
        )?;
        // The receiver is alive: its thread waits for this.
        let _ = sender.send(job);
        state.worker = Some((Home::here(), sender));
        Ok(())
    }
}

fn work(jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        job.perform();
    }
}

impl Job {
    fn perform(self) {
        let Job { core, run, start, context, config, line, above } = self;
        let entered = lineage::enter(line);
        let signal = run.signal();
        let course = Course { signal: signal.clone(), stop: run.stop.clone() };
        let mut sink = Sink { core: &core, course, ahead: Vec::new(), posted: None };
        let surroundings = Surroundings { signal: &signal, sink: &mut sink, above };
        let outcome = match run_loop(start, context, &config, surroundings) {
            Ok(result) => RunOutcome::of(result),
            Err(error) => close_broken(&mut sink, &config.model, &error),
        };
        // What the configuration holds is the host's: it is dropped before the run counts as over.
        let _ = thread::catch(|| drop(config));
        drop(entered);
        core.end_run(&run, Some(outcome));
    }
}

impl Core {
    /// Makes the agent idle. What came of the run is told under the same lock, for anyone who looks at both.
    pub(super) fn end_run(&self, run: &RunState, outcome: Option<RunOutcome>) {
        let mut state = self.state.lock();
        state.active = None;
        state.streaming = None;
        state.pending.clear();
        state.steering.restore();
        state.follow_ups.restore();
        if let Some(outcome) = outcome {
            run.complete(outcome);
        }
        // Whoever is woken may fork at once: nothing is locked then.
        drop(state);
        run.wake();
        self.idle.notify_all();
    }
}

/// Closes a run that broke: a message of the agent's own says why.
fn close_broken(sink: &mut Sink<'_>, model: &Model, error: &Error) -> RunOutcome {
    let aborted = sink.course.signal.is_aborted();
    let message = Arc::new(Message::Assistant(AssistantMessage {
        content: vec![AssistantContent::text("")],
        api: model.api.clone(),
        provider: model.provider.clone(),
        model: model.id.clone(),
        stop_reason: if aborted { StopReason::Aborted } else { StopReason::Error },
        timestamp: now_ms(),
        error_message: Some(error.to_string()),
        failure: Some(if aborted {
            Failure::new(ErrorKind::Aborted)
        } else {
            error.failure().clone()
        }),
        ..AssistantMessage::default()
    }));
    let closing = [
        AgentEvent::MessageStart { message: message.clone() },
        AgentEvent::MessageEnd { message: message.clone() },
        AgentEvent::TurnEnd { message: message.clone(), tool_results: Vec::new() },
        AgentEvent::AgentEnd { messages: vec![message.clone()] },
    ];
    // A listener that fails again ends the closing there.
    let _ = closing.into_iter().try_for_each(|event| sink.emit(event));
    RunOutcome::broken(message, error, aborted)
}

struct Sink<'a> {
    core: &'a Arc<Core>,
    course: Course,
    /// Events that nobody was told of yet.
    ahead: Vec<AgentEvent>,
    /// Events that come before them, which a listener is at work on.
    posted: Option<Posted>,
}

impl EventSink for Sink<'_> {
    fn emit(&mut self, event: AgentEvent) -> Result<(), Error> {
        self.ahead.push(event);
        self.settle()
    }

    fn emit_updates(&mut self, events: Vec<AgentEvent>) -> Result<(), Error> {
        self.ahead.extend(events);
        self.settle()
    }

    fn post(&mut self, event: AgentEvent) -> Result<(), Error> {
        self.ahead.push(event);
        Ok(())
    }

    fn post_updates(
        &mut self,
        events: Vec<AgentEvent>,
        interrupt: &AbortController,
    ) -> Result<(), Error> {
        self.finish_posted()?;
        self.ahead.extend(events);
        let events: Arc<[AgentEvent]> = std::mem::take(&mut self.ahead).into();
        let all = 0..events.len();
        let posted = self.core.begin(&events, all, &self.course, Some(interrupt));
        let needs_no_more = posted.needs_no_more();
        self.posted = Some(posted);
        // The next listener shall not wait for the server.
        if needs_no_more { Ok(()) } else { self.finish_posted() }
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.predict(Vec::new()).map(drop)
    }

    fn predict(&mut self, events: Vec<AgentEvent>) -> Result<usize, Error> {
        self.finish_posted()?;
        let sure = self.ahead.len();
        if self.course.is_free() {
            self.ahead.extend(events);
        }
        if self.ahead.is_empty() {
            return Ok(0);
        }
        let events = std::mem::take(&mut self.ahead).into();
        let told = self.core.tell(&events, sure, &self.course)?;
        Ok(told.saturating_sub(sure))
    }
}

impl Sink<'_> {
    fn finish_posted(&mut self) -> Result<(), Error> {
        match self.posted.take() {
            Some(posted) => self.core.settle(posted, &self.course),
            None => Ok(()),
        }
    }
}
