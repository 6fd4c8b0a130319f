//! The tool calls of one message: prepare, run, finalise, in order.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};

use crate::{
    abort::AbortSignal,
    agent_loop::{
        config::{AfterToolCall, BeforeToolCall, CutResult, Hooks, ResultChanges, ToolDecision},
        execution::{Execution, Happening},
        guard, sizes,
        turns::Run,
    },
    error::Error,
    event::AgentEvent,
    message::{Message, StopReason, ToolCall, ToolResultMessage, now_ms},
    thread::lineage::{self, Line},
    tool::{
        Budget, CallLimits, ExecutionMode, NestedCall, NestedCalls, Tool, ToolOutcome, ToolPool,
        ToolResult, while_blocked,
    },
};

/// The results of a batch.
pub(super) struct Batch {
    pub(super) results: Vec<Arc<Message>>,
    /// Whether all of them say that the run shall end.
    pub(super) terminates: bool,
}

/// What calls are run with: the tools, the hooks, the threads.
#[derive(Clone)]
pub(crate) struct CallScope {
    pub(crate) tools: Arc<[Tool]>,
    pub(crate) hooks: Hooks,
    pub(crate) pool: ToolPool,
    pub(crate) grace: Duration,
    pub(crate) limits: CallLimits,
    pub(crate) budget: Option<Arc<Budget>>,
}

/// Where calls stand: the message that holds them and the messages before it.
#[derive(Clone)]
pub(crate) struct CallSite {
    pub(crate) message: Arc<Message>,
    pub(crate) context: Arc<Vec<Arc<Message>>>,
}

/// A call that may run.
pub(super) struct Prepared {
    pub(super) call: Arc<ToolCall>,
    pub(super) tool: Tool,
    pub(super) arguments: Map<String, Value>,
    /// What the call touches.
    pub(super) resources: Vec<String>,
}

/// A call that has run.
pub(super) struct Ran<'a> {
    call: &'a ToolCall,
    arguments: &'a Map<String, Value>,
    outcome: ToolOutcome,
}

