//! The turns of a run, step by step.

use std::sync::Arc;

use crate::{
    abort::AbortSignal,
    agent_loop::{
        EventSink, LoopContext, LoopEnd, LoopResult, RunStart, Surroundings,
        config::{ContextChanges, LoopConfig, MessageQueue, NextTurn, Turn, TurnDecision},
        declare::announce,
        guard,
        response::Response,
        stop_reason,
    },
    error::Error,
    event::AgentEvent,
    message::{Message, StopReason, shared},
    tool::{Budget, PassedDown, Tool},
};

/// A run at work.
pub(super) struct Run<'a> {
    pub(super) config: LoopConfig,
    pub(super) signal: &'a AbortSignal,
    surroundings: Surroundings<'a>,
    pub(super) context: Vec<Arc<Message>>,
    pub(super) tools: Arc<[Tool]>,
    added: Vec<Arc<Message>>,
    requests: u32,
    pub(super) budget: Arc<Budget>,
}

/// What a turn gave.
struct TurnRecord {
    message: Arc<Message>,
    results: Vec<Arc<Message>>,
    /// Whether the results ask for another request.
    asks: bool,
}

/// A message that waits to be added, and the queue that gave it.
struct Pending {
    message: Arc<Message>,
    queue: Option<Arc<dyn MessageQueue>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        context: LoopContext,
        config: LoopConfig,
        mut surroundings: Surroundings<'a>,
    ) -> Run<'a> {
        let passed_down =
            PassedDown { max_requests: config.max_requests, call_limits: config.call_limits };
        let budget = Budget::new(config.max_cost, surroundings.above.take(), passed_down);
        Run {
            config,
            signal: surroundings.signal,
            surroundings,
            context: context.messages,
            tools: context.tools.into(),
            added: Vec::new(),
            requests: 0,
            budget,
        }
    }

    pub(super) fn run(mut self, start: RunStart) -> Result<LoopResult, Error> {
        let queue = start.queue;
        let prompts: Vec<_> = start
            .prompts
            .into_iter()
            .map(|message| Pending { message, queue: queue.clone() })
            .collect();
        let continues = prompts.is_empty();
        self.post(AgentEvent::AgentStart)?;
        self.post(AgentEvent::TurnStart)?;
        if !continues {
            self.add(&prompts)?;
        }
        self.settle()?;
        let mut pending = if start.skip_first_poll { Vec::new() } else { self.poll_steering()? };
        let mut last: Option<TurnRecord> = None;
        // Whether the next turn was announced together with the end of the one before.
        let mut is_begun = false;
        let end = loop {
            if let Some(last) = last.take() {
                let mut prepared = self.prepare_next_turn(&last)?;
                if pending.is_empty() {
                    pending = self.poll_steering()?;
                }
                if !is_begun {
                    self.emit(AgentEvent::TurnStart)?;
                }
                prepared.append(&mut pending);
                pending = prepared;
            }
            self.add(&std::mem::take(&mut pending))?;
            let turn = self.turn()?;
            let failed =
                matches!(stop_reason(&turn.message), StopReason::Error | StopReason::Aborted);
            let decision = self.finish_turn(&turn)?;
            is_begun = self.end_turn(&turn, decision)?;
            if failed {
                break LoopEnd::Natural;
            }
            if !is_begun && (decision == TurnDecision::End || self.config.stop.is_asked()) {
                break LoopEnd::Stopped;
            }
            pending = self.poll_steering()?;
            if pending.is_empty() && !turn.asks {
                pending = poll(self.config.follow_ups.as_ref())?;
                if pending.is_empty() && decision != TurnDecision::Continue {
                    break LoopEnd::Natural;
                }
            }
            if let Some(end) = self.used_up(is_begun) {
                break end;
            }
            last = Some(turn);
        };
        let messages = std::mem::take(&mut self.added);
        self.emit(AgentEvent::AgentEnd { messages: messages.clone() })?;
        self.budget.settle();
        Ok(LoopResult { messages, end })
    }

    /// Ends a turn. Where another is sure to follow, it is begun in the same breath; tells whether it was.
    fn end_turn(&mut self, turn: &TurnRecord, decision: TurnDecision) -> Result<bool, Error> {
        self.post(AgentEvent::TurnEnd {
            message: turn.message.clone(),
            tool_results: turn.results.clone(),
        })?;
        let goes_on = turn.asks
            && decision != TurnDecision::End
            && self.config.hooks.prepare_next_turn.is_none()
            && !self.is_out_of_requests()
            && !self.budget.is_spent();
        let next = if goes_on { vec![AgentEvent::TurnStart] } else { Vec::new() };
        Ok(self.predict(next)? > 0)
    }

    /// The end of a run that may take no further turn.
    fn used_up(&self, is_begun: bool) -> Option<LoopEnd> {
        if self.is_out_of_requests() {
            return Some(LoopEnd::OutOfRequests);
        }
        // Runs beside this one may have spent the rest since the next turn was announced.
        (!is_begun && self.budget.is_spent()).then_some(LoopEnd::OutOfBudget)
    }

    fn is_out_of_requests(&self) -> bool {
        self.config.max_requests.is_some_and(|most| self.requests >= most)
    }

    pub(super) fn emit(&mut self, event: AgentEvent) -> Result<(), Error> {
        self.with_sink(|sink| sink.emit(event))
    }

    /// Tells an event later: with the next that is told, and before anything of the host's runs.
    pub(super) fn post(&mut self, event: AgentEvent) -> Result<(), Error> {
        self.with_sink(|sink| sink.post(event))
    }

    pub(super) fn settle(&mut self) -> Result<(), Error> {
        self.with_sink(|sink| sink.settle())
    }

    /// Tells what was posted, and then these as long as nobody aborts or stops the run; returns how many.
    pub(super) fn predict(&mut self, events: Vec<AgentEvent>) -> Result<usize, Error> {
        let mut told = 0;
        self.with_sink(|sink| {
            told = sink.predict(events)?;
            Ok(())
        })?;
        Ok(told)
    }

    /// The sink is the host's: a panic in it breaks the run, not the thread.
    pub(super) fn with_sink(
        &mut self,
        tell: impl FnOnce(&mut dyn EventSink) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let sink = &mut *self.surroundings.sink;
        guard(|| Ok(tell(sink)))?
    }

    /// Puts a message that was announced already into the context.
    pub(super) fn keep(&mut self, message: Arc<Message>) {
        self.context.push(message.clone());
        self.added.push(message);
    }

    /// Puts a whole message into the context; it is announced later.
    pub(super) fn add_message(&mut self, message: Arc<Message>) -> Result<(), Error> {
        self.post(AgentEvent::MessageStart { message: message.clone() })?;
        self.keep(message.clone());
        self.post(AgentEvent::MessageEnd { message })
    }

    /// Adds pending messages, with the change of tools that the model has not been told of.
    fn add(&mut self, pending: &[Pending]) -> Result<(), Error> {
        let messages: Vec<_> = pending.iter().map(|pending| pending.message.clone()).collect();
        let announced = announce(&self.context, messages, &self.tools);
        // A message that only tells of tools comes first; the others stand in their order.
        let extra = announced.len() - pending.len();
        for (index, message) in announced.into_iter().enumerate() {
            let pending = index.checked_sub(extra).and_then(|index| pending.get(index));
            let Some(Pending { queue: Some(queue), .. }) = pending else {
                self.add_message(message)?;
                continue;
            };
            self.emit(AgentEvent::MessageStart { message: message.clone() })?;
            self.keep(message.clone());
            let told = self.emit(AgentEvent::MessageEnd { message: message.clone() });
            // It stands in the transcript, even if a listener failed at that: taken back it would come twice.
            guard(|| {
                queue.delivered(&message);
                Ok(())
            })?;
            told?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<TurnRecord, Error> {
        self.requests += 1;
        let Response { message, started } = self.respond()?;
        self.budget.spend(message.as_assistant().map_or(0.0, |message| message.usage.cost.total));
        let failed = matches!(stop_reason(&message), StopReason::Error | StopReason::Aborted);
        let has_calls =
            message.as_assistant().is_some_and(|message| message.tool_calls().next().is_some());
        if failed || !has_calls {
            return Ok(TurnRecord { message, results: Vec::new(), asks: false });
        }
        let batch = self.run_calls(&message, started)?;
        Ok(TurnRecord { message, asks: !batch.terminates, results: batch.results })
    }

    fn finish_turn(&mut self, turn: &TurnRecord) -> Result<TurnDecision, Error> {
        if self.config.hooks.finish_turn.is_some() {
            self.settle()?;
        }
        let Some(hook) = &self.config.hooks.finish_turn else { return Ok(TurnDecision::Proceed) };
        let view = Turn {
            message: &turn.message,
            tool_results: &turn.results,
            context: &self.context,
            new_messages: &self.added,
        };
        guard(|| hook(&view, self.signal))
    }

    fn prepare_next_turn(&mut self, turn: &TurnRecord) -> Result<Vec<Pending>, Error> {
        let Some(hook) = self.config.hooks.prepare_next_turn.clone() else { return Ok(Vec::new()) };
        if self.signal.is_aborted() {
            return Ok(Vec::new());
        }
        let view = Turn {
            message: &turn.message,
            tool_results: &turn.results,
            context: &self.context,
            new_messages: &self.added,
        };
        let Some(NextTurn { changes, messages }) = guard(|| hook(&view, self.signal))? else {
            return Ok(Vec::new());
        };
        self.change(changes);
        Ok(shared(messages).into_iter().map(|message| Pending { message, queue: None }).collect())
    }

    pub(super) fn change(&mut self, changes: ContextChanges) {
        let ContextChanges { model, thinking_level, messages, tools } = changes;
        if let Some(model) = model {
            self.config.model = model;
        }
        if let Some(level) = thinking_level {
            self.config.thinking_level = level;
        }
        if let Some(messages) = messages {
            self.context = messages;
        }
        if let Some(tools) = tools {
            self.tools = tools.into();
        }
    }

    fn poll_steering(&self) -> Result<Vec<Pending>, Error> {
        poll(self.config.steering.as_ref())
    }
}

fn poll(queue: Option<&Arc<dyn MessageQueue>>) -> Result<Vec<Pending>, Error> {
    let Some(queue) = queue else { return Ok(Vec::new()) };
    let messages = guard(|| Ok(queue.poll()))?;
    let pending = |message| Pending { message, queue: Some(queue.clone()) };
    Ok(messages.into_iter().map(pending).collect())
}
