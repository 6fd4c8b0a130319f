//! What a script has done so far, shared by its VM, the threads of its calls and whoever waits for it.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    codemode::{
        execution::{CallRecord, CallStatus, Output},
        limits::Limits,
    },
    message::ImageContent,
};

/// Written until it is closed; what comes later is dropped.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    output: Vec<Output>,
    characters: usize,
    calls: Vec<Entry>,
    writes: HashMap<String, Option<String>>,
    /// Characters of all keys and values in them.
    written: usize,
    is_closed: bool,
    /// Set when the output limit was passed: the script fails with it, even if it catches the error.
    overflow: Option<String>,
}

#[derive(Debug)]
struct Entry {
    tool: String,
    began: Instant,
    ended: Option<(CallStatus, Duration)>,
}

/// Everything that was written.
#[derive(Debug, Default)]
pub(super) struct Closed {
    pub(super) output: Vec<Output>,
    pub(super) calls: Vec<CallRecord>,
    pub(super) writes: HashMap<String, Option<String>>,
    pub(super) overflow: Option<String>,
}

impl Ledger {
    pub(super) fn new() -> Ledger {
        Ledger { state: Mutex::default() }
    }

    pub(super) fn print(&self, output: Output, limits: &Limits) -> Result<(), String> {
        let length = match &output {
            Output::Text(text) | Output::Console(text) => text.chars().count() + 1,
            Output::Image(ImageContent { data, .. }) => data.len(),
        };
        let mut state = self.state.lock();
        if state.is_closed {
            return Ok(());
        }
        let characters = state.characters.saturating_add(length);
        if characters > limits.output_characters || state.output.len() >= limits.output_items {
            let message = format!(
                "the output is too long: at most {} characters in {} pieces",
                limits.output_characters, limits.output_items
            );
            state.overflow = Some(message.clone());
            return Err(message);
        }
        state.characters = characters;
        match (state.output.last_mut(), output) {
            (Some(last), output) if last.same_text(&output) => last.append(output),
            (_, output) => state.output.push(output),
        }
        Ok(())
    }

    /// Notes a call and gives its number.
    pub(super) fn begin_call(&self, tool: &str, most: usize) -> Result<usize, String> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err("the script has ended".to_owned());
        }
        if state.calls.len() >= most {
            return Err(format!("too many tool calls: a script may make {most}"));
        }
        let entry = Entry { tool: tool.to_owned(), began: Instant::now(), ended: None };
        state.calls.push(entry);
        Ok(state.calls.len() - 1)
    }

    pub(super) fn end_call(&self, number: usize, status: CallStatus) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        if let Some(entry) = state.calls.get_mut(number) {
            entry.ended = Some((status, entry.began.elapsed()));
        }
    }

    /// Notes a value, or that a key has none any more; `was_kept` tells whether there was one before the script.
    pub(super) fn write(&self, key: &str, value: Option<String>, was_kept: bool) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        if let Some(before) = state.writes.remove(key) {
            state.written -= size(key, before.as_deref());
        }
        if value.is_some() || was_kept {
            state.written += size(key, value.as_deref());
            state.writes.insert(key.to_owned(), value);
        }
    }

    /// Characters of all keys and values that were written, but for those under `key`.
    pub(super) fn written_beside(&self, key: &str) -> usize {
        let state = self.state.lock();
        let own = state.writes.get(key).map_or(0, |value| size(key, value.as_deref()));
        state.written - own
    }

    /// What stands under a key: what the script wrote itself, else what `before` gives.
    pub(super) fn read(
        &self,
        key: &str,
        before: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        let state = self.state.lock();
        match state.writes.get(key) {
            Some(value) => value.clone(),
            None => {
                drop(state);
                before()
            }
        }
    }

    /// Takes everything; calls that are still open count as cancelled.
    pub(super) fn close(&self) -> Closed {
        let mut state = self.state.lock();
        state.is_closed = true;
        let calls = std::mem::take(&mut state.calls).into_iter().map(|entry| {
            let (status, duration) =
                entry.ended.unwrap_or_else(|| (CallStatus::Cancelled, entry.began.elapsed()));
            CallRecord { tool: entry.tool, status, duration }
        });
        let calls = calls.collect();
        Closed {
            output: std::mem::take(&mut state.output),
            calls,
            writes: std::mem::take(&mut state.writes),
            overflow: state.overflow.take(),
        }
    }
}

/// Characters of a key and its value.
pub(super) fn size(key: &str, value: Option<&str>) -> usize {
    key.chars().count() + value.map_or(0, |value| value.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_never_there_takes_no_place() {
        let ledger = Ledger::new();
        ledger.write("gone", None, false);
        ledger.write("a", Some("12".to_owned()), false);
        ledger.write("a", Some("123".to_owned()), false);
        ledger.write("kept", None, true);
        assert_eq!((ledger.written_beside(""), ledger.written_beside("a")), (8, 4));
        ledger.write("a", None, false);
        let writes = ledger.close().writes;
        assert_eq!(writes, HashMap::from([("kept".to_owned(), None)]));
    }
}
