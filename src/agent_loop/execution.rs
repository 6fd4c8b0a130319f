//! Calls at work on the tool pool, seen from the thread that waits for them.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Map, Value};
use tracing::Span;

use crate::{
    abort::{AbortController, AbortHook, AbortSignal},
    agent_loop::calls::{CallScope, CallSite, Nested, Prepared, failed, millis, not_run},
    error::ErrorKind,
    message::ToolCall,
    thread::{
        self,
        hand_over::{self, Receiver, Sender},
        lineage, timer,
    },
    tool::{
        Budget, NestedCall, NestedCalls, Planned, Schedule, ToolContext, ToolOutcome, ToolPool,
        ToolResult,
    },
    trace,
};

/// How long calls may wait for the threads that are there before it is seen whether they need more.
const RELIEF: Duration = Duration::from_millis(1);

/// What the waiting thread is told.
pub(super) enum Happening {
    Update(usize, ToolResult),
    Ended(usize, ToolOutcome),
}

enum Report {
    /// A call with a time limit began to run.
    Began(usize, Instant),
    Update(usize, ToolResult),
    Ended(usize, ToolOutcome),
    /// The signal fired.
    Aborted,
}

/// Calls at work. Pulled with [`next`](Execution::next) until each has ended.
pub(super) struct Execution {
    calls: Vec<Running>,
    open: usize,
    reports: Receiver<Report>,
    /// Fires the signals of all calls, for an end before the run's own signal fires.
    controller: AbortController,
    _on_abort: AbortHook,
    pool: ToolPool,
    schedule: Schedule,
    grace: Duration,
    is_aborted: bool,
    /// When calls that ignore the abort are left alone.
    abandon_at: Option<Instant>,
    /// When to see whether the calls need more threads; none when they have them.
    relief: Option<Instant>,
}

struct Running {
    call: Arc<ToolCall>,
    arguments: Map<String, Value>,
    phase: Arc<Phase>,
    limit: Option<Duration>,
    began: Option<Instant>,
    settled: bool,
}

/// Where a call is, decided between its job and the thread that waits.
struct Phase(AtomicU8);

impl Phase {
    const QUEUED: u8 = 0;
    const RUNNING: u8 = 1;
    const CANCELLED: u8 = 2;

