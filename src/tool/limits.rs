//! What calls may take, and what a run may cost.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// What tool calls may take. `None` is no limit.
///
/// An agent has one for all its calls and each [`Tool`](crate::Tool) may have one for its own; the sizes of the tool win
/// over those of the agent, and both numbers of calls hold.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use steerage::{AgentOptions, CallLimits, Tool};
///
/// // One call of the printer at a time, four of all tools, and no result fills the model's context.
/// let printer = Tool::with_schema("print", "Prints a page", json!({"type": "object"}), |_, _| Ok(()))
///     .call_limits(CallLimits { at_once: Some(1), ..CallLimits::default() });
/// let options = AgentOptions {
///     tools: vec![printer],
///     call_limits: CallLimits { at_once: Some(4), result_bytes: Some(50_000), ..CallLimits::default() },
///     ..AgentOptions::default()
/// };
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// How many calls of one message are at work at once, at least one; the others wait for their turn in their order.
    /// Calls that a tool makes itself are not counted, since it waits for them.
    pub at_once: Option<usize>,
    /// How long the arguments may be, in bytes of compact JSON. A longer call does not run and the model is told.
    pub argument_bytes: Option<usize>,
    /// How long the text of a result may be, in bytes. A longer one is cut in the middle with a note for the model; the
    /// whole goes to [`Hooks::on_result_cut`](crate::Hooks::on_result_cut). Calls that a tool makes itself get the whole.
    pub result_bytes: Option<usize>,
}

/// What a run and the runs that it starts have cost, against what they may cost.
#[derive(Debug)]
pub(crate) struct Budget {
    most: Option<f64>,
    /// The bits of a float.
    spent: AtomicU64,
    /// Of the run that this one serves. What is spent here counts there until it is [settled](Budget::settle).
    above: Option<Arc<Budget>>,
    /// What the run of a sub-agent takes over where it has no limits of its own.
    pub(crate) passed_down: PassedDown,
}

/// Limits that a sub-agent takes over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PassedDown {
    pub(crate) max_requests: Option<u32>,
    pub(crate) call_limits: CallLimits,
}

impl CallLimits {
    /// These limits where they are set, else those of `other`.
    #[must_use]
    pub fn or(self, other: CallLimits) -> CallLimits {
        CallLimits {
            at_once: self.at_once.or(other.at_once),
            argument_bytes: self.argument_bytes.or(other.argument_bytes),
            result_bytes: self.result_bytes.or(other.result_bytes),
        }
    }
}

impl Budget {
    pub(crate) fn new(
        most: Option<f64>,
        above: Option<Arc<Budget>>,
        passed_down: PassedDown,
    ) -> Arc<Budget> {
        Arc::new(Budget { most, spent: AtomicU64::new(0), above, passed_down })
    }

    /// Adds a cost in US dollars, here and for the runs that this one serves.
    pub(crate) fn spend(&self, cost: f64) {
        if cost.is_finite() && cost != 0.0 {
            self.line().for_each(|budget| budget.add(cost));
        }
    }

    /// Whether this run or one that it serves may spend no more.
    pub(crate) fn is_spent(&self) -> bool {
        self.line().any(|budget| budget.most.is_some_and(|most| budget.spent() >= most))
    }

    /// Takes what was spent here off the runs above: it comes to them as the usage of a result.
    pub(crate) fn settle(&self) {
        let spent = self.spent();
        self.line().skip(1).for_each(|budget| budget.add(-spent));
    }

    fn spent(&self) -> f64 {
        f64::from_bits(self.spent.load(Ordering::Acquire))
    }

    fn add(&self, cost: f64) {
        let sum = |bits| Some((f64::from_bits(bits) + cost).to_bits());
        let _ = self.spent.fetch_update(Ordering::AcqRel, Ordering::Acquire, sum);
    }

    fn line(&self) -> impl Iterator<Item = &Budget> {
        std::iter::successors(Some(self), |budget| budget.above.as_deref())
    }
}
