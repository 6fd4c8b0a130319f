//! Tools: what a model may call.
//!
//! A [`Tool`] is a value: a name, a description for the model, a schema of its arguments and what it does. Cloning it
//! copies a pointer.

use std::{
    error, fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    message::{ConstrainedSampling, Content, ImageContent, form::present},
    schema::{self, Schema, SchemaOptions},
    usage::Usage,
};

mod context;
mod hints;
mod limits;
mod parameters;
mod pool;
mod schedule;

pub use crate::tool::{context::ToolContext, hints::ToolHints, limits::CallLimits, pool::ToolPool};
pub(crate) use crate::tool::{
    context::{NestedCall, NestedCalls},
    limits::{Budget, PassedDown},
    pool::while_blocked,
    schedule::{Planned, Schedule},
};

/// What a failing tool returns: any error, or a text. The model sees its text.
pub type ToolError = Box<dyn error::Error + Send + Sync>;

/// Runs a tool. It is called on a thread of the agent's tool pool, several calls at once.
///
/// A panic is caught and becomes an error result. A call that takes long should look at [`ToolContext::signal`].
pub trait ToolHandler: Send + Sync {
    /// Runs one call with arguments that were coerced and validated.
    fn call(
        &self,
        arguments: Map<String, Value>,
        context: &ToolContext,
    ) -> Result<ToolResult, ToolError>;
}

/// Reshapes the arguments of the model before they are validated.
pub type PrepareArguments =
    Arc<dyn Fn(Map<String, Value>) -> Result<Map<String, Value>, ToolError> + Send + Sync>;

/// Names what a call touches, from its arguments.
pub type CallResources = Arc<dyn Fn(&Map<String, Value>) -> Vec<String> + Send + Sync>;

/// A tool that a model may call.
///
/// # Examples
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use steerage::Tool;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     a: f64,
///     /// The number that is added.
///     b: f64,
/// }
///
/// let add = Tool::new("add", "Adds two numbers", |args: Add, _| Ok((args.a + args.b).to_string()));
/// assert_eq!(add.name(), "add");
/// ```
#[derive(Clone)]
pub struct Tool {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    /// Whether the parameters were made from a type.
    is_typed: bool,
    name: String,
    description: String,
    label: Option<String>,
    parameters: Value,
    schema_options: SchemaOptions,
    output_schema: Option<Value>,
    constrained_sampling: Option<ConstrainedSampling>,
    execution: Option<ExecutionMode>,
    replay: ReplayPolicy,
    hints: ToolHints,
    time_limit: Option<Duration>,
    call_limits: CallLimits,
    resources: Option<CallResources>,
    prepare_arguments: Option<PrepareArguments>,
    handler: Arc<dyn ToolHandler>,
    /// Prepared at the first use and kept; an unusable schema is an error when the tool is given to an agent.
    schema: OnceLock<Result<Schema, String>>,
    /// What the model is told of the parameters, made at the first use.
    declared: OnceLock<Value>,
}

/// Whether the calls of one batch run at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionMode {
    /// At the same time.
    #[default]
    Parallel,
    /// One after another, each with its result before the next starts.
    Sequential,
}

/// What may be done with a call whose outcome is unknown after a crash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayPolicy {
    /// It must not run again.
    #[default]
    Never,
    /// It may run again.
    Safe,
}

/// What a tool call gives.
///
/// Text and numbers that a closure returns become one with a single text block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// What the model sees.
    #[serde(default)]
    pub content: Vec<Content>,
    /// What the host keeps; never sent to a model. Results made by a function of this type have an empty object.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The result as data, for tools with an output schema.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// What the call itself cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the call failed, for results that keep their details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Whether the run shall end with this batch, if all its results say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminate: Option<bool>,
}

/// What came of a call that went through preparation, hooks and execution.
#[derive(Debug, Clone)]
pub struct ToolOutcome {
    /// The result.
    pub result: ToolResult,
    /// Whether the call failed or was refused.
    pub is_error: bool,
    /// How long the tool ran; `None` if it did not run.
    pub duration: Option<Duration>,
}

impl Tool {
    /// Makes a tool of a closure that takes typed arguments; the schema comes from the type.
    ///
    /// Doc comments on the type's fields become descriptions for the model.
    pub fn new<A, R, F>(name: impl Into<String>, description: impl Into<String>, run: F) -> Tool
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: Into<ToolResult> + 'static,
        F: Fn(A, &ToolContext) -> Result<R, ToolError> + Send + Sync + 'static,
    {
        let handler = move |arguments: Map<String, Value>, context: &ToolContext| {
            let arguments = serde_json::from_value(Value::Object(arguments)).map_err(|error| {
                format!("invalid arguments for tool `{}`: {error}", context.tool_name())
            })?;
            run(arguments, context).map(Into::into)
        };
        Tool::assemble(
            name.into(),
            description.into(),
            schema::for_type::<A>(),
            Arc::new(Function(handler)),
        )
        .typed()
    }

