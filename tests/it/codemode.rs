//! Code mode: scripts, their limits, what they can reach, and the tool that runs them for an agent.

use std::sync::Arc;

use serde_json::{Value, json};
use steerage::{
    AbortSignal, ToolError,
    codemode::{Execution, Output, Sandbox, ScriptCall, ScriptHost, ScriptTool},
};

mod agent;
mod declare;
mod escape;
mod leaks;
mod limits;
mod script;
mod typescript;

/// A tool of a test host.
type Answer = Arc<dyn Fn(&ScriptCall, &AbortSignal) -> Result<Value, ToolError> + Send + Sync>;

/// A host whose tools are closures.
#[derive(Clone, Default)]
struct Host {
    tools: Vec<(ScriptTool, Answer)>,
}

impl Host {
    /// A host with a tool `echo` that gives its argument back and a tool `fail`.
    fn new() -> Host {
        Host::default()
            .with("echo", |call, _| Ok(call.arguments.clone()))
            .with("fail", |_, _| Err("it broke".into()))
    }

    fn with(
        mut self,
        name: &str,
        answer: impl Fn(&ScriptCall, &AbortSignal) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Host {
        self.tools.push((ScriptTool::new(name, format!("The tool {name}")), Arc::new(answer)));
        self
    }
}

impl ScriptHost for Host {
    fn tools(&self) -> Vec<ScriptTool> {
        self.tools.iter().map(|(tool, _)| tool.clone()).collect()
    }

    fn call(&self, call: &ScriptCall, signal: &AbortSignal) -> Result<Value, ToolError> {
        let (_, answer) = self.tools.iter().find(|(tool, _)| tool.name == call.tool).unwrap();
        answer(call, signal)
    }
}

fn execute(script: &str) -> Execution {
    Sandbox::default().execute(script, Arc::new(Host::new()), &AbortSignal::never())
}

/// What a script gives, in one line each: output, then the value or the error.
fn told(execution: &Execution) -> String {
    let mut lines: Vec<String> = execution
        .output
        .iter()
        .map(|output| match output {
            Output::Text(text) => format!("text {text:?}"),
            Output::Console(text) => format!("console {text:?}"),
            Output::Image(image) => format!("image {} {}", image.mime_type, image.data),
        })
        .collect();
    lines.push(match &execution.result {
        Ok(Some(value)) => value.to_string(),
        Ok(None) => "nothing".to_owned(),
        Err(error) => format!("{:?} {error}", error.kind),
    });
    lines.join("\n")
}

#[track_caller]
fn check(script: &str, expected: &str) {
    assert_eq!(told(&execute(script)), expected, "{script}");
}

#[track_caller]
fn check_value(script: &str, expected: Value) {
    assert_eq!(execute(script).result.map(Option::unwrap_or_default), Ok(expected), "{script}");
}

#[test]
fn the_smallest_script_gives_its_value() {
    check_value("return 1 + 1", json!(2));
}
