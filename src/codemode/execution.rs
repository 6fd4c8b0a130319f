//! What comes of a script.

use std::{collections::HashMap, fmt, time::Duration};

use serde_json::Value;

use crate::message::ImageContent;

/// What came of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// What it returned (`None` for nothing that JSON has), or why it failed.
    pub result: Result<Option<Value>, ScriptError>,
    /// What it printed before its end, in order.
    pub output: Vec<Output>,
    /// The calls in the order in which they were made.
    pub calls: Vec<CallRecord>,
    /// What it stored, as JSON texts; `None` for keys that it removed. Empty for a script that failed.
    pub(super) writes: HashMap<String, Option<String>>,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// By `text`.
    Text(String),
    /// By `console`.
    Console(String),
    /// By `image`.
    Image(ImageContent),
}

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// The name of the tool.
    pub tool: String,
    /// How it ended.
    pub status: CallStatus,
    /// How long it took, the wait for its turn included.
    pub duration: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// It gave a result.
    Ok,
    /// It failed or was refused.
    Error,
    /// The script ended before it did.
    Cancelled,
}

/// Why a script failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// Whose fault it is.
    pub kind: ScriptErrorKind,
    /// The name of the error that was thrown, such as `TypeError`; empty for other values.
    pub name: String,
    /// What it says.
    pub message: String,
    /// Where it was thrown: a line for each frame, in the lines of the script as it was given.
    pub stack: String,
}

/// Whose fault it is that a script failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptErrorKind {
    /// The script's: it did not parse, threw, or waits for what can never happen.
    Script,
    /// It took too long.
    Timeout,
    /// The signal fired.
    Aborted,
    /// The engine could not be started or broke.
    Sandbox,
}

impl Execution {
    pub(super) fn failed(error: ScriptError) -> Execution {
        let (output, calls, writes) = (Vec::new(), Vec::new(), HashMap::new());
        Execution { result: Err(error), output, calls, writes }
    }
}

impl ScriptError {
    pub(super) fn plain(kind: ScriptErrorKind, message: impl Into<String>) -> ScriptError {
        let (name, stack) = (String::new(), String::new());
        ScriptError { kind, name, message: message.into(), stack }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        f.write_str(&self.message)?;
        if !self.stack.is_empty() {
            write!(f, "\n{}", self.stack)?;
        }
        Ok(())
    }
}

impl std::error::Error for ScriptError {}

impl Output {
    pub(super) fn same_text(&self, other: &Output) -> bool {
        matches!(
            (self, other),
            (Output::Text(_), Output::Text(_)) | (Output::Console(_), Output::Console(_))
        )
    }

    pub(super) fn append(&mut self, other: Output) {
        if let (
            Output::Text(text) | Output::Console(text),
            Output::Text(more) | Output::Console(more),
        ) = (self, other)
        {
            text.push('\n');
            text.push_str(&more);
        }
    }
}
