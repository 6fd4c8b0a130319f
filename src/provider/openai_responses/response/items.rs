//! The items of a response: blocks that grow by deltas and are told once more when they are done.

use serde_json::{Value, json};

use crate::{
    error::{Error, ErrorKind},
    message::{StopReason, ToolCall},
    partial_json::parse_arguments,
    provider::{
        driver::Events,
        failure,
        grammar::{GrammarText, GrammarTools},
        halves,
    },
    stream::StreamEvent,
};

/// More items than a response has.
const MOST_ITEMS: usize = 10_000;

/// The items of one response.
#[derive(Debug)]
pub(super) struct Items {
    list: Vec<Item>,
    grammar_tools: GrammarTools,
    /// The id of the response, which ids are made of that the server does not give.
    pub(super) response: String,
}

/// More of an item.
#[derive(Debug)]
pub(super) struct Delta<'a> {
    /// The type of the event.
    pub(super) kind: &'a str,
    /// The vendor's number of the item.
    pub(super) index: Option<u64>,
    pub(super) text: &'a str,
    /// Whether the text may hold marks of half characters.
    pub(super) has_marks: bool,
}

#[derive(Debug)]
struct Item {
    /// The vendor's number, which a later item may have again.
    output_index: Option<u64>,
    id: String,
    has_ended: bool,
    kind: Kind,
    /// Half of a character that the next delta completes.
    half: Option<u16>,
}

#[derive(Debug)]
enum Kind {
    Text,
    /// The item as it comes back in the next request, once it is done.
    Reasoning {
        item: Option<Value>,
    },
    Call(Box<Call>),
}

#[derive(Debug)]
struct Call {
    /// The id, also once the call is told and gone.
    id: String,
    call: ToolCall,
    /// The arguments or the input so far.
    text: String,
    /// Whether the vendor said that the text is complete.
    is_complete: bool,
    grammar: Option<GrammarText>,
    /// So much of the text was told.
    told: usize,
}

impl Items {
    pub(super) fn new(grammar_tools: GrammarTools) -> Items {
        Items { list: Vec::new(), grammar_tools, response: String::new() }
    }

    pub(super) fn has_calls(&self) -> bool {
        self.list.iter().any(|item| matches!(item.kind, Kind::Call(_)))
    }

