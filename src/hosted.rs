//! Tools that the host answers itself, on a thread of its choice.
//!
//! What a game or an editor can do lives on its main thread. A hosted tool puts its calls into a [`Queue`], which the
//! frame loop drains, an event loop selects on, or a thread iterates; each [`Call`] is answered when the host sees fit.

use std::{fmt, sync::Arc, thread};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind},
    hosted::{
        answer::{Ended, Slot},
        queue::Sender,
    },
    schema,
    tool::{Tool, ToolContext, ToolError, ToolHandler, ToolResult},
};

pub(crate) mod answer;
pub(crate) mod queue;

pub use crate::hosted::queue::Queue;

/// Makes a hosted tool whose arguments are of type `A`, and the queue of its calls.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::json;
/// use steerage::{Agent, AgentOptions, hosted, testing::{Answer, Scripted}};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Move {
///     x: i32,
/// }
///
/// let (tool, calls) = hosted::tool::<Move>("move_to", "Moves the player");
/// let model = Scripted::new([Answer::new().tool_call("move_to", json!({"x": 3})), Answer::from("Moved.")]);
/// let options = AgentOptions { stream: Some(model.clone().into()), tools: vec![tool], ..AgentOptions::default() };
/// let agent = Agent::new(model.model(), options)?;
///
/// let mut player = 0;
/// let run = agent.prompt("Go to 3")?;
/// while !run.is_done() {
///     // One frame: what was called since the last one, without waiting.
///     while let Some(call) = calls.try_next() {
///         call.serve(|to: Move| {
///             player = to.x;
///             Ok(format!("the player is at {player}"))
///         });
///     }
///     # run.wait_timeout(Duration::from_millis(1));
/// }
/// assert_eq!(player, 3);
/// # Ok::<(), steerage::Error>(())
/// ```
pub fn tool<A: JsonSchema>(
    name: impl Into<String>,
    description: impl Into<String>,
) -> (Tool, Queue<Call>) {
    let (dispatcher, calls) = queue();
    (dispatcher.tool::<A>(name, description), calls)
}

/// The same with a schema given as JSON.
pub fn tool_with_schema(
    name: impl Into<String>,
    description: impl Into<String>,
    parameters: Value,
) -> (Tool, Queue<Call>) {
    let (dispatcher, calls) = queue();
    (dispatcher.tool_with_schema(name, description, parameters), calls)
}

/// Makes a queue for the calls of many tools, of one agent or of several.
pub fn queue() -> (Dispatcher, Queue<Call>) {
    let (sender, calls) = queue::channel();
    (Dispatcher { sender }, calls)
}

/// Makes tools whose calls go to one queue. Cloning copies a pointer.
#[derive(Clone)]
pub struct Dispatcher {
    sender: Sender<Call>,
}

impl Dispatcher {
    /// Makes a tool whose arguments are of type `A`.
    pub fn tool<A: JsonSchema>(
        &self,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Tool {
        self.tool_with_schema(name, description, schema::for_type::<A>()).typed()
    }

    /// Makes a tool with a schema given as JSON.
    pub fn tool_with_schema(
        &self,
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
    ) -> Tool {
        Tool::with_handler(name, description, parameters, Hosted { sender: self.sender.clone() })
    }
}

/// One call of a hosted tool. It is answered once, from any thread; dropped without an answer it is an error result.
///
/// The run waits for the answer until it is aborted or the tool's time limit has passed. Then
/// [`is_wanted`](Call::is_wanted) is false, [`signal`](Call::signal) has fired, and an answer goes nowhere.
pub struct Call {
    arguments: Map<String, Value>,
    /// Without the way to call other tools, which would keep the whole run in memory.
    context: ToolContext,
    answer: Arc<Slot<Result<ToolResult, ToolError>>>,
}

impl Call {
    /// The id of the call.
    pub fn id(&self) -> &str {
        self.context.call_id()
    }

    /// The name of the tool.
    pub fn tool_name(&self) -> &str {
        self.context.tool_name()
    }

    /// The arguments, coerced and validated.
    pub fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// The arguments as a type. Fails with [`ErrorKind::Tool`] if they are none, which can be where the type is another
    /// than the tool was made with.
    pub fn parse<A: DeserializeOwned>(&self) -> Result<A, Error> {
        serde_json::from_value(Value::Object(self.arguments.clone())).map_err(|error| {
            let message = format!("invalid arguments for tool `{}`: {error}", self.tool_name());
            Error::new(ErrorKind::Tool, message).with_source(error)
        })
    }

    /// Fires when the run is aborted or the tool's time limit has passed.
    pub fn signal(&self) -> &AbortSignal {
        self.context.signal()
    }

    /// Whether an answer still goes anywhere. False after an abort, also for a call that still waits in the queue.
    pub fn is_wanted(&self) -> bool {
        !self.signal().is_aborted() && !self.answer.is_settled()
    }

    /// Reports progress and returns at once. Ignored when the call is not wanted any more.
    pub fn update(&self, partial: impl Into<ToolResult>) {
        self.context.update(partial);
    }

    /// Answers the call and returns at once; false if nobody waits for it any more, as after an abort.
    pub fn respond(self, result: impl Into<ToolResult>) -> bool {
        self.answer.give(Ok(result.into()))
    }

    /// Answers with an error, which the model sees.
    pub fn fail(self, error: impl Into<ToolError>) -> bool {
        self.answer.give(Err(error.into()))
    }

    /// Runs `answer` with the typed arguments, here and now, and answers with what it gives. A call that is not wanted any
    /// more is left out. A panic goes on to the caller, and the call fails.
    pub fn serve<A, R>(self, answer: impl FnOnce(A) -> Result<R, ToolError>) -> bool
    where
        A: DeserializeOwned,
        R: Into<ToolResult>,
    {
        if !self.is_wanted() {
            return false;
        }
        match self.parse().map_err(ToolError::from).and_then(answer) {
            Ok(result) => self.respond(result),
            Err(error) => self.fail(error),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.answer.is_settled() {
            return;
        }
        let how = if thread::panicking() { "panicked over this call" } else { "dropped this call" };
        let text = format!("the host {how} of `{}` without an answer", self.tool_name());
        self.answer.give(Err(text.into()));
    }
}

/// The side of the run.
struct Hosted {
    sender: Sender<Call>,
}

impl ToolHandler for Hosted {
    fn call(
        &self,
        arguments: Map<String, Value>,
        context: &ToolContext,
    ) -> Result<ToolResult, ToolError> {
        let answer = Slot::new();
        let call = Call {
            arguments,
            context: ToolContext { nested: None, ..context.clone() },
            answer: answer.clone(),
        };
        if self.sender.send(call).is_err() {
            let name = context.tool_name();
            return Err(format!("the host does not answer calls of `{name}` any more").into());
        }
        match answer.wait(context.signal(), None) {
            Ok(answer) => answer,
            // The signal tells of an abort and of a time limit alike.
            Err(Ended::Aborted | Ended::TimedOut) => Err(format!(
                "aborted or out of time before the host had answered this call of `{}`: what it has done by now is unknown",
                context.tool_name()
            )
            .into()),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.id())
            .field("tool_name", &self.tool_name())
            .field("is_wanted", &self.is_wanted())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").finish_non_exhaustive()
    }
}
