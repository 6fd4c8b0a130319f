//! Approval of tool calls: rules decide, or a person does.
//!
//! A [`Gate`] is plugged into [`Hooks::before_tool_call`](crate::Hooks::before_tool_call). What its rules leave open it asks
//! the host through a [`Queue`], which is served like one of [hosted tools](crate::hosted).

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::{
    abort::AbortSignal,
    agent_loop::{BeforeToolCall, BeforeToolCallHook, ToolDecision},
    approval::memory::{Answer, Matter, Memory},
    hosted::{
        Queue,
        answer::{Ended, Slot},
        queue::{self, Sender},
    },
    thread::timer,
    tool::{Tool, ToolHints},
};

mod memory;
mod rule;

pub use crate::approval::{
    memory::Scope,
    rule::{Rule, Verdict},
};

/// What a gate is made with.
#[derive(Debug, Clone, Default)]
pub struct GateOptions {
    /// The first rule that fits a call decides about it. Default: none.
    pub rules: Vec<Rule>,
    /// What becomes of calls that no rule fits. Default: the host is asked.
    pub otherwise: Verdict,
    /// How long a question waits for its answer; then the call is denied. Default: for ever.
    pub timeout: Option<Duration>,
}

/// Makes a gate and the queue of its questions.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use steerage::{
///     Agent, AgentOptions, Tool,
///     approval::{self, GateOptions, Rule},
///     testing::{Answer, Scripted},
/// };
///
/// let (gate, asks) = approval::gate(GateOptions {
///     rules: vec![
///         Rule::allow("*").hints(|hints| hints.read_only == Some(true)),
///         Rule::deny("delete").argument("path", |path| path == "/").reason("not the whole disk"),
///     ],
///     ..GateOptions::default()
/// });
/// let delete = Tool::with_schema("delete", "Deletes a file", json!({"type": "object"}), |_, _| Ok("gone"));
/// let model = Scripted::new([Answer::new().tool_call("delete", json!({"path": "notes"})), Answer::from("It stays.")]);
/// let mut options = AgentOptions { stream: Some(model.clone().into()), tools: vec![delete], ..AgentOptions::default() };
/// options.hooks.before_tool_call = Some(gate.hook());
/// let agent = Agent::new(model.model(), options)?;
///
/// let run = agent.prompt("Delete my notes")?;
/// if let Some(ask) = { asks }.next() {
///     assert_eq!(ask.arguments()["path"], "notes");
///     ask.deny("I still need them");
/// }
/// run.wait()?;
/// assert!(agent.messages().iter().any(|message| message.text() == "I still need them"));
/// # Ok::<(), steerage::Error>(())
/// ```
pub fn gate(options: GateOptions) -> (Gate, Queue<Ask>) {
    let (asks, queue) = queue::channel();
    let inner = Inner { options, asks, memory: Mutex::default() };
    (Gate { inner: Arc::new(inner) }, queue)
}

/// Decides about tool calls before they run. Several agents may share one. Cloning copies a pointer.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
}

struct Inner {
    options: GateOptions,
    asks: Sender<Ask>,
    memory: Mutex<Memory>,
}

impl Gate {
    /// The gate as a hook.
    pub fn hook(&self) -> BeforeToolCallHook {
        let gate = self.clone();
        Arc::new(move |call, signal| Ok(gate.decide(call, signal)))
    }

    /// Decides about one call, for hooks that do more than that. Blocks until the host has answered if it is asked, on the
    /// thread of the hook; an abort ends that at once.
    pub fn decide(&self, call: &BeforeToolCall<'_>, signal: &AbortSignal) -> ToolDecision {
        let options = &self.inner.options;
        // Foreign code: a test that panics refuses the call, as any hook that does.
        let place = options.rules.iter().position(|rule| rule.fits(call));
        let rule = place.map(|place| &options.rules[place]);
        match rule.map_or(options.otherwise, Rule::verdict) {
            Verdict::Allow => ToolDecision::Allow,
            Verdict::Deny => ToolDecision::block(
                rule.and_then(Rule::reason_text)
                    .unwrap_or("the rules of this program do not allow this call"),
            ),
            Verdict::Ask => self.ask(place, call, signal),
        }
    }

    /// Forgets all answers that were given for always.
    pub fn forget(&self) {
        let answers = self.inner.memory.lock().take_answers();
        drop(answers);
    }

