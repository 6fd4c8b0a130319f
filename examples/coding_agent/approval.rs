//! Asks the person before a call that changes something.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, Write},
    sync::Mutex,
};

use steerage::{AbortSignal, Tool, ToolDecision, ToolError, agent_loop::BeforeToolCall};

/// What may run without a question.
pub(crate) struct Approval {
    allowed: Mutex<BTreeSet<String>>,
}

impl Approval {
    /// Tools that say that they change nothing need no question.
    pub(crate) fn of(tools: &[Tool]) -> Approval {
        let harmless = tools.iter().filter(|tool| tool.said_hints().read_only == Some(true));
        Approval { allowed: Mutex::new(harmless.map(|tool| tool.name().to_owned()).collect()) }
    }

    pub(crate) fn hook(
        self,
    ) -> impl Fn(&BeforeToolCall<'_>, &AbortSignal) -> Result<ToolDecision, ToolError> + Send + Sync
    {
        move |call, _| self.decide(call)
    }

    fn decide(&self, view: &BeforeToolCall<'_>) -> Result<ToolDecision, ToolError> {
        let name = &view.call.name;
        if self.allowed.lock().map_err(|error| error.to_string())?.contains(name) {
            return Ok(ToolDecision::Allow);
        }
        print!("? {name} {} [y]es, [a]lways, or why not: ", serde_json::to_string(view.arguments)?);
        io::stdout().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(match answer.trim() {
            "y" | "yes" => ToolDecision::Allow,
            "a" | "always" => {
                self.allowed.lock().map_err(|error| error.to_string())?.insert(name.clone());
                ToolDecision::Allow
            }
            "" | "n" | "no" => ToolDecision::block("the user said no"),
            reason => ToolDecision::block(format!("the user said no: {reason}")),
        })
    }
}