    /// Leaves the queue for one of the two; false if the other side was first.
    fn leave_queue(&self, to: u8) -> bool {
        self.0.compare_exchange(Phase::QUEUED, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// What one call needs on the pool.
struct Job {
    index: usize,
    prepared: Prepared,
    phase: Arc<Phase>,
    sender: Sender<Report>,
    controller: AbortController,
    nested: Arc<dyn NestedCalls>,
    budget: Option<Arc<Budget>>,
}

impl Execution {
    pub(super) fn start(
        scope: &CallScope,
        site: &CallSite,
        ready: Vec<Prepared>,
        signal: &AbortSignal,
    ) -> Execution {
        let (sender, reports) = hand_over::channel();
        let controller = AbortController::child_of(signal);
        let on_abort = {
            let sender = sender.clone();
            controller.signal().on_abort(move || drop(sender.send(Report::Aborted)))
        };
        let nested: Arc<dyn NestedCalls> =
            Arc::new(Nested { scope: scope.clone(), site: site.clone(), line: lineage::current() });
        let mut calls = Vec::with_capacity(ready.len());
        let mut jobs = Vec::with_capacity(ready.len());
        for (index, prepared) in ready.into_iter().enumerate() {
            let phase = Arc::new(Phase(AtomicU8::new(Phase::QUEUED)));
            calls.push(Running {
                call: prepared.call.clone(),
                arguments: prepared.arguments.clone(),
                phase: phase.clone(),
                limit: prepared.tool.limit(),
                began: None,
                settled: false,
            });
            jobs.push(Job {
                index,
                prepared,
                phase,
                sender: sender.clone(),
                controller: AbortController::child_of(&controller.signal()),
                nested: nested.clone(),
                budget: scope.budget.clone(),
            });
        }
        let schedule = Schedule::new();
        start_all(scope, &schedule, jobs, &calls);
        Execution {
            open: calls.len(),
            calls,
            reports,
            controller,
            _on_abort: on_abort,
            pool: scope.pool.clone(),
            schedule,
            grace: scope.grace,
            is_aborted: false,
            abandon_at: None,
            relief: Some(Instant::now() + RELIEF),
        }
    }

    pub(super) fn call(&self, index: usize) -> &Arc<ToolCall> {
        &self.calls[index].call
    }

    pub(super) fn arguments(&self, index: usize) -> &Map<String, Value> {
        &self.calls[index].arguments
    }

    /// Whether every call has ended.
    pub(super) fn is_done(&self) -> bool {
        self.open == 0
    }

    /// Waits for the next update or end; `None` when every call has ended.
    pub(super) fn next(&mut self) -> Option<Happening> {
        self.pull(true)
    }

    /// The next update or end, if it is there.
    pub(super) fn try_next(&mut self) -> Option<Happening> {
        self.pull(false)
    }

    fn pull(&mut self, waits: bool) -> Option<Happening> {
        while self.open > 0 {
            if let Some(index) = self.never_to_run() {
                return Some(self.settle(index, not_run()));
            }
            if let Some((index, outcome)) = self.overdue() {
                self.pool.replace_threads();
                return Some(self.settle(index, outcome));
            }
            if !waits && !self.reports.has_some() {
                break;
            }
            self.relieve();
            match self.reports.recv_until(self.next_deadline()) {
                Ok(Report::Update(index, partial)) if !self.calls[index].settled => {
                    // A listener may take its time over it, which the calls that still wait shall not.
                    let _ = self.pool.relieve(true);
                    return Some(Happening::Update(index, partial));
                }
                Ok(Report::Ended(index, outcome)) if !self.calls[index].settled => {
                    return Some(self.settle(index, outcome));
                }
                Ok(Report::Update(..) | Report::Ended(..)) => (),
                Ok(Report::Began(index, at)) => self.calls[index].began = Some(at),
                Ok(Report::Aborted) => {
                    self.is_aborted = true;
                    self.abandon_at = timer::after(self.grace);
                }
                Err(_) => (),
            }
        }
        None
    }

    /// Fires the signals of the calls and waits until they have ended, within the grace period.
    pub(super) fn abandon(mut self) {
        self.controller.abort();
        while self.next().is_some() {}
    }

    /// Sees to it that calls that are not done at once have threads.
    fn relieve(&mut self) {
        if self.relief.is_some_and(|at| Instant::now() >= at) {
            let is_done = self.pool.relieve(false);
            self.relief = (!is_done).then(|| Instant::now() + RELIEF);
        }
    }

    fn settle(&mut self, index: usize, outcome: ToolOutcome) -> Happening {
        self.calls[index].settled = true;
        self.open -= 1;
        // One that is left alone while it runs on holds the others no longer.
        self.schedule.ended(index);
        Happening::Ended(index, outcome)
    }

    /// A call that was still waiting for a thread when the abort came.
    fn never_to_run(&self) -> Option<usize> {
        if !self.is_aborted {
            return None;
        }
        self.calls.iter().position(|call| !call.settled && call.phase.leave_queue(Phase::CANCELLED))
    }

    fn next_deadline(&self) -> Option<Instant> {
        let limits = self
            .calls
            .iter()
            .filter(|call| !call.settled)
            .filter_map(|call| call.left_alone_at(self.grace));
        limits.chain(self.abandon_at).chain(self.relief).min()
    }

    /// A call whose time is up although it runs on.
    fn overdue(&self) -> Option<(usize, ToolOutcome)> {
        let now = Instant::now();
        let aborted = self.abandon_at.is_some_and(|at| at <= now);
        for (index, call) in self.calls.iter().enumerate().filter(|(_, call)| !call.settled) {
            let text = if aborted {
                "interrupted while it ran and did not stop: what it has done by now is unknown"
                    .to_owned()
            } else if call.left_alone_at(self.grace).is_some_and(|at| at <= now) {
                let limit = millis(call.limit.unwrap_or_default());
                format!(
                    "its time limit of {limit} ms has passed and it did not stop: what it has done by now is unknown"
                )
            } else {
                continue;
            };
            let ran = call.began.map_or(self.grace, |began| now - began);
            return Some((index, ToolOutcome { duration: Some(ran), ..failed(&text) }));
        }
        None
    }
}

impl Running {
    fn left_alone_at(&self, grace: Duration) -> Option<Instant> {
        self.began?.checked_add(self.limit?)?.checked_add(grace)
    }
}

impl Job {
    fn run(self) {
        if !self.phase.leave_queue(Phase::RUNNING) {
            return;
        }
        let open = Arc::new(AtomicBool::new(true));
        let mut context = self.context(self.controller.signal(), &open);
        // As late as can be, so that next to nothing comes between this look and the call.
        if context.signal.is_aborted() {
            let _ = self.sender.send(Report::Ended(self.index, not_run()));
            return;
        }
        let began = Instant::now();
        if let Some(limit) = self.prepared.tool.limit() {
            let _ = self.sender.send(Report::Began(self.index, began));
            if let Some(deadline) = began.checked_add(limit) {
                self.controller.abort_at(deadline);
            }
        }
        let span = trace::tool(self.prepared.tool.name(), &self.prepared.call.id);
        let Job { index, prepared, sender, nested, .. } = self;
        let Prepared { tool, arguments, .. } = prepared;
        if !span.is_disabled() {
            let (nested, span) = (nested.clone(), span.clone());
            context.nested = Some(Arc::new(Within { nested, span }));
        }
        // The text of an error is foreign code too.
        let result = thread::catch(|| {
            let _entered = span.enter();
            tool.handler().call(arguments, &context).map_err(|error| error.to_string())
        });
        open.store(false, Ordering::Release);
        let outcome = ended(result, began.elapsed());
        if outcome.is_error {
            trace::failed(&span, ErrorKind::Tool);
        }
        // What the host gave is let go before the call counts as over.
        let _ = thread::catch(|| drop((context, tool, nested, span)));
        let _ = sender.send(Report::Ended(index, outcome));
    }

    fn context(&self, signal: AbortSignal, open: &Arc<AtomicBool>) -> ToolContext {
        let (index, sender, open) = (self.index, self.sender.clone(), open.clone());
        ToolContext {
            call_id: Arc::from(self.prepared.call.id.as_str()),
            tool_name: Arc::from(self.prepared.tool.name()),
            signal,
            updates: Arc::new(move |partial| {
                if open.load(Ordering::Acquire) {
                    let _ = sender.send(Report::Update(index, partial));
                }
            }),
            nested: Some(self.nested.clone()),
            budget: self.budget.clone(),
        }
    }
}

/// The calls of a tool that has a span, whichever thread makes them.
struct Within {
    nested: Arc<dyn NestedCalls>,
    span: Span,
}

impl NestedCalls for Within {
    fn run(&self, call: &NestedCall<'_>) -> ToolOutcome {
        self.span.in_scope(|| self.nested.run(call))
    }
}

/// Hands jobs to the pool; those that it cannot run have ended.
fn start_all(scope: &CallScope, schedule: &Schedule, jobs: Vec<Job>, calls: &[Running]) {
    let Some(sender) = jobs.first().map(|job| job.sender.clone()) else { return };
    let line = lineage::current();
    let planned = jobs.into_iter().map(|mut job| {
        let (line, schedule) = (line.clone(), schedule.clone());
        let resources = mem::take(&mut job.prepared.resources);
        let (tool, index) = (job.prepared.tool.clone(), job.index);
        let work = move || {
            let _entered = lineage::enter(line);
            job.run();
            schedule.ended(index);
        };
        Planned { tool, resources, job: Box::new(work) }
    });
    if let Err(error) = schedule.start(&scope.pool, scope.limits.at_once, planned.collect()) {
        let queued = |call: &Running| call.phase.leave_queue(Phase::CANCELLED);
        for (index, _) in calls.iter().enumerate().filter(|(_, call)| queued(call)) {
            let _ = sender.send(Report::Ended(index, failed(error.message())));
        }
    }
}

fn ended(result: Result<Result<ToolResult, String>, String>, ran: Duration) -> ToolOutcome {
    let outcome = match result {
        Ok(Ok(result)) => {
            ToolOutcome { is_error: result.is_error == Some(true), result, duration: None }
        }
        Ok(Err(error)) => failed(&error),
        Err(panic) => failed(&format!("the tool panicked: {panic}")),
    };
    ToolOutcome { duration: Some(ran), ..outcome }
}