    /// Makes a tool of a closure that takes JSON, with a schema given as JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde_json::json;
    /// use steerage::Tool;
    ///
    /// let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    /// let shout = Tool::with_schema("shout", "Says it loudly", parameters, |arguments, _| {
    ///     Ok(arguments["text"].as_str().unwrap_or_default().to_uppercase())
    /// });
    /// # assert_eq!(shout.name(), "shout");
    /// ```
    pub fn with_schema<R, F>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        run: F,
    ) -> Tool
    where
        R: Into<ToolResult> + 'static,
        F: Fn(Map<String, Value>, &ToolContext) -> Result<R, ToolError> + Send + Sync + 'static,
    {
        let handler = move |arguments: Map<String, Value>, context: &ToolContext| {
            run(arguments, context).map(Into::into)
        };
        Tool::assemble(name.into(), description.into(), parameters, Arc::new(Function(handler)))
    }

    /// Makes a tool of a handler.
    pub fn with_handler(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        handler: impl ToolHandler + 'static,
    ) -> Tool {
        Tool::assemble(name.into(), description.into(), parameters, Arc::new(handler))
    }

    fn assemble(
        name: String,
        description: String,
        parameters: Value,
        handler: Arc<dyn ToolHandler>,
    ) -> Tool {
        Tool {
            inner: Arc::new(Inner {
                name,
                description,
                label: None,
                parameters,
                schema_options: SchemaOptions::default(),
                is_typed: false,
                output_schema: None,
                constrained_sampling: None,
                execution: None,
                replay: ReplayPolicy::default(),
                hints: ToolHints::default(),
                time_limit: None,
                call_limits: CallLimits::default(),
                resources: None,
                prepare_arguments: None,
                handler,
                schema: OnceLock::new(),
                declared: OnceLock::new(),
            }),
        }
    }

    /// Says that the parameters were made from a type.
    pub(crate) fn typed(self) -> Tool {
        self.with(|inner| inner.is_typed = true)
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Tool {
        change(Arc::make_mut(&mut self.inner));
        self
    }

    /// Gives it a name for people. Default: its name.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Tool {
        self.with(|inner| inner.label = Some(label.into()))
    }

    /// Says whether batches with a call of this tool run one after another. Default: the agent decides.
    #[must_use]
    pub fn execution(self, mode: ExecutionMode) -> Tool {
        self.with(|inner| inner.execution = Some(mode))
    }

    /// Makes every batch with a call of this tool run one after another.
    #[must_use]
    pub fn sequential(self) -> Tool {
        self.execution(ExecutionMode::Sequential)
    }

    /// Says what may be done with a call whose outcome is unknown after a crash. Default: never again.
    #[must_use]
    pub fn replay(self, policy: ReplayPolicy) -> Tool {
        self.with(|inner| inner.replay = policy)
    }

    /// Says what it does to the world, for rules of approval. Default: unsaid.
    #[must_use]
    pub fn hints(self, hints: ToolHints) -> Tool {
        self.with(|inner| inner.hints = hints)
    }

    /// Limits how long a call may take; passing it fires the call's own signal. Default: no limit.
    #[must_use]
    pub fn time_limit(self, limit: Duration) -> Tool {
        self.with(|inner| inner.time_limit = Some(limit))
    }

    /// Limits how many of its calls are at work at once and how long arguments and results are. Default: as the agent says.
    #[must_use]
    pub fn call_limits(self, limits: CallLimits) -> Tool {
        self.with(|inner| inner.call_limits = limits)
    }

    /// Names what a call touches, such as a path, from its checked arguments. Of the calls of one message those that touch
    /// the same run one after another in their order, of whichever tools they are; the others run at the same time.
    ///
    /// Names are compared as they are, so write the same thing in the same way. It runs on the run's thread before the
    /// call; a panic refuses the call. Default: nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde_json::json;
    /// use steerage::Tool;
    ///
    /// let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    /// let touch = Tool::with_schema("touch", "Makes a file", schema, |_, _| Ok(()))
    ///     .resources(|arguments| arguments["path"].as_str().map(str::to_owned).into_iter().collect());
    /// # assert_eq!(touch.name(), "touch");
    /// ```
    #[must_use]
    pub fn resources(
        self,
        resources: impl Fn(&Map<String, Value>) -> Vec<String> + Send + Sync + 'static,
    ) -> Tool {
        self.with(|inner| inner.resources = Some(Arc::new(resources)))
    }

    /// Reshapes the arguments of the model before they are validated, for example old names to new ones.
    #[must_use]
    pub fn prepare_arguments(
        self,
        prepare: impl Fn(Map<String, Value>) -> Result<Map<String, Value>, ToolError>
        + Send
        + Sync
        + 'static,
    ) -> Tool {
        self.with(|inner| inner.prepare_arguments = Some(Arc::new(prepare)))
    }

    /// Says what successful results carry as `structured_content`.
    #[must_use]
    pub fn output_schema(self, schema: Value) -> Tool {
        self.with(|inner| inner.output_schema = Some(schema))
    }

    /// Says how the vendor shall constrain the arguments. Default: not at all.
    #[must_use]
    pub fn constrained_sampling(self, constraint: ConstrainedSampling) -> Tool {
        self.with(|inner| inner.constrained_sampling = Some(constraint))
    }

    /// The name that calls use.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The name for people.
    pub fn label_text(&self) -> &str {
        self.inner.label.as_deref().unwrap_or(&self.inner.name)
    }

    /// What it does, for the model.
    pub fn description(&self) -> &str {
        &self.inner.description
    }

    /// The schema of its arguments, as it was given.
    pub fn parameters(&self) -> &Value {
        &self.inner.parameters
    }

    /// What successful results carry as `structured_content`.
    pub fn output(&self) -> Option<&Value> {
        self.inner.output_schema.as_ref()
    }

    /// What may be done with a call whose outcome is unknown after a crash.
    pub fn replay_policy(&self) -> ReplayPolicy {
        self.inner.replay
    }

    /// What it does to the world, as far as its maker says.
    pub fn said_hints(&self) -> ToolHints {
        self.inner.hints
    }

    pub(crate) fn execution_mode(&self) -> Option<ExecutionMode> {
        self.inner.execution
    }

    pub(crate) fn limit(&self) -> Option<Duration> {
        self.inner.time_limit
    }

    pub(crate) fn call_limits_said(&self) -> CallLimits {
        self.inner.call_limits
    }

    pub(crate) fn touches(&self) -> Option<&CallResources> {
        self.inner.resources.as_ref()
    }

    pub(crate) fn shim(&self) -> Option<&PrepareArguments> {
        self.inner.prepare_arguments.as_ref()
    }

    pub(crate) fn handler(&self) -> &Arc<dyn ToolHandler> {
        &self.inner.handler
    }
}

