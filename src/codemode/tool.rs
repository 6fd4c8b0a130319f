//! The tool that an agent gets: scripts whose tools are called through the agent.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    abort::AbortSignal,
    codemode::{
        catalogue::{Catalogue, SEARCH},
        execution::{Execution, ScriptError, ScriptErrorKind},
        limits::Limits,
        report::{self, Record},
        sandbox::{Sandbox, ScriptCall, ScriptHost, ScriptTool},
        shelf::Shelf,
        source::SourceOptions,
    },
    message::{Content, ToolCall},
    tool::{NestedCall, Tool, ToolContext, ToolError, ToolOutcome, ToolResult, while_blocked},
};

/// How a code-mode tool behaves.
#[derive(Debug, Clone)]
pub struct CodeModeOptions {
    /// The name that the model calls it by. Default: `codemode`.
    pub name: String,
    /// What a script may use up.
    pub limits: Limits,
    /// With more tools than this their declarations are not part of the description: scripts look them up with
    /// `tools.search_tools`. Default: 40.
    pub declare_at_most: usize,
    /// How much text of one script the model gets, in tokens as estimated, if the script does not ask for another number;
    /// longer text is cut in the middle. Default: 10,000.
    pub output_tokens: u64,
}

impl Default for CodeModeOptions {
    fn default() -> CodeModeOptions {
        CodeModeOptions {
            name: "codemode".to_owned(),
            limits: Limits::default(),
            declare_at_most: 40,
            output_tokens: 10_000,
        }
    }
}

/// Makes a tool whose calls are scripts that call `tools`.
///
/// Every nested call goes the way of a direct one: it is validated, the hooks of the agent see and may refuse it, its time
/// limit and the signal hold. It needs no place among the agent's own tools; give the agent the code-mode tool alone, or
/// also those that the model shall call directly. [`ExecutionMode::Sequential`](crate::ExecutionMode) does not order the
/// calls of a script, which awaits what must come first.
///
/// A script gets the `structured_content` of tools with an output schema, and the text of others; of a result with images
/// it gets the list of blocks. A failed call throws an `Error` with the text of the result. `store` and `load` keep JSON
/// values from script to script, as long as this tool lives.
///
/// The details of a result hold `nestedCalls`: name, arguments (shortened), status and `durationMs` of the first hundred
/// calls. Its usage is what they cost together. What nested tools report while they run arrives as updates whose details
/// name the `tool`.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use steerage::{Agent, AgentOptions, Tool, codemode, testing::{Answer, Scripted}};
///
/// let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
/// let square = Tool::with_schema("square", "Squares a number", parameters, |arguments, _| {
///     let n = arguments["n"].as_i64().unwrap_or_default();
///     Ok(json!({"square": n * n}))
/// })
/// .output_schema(json!({"type": "object", "properties": {"square": {"type": "integer"}}}));
///
/// let script = "let sum = 0; for (const n of [1, 2, 3]) sum += (await tools.square({n})).square; return sum";
/// let model = Scripted::new([
///     Answer::new().tool_call("codemode", json!({"code": script})),
///     Answer::new().text("The sum is 14."),
/// ]);
/// let agent = Agent::new(model.model(), AgentOptions {
///     stream: Some(model.clone().into()),
///     tools: vec![codemode::tool([square])],
///     ..AgentOptions::default()
/// })?;
/// agent.prompt("Add up the first squares.")?.wait()?;
/// let told = agent.messages().iter().find_map(|message| Some(message.as_tool_result()?.content[0].clone()));
/// assert_eq!(told.unwrap().as_text(), Some("14"));
/// # Ok::<(), steerage::Error>(())
/// ```
pub fn tool(tools: impl IntoIterator<Item = Tool>) -> Tool {
    tool_with(tools, CodeModeOptions::default())
}

