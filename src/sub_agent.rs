//! Agents as tools of other agents.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    agent::{Agent, AgentOptions, RunEnd, RunOutcome, RunTerms},
    error::Error,
    event::AgentEvent,
    model::Model,
    tool::{Tool, ToolContext, ToolError, ToolResult},
};

/// Makes a tool that gives a task to an agent of its own and returns its last text.
///
/// Every call makes a new agent of these options, so calls run beside each other, each with a transcript that begins anew
/// (with [`AgentOptions::messages`]). The model gives the task as `prompt`.
///
/// - What the agent does is reported as updates, whose `details` are `{"event": …}` with the event's JSON; an update of a
///   message leaves out the message so far, the ends of turns and of the run the messages that were told before.
/// - The result's `details` are `{"messages": […]}`, what the run added. Its `usage` is that of the run with the runs below
///   it, which the usage of the calling run includes. A run that failed or that a limit ended is an error result.
/// - An abort, the deadline and the cost budget of the calling run hold for it too, at any depth. Its `max_requests` and
///   `call_limits` are those of the calling run where it has none of its own.
///
/// The tools of all agents of one tool run on the pool of `options`, which waiting agents do not take up. Hooks, such as
/// an approval of calls, are those of `options`; those of the calling agent see the call of this tool alone.
///
/// Fails as [`Agent::new`] does.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use steerage::{Agent, AgentOptions, agent_tool, testing::{Answer, Scripted}};
///
/// let model = Scripted::new([
///     Answer::new().tool_call("research", json!({"prompt": "When was Oslo founded?"})),
///     Answer::from("About the year 1040."),
///     Answer::from("Oslo is almost a thousand years old."),
/// ]);
/// let options = AgentOptions { stream: Some(model.clone().into()), ..AgentOptions::default() };
/// let research = agent_tool("research", "Finds out facts", model.model(), options.clone())?;
/// let agent = Agent::new(model.model(), AgentOptions { tools: vec![research], ..options })?;
/// let outcome = agent.prompt("How old is Oslo?")?.wait()?;
/// assert_eq!(outcome.text, "Oslo is almost a thousand years old.");
/// # Ok::<(), steerage::Error>(())
/// ```
pub fn agent_tool(
    name: impl Into<String>,
    description: impl Into<String>,
    model: impl Into<Arc<Model>>,
    options: AgentOptions,
) -> Result<Tool, Error> {
    let model = model.into();
    Agent::new(model.clone(), options.clone())?;
    let parameters = json!({
        "type": "object",
        "properties": {
            "prompt": {
                "type": "string",
                "description": "The task, with everything that is needed to know for it: nothing else of this conversation is seen",
            },
        },
        "required": ["prompt"],
        "additionalProperties": false,
    });
    let work = move |arguments: Map<String, Value>, context: &ToolContext| {
        let prompt = arguments.get("prompt").and_then(Value::as_str).unwrap_or_default();
        let agent = Agent::new(model.clone(), options.clone())?;
        work(&agent, prompt, context)
    };
    Ok(Tool::with_schema(name, description, parameters, work))
}

fn work(agent: &Agent, prompt: &str, context: &ToolContext) -> Result<ToolResult, ToolError> {
    let events = agent.events();
    let terms = RunTerms { above: context.budget.clone(), ..RunTerms::default() };
    let run = agent.prompt_on(prompt, terms)?;
    let of_abort = run.clone();
    let _on_abort = context.signal().on_abort(move || of_abort.abort());
    for event in events {
        let details = json!({"event": event.to_lean_json()});
        context.update(ToolResult { details: Some(details), ..ToolResult::default() });
        if matches!(event, AgentEvent::AgentEnd { .. }) {
            break;
        }
    }
    Ok(result_of(run.outcome()?))
}

fn result_of(outcome: RunOutcome) -> ToolResult {
    let reason = match outcome.end {
        RunEnd::Completed | RunEnd::Stopped => None,
        RunEnd::OutOfRequests => Some("it used up its turns before it was done".to_owned()),
        RunEnd::OutOfBudget => Some("it used up what it may cost before it was done".to_owned()),
        RunEnd::Aborted => Some("it was aborted".to_owned()),
        RunEnd::Failed | RunEnd::Broken => {
            let error = outcome.error_message.as_deref().unwrap_or("for an unknown reason");
            Some(format!("it failed: {error}"))
        }
    };
    let text = match &reason {
        None => outcome.text.clone(),
        Some(reason) if outcome.text.is_empty() => format!("the agent gave no answer: {reason}"),
        Some(reason) => format!("{}\n[the agent stopped here: {reason}]", outcome.text),
    };
    ToolResult {
        details: Some(json!({"messages": outcome.messages})),
        is_error: reason.is_some().then_some(true),
        usage: Some(outcome.usage),
        ..ToolResult::text(text)
    }
}
