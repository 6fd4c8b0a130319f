//! A run as its starter sees it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::Span;

use crate::{
    abort::{AbortController, AbortSignal},
    agent_loop::{LoopEnd, LoopResult, SoftStop},
    error::{Error, ErrorKind, Failure},
    message::{AssistantMessage, Message, StopReason},
    thread::{
        Home,
        lineage::{self, Line, Mark},
        lock::{Condvar, Mutex},
        timer::{self, Alarm},
    },
    tool::while_blocked,
    usage::Usage,
};

/// A run at work, or done. Dropping it changes nothing: the run goes on.
#[derive(Clone)]
#[must_use = "the run goes on without it, but its errors are lost: wait for it or keep it"]
pub struct Run {
    pub(super) state: Arc<RunState>,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// What the run added to the transcript, its prompts included. Of a broken run it is the closing message alone.
    pub messages: Vec<Arc<Message>>,
    /// The text of the last assistant message.
    pub text: String,
    /// Tokens and costs of all its responses, and what its tools report of theirs.
    pub usage: Usage,
    /// Why it ended.
    pub end: RunEnd,
    /// What went wrong, for people.
    pub error_message: Option<String>,
    /// What went wrong, for programs.
    pub failure: Option<Failure>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEnd {
    /// Nothing asked for another request.
    Completed,
    /// A hook or [`Run::stop_after_turn`] ended it after a turn.
    Stopped,
    /// Its budget of requests was used up.
    OutOfRequests,
    /// What it may cost was reached.
    OutOfBudget,
    /// The host aborted it, or its deadline passed.
    Aborted,
    /// The model's response failed.
    Failed,
    /// A hook, a listener or the stream function failed.
    Broken,
}

pub(super) struct RunState {
    mark: Arc<Mark>,
    home: Home,
    controller: AbortController,
    pub(super) stop: SoftStop,
    deadline_passed: AtomicBool,
    /// The deadline, until the run has ended.
    alarm: Mutex<Option<Alarm>>,
    outcome: Mutex<Option<Arc<RunOutcome>>>,
    done: Condvar,
}

impl Run {
    /// Waits until the run has ended and its listeners are done with its last event.
    ///
    /// `Ok` is a run that came to its end; `Err` is one that was aborted ([`ErrorKind::Aborted`]), whose deadline passed
    /// ([`ErrorKind::Limit`]), or that failed (the kind says how). In a listener, hook or tool of the same agent it is
    /// [`ErrorKind::WouldDeadlock`] at once.
    pub fn wait(&self) -> Result<RunOutcome, Error> {
        self.outcome().and_then(RunOutcome::judge)
    }

    /// The same, but no longer than `timeout`; `None` when that has passed.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<RunOutcome, Error>> {
        match self.state.wait(timer::after(timeout)) {
            Ok(outcome) => outcome.map(RunOutcome::judge),
            Err(error) => Some(Err(error)),
        }
    }

    /// Waits until the run has ended and says what came of it without judging; the only error is
    /// [`ErrorKind::WouldDeadlock`].
    pub fn outcome(&self) -> Result<RunOutcome, Error> {
        loop {
            if let Some(outcome) = self.state.wait(None)? {
                return Ok(outcome);
            }
        }
    }

    /// Whether the run has ended.
    pub fn is_done(&self) -> bool {
        self.state.outcome.lock().is_some()
    }

    /// Aborts the run. Returns at once; after that no request, no tool and no hook but `after_tool_call` and `finish_turn`
    /// starts.
    pub fn abort(&self) {
        self.state.abort();
    }

    /// Ends the run softly when its present turn is complete.
    pub fn stop_after_turn(&self) {
        self.state.stop.stop_after_turn();
    }

    /// The signal of the run.
    pub fn signal(&self) -> AbortSignal {
        self.state.signal()
    }
}

impl RunState {
    pub(super) fn new(deadline: Option<Duration>) -> Arc<RunState> {
        let state = Arc::new(RunState {
            mark: Arc::default(),
            home: Home::here(),
            controller: AbortController::new(),
            stop: SoftStop::default(),
            deadline_passed: AtomicBool::new(false),
            alarm: Mutex::default(),
            outcome: Mutex::new(None),
            done: Condvar::new(),
        });
        if let Some(deadline) = deadline.and_then(timer::after) {
            let run = Arc::downgrade(&state);
            let alarm = timer::at(deadline, move || {
                if let Some(run) = run.upgrade()
                    && !run.signal().is_aborted()
                {
                    run.deadline_passed.store(true, Ordering::Release);
                    run.abort();
                }
            });
            *state.alarm.lock() = Some(alarm);
        }
        state
    }

    /// The line of a run that this thread starts within `span`.
    pub(super) fn line(&self, span: Span) -> Line {
        Line::of(&self.mark, span)
    }

