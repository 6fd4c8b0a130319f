//! A transcript as the `input` of this API.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Map, Value, json};

use crate::{
    error::Error,
    message::{
        AssistantContent, AssistantMessage, Content, ImageContent, Message, MessageContent,
        SystemMessage, TextContent, ThinkingContent, ToolCall, ToolResultMessage,
    },
    model::Model,
    provider::{
        grammar::GrammarTools,
        ids::{self, CallIds},
        openai_responses::{compat::Compat, tools},
    },
    transcript::{ToolChangeSupport, prompt_text, update_text},
};

/// The content of a tool result without any.
const NO_OUTPUT: &str = "(the tool gave no output)";
/// Comes before tools that are declared after others.
const TOOLS_UPDATE: &str = "The tools that follow come on top of those before them; one whose name is known replaces that one.";
/// The longest id that the vendor takes.
const LONGEST_ID: usize = 64;
/// Providers that want the ids of other models' calls in OpenAI's form.
const WITH_ITEM_IDS: [&str; 4] = ["openai", "openai-codex", "opencode", "azure"];

/// Converts messages one after the other.
#[derive(Debug)]
pub(super) struct Converter<'a> {
    pub(super) model: &'a Model,
    pub(super) compat: &'a Compat,
    pub(super) grammar_tools: &'a GrammarTools,
    pub(super) places: ToolPlaces,
}

/// Where a request says which tools there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToolPlaces {
    pub(super) support: ToolChangeSupport,
    /// So many system messages have their tools in the list of the request.
    pub(super) folded: usize,
    /// Whether the message that leads declares tools.
    pub(super) are_declared: bool,
}

/// What rendering remembers from one message to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Rendered {
    /// How many messages there were.
    pub(super) count: usize,
    /// How many system messages.
    pub(super) systems: usize,
    /// How many messages were made ready for the model, which ids are made of.
    ready: usize,
    pub(super) ids: Ids,
    pub(super) are_tools_declared: bool,
    /// Tools that were taken away.
    gone: Vec<String>,
}

/// Ids of other models' calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids(CallIds);

impl Ids {
    /// The form of a call's id that the provider takes.
    pub(super) fn fitting(&mut self, id: &str, provider: &str) -> String {
        let call = match id.split_once('|') {
            Some((call, _)) if WITH_ITEM_IDS.contains(&provider) => call,
            _ => id,
        };
        let plain: String = ids::plain(call).chars().take(LONGEST_ID).collect();
        let plain = plain.trim_end_matches('_');
        let fitting = if plain.is_empty() {
            format!("call_{}", ids::fingerprint(id))
        } else {
            plain.to_owned()
        };
        self.0.unique(id, fitting, LONGEST_ID)
    }
}