impl Run<'_> {
    /// Runs all calls of a message, of which the first ones were started already. Every one of them has its result then,
    /// whatever happened.
    pub(super) fn run_calls(
        &mut self,
        message: &Arc<Message>,
        started: Vec<Prepared>,
    ) -> Result<Batch, Error> {
        let Some(assistant) = message.as_assistant() else {
            return Ok(Batch { results: Vec::new(), terminates: false });
        };
        let started_calls = started.iter().map(|it| it.call.clone());
        let others = assistant.tool_calls().skip(started.len()).cloned().map(Arc::new);
        let calls: Vec<Arc<ToolCall>> = started_calls.chain(others).collect();
        let hooks = &self.config.hooks;
        let shows_context = hooks.before_tool_call.is_some() || hooks.after_tool_call.is_some();
        let site = CallSite {
            message: message.clone(),
            context: Arc::new(if shows_context { self.context.clone() } else { Vec::new() }),
        };
        let scope = CallScope {
            tools: self.tools.clone(),
            hooks: hooks.clone(),
            pool: self.config.pool.clone(),
            grace: self.config.grace,
            limits: self.config.call_limits,
            budget: Some(self.budget.clone()),
        };
        let batch = if assistant.stop_reason == StopReason::Length {
            self.refuse_all(&calls)?
        } else if self.is_sequential(&calls) {
            self.run_in_turn(&scope, &site, &calls)?
        } else {
            let started = if started.is_empty() { self.start_ahead(message)? } else { started };
            self.run_at_once(&scope, &site, &calls, started)?
        };
        Ok(batch)
    }

    fn is_sequential(&self, calls: &[Arc<ToolCall>]) -> bool {
        let marked = |call: &Arc<ToolCall>| {
            find(&self.tools, &call.name).and_then(Tool::execution_mode)
                == Some(ExecutionMode::Sequential)
        };
        self.config.tool_execution == ExecutionMode::Sequential || calls.iter().any(marked)
    }

    /// Prepares the calls of a message, if they run at the same time, none of them is refused, and nothing of the host's
    /// has a say in that.
    pub(super) fn known_to_run(&self, message: &Message) -> Option<Vec<Prepared>> {
        let assistant = message.as_assistant()?;
        let calls: Vec<Arc<ToolCall>> = assistant.tool_calls().cloned().map(Arc::new).collect();
        let is_plain = !matches!(
            assistant.stop_reason,
            StopReason::Length | StopReason::Error | StopReason::Aborted
        );
        if !is_plain || self.config.hooks.before_tool_call.is_some() || self.is_sequential(&calls) {
            return None;
        }
        let prepare = |call: Arc<ToolCall>| {
            let tool = find(&self.tools, &call.name)
                .filter(|tool| tool.shim().is_none() && tool.touches().is_none())?;
            let limits = tool.call_limits_said().or(self.config.call_limits);
            let arguments = check_arguments(tool, &call, limits.argument_bytes).ok()?;
            Some(Prepared { call, tool: tool.clone(), arguments, resources: Vec::new() })
        };
        calls.into_iter().map(prepare).collect()
    }

    /// A message that was cut off may hold half a call: none of them runs and the model is told.
    fn refuse_all(&mut self, calls: &[Arc<ToolCall>]) -> Result<Batch, Error> {
        let mut batch = Batch { results: Vec::new(), terminates: false };
        for call in calls {
            self.emit(AgentEvent::ToolExecutionStart { call: call.clone() })?;
            let text = "the answer reached its length limit, so this call may be cut off; it was not run: \
                        send it again, in smaller pieces if it is long";
            let outcome = failed(text);
            self.end_call(call, &outcome)?;
            let one =
                self.add_results(std::slice::from_ref(call), std::slice::from_ref(&outcome))?;
            batch.results.extend(one.results);
        }
        Ok(batch)
    }

    fn run_in_turn(
        &mut self,
        scope: &CallScope,
        site: &CallSite,
        calls: &[Arc<ToolCall>],
    ) -> Result<Batch, Error> {
        let mut batch = Batch { results: Vec::new(), terminates: !calls.is_empty() };
        for call in calls {
            self.emit(AgentEvent::ToolExecutionStart { call: call.clone() })?;
            let outcome = match scope.prepare(site, call, self.signal) {
                Err(outcome) => {
                    self.end_call(call, &outcome)?;
                    *outcome
                }
                Ok(prepared) => {
                    let mut outcomes = self.execute(scope, site, vec![prepared])?;
                    outcomes.pop().unwrap_or_else(|| failed("the call was lost"))
                }
            };
            let one =
                self.add_results(std::slice::from_ref(call), std::slice::from_ref(&outcome))?;
            batch.terminates &= one.terminates;
            batch.results.extend(one.results);
        }
        Ok(batch)
    }

    fn run_at_once(
        &mut self,
        scope: &CallScope,
        site: &CallSite,
        calls: &[Arc<ToolCall>],
        mut ready: Vec<Prepared>,
    ) -> Result<Batch, Error> {
        let mut outcomes: Vec<Option<ToolOutcome>> = Vec::new();
        outcomes.resize_with(ready.len(), || None);
        // In the start of the last one the run may have been aborted.
        if self.signal.is_aborted()
            && let Some(last) = ready.pop()
        {
            let outcome = not_run();
            self.end_call(&last.call, &outcome)?;
            outcomes.pop();
            outcomes.push(Some(outcome));
        }
        for call in &calls[outcomes.len()..] {
            self.emit(AgentEvent::ToolExecutionStart { call: call.clone() })?;
            match scope.prepare(site, call, self.signal) {
                Ok(prepared) => {
                    ready.push(prepared);
                    outcomes.push(None);
                }
                Err(outcome) => {
                    self.end_call(call, &outcome)?;
                    outcomes.push(Some(*outcome));
                }
            }
        }
        let mut executed = self.execute(scope, site, ready)?.into_iter();
        let outcomes: Vec<ToolOutcome> = outcomes
            .into_iter()
            .map(|refused| {
                refused.or_else(|| executed.next()).unwrap_or_else(|| failed("the call was lost"))
            })
            .collect();
        self.add_results(calls, &outcomes)
    }

    /// Announces calls together of which it is known that they may run, as far as nobody aborts the run meanwhile; returns
    /// those that were announced.
    fn start_ahead(&mut self, message: &Message) -> Result<Vec<Prepared>, Error> {
        let Some(mut ready) = self.known_to_run(message) else { return Ok(Vec::new()) };
        let start = |it: &Prepared| AgentEvent::ToolExecutionStart { call: it.call.clone() };
        let started = self.predict(ready.iter().map(start).collect())?;
        ready.truncate(started);
        Ok(ready)
    }

    /// Runs prepared calls at the same time; the outcomes come in the order of the calls, the events as things happen.
    fn execute(
        &mut self,
        scope: &CallScope,
        site: &CallSite,
        ready: Vec<Prepared>,
    ) -> Result<Vec<ToolOutcome>, Error> {
        let count = ready.len();
        self.settle()?;
        if self.signal.is_aborted() {
            let outcomes: Vec<ToolOutcome> = ready.iter().map(|_| not_run()).collect();
            for (prepared, outcome) in ready.iter().zip(&outcomes) {
                self.end_call(&prepared.call, outcome)?;
            }
            return Ok(outcomes);
        }
        let mut outcomes: Vec<Option<ToolOutcome>> = (0..count).map(|_| None).collect();
        let mut execution = Execution::start(scope, site, ready, self.signal);
        loop {
            let mut happening = execution.try_next();
            if execution.is_done() && happening.is_none() {
                break;
            }
            // Ends that are there at once are told together, unless a hook has to see each.
            let has_hook =
                scope.hooks.after_tool_call.is_some() || scope.hooks.on_result_cut.is_some();
            if (happening.is_none() || has_hook)
                && let Err(error) = self.settle()
            {
                execution.abandon();
                return Err(error);
            }
            happening = happening.or_else(|| execution.next());
            let Some(happening) = happening else { break };
            let told = match happening {
                Happening::Update(index, partial) => {
                    let call = execution.call(index).clone();
                    self.emit(AgentEvent::ToolExecutionUpdate {
                        call,
                        partial_result: Arc::new(partial),
                    })
                }
                Happening::Ended(index, outcome) => {
                    let call = execution.call(index).clone();
                    let ran = Ran { call: &call, arguments: execution.arguments(index), outcome };
                    let outcome = scope.finish(site, ran, self.signal);
                    let told = self.end_call(&call, &outcome);
                    outcomes[index] = Some(outcome);
                    told
                }
            };
            if let Err(error) = told {
                execution.abandon();
                return Err(error);
            }
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(not_run)).collect())
    }

    fn end_call(&mut self, call: &Arc<ToolCall>, outcome: &ToolOutcome) -> Result<(), Error> {
        self.post(AgentEvent::ToolExecutionEnd {
            call: call.clone(),
            result: Arc::new(outcome.result.clone()),
            is_error: outcome.is_error,
            duration_ms: outcome.duration.map(millis),
        })
    }

    fn add_results(
        &mut self,
        calls: &[Arc<ToolCall>],
        outcomes: &[ToolOutcome],
    ) -> Result<Batch, Error> {
        let mut batch = Batch { results: Vec::new(), terminates: !outcomes.is_empty() };
        for (call, outcome) in calls.iter().zip(outcomes) {
            batch.terminates &= outcome.result.terminate == Some(true);
            self.budget.spend(outcome.result.usage.as_ref().map_or(0.0, |usage| usage.cost.total));
            let message = Arc::new(Message::ToolResult(result_message(call, outcome)));
            self.add_message(message.clone())?;
            batch.results.push(message);
        }
        Ok(batch)
    }
}