    /// Begins an item. Those that the vendor itself takes care of are left out with their deltas.
    pub(super) fn begin(
        &mut self,
        output_index: Option<u64>,
        item: &Value,
        out: &mut Events,
    ) -> Result<(), Error> {
        if self.list.len() >= MOST_ITEMS {
            let message = format!("the response has more than {MOST_ITEMS} items");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let content_index = self.list.len();
        let kind = match item["type"].as_str() {
            Some("message") => {
                out.push_back(StreamEvent::TextStart { content_index });
                Kind::Text
            }
            Some("reasoning") => {
                out.push_back(StreamEvent::ThinkingStart { content_index, initial: None });
                Kind::Reasoning { item: None }
            }
            Some(kind @ ("function_call" | "custom_tool_call")) => {
                let mut call = Call::new(item, kind == "custom_tool_call", &self.grammar_tools);
                self.make_unique(&mut call.call.id);
                call.id.clone_from(&call.call.id);
                out.push_back(StreamEvent::ToolCallStart {
                    content_index,
                    id: call.call.id.clone(),
                    tool_name: call.call.name.clone(),
                });
                Kind::Call(Box::new(call))
            }
            _ => return Ok(()),
        };
        let id = text(item, "id").to_owned();
        self.list.push(Item { output_index, id, has_ended: false, kind, half: None });
        Ok(())
    }

    /// Adds to an open item. What does not fit it, or comes after its end, is left out.
    pub(super) fn delta(&mut self, delta: &Delta<'_>, out: &mut Events) {
        let &Delta { kind, index, text, has_marks } = delta;
        let Some(content_index) = self.open(index) else { return };
        let item = &mut self.list[content_index];
        let joined = (has_marks || item.half.is_some()).then(|| halves::join(&mut item.half, text));
        let delta = joined.unwrap_or_else(|| text.to_owned());
        match (&mut item.kind, kind) {
            (Kind::Text, "response.output_text.delta" | "response.refusal.delta") => {
                out.push_back(StreamEvent::TextDelta { content_index, delta });
            }
            (
                Kind::Reasoning { .. },
                "response.reasoning_summary_text.delta" | "response.reasoning_text.delta",
            ) => {
                out.push_back(StreamEvent::ThinkingDelta { content_index, delta });
            }
            (
                Kind::Call(call),
                "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta",
            ) => {
                let delta = call.push(&delta);
                out.push_back(StreamEvent::ToolCallDelta { content_index, delta });
            }
            _ => (),
        }
    }

    /// Takes the whole text of an open call.
    pub(super) fn complete(
        &mut self,
        output_index: Option<u64>,
        whole: Option<&str>,
        out: &mut Events,
    ) -> Result<(), Error> {
        if let (Some(content_index), Some(whole)) = (self.open(output_index), whole)
            && let Kind::Call(call) = &mut self.list[content_index].kind
        {
            call.complete(whole, content_index, out)?;
        }
        Ok(())
    }

    /// Takes a finished item, which tells all of it once more. One that was never begun begins now.
    pub(super) fn finish(
        &mut self,
        output_index: Option<u64>,
        item: &Value,
        out: &mut Events,
    ) -> Result<(), Error> {
        let content_index = match self.open(output_index) {
            Some(index) => index,
            None if self.is_known(output_index, text(item, "id")) => return Ok(()),
            None => {
                let before = self.list.len();
                self.begin(output_index, item, out)?;
                if self.list.len() == before {
                    return Ok(());
                }
                before
            }
        };
        let open = &mut self.list[content_index];
        match &mut open.kind {
            Kind::Text => {
                out.push_back(StreamEvent::TextEnd {
                    content_index,
                    content: joined(&item["content"], "").filter(|it| !it.is_empty()),
                    content_signature: text_signature(item),
                });
            }
            Kind::Reasoning { item: kept } => {
                let content = joined(&item["summary"], "\n\n").filter(|it| !it.is_empty());
                let content = content.or_else(|| joined(&item["content"], "\n\n"));
                *kept = Some(item.clone());
                out.push_back(StreamEvent::ThinkingEnd {
                    content_index,
                    content: content.filter(|it| !it.is_empty()),
                    content_signature: Some(item.to_string()),
                });
            }
            Kind::Call(call) => {
                let field = if call.grammar.is_some() { "input" } else { "arguments" };
                let whole = item[field].as_str().map_or_else(|| call.text.clone(), str::to_owned);
                call.complete(&whole, content_index, out)?;
                if let Some(namespace) = item["namespace"].as_str() {
                    call.call.namespace = Some(namespace.to_owned());
                }
                out.push_back(call.end(content_index));
            }
        }
        open.has_ended = true;
        Ok(())
    }

    /// Fills in the encrypted reasoning that some servers tell with the whole response only.
    pub(super) fn sign_late(&mut self, output: &Value, out: &mut Events) {
        for late in output.as_array().into_iter().flatten() {
            let Some(encrypted) = late["encrypted_content"].as_str() else { continue };
            let id = text(late, "id");
            for (content_index, item) in self.list.iter_mut().enumerate() {
                let Item { kind: Kind::Reasoning { item: Some(kept) }, id: own, .. } = item else {
                    continue;
                };
                if own == id && kept["encrypted_content"].as_str().is_none_or(str::is_empty) {
                    kept["encrypted_content"] = encrypted.into();
                    let signature = kept.to_string();
                    out.push_back(StreamEvent::Signature { content_index, signature });
                }
            }
        }
    }

    /// Ends what is open at the end of a response. A call whose arguments are not whole must not run.
    pub(super) fn end_all(&mut self, reason: StopReason, out: &mut Events) -> Result<(), Error> {
        let open = self.list.iter_mut().enumerate().filter(|(_, item)| !item.has_ended);
        for (content_index, item) in open {
            item.has_ended = true;
            let end = match &mut item.kind {
                Kind::Text => {
                    StreamEvent::TextEnd { content_index, content: None, content_signature: None }
                }
                Kind::Reasoning { .. } => StreamEvent::ThinkingEnd {
                    content_index,
                    content: None,
                    content_signature: None,
                },
                Kind::Call(call) => {
                    if reason == StopReason::ToolUse && !call.is_whole() {
                        let name = &call.call.name;
                        return Err(failure::cut(&format!(
                            "ended before the arguments of the call of `{name}` were complete"
                        )));
                    }
                    let whole = call.text.clone();
                    call.complete(&whole, content_index, out)?;
                    call.end(content_index)
                }
            };
            out.push_back(end);
        }
        Ok(())
    }

    /// Results name their call by its id: each has one, and no two have the same.
    fn make_unique(&self, id: &mut String) {
        let is_used = |id: &str| {
            self.list.iter().any(|item| matches!(&item.kind, Kind::Call(it) if it.id == id))
        };
        let number = self.list.len();
        if id.is_empty() {
            *id = format!("call_{}_{number}", self.response);
        } else if is_used(id) {
            *id = match id.split_once('|') {
                Some((call, item)) => format!("{call}_{number}|{item}"),
                None => format!("{id}_{number}"),
            };
        }
    }

    /// The open item of a number; without one, the last that is open.
    fn open(&self, output_index: Option<u64>) -> Option<usize> {
        let fits = |item: &Item| {
            !item.has_ended && (output_index.is_none() || item.output_index == output_index)
        };
        self.list.iter().rposition(fits)
    }

    fn is_known(&self, output_index: Option<u64>, id: &str) -> bool {
        let is_told = output_index.is_some() || !id.is_empty();
        is_told && self.list.iter().any(|it| it.output_index == output_index && it.id == id)
    }
}

impl Call {
    fn new(item: &Value, is_custom: bool, grammar_tools: &GrammarTools) -> Call {
        let name = text(item, "name").to_owned();
        let (call_id, item_id) = (text(item, "call_id"), text(item, "id"));
        let id = match (call_id, item_id) {
            ("", item_id) => item_id.to_owned(),
            (call_id, "") => call_id.to_owned(),
            (call_id, item_id) => format!("{call_id}|{item_id}"),
        };
        let grammar =
            is_custom.then(|| GrammarText::new(grammar_tools.property(&name).unwrap_or("input")));
        let namespace = item["namespace"].as_str().map(str::to_owned);
        Call {
            id: String::new(),
            call: ToolCall { id, name, namespace, ..ToolCall::default() },
            text: text(item, if is_custom { "input" } else { "arguments" }).to_owned(),
            is_complete: false,
            grammar,
            told: 0,
        }
    }