    fn ask(
        &self,
        rule: Option<usize>,
        call: &BeforeToolCall<'_>,
        signal: &AbortSignal,
    ) -> ToolDecision {
        let inner = &self.inner;
        let matter =
            Matter { rule, tool: call.call.name.clone(), arguments: call.arguments.clone() };
        let slot = Slot::new();
        // One lock for both: an answer for always given just now is either found or finds this question.
        let known = inner.memory.lock().recall_or_wait(&matter, &slot);
        if let Some(answer) = known {
            return decision(answer);
        }
        let _waits = Waits { memory: &inner.memory, slot: &slot };
        let ask = Ask {
            id: call.call.id.clone(),
            tool: call.tool.clone(),
            matter,
            signal: signal.clone(),
            slot: slot.clone(),
            gate: Arc::downgrade(inner),
        };
        if inner.asks.send(ask).is_err() {
            return ToolDecision::block("this call needs approval, and nobody is there to ask");
        }
        let timeout = inner.options.timeout;
        match slot.wait(signal, timeout.and_then(timer::after)) {
            Ok(answer) => decision(answer),
            Err(Ended::Aborted) => {
                ToolDecision::block("this call was not run: the run was aborted")
            }
            Err(Ended::TimedOut) => {
                let time = timeout.unwrap_or_default();
                ToolDecision::block(format!("nobody approved this call within {time:?}"))
            }
        }
    }
}

fn decision(answer: Answer) -> ToolDecision {
    match answer {
        Answer::Allow => ToolDecision::Allow,
        Answer::Deny(reason) => ToolDecision::block(reason),
    }
}

/// A question no longer waits, whatever came of it.
struct Waits<'a> {
    memory: &'a Mutex<Memory>,
    slot: &'a Arc<Slot<Answer>>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.memory.lock().stop_waiting(self.slot);
    }
}

/// Whether a call may run. It is answered once, from any thread; dropped without an answer the call is denied.
///
/// The run waits for the answer until it is aborted or the time of the gate has passed; an answer for always that was
/// given to another question may settle this one too. Then [`is_wanted`](Ask::is_wanted) is false.
pub struct Ask {
    id: String,
    tool: Tool,
    matter: Matter,
    signal: AbortSignal,
    slot: Arc<Slot<Answer>>,
    gate: Weak<Inner>,
}

impl Ask {
    /// The id of the call.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of the tool.
    pub fn tool_name(&self) -> &str {
        &self.matter.tool
    }

    /// The name of the tool for people.
    pub fn label(&self) -> &str {
        self.tool.label_text()
    }

    /// What the tool does to the world, as far as its maker says.
    pub fn hints(&self) -> ToolHints {
        self.tool.said_hints()
    }

    /// The arguments, coerced and validated.
    pub fn arguments(&self) -> &Map<String, Value> {
        &self.matter.arguments
    }

    /// Fires when the run is aborted.
    pub fn signal(&self) -> &AbortSignal {
        &self.signal
    }

    /// Whether an answer still goes anywhere.
    pub fn is_wanted(&self) -> bool {
        !self.signal.is_aborted() && !self.slot.is_settled()
    }

    /// Lets the call run; false if nobody waits for the answer any more.
    pub fn allow(self) -> bool {
        self.slot.give(Answer::Allow)
    }

    /// Blocks the call. The model is told the reason.
    pub fn deny(self, reason: impl Into<String>) -> bool {
        self.slot.give(Answer::Deny(reason.into()))
    }

    /// Lets the call and later ones of the scope run without a question. Rules that deny stay in force.
    pub fn allow_always(self, scope: Scope) -> bool {
        self.always(scope, &Answer::Allow)
    }

    /// Blocks the call and later ones of the scope without a question, for the same reason.
    pub fn deny_always(self, scope: Scope, reason: impl Into<String>) -> bool {
        self.always(scope, &Answer::Deny(reason.into()))
    }

    fn always(self, scope: Scope, answer: &Answer) -> bool {
        // Remembered first, so that the next call does not ask again. It counts even if nobody waits for this answer.
        let others = self
            .gate
            .upgrade()
            .map(|gate| gate.memory.lock().remember(&self.matter, scope, answer));
        let is_in_time = self.slot.give(answer.clone());
        for slot in others.into_iter().flatten() {
            slot.give(answer.clone());
        }
        is_in_time
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        if !self.slot.is_settled() {
            let reason = "nobody decided about this call, so it was not run";
            self.slot.give(Answer::Deny(reason.to_owned()));
        }
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("id", &self.id)
            .field("tool_name", &self.tool_name())
            .field("is_wanted", &self.is_wanted())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