/// The same with options.
pub fn tool_with(tools: impl IntoIterator<Item = Tool>, options: CodeModeOptions) -> Tool {
    let others = tools.into_iter().filter(|tool| tool.name() != options.name);
    let catalogue = Arc::new(Catalogue::new(others.collect(), options.declare_at_most));
    let description = catalogue.description();
    let shelf = Arc::new(Shelf::default());
    let sandbox = Sandbox::new(options.limits).keeping(shelf.clone());
    let output_tokens = options.output_tokens;
    let mode = CodeMode { catalogue, sandbox, shelf, output_tokens };
    Tool::new(options.name, description, move |arguments: Arguments, context| {
        Ok(mode.run(&arguments.code, context))
    })
    .label("Code")
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The body of an asynchronous JavaScript function.
    code: String,
}

struct CodeMode {
    catalogue: Arc<Catalogue>,
    sandbox: Sandbox,
    shelf: Arc<Shelf>,
    output_tokens: u64,
}

/// The agent as scripts see it.
struct AgentHost {
    catalogue: Arc<Catalogue>,
    context: ToolContext,
    record: Arc<Record>,
}

impl CodeMode {
    fn run(&self, code: &str, context: &ToolContext) -> ToolResult {
        let record = Arc::new(Record::default());
        let (options, mut execution) = match SourceOptions::split(code) {
            Ok((options, script)) => {
                let host = AgentHost {
                    catalogue: self.catalogue.clone(),
                    context: context.clone(),
                    record: record.clone(),
                };
                let execution = while_blocked(|| {
                    self.sandbox.execute_split(script, &options, Arc::new(host), context.signal())
                });
                (options, execution)
            }
            Err(message) => {
                let error = ScriptError::plain(ScriptErrorKind::Script, message);
                (SourceOptions::default(), Execution::failed(error))
            }
        };
        self.shelf.keep(std::mem::take(&mut execution.writes));
        let most = options.max_output_tokens.unwrap_or(self.output_tokens);
        report::result(execution, &record, most)
    }
}

impl ScriptHost for AgentHost {
    fn tools(&self) -> Vec<ScriptTool> {
        self.catalogue.script_tools()
    }

    fn call(&self, call: &ScriptCall, signal: &AbortSignal) -> Result<Value, ToolError> {
        self.record.note_arguments(call);
        if call.tool == SEARCH && self.catalogue.is_held_back() {
            let query = call.arguments.get("query").and_then(Value::as_str).unwrap_or_default();
            return Ok(Value::String(self.catalogue.search(query)));
        }
        let tool = self.catalogue.tool(&call.tool).ok_or("there is no such tool")?;
        let Value::Object(arguments) = &call.arguments else {
            return Err(format!("{} takes one object as its argument", call.tool).into());
        };
        let outcome = self.run(tool, call.number, arguments.clone(), signal);
        if let Some(usage) = &outcome.result.usage {
            self.record.add_usage(usage);
        }
        script_value(tool, outcome)
    }
}

impl AgentHost {
    fn run(
        &self,
        tool: &Tool,
        number: usize,
        arguments: Map<String, Value>,
        signal: &AbortSignal,
    ) -> ToolOutcome {
        let call = ToolCall {
            id: format!("{}/{number}", self.context.call_id()),
            name: tool.name().to_owned(),
            arguments,
            ..ToolCall::default()
        };
        let forward = |partial: ToolResult| {
            let details = json!({
                "tool": tool.name(), "toolCallId": call.id, "details": partial.details,
            });
            self.context.update(ToolResult { details: Some(details), ..partial });
        };
        self.context.run_nested(&NestedCall {
            tool: Some(tool),
            call: &call,
            signal,
            on_update: &forward,
        })
    }
}

/// What a script gets of a result.
fn script_value(tool: &Tool, outcome: ToolOutcome) -> Result<Value, ToolError> {
    let result = outcome.result;
    let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
    if outcome.is_error {
        return Err(texts.join("\n").into());
    }
    match result.structured_content {
        Some(value) if tool.output().is_some() => Ok(value),
        _ if texts.len() < result.content.len() => Ok(serde_json::to_value(&result.content)?),
        _ => Ok(Value::String(texts.join("\n"))),
    }
}