impl CallScope {
    /// Finds the tool, prepares and validates the arguments and asks the host; the outcome of a refused call is the error.
    pub(super) fn prepare(
        &self,
        site: &CallSite,
        call: &Arc<ToolCall>,
        signal: &AbortSignal,
    ) -> Result<Prepared, Box<ToolOutcome>> {
        if signal.is_aborted() {
            return Err(Box::new(not_run()));
        }
        let tool = find(&self.tools, &call.name).ok_or_else(|| {
            let names: Vec<&str> = self.tools.iter().map(Tool::name).collect();
            refused(&format!(
                "there is no tool `{}`; the tools are: {}",
                call.name,
                names.join(", ")
            ))
        })?;
        self.prepare_with(tool, site, call, signal)
    }

    fn prepare_with(
        &self,
        tool: &Tool,
        site: &CallSite,
        call: &Arc<ToolCall>,
        signal: &AbortSignal,
    ) -> Result<Prepared, Box<ToolOutcome>> {
        let limits = tool.call_limits_said().or(self.limits);
        let arguments = check_arguments(tool, call, limits.argument_bytes)?;
        // That may have taken a while, and the tool's own preparation may have aborted.
        if signal.is_aborted() {
            return Err(Box::new(not_run()));
        }
        if let Some(hook) = &self.hooks.before_tool_call {
            let view = BeforeToolCall {
                message: &site.message,
                call,
                tool,
                arguments: &arguments,
                context: &site.context,
            };
            match guard(|| hook(&view, signal)) {
                Ok(ToolDecision::Allow) => (),
                Ok(ToolDecision::Block { reason, terminate }) => {
                    let mut outcome =
                        failed(reason.as_deref().unwrap_or("the host did not allow this call"));
                    outcome.result.terminate = terminate.then_some(true);
                    return Err(Box::new(outcome));
                }
                Err(error) => return Err(refused(error.message())),
            }
        }
        let resources = match tool.touches() {
            None => Vec::new(),
            Some(touches) => {
                guard(|| Ok(touches(&arguments))).map_err(|error| refused(error.message()))?
            }
        };
        if signal.is_aborted() {
            return Err(Box::new(not_run()));
        }
        Ok(Prepared { call: call.clone(), tool: tool.clone(), arguments, resources })
    }

