//! Errors of the engine, in the lines and columns of the script as the model wrote it.

use crate::codemode::execution::{ScriptError, ScriptErrorKind};

/// What stands before the script in the engine, on its first line.
pub(super) const BEFORE: &str = "(async function () {";
/// What stands after it.
pub(super) const AFTER: &str = "\n})";
/// The names of files in frames.
pub(super) const SCRIPT: &str = "codemode.js";
pub(super) const PRELUDE: &str = "prelude.js";

/// An error of the script; `name` is `null` when it threw null.
pub(super) fn script_error(name: &str, message: &str, stack: &str) -> ScriptError {
    // Without memory for an error object the engine throws null.
    let (name, message) = match name {
        "null" => ("", "out of memory, or the script threw null"),
        name => (name, message),
    };
    ScriptError {
        kind: ScriptErrorKind::Script,
        name: name.to_owned(),
        message: message.to_owned(),
        stack: script_frames(stack),
    }
}

/// The frames that lie in the script.
pub(super) fn script_frames(stack: &str) -> String {
    /// What a deep recursion repeats is cut off here.
    const MOST: usize = 12;
    let frames = stack.lines().filter(|line| line.contains(SCRIPT)).map(in_columns_of_script);
    frames.take(MOST).collect::<Vec<_>>().join("\n")
}

/// On the first line columns count from what stands before the script.
fn in_columns_of_script(frame: &str) -> String {
    let first_line = format!("{SCRIPT}:1:");
    let Some((before, rest)) = frame.split_once(&first_line) else { return frame.to_owned() };
    let digits = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
    let (column, after) = rest.split_at(digits);
    let column = column.parse::<usize>().unwrap_or(1).saturating_sub(BEFORE.len()).max(1);
    format!("{before}{first_line}{column}{after}")
}