struct Function<F>(F);

impl<F> ToolHandler for Function<F>
where
    F: Fn(Map<String, Value>, &ToolContext) -> Result<ToolResult, ToolError> + Send + Sync,
{
    fn call(
        &self,
        arguments: Map<String, Value>,
        context: &ToolContext,
    ) -> Result<ToolResult, ToolError> {
        (self.0)(arguments, context)
    }
}

impl ToolResult {
    /// Makes a result of one text block.
    pub fn text(text: impl Into<String>) -> ToolResult {
        ToolResult::from(vec![Content::text(text)])
    }

    /// Makes a result of one image.
    pub fn image(image: ImageContent) -> ToolResult {
        ToolResult::from(vec![Content::Image(image)])
    }

    /// Makes an error result of one text block.
    pub fn error(text: impl Into<String>) -> ToolResult {
        ToolResult { is_error: Some(true), ..ToolResult::text(text) }
    }

    /// Makes a result of data: the model sees it as compact JSON text, programs as `structured_content`.
    pub fn structured(value: Value) -> ToolResult {
        let text = value.to_string();
        ToolResult { structured_content: Some(value), ..ToolResult::text(text) }
    }

    /// Keeps `details` for the host.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> ToolResult {
        self.details = Some(details);
        self
    }

    /// Says that the run shall end with this batch, if all its results say so.
    #[must_use]
    pub fn terminating(mut self) -> ToolResult {
        self.terminate = Some(true);
        self
    }
}

impl From<String> for ToolResult {
    fn from(text: String) -> ToolResult {
        ToolResult::text(text)
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> ToolResult {
        ToolResult::text(text)
    }
}

impl From<()> for ToolResult {
    /// A tool that has nothing to say tells the model that it is done.
    fn from((): ()) -> ToolResult {
        ToolResult::text("done")
    }
}

impl From<Value> for ToolResult {
    fn from(value: Value) -> ToolResult {
        ToolResult::structured(value)
    }
}

impl From<ImageContent> for ToolResult {
    fn from(image: ImageContent) -> ToolResult {
        ToolResult::image(image)
    }
}

impl From<Vec<Content>> for ToolResult {
    fn from(content: Vec<Content>) -> ToolResult {
        let details = Some(Value::Object(Map::new()));
        ToolResult { content, details, ..ToolResult::default() }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.inner.name).finish_non_exhaustive()
    }
}
