//! What the model and the host get of a script that has ended.

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    codemode::{
        execution::{CallRecord, CallStatus, Execution, Output},
        sandbox::ScriptCall,
    },
    message::Content,
    tool::ToolResult,
    usage::Usage,
};

/// Later calls are counted only.
const MOST_CALLS: usize = 100;
/// Characters of the arguments of one call.
const MOST_ARGUMENT: usize = 300;
/// Characters that are counted as a token when output is cut.
const CHARACTERS_A_TOKEN: u64 = 4;

/// What is kept of the nested calls beside how they ended.
#[derive(Default)]
pub(super) struct Record {
    /// The arguments of the first ones, shortened.
    arguments: Mutex<Vec<(usize, String)>>,
    /// What all of them cost.
    usage: Mutex<Option<Usage>>,
}

impl Record {
    pub(super) fn note_arguments(&self, call: &ScriptCall) {
        if call.number < MOST_CALLS {
            let shortened = shortened(&call.arguments.to_string(), MOST_ARGUMENT);
            self.arguments.lock().push((call.number, shortened));
        }
    }

    pub(super) fn add_usage(&self, usage: &Usage) {
        self.usage.lock().get_or_insert_default().add(usage);
    }

    fn arguments(&self, number: usize) -> Option<String> {
        let noted = self.arguments.lock();
        noted.iter().find(|(noted, _)| *noted == number).map(|(_, arguments)| arguments.clone())
    }
}

/// The result of the tool call.
pub(super) fn result(execution: Execution, record: &Record, most_tokens: u64) -> ToolResult {
    let mut content: Vec<Content> = execution.output.into_iter().map(block).collect();
    let mut structured = None;
    let is_error = match execution.result {
        Ok(Some(value)) => {
            content.push(Content::text(value.to_string()));
            structured = Some(value);
            None
        }
        Ok(None) if content.is_empty() => {
            content.push(Content::text("the script ended without output or return value"));
            None
        }
        Ok(None) => None,
        Err(error) => {
            content.push(Content::text(format!("the script failed: {error}")));
            Some(true)
        }
    };
    cut_texts(&mut content, most_tokens.saturating_mul(CHARACTERS_A_TOKEN));
    let details = json!({
        "nestedCalls": nested(&execution.calls, record),
        "nestedCallCount": execution.calls.len(),
    });
    ToolResult {
        content,
        details: Some(details),
        structured_content: structured,
        is_error,
        usage: record.usage.lock().take(),
        ..ToolResult::default()
    }
}

fn block(output: Output) -> Content {
    match output {
        Output::Text(text) | Output::Console(text) => Content::text(text),
        Output::Image(image) => Content::Image(image),
    }
}

fn nested(calls: &[CallRecord], record: &Record) -> Value {
    let calls = calls.iter().take(MOST_CALLS).enumerate().map(|(number, call)| {
        let status = match call.status {
            CallStatus::Ok => "ok",
            CallStatus::Error => "error",
            CallStatus::Cancelled => "cancelled",
        };
        let duration = u64::try_from(call.duration.as_millis()).unwrap_or(u64::MAX);
        let arguments = record.arguments(number);
        json!({"name": call.tool, "arguments": arguments, "status": status, "durationMs": duration})
    });
    calls.collect()
}

/// Cuts texts that are too long together in the middle: what comes first and what comes last tell most.
fn cut_texts(content: &mut [Content], most: u64) {
    let total: usize =
        content.iter().filter_map(Content::as_text).map(|text| text.chars().count()).sum();
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if total <= most {
        return;
    }
    let (head, tail) = (most - most / 3, most / 3);
    let cut = head..total - tail;
    let note = format!("\n[{} characters left out]\n", cut.len());
    let mut place = 0;
    for block in content {
        let Content::Text(block) = block else { continue };
        let length = block.text.chars().count();
        let inside = |at: usize| (at.clamp(place, place + length)) - place;
        let (from, to) = (inside(cut.start), inside(cut.end));
        if from < to {
            let before: String = block.text.chars().take(from).collect();
            let after: String = block.text.chars().skip(to).collect();
            let starts_here = (place..place + length).contains(&cut.start);
            block.text = [before.as_str(), if starts_here { &note } else { "" }, &after].concat();
        }
        place += length;
    }
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((place, _)) => format!("{}…", &text[..place]),
    }
}