impl Converter<'_> {
    /// Converts messages that were made ready for the model; `are_head` says that a system message is the prompt.
    pub(super) fn convert(
        &self,
        messages: &[Arc<Message>],
        state: &mut Rendered,
        are_head: bool,
    ) -> Result<Vec<Value>, Error> {
        let mut items = Vec::new();
        // Results follow their calls, so that nothing of it is needed later.
        let mut grammar_calls = HashSet::new();
        for message in messages {
            match &**message {
                Message::System(system) => self.system(system, state, are_head, &mut items)?,
                Message::User(user) => items.extend(user_item(&user.content)),
                Message::Assistant(assistant) => {
                    self.assistant(assistant, state.ready, &mut grammar_calls, &mut items)?;
                }
                Message::ToolResult(result) => items.push(result_item(result, &grammar_calls)),
                Message::Custom(_) => (),
            }
            state.ready += 1;
        }
        Ok(items)
    }

    fn system(
        &self,
        system: &SystemMessage,
        state: &mut Rendered,
        is_head: bool,
        items: &mut Vec<Value>,
    ) -> Result<(), Error> {
        let mut text = if is_head { prompt_text(system) } else { update_text(system) };
        match self.places.support {
            ToolChangeSupport::Changes => {
                let removed = self.change_tools(system, state, items)?;
                if !removed.is_empty() && !is_head {
                    let told = format!("These tools are no longer available: {removed}.");
                    text = if text.is_empty() { told } else { format!("{text}\n\n{told}") };
                }
            }
            ToolChangeSupport::Additions
                if state.systems >= self.places.folded && !system.tools_added.is_empty() =>
            {
                items.extend(self.found_tools(system, state.systems)?);
            }
            _ => (),
        }
        state.systems += 1;
        if !text.is_empty() {
            items.push(self.instruction(text));
        }
        Ok(())
    }

    fn instruction(&self, text: String) -> Value {
        let is_developer = self.model.reasoning && self.compat.supports_developer_role;
        let role = if is_developer { "developer" } else { "system" };
        object([("role", role.into()), ("content", text.into())])
    }

    /// Declares the tools that a system message adds; returns the names of those that it takes away.
    fn change_tools(
        &self,
        system: &SystemMessage,
        state: &mut Rendered,
        items: &mut Vec<Value>,
    ) -> Result<String, Error> {
        let is_added = |name: &str| system.tools_added.iter().any(|tool| tool.name == name);
        let removed = system.tools_removed.iter().map(|it| it.name.clone());
        let removed: Vec<String> = removed.filter(|name| !is_added(name)).collect();
        state.gone.retain(|name| !is_added(name) && !removed.contains(name));
        state.gone.extend_from_slice(&removed);
        if !system.tools_added.is_empty() {
            if state.are_tools_declared || self.places.are_declared {
                let gone = match state.gone.join(", ") {
                    gone if gone.is_empty() => gone,
                    gone => format!(" These stay unavailable: {gone}."),
                };
                let text = format!("{TOOLS_UPDATE}{gone}");
                items.push(self.instruction(text));
            }
            state.are_tools_declared = true;
            let tools = tools::declare(&system.tools_added, self.compat, false)?;
            items.push(json!({"type": "additional_tools", "role": "developer", "tools": tools}));
        }
        Ok(removed.join(", "))
    }

    /// Declares the tools that a system message adds as if the model had searched for them.
    fn found_tools(&self, system: &SystemMessage, number: usize) -> Result<[Value; 2], Error> {
        let names: Vec<&str> = system.tools_added.iter().map(|tool| tool.name.as_str()).collect();
        let names = names.join(", ");
        let id = format!("call_search_{}", ids::fingerprint(&format!("{number} {names}")));
        let tools = tools::declare(&system.tools_added, self.compat, true)?;
        let item = |kind: &str, name: &str, value: Value| {
            json!({
                "type": kind, "call_id": id, "execution": "client", "status": "completed", name: value,
            })
        };
        Ok([
            item("tool_search_call", "arguments", json!({"query": names})),
            item("tool_search_output", "tools", tools.into()),
        ])
    }

    /// Converts a response. What its items refer to each other by is sent only if all of it is there: the vendor refuses
    /// reasoning without what followed it, and the other way round.
    fn assistant(
        &self,
        assistant: &AssistantMessage,
        number: usize,
        grammar_calls: &mut HashSet<String>,
        items: &mut Vec<Value>,
    ) -> Result<(), Error> {
        let is_own = self.model.is_same(&assistant.provider, &assistant.api, &assistant.model);
        let thinking = assistant.content.iter().filter_map(|block| match block {
            AssistantContent::Thinking(thinking) => Some(reasoning_item(thinking)),
            _ => None,
        });
        let reasoning: Vec<Option<Value>> = thinking.collect();
        let is_whole = is_own && reasoning.iter().all(Option::is_some);
        let mut waiting = Vec::new();
        let mut texts = 0;
        let mut reasoning = reasoning.into_iter();
        for block in &assistant.content {
            match block {
                AssistantContent::Thinking(_) => {
                    waiting.extend(reasoning.next().flatten().filter(|_| is_whole));
                }
                AssistantContent::Text(text) if text.text.is_empty() => (),
                AssistantContent::Text(text) => {
                    items.append(&mut waiting);
                    let id = if texts == 0 {
                        format!("msg_{number}")
                    } else {
                        format!("msg_{number}_{texts}")
                    };
                    items.push(text_item(text, is_whole, id));
                    texts += 1;
                }
                AssistantContent::ToolCall(call) => {
                    items.append(&mut waiting);
                    items.push(self.call_item(call, is_own, is_whole, grammar_calls)?);
                }
            }
        }
        Ok(())
    }

    fn call_item(
        &self,
        call: &ToolCall,
        is_own: bool,
        is_whole: bool,
        grammar_calls: &mut HashSet<String>,
    ) -> Result<Value, Error> {
        let (call_id, item_id) = call.id.split_once('|').unwrap_or((&call.id, ""));
        let input = self.grammar_tools.input(call)?;
        let (kind, prefix, field) = match input {
            Some(_) => ("custom_tool_call", "ctc_", "input"),
            None => ("function_call", "fc_", "arguments"),
        };
        if input.is_some() {
            grammar_calls.insert(call_id.to_owned());
        }
        let text = match input {
            Some(input) => input.to_owned(),
            None => serde_json::to_string(&call.arguments).unwrap_or_default(),
        };
        let mut item = Map::new();
        let mut set = |name: &str, value: Value| _ = item.insert(name.to_owned(), value);
        set("type", kind.into());
        if is_whole && item_id.starts_with(prefix) {
            set("id", item_id.into());
        }
        set("call_id", call_id.into());
        set("name", call.name.clone().into());
        set(field, text.into());
        if let Some(namespace) = call.namespace.as_ref().filter(|_| is_own) {
            set("namespace", namespace.clone().into());
        }
        Ok(Value::Object(item))
    }
}