    /// Lets the host change what a call gave.
    pub(super) fn finalise(
        &self,
        site: &CallSite,
        ran: Ran<'_>,
        signal: &AbortSignal,
    ) -> ToolOutcome {
        let Ran { call, arguments, mut outcome } = ran;
        let Some(hook) = &self.hooks.after_tool_call else { return outcome };
        if outcome.duration.is_none() {
            return outcome;
        }
        let view = AfterToolCall {
            message: &site.message,
            call,
            arguments,
            result: &outcome.result,
            is_error: outcome.is_error,
            context: &site.context,
        };
        match guard(|| hook(&view, signal)) {
            Ok(None) => outcome,
            Ok(Some(changes)) => {
                change(&mut outcome, changes);
                outcome
            }
            Err(error) => ToolOutcome { duration: outcome.duration, ..failed(error.message()) },
        }
    }

    /// Lets the host change what a call gave and cuts what is too long for the model.
    fn finish(&self, site: &CallSite, ran: Ran<'_>, signal: &AbortSignal) -> ToolOutcome {
        let call = ran.call;
        let mut outcome = self.finalise(site, ran, signal);
        match self.shorten(call, &mut outcome, signal) {
            Ok(()) => outcome,
            Err(error) => ToolOutcome { duration: outcome.duration, ..failed(error.message()) },
        }
    }

    /// Cuts a result that is longer than allowed; the whole goes to the host.
    fn shorten(
        &self,
        call: &ToolCall,
        outcome: &mut ToolOutcome,
        signal: &AbortSignal,
    ) -> Result<(), Error> {
        let said = find(&self.tools, &call.name).map(Tool::call_limits_said).unwrap_or_default();
        let Some(limit) = said.or(self.limits).result_bytes else { return Ok(()) };
        if sizes::text_bytes(&outcome.result) <= limit {
            return Ok(());
        }
        let place = match &self.hooks.on_result_cut {
            None => None,
            Some(hook) => {
                let view = CutResult { call, result: &outcome.result, limit };
                guard(|| hook(&view, signal))?
            }
        };
        sizes::cut(&mut outcome.result, limit, place.as_deref());
        Ok(())
    }