    pub(super) fn abort(&self) {
        // A process that was forked off shares the sockets of the run, which goes on in the parent.
        if self.home.is_here() {
            self.controller.abort();
        }
    }

    pub(super) fn signal(&self) -> AbortSignal {
        self.controller.signal()
    }

    pub(super) fn complete(&self, mut outcome: RunOutcome) {
        if outcome.end == RunEnd::Aborted && self.deadline_passed.load(Ordering::Acquire) {
            outcome.error_message = Some("the run took longer than its deadline allows".to_owned());
            outcome.failure = Some(Failure::new(ErrorKind::Limit));
        }
        *self.outcome.lock() = Some(Arc::new(outcome));
        self.mark.end();
    }

    /// Wakes those who wait for the outcome.
    pub(super) fn wake(&self) {
        self.done.notify_all();
        let alarm = self.alarm.lock().take();
        drop(alarm);
    }

    /// Waiting for a run on a thread that it waits for would never end.
    pub(super) fn refuse_deadlock(&self) -> Result<(), Error> {
        if lineage::serves(&self.mark) {
            let message =
                "a listener, hook or tool cannot wait for the run that waits for it: return first";
            return Err(Error::new(ErrorKind::WouldDeadlock, message));
        }
        if !self.home.is_here() {
            let message = "the run is at work in the process that this one was forked from: make a new agent here";
            return Err(Error::new(ErrorKind::WouldDeadlock, message));
        }
        Ok(())
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<Option<RunOutcome>, Error> {
        if let Some(outcome) = &*self.outcome.lock() {
            return Ok(Some((**outcome).clone()));
        }
        self.refuse_deadlock()?;
        let outcome = while_blocked(|| {
            let mut outcome = self.outcome.lock();
            while outcome.is_none() {
                match deadline {
                    None => outcome = self.done.wait(outcome),
                    Some(deadline) => {
                        let is_late;
                        (outcome, is_late) = self.done.wait_until(outcome, deadline);
                        if is_late {
                            break;
                        }
                    }
                }
            }
            outcome.clone()
        });
        Ok(outcome.map(|outcome| (*outcome).clone()))
    }
}

impl RunOutcome {
    pub(super) fn of(result: LoopResult) -> RunOutcome {
        let mut usage = Usage::default();
        for message in &result.messages {
            match &**message {
                Message::Assistant(message) => usage.add(&message.usage),
                Message::ToolResult(result) => {
                    result.usage.iter().for_each(|of_tool| usage.add(of_tool));
                }
                _ => (),
            }
        }
        let last = result.messages.iter().rev().find_map(|message| message.as_assistant());
        let end = match (last.map(|last| last.stop_reason), result.end) {
            (Some(StopReason::Error), _) => RunEnd::Failed,
            (Some(StopReason::Aborted), _) => RunEnd::Aborted,
            (_, LoopEnd::Natural) => RunEnd::Completed,
            (_, LoopEnd::Stopped) => RunEnd::Stopped,
            (_, LoopEnd::OutOfRequests) => RunEnd::OutOfRequests,
            (_, LoopEnd::OutOfBudget) => RunEnd::OutOfBudget,
        };
        let failed = last.filter(|last| last.is_failed());
        RunOutcome {
            text: last.map(|last| last.texts().collect::<Vec<_>>().join("\n")).unwrap_or_default(),
            usage,
            end,
            error_message: failed.and_then(|last| last.error_message.clone()),
            failure: failed.and_then(|last| last.failure.clone()),
            messages: result.messages,
        }
    }

    pub(super) fn broken(message: Arc<Message>, error: &Error, aborted: bool) -> RunOutcome {
        RunOutcome {
            messages: vec![message],
            text: String::new(),
            usage: Usage::default(),
            end: if aborted { RunEnd::Aborted } else { RunEnd::Broken },
            error_message: Some(error.to_string()),
            failure: Some(if aborted {
                Failure::new(ErrorKind::Aborted)
            } else {
                error.failure().clone()
            }),
        }
    }

    /// The last assistant message.
    pub fn last_assistant(&self) -> Option<&AssistantMessage> {
        self.messages.iter().rev().find_map(|message| message.as_assistant())
    }

    fn judge(self) -> Result<RunOutcome, Error> {
        match self.end {
            RunEnd::Completed | RunEnd::Stopped | RunEnd::OutOfRequests | RunEnd::OutOfBudget => {
                Ok(self)
            }
            RunEnd::Aborted | RunEnd::Failed | RunEnd::Broken => {
                let kind = if self.end == RunEnd::Aborted {
                    ErrorKind::Aborted
                } else {
                    ErrorKind::Protocol
                };
                let failure = self.failure.unwrap_or_else(|| Failure::new(kind));
                let message = self.error_message.unwrap_or_else(|| "the run failed".to_owned());
                Err(Error::from_failure(failure, message))
            }
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}
