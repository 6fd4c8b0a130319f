//! Puts together the tool calls of a response, whose pieces name their call by index, by id, or not at all.

use std::collections::HashSet;

use serde_json::Map;

use crate::{
    error::{Error, ErrorKind},
    message::ToolCall,
    partial_json::parse_arguments,
    provider::{
        driver::Events,
        grammar::{GrammarText, GrammarTools},
        halves,
        openai_completions::response::chunk::{CallDelta, Object},
    },
    stream::StreamEvent,
};

/// More calls than a response has.
const MOST_CALLS: usize = 1000;

/// The calls of a response.
#[derive(Debug)]
pub(super) struct Calls {
    list: Vec<OpenCall>,
    grammar_tools: GrammarTools,
    /// What made-up ids begin with.
    seed: String,
}

#[derive(Debug)]
struct OpenCall {
    /// The place of the block in the message.
    block: usize,
    index: Option<u64>,
    id: String,
    name: String,
    /// The argument text of a call whose beginning was told without an id or a name: its end tells the whole call.
    late: Option<String>,
    grammar: Option<GrammarText>,
    /// The first half of a character that was cut in two.
    half: Option<u16>,
}

impl Calls {
    pub(super) fn new(grammar_tools: GrammarTools, seed: String) -> Calls {
        Calls { list: Vec::new(), grammar_tools, seed }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes the pieces of one delta. `open_block` gives the place of a new block; with `has_marks` the texts may hold
    /// marks of half characters.
    pub(super) fn take(
        &mut self,
        pieces: &[Object<CallDelta<'_>>],
        has_marks: bool,
        open_block: &mut dyn FnMut() -> usize,
        events: &mut Events,
    ) -> Result<(), Error> {
        // Two pieces with one id and names of their own in one delta are two calls.
        let mut seen: HashSet<usize> = HashSet::new();
        for piece in pieces.iter().filter_map(Object::get) {
            let names = !piece_name(piece).is_empty();
            let repeats = |call: usize| names && seen.contains(&call);
            let call = self.find(piece).filter(|call| !repeats(*call));
            let call = match call {
                Some(call) => call,
                None if self.list.len() >= MOST_CALLS => {
                    let message = format!("the response has more than {MOST_CALLS} tool calls");
                    return Err(Error::new(ErrorKind::Limit, message));
                }
                None => self.open(piece, open_block(), events),
            };
            if names {
                seen.insert(call);
            }
            self.extend(call, piece, has_marks, events);
        }
        Ok(())
    }

    /// Ends the call of a block.
    pub(super) fn end(&mut self, block: usize, events: &mut Events) {
        let Some(call) = self.list.iter().position(|call| call.block == block) else { return };
        if let Some(grammar) = &mut self.list[call].grammar {
            let rest = grammar.close();
            self.push_delta(call, rest, events);
        }
        let OpenCall { id, name, late, .. } = &mut self.list[call];
        let whole = late.take().map(|text| {
            if id.is_empty() {
                *id = format!("{}_{call}", self.seed);
            }
            Box::new(whole_call(id, name, &text))
        });
        events.push_back(StreamEvent::ToolCallEnd { content_index: block, tool_call: whole });
    }

    /// The call that a piece belongs to; `None` if it begins a new one.
    fn find(&self, piece: &CallDelta<'_>) -> Option<usize> {
        let id = piece.id.any_text();
        let names = !piece_name(piece).is_empty();
        let with_id = |index: Option<u64>| {
            let fits = |call: &OpenCall| {
                call.id == *id && (index.is_none() || call.index.is_none() || call.index == index)
            };
            self.list.iter().rposition(fits).filter(|_| !id.is_empty())
        };
        if let Some(index) = piece.index.number() {
            if let Some(call) = with_id(Some(index)) {
                return Some(call);
            }
            if let Some(call) = self.list.iter().rposition(|call| call.index == Some(index)) {
                let is_other = !id.is_empty() && !self.list[call].id.is_empty() && names;
                return (!is_other).then_some(call);
            }
            // The index may come after the beginning.
            let last = self.list.last().filter(|last| last.index.is_none());
            return last.filter(|_| id.is_empty() && !names).map(|_| self.list.len() - 1);
        }
        if !id.is_empty() {
            return with_id(None).or_else(|| self.last().filter(|_| !names));
        }
        self.last().filter(|last| !names || self.list[*last].name.is_empty())
    }

    fn last(&self) -> Option<usize> {
        self.list.len().checked_sub(1)
    }

    fn open(&mut self, piece: &CallDelta<'_>, block: usize, events: &mut Events) -> usize {
        let id = self.unique_id(&piece.id.any_text());
        let name = piece_name(piece).to_owned();
        let late = (id.is_empty() || name.is_empty()).then(String::new);
        events.push_back(StreamEvent::ToolCallStart {
            content_index: block,
            id: id.clone(),
            tool_name: name.clone(),
        });
        let index = piece.index.number();
        self.list.push(OpenCall { block, index, id, name, late, grammar: None, half: None });
        self.list.len() - 1
    }

    /// An id that no other call has: results name their call by it.
    fn unique_id(&self, id: &str) -> String {
        let is_used = |id: &str| self.list.iter().any(|call| call.id == id);
        if id.is_empty() || !is_used(id) {
            return id.to_owned();
        }
        let mut numbered = (self.list.len()..).map(|number| format!("{id}_{number}"));
        numbered.find(|id| !is_used(id)).unwrap_or_default()
    }

    /// Adds what a piece brings to its call.
    fn extend(&mut self, call: usize, piece: &CallDelta<'_>, has_marks: bool, events: &mut Events) {
        if self.list[call].id.is_empty() {
            self.list[call].id = self.unique_id(&piece.id.any_text());
        }
        let open = &mut self.list[call];
        if open.name.is_empty() {
            piece_name(piece).clone_into(&mut open.name);
        }
        open.index = open.index.or(piece.index.number());
        let delta = match (piece.custom.get(), piece.function.get()) {
            (Some(custom), _) => {
                let input = halves::whole(&mut open.half, custom.input.text(), has_marks);
                self.grammar_delta(call, &input)
            }
            (None, Some(function)) => {
                halves::whole(&mut open.half, &function.arguments.any_text(), has_marks)
            }
            (None, None) => String::new(),
        };
        self.push_delta(call, delta, events);
    }

    fn grammar_delta(&mut self, call: usize, input: &str) -> String {
        let open = &mut self.list[call];
        let grammar = open.grammar.get_or_insert_with(|| {
            GrammarText::new(self.grammar_tools.property(&open.name).unwrap_or("input"))
        });
        grammar.push(input)
    }

    fn push_delta(&mut self, call: usize, delta: String, events: &mut Events) {
        let open = &mut self.list[call];
        if let Some(late) = &mut open.late {
            late.push_str(&delta);
        }
        events.push_back(StreamEvent::ToolCallDelta { content_index: open.block, delta });
    }
}

fn piece_name<'a>(piece: &'a CallDelta<'_>) -> &'a str {
    let function = piece.function.get().map_or("", |function| function.name.text());
    let custom = piece.custom.get().map_or("", |custom| custom.name.text());
    if function.is_empty() { custom } else { function }
}

fn whole_call(id: &str, name: &str, text: &str) -> ToolCall {
    let (arguments, error) = match parse_arguments(text) {
        Ok(arguments) => (arguments, None),
        Err(error) => (Map::new(), Some(error.to_string())),
    };
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
        arguments_error: error,
        ..ToolCall::default()
    }
}