    /// Takes more text; returns what is told of it.
    fn push(&mut self, delta: &str) -> String {
        self.text.push_str(delta);
        match &mut self.grammar {
            Some(grammar) => {
                let news = grammar.push(&self.text[self.told..]);
                self.told = self.text.len();
                news
            }
            None => delta.to_owned(),
        }
    }

    /// Takes the whole text, and tells what is missing of it. Another text than before cannot be told of a grammar tool:
    /// what was told is out.
    fn complete(&mut self, whole: &str, index: usize, out: &mut Events) -> Result<(), Error> {
        let was_complete = std::mem::replace(&mut self.is_complete, true);
        if was_complete && self.text == whole {
            return Ok(());
        }
        let missing = whole.strip_prefix(self.text.as_str()).map(str::to_owned);
        let missing = missing.filter(|_| !was_complete || self.grammar.is_none());
        let delta = match (&missing, &mut self.grammar) {
            (Some(missing), Some(_)) => {
                let news = self.push(missing);
                news + &self.grammar.as_mut().map(GrammarText::close).unwrap_or_default()
            }
            (None, Some(_)) => {
                let message = format!(
                    "the server changed the input of the call of `{}` after it had sent it",
                    self.call.name
                );
                return Err(Error::new(ErrorKind::Protocol, message));
            }
            (Some(missing), None) => self.push(missing),
            (None, None) => {
                whole.clone_into(&mut self.text);
                String::new()
            }
        };
        if !delta.is_empty() {
            out.push_back(StreamEvent::ToolCallDelta { content_index: index, delta });
        }
        Ok(())
    }

    /// Whether the arguments can be believed to be all.
    fn is_whole(&self) -> bool {
        let is_object = || !self.text.trim().is_empty() && parse_arguments(&self.text).is_ok();
        self.is_complete || (self.grammar.is_none() && is_object())
    }

    fn end(&mut self, content_index: usize) -> StreamEvent {
        let mut call = std::mem::take(&mut self.call);
        let text = std::mem::take(&mut self.text);
        match &self.grammar {
            Some(grammar) => {
                call.arguments.insert(grammar.property().to_owned(), text.into());
            }
            None => match parse_arguments(&text) {
                Ok(arguments) => call.arguments = arguments,
                Err(error) => call.arguments_error = Some(error.to_string()),
            },
        }
        StreamEvent::ToolCallEnd { content_index, tool_call: Some(Box::new(call)) }
    }
}

fn text<'a>(item: &'a Value, name: &str) -> &'a str {
    item[name].as_str().unwrap_or_default()
}

/// The texts of a list of parts, be they output, refusal or summary; `None` if there is no list.
fn joined(parts: &Value, gap: &str) -> Option<String> {
    let parts = parts.as_array()?;
    let texts = parts.iter().filter_map(|part| part["text"].as_str().or(part["refusal"].as_str()));
    Some(texts.collect::<Vec<_>>().join(gap))
}

/// What brings a text back under its id.
fn text_signature(item: &Value) -> Option<String> {
    let id = item["id"].as_str().filter(|id| !id.is_empty())?;
    let mut signature = json!({"v": 1, "id": id});
    if let Some(phase) = item["phase"].as_str() {
        signature["phase"] = phase.into();
    }
    Some(signature.to_string())
}