    /// Runs one call without events or messages, blocking until it is done.
    pub(crate) fn run_call(&self, site: &CallSite, nested: &NestedCall<'_>) -> ToolOutcome {
        let signal = nested.signal;
        let call = Arc::new(nested.call.clone());
        let prepared = match nested.tool {
            Some(_) if signal.is_aborted() => return not_run(),
            Some(tool) => self.prepare_with(tool, site, &call, signal),
            None => self.prepare(site, &call, signal),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(outcome) => return *outcome,
        };
        let arguments = prepared.arguments.clone();
        let mut execution = Execution::start(self, site, vec![prepared], signal);
        let outcome = while_blocked(|| {
            loop {
                match execution.next() {
                    Some(Happening::Update(_, partial)) => (nested.on_update)(partial),
                    Some(Happening::Ended(_, outcome)) => return outcome,
                    None => return not_run(),
                }
            }
        });
        self.finalise(site, Ran { call: &call, arguments: &arguments, outcome }, signal)
    }
}

/// The calls that a tool makes itself.
pub(super) struct Nested {
    pub(super) scope: CallScope,
    pub(super) site: CallSite,
    /// Of the run that the calls belong to, whichever thread makes them.
    pub(super) line: Line,
}

impl NestedCalls for Nested {
    fn run(&self, nested: &NestedCall<'_>) -> ToolOutcome {
        let _entered = lineage::enter(self.line.within_present());
        self.scope.pool.beside(|| self.scope.run_call(&self.site, nested))
    }
}

/// The first tool of a name wins.
fn find<'a>(tools: &'a [Tool], name: &str) -> Option<&'a Tool> {
    tools.iter().find(|tool| tool.name() == name)
}

fn check_arguments(
    tool: &Tool,
    call: &ToolCall,
    limit: Option<usize>,
) -> Result<Map<String, Value>, Box<ToolOutcome>> {
    if let Some(error) = &call.arguments_error {
        return Err(refused(&format!("invalid arguments for tool `{}`: {error}", call.name)));
    }
    if let Some(limit) = limit {
        let bytes = sizes::argument_bytes(&call.arguments);
        if bytes > limit {
            return Err(refused(&format!(
                "the arguments for tool `{}` take {bytes} bytes and {limit} are allowed: send less at once, in several calls",
                call.name
            )));
        }
    }
    let schema = tool.schema().map_err(|error| refused(error.message()))?;
    let checked = match tool.shim() {
        None => schema.check(tool.name(), &call.arguments),
        Some(shim) => {
            let raw = call.arguments.clone();
            let reshaped = guard(|| shim(raw)).map_err(|error| refused(error.message()))?;
            schema.check(tool.name(), &reshaped)
        }
    };
    checked.map_err(|text| refused(&text))
}

fn change(outcome: &mut ToolOutcome, changes: ResultChanges) {
    let result = &mut outcome.result;
    if let Some(content) = changes.content {
        result.content = content;
        result.structured_content = None;
    }
    if let Some(structured) = changes.structured_content {
        result.structured_content = Some(structured);
    }
    if let Some(details) = changes.details {
        result.details = Some(details);
    }
    if let Some(usage) = changes.usage {
        result.usage = Some(usage);
    }
    if let Some(is_error) = changes.is_error {
        outcome.is_error = is_error;
    }
    if let Some(terminate) = changes.terminate {
        result.terminate = Some(terminate);
    }
}

/// An error result of the loop's own: one text block, empty details.
pub(super) fn failed(text: &str) -> ToolOutcome {
    ToolOutcome { result: ToolResult::text(text), is_error: true, duration: None }
}

fn refused(text: &str) -> Box<ToolOutcome> {
    Box::new(failed(text))
}

/// The result of a call that an abort kept from running.
pub(super) fn not_run() -> ToolOutcome {
    failed("this call was not run: the run was aborted")
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn result_message(call: &ToolCall, outcome: &ToolOutcome) -> ToolResultMessage {
    let result = &outcome.result;
    ToolResultMessage {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: result.content.clone(),
        details: result.details.clone(),
        usage: result.usage.clone(),
        is_error: outcome.is_error,
        duration_ms: outcome.duration.map(millis),
        timestamp: now_ms(),
        extra: Map::new(),
    }
}