/// The item that thinking was; `None` if it cannot be read any more.
fn reasoning_item(thinking: &ThinkingContent) -> Option<Value> {
    let item: Value = serde_json::from_str(thinking.thinking_signature.as_deref()?).ok()?;
    Some(item).filter(|item| item["type"] == "reasoning")
}

/// A text with the id that it had, or else with one of its own.
fn text_item(text: &TextContent, is_whole: bool, own_id: String) -> Value {
    let signature = text.text_signature.as_deref().filter(|it| is_whole && !it.is_empty());
    let known: Option<Value> = signature.and_then(|it| serde_json::from_str(it).ok());
    let (id, phase) = match (&known, signature) {
        (Some(Value::Object(fields)), _) => (fields.get("id"), fields.get("phase").cloned()),
        _ => (None, None),
    };
    let bare = signature.filter(|_| !matches!(known, Some(Value::Object(_))));
    let id = match id.and_then(Value::as_str).or(bare) {
        Some(id) if id.chars().count() > LONGEST_ID => format!("msg_{}", ids::fingerprint(id)),
        Some(id) => id.to_owned(),
        None => own_id,
    };
    let content = json!([{"type": "output_text", "text": text.text, "annotations": []}]);
    let mut item = object([
        ("type", "message".into()),
        ("role", "assistant".into()),
        ("content", content),
        ("status", "completed".into()),
        ("id", id.into()),
    ]);
    if let Some(phase) = phase.filter(Value::is_string) {
        item["phase"] = phase;
    }
    item
}

fn result_item(result: &ToolResultMessage, grammar_calls: &HashSet<String>) -> Value {
    let id = &result.tool_call_id;
    let call_id = id.split_once('|').map_or(id.as_str(), |(call, _)| call);
    let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
    let text = texts.join("\n");
    let images: Vec<Value> = result.content.iter().filter_map(image_part).collect();
    let output = if images.is_empty() {
        Value::from(if text.is_empty() { NO_OUTPUT.to_owned() } else { text })
    } else {
        let text = (!text.is_empty()).then(|| text_part(&text));
        text.into_iter().chain(images).collect()
    };
    let is_grammar = grammar_calls.contains(call_id);
    let kind = if is_grammar { "custom_tool_call_output" } else { "function_call_output" };
    object([("type", kind.into()), ("call_id", call_id.into()), ("output", output)])
}

/// A message of the user; `None` if it holds nothing.
fn user_item(content: &MessageContent) -> Option<Value> {
    let parts: Vec<Value> = match content {
        MessageContent::Text(text) => vec![text_part(text)],
        MessageContent::Blocks(blocks) => {
            let part =
                |block: &Content| image_part(block).or_else(|| block.as_text().map(text_part));
            blocks.iter().filter_map(part).collect()
        }
    };
    (!parts.is_empty()).then(|| object([("role", "user".into()), ("content", parts.into())]))
}

fn text_part(text: &str) -> Value {
    object([("type", "input_text".into()), ("text", text.into())])
}

fn image_part(block: &Content) -> Option<Value> {
    let Content::Image(ImageContent { data, mime_type }) = block else { return None };
    let url = format!("data:{mime_type};base64,{data}");
    Some(object([
        ("type", "input_image".into()),
        ("detail", "auto".into()),
        ("image_url", url.into()),
    ]))
}

/// Makes an object without copying its values, as the macro does.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
