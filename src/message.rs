//! Messages and what they are made of, in the reference's JSON form field for field.
//!
//! A transcript is a list of `Arc<Message>`: finished messages are shared by the transcript, the events and the
//! requests, never copied.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{error::Failure, model::ThinkingLevel, usage::Usage};

mod ending;
pub(crate) mod form;

/// One message of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The prompt and the declared tools, or a later change of either.
    System(SystemMessage),
    /// What the user says.
    User(UserMessage),
    /// What the model answers.
    Assistant(AssistantMessage),
    /// What a tool call gave.
    ToolResult(ToolResultMessage),
    /// A message of the host with a role of its own, kept field for field; the model sees it only if the host's
    /// `convert_to_llm` hook makes one of the others of it.
    Custom(CustomMessage),
}

/// The prompt and the declared tools (as the first message), or a later change of either.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemMessage {
    /// The text of the prompt; empty for a mere change of tools.
    #[serde(default, deserialize_with = "form::null_as_empty")]
    pub content: MessageContent,
    /// Named parts of the prompt in order; a null removes the part of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<Map<String, Value>>,
    /// Tools that the model may call from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_added: Vec<ToolDeclaration>,
    /// Tools that the model may no longer call; applied before `tools_added`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_removed: Vec<ToolName>,
    /// When it was made, in milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Fields that this version does not know, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What the user says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// Text, or text and images.
    #[serde(deserialize_with = "form::null_as_empty")]
    pub content: MessageContent,
    /// When it was made, in milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Fields that this version does not know, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What the model answers: text, thinking and tool calls in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// Text, thinking and tool calls in the order they came.
    #[serde(deserialize_with = "form::null_as_empty")]
    pub content: Vec<AssistantContent>,
    /// The wire API that produced it, for example `anthropic-messages`.
    #[serde(default)]
    pub api: String,
    /// The provider that produced it.
    #[serde(default)]
    pub provider: String,
    /// The model that was asked for.
    #[serde(default)]
    pub model: String,
    /// Tokens and costs.
    #[serde(default)]
    pub usage: Usage,
    /// Why it ended.
    #[serde(default)]
    pub stop_reason: StopReason,
    /// When the request began, in milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// The model that answered, if the server reported another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// The vendor's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The vendor's own effort value, where effort travels as a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_thinking_level: Option<String>,
    /// The thinking level that the agent asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// Notes of the provider about the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// What went wrong, for people, when `stop_reason` is `error` or `aborted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// What went wrong, for programs: the kind, the status, how long to wait. This library's own field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The vendor's own word for why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_stop_reason: Option<String>,
    /// How long the response took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Fields that this version does not know, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What a tool call gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// The id of the call that it answers.
    pub tool_call_id: String,
    /// The name of the tool.
    #[serde(default)]
    pub tool_name: String,
    /// What the model sees.
    #[serde(deserialize_with = "form::null_as_empty")]
    pub content: Vec<Content>,
    /// What the host keeps; never sent to a model. A null is kept as such.
    #[serde(default, deserialize_with = "form::present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// What the tool itself cost; not part of the context's accounting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
    /// How long the tool ran, in milliseconds; absent if it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// When it was made, in milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Fields that this version does not know (such as `nestedCalls`), kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A message with a role that only the host knows. It keeps all its fields, `role` included, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomMessage {
    fields: Map<String, Value>,
}

/// A text, or a list of text and image blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageContent {
    /// A text alone.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<Content>),
}

/// A block of a user message or a tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
}

/// A block of an assistant message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum AssistantContent {
    /// Text.
    Text(TextContent),
    /// Reasoning that the model showed.
    Thinking(ThinkingContent),
    /// A call of a tool.
    ToolCall(ToolCall),
}

/// Text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextContent {
    /// The text.
    #[serde(default)]
    pub text: String,
    /// The vendor's opaque data for sending it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_signature: Option<String>,
}

/// Reasoning that the model showed, or a placeholder for what it did not show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingContent {
    /// The text.
    #[serde(default)]
    pub thinking: String,
    /// The vendor's opaque data for sending it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_signature: Option<String>,
    /// Whether the text is a placeholder and the signature holds the encrypted reasoning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// An image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageContent {
    /// The bytes in base64, without a data-URL prefix.
    pub data: String,
    /// For example `image/png`.
    pub mime_type: String,
}

/// A call of a tool, as the model asked for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The id that its result names.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model sent them.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The vendor's opaque data for sending it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
    /// The vendor's namespace of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Why the argument text is no JSON object, with that text; then `arguments` is empty and the call is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_error: Option<String>,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDeclaration {
    /// The name that calls use.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments, as the host gave it.
    #[serde(default)]
    pub parameters: Value,
    /// How the vendor shall constrain the arguments: `false`, or an object with a `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constrained_sampling: Option<ConstrainedSampling>,
}

/// The name of a tool that is taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolName {
    /// The name.
    pub name: String,
}

/// How a vendor shall constrain the arguments of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConstrainedSampling {
    /// `false`: the same as none.
    Off(bool),
    /// By the tool's schema, or by a grammar.
    On(SamplingConstraint),
}

/// The two ways to constrain arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SamplingConstraint {
    /// The vendor's strict mode for JSON Schemas.
    JsonSchema {
        /// Whether the request may go out without it.
        strict: Strictness,
    },
    /// A grammar for the one text argument of the tool.
    Grammar {
        /// The grammar in each notation that a vendor may know.
        variants: GrammarVariants,
    },
}

/// Whether a request may go out without strict mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    /// Use strict mode where the model and the schema allow it.
    Prefer,
    /// Fail the request where strict mode is impossible.
    Require,
}

/// A grammar in each notation that a vendor may know. Lark wins over a regular expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrammarVariants {
    /// In OpenAI's dialect of Lark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openai_lark: Option<String>,
    /// As a regular expression for OpenAI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openai_regex: Option<String>,
}

/// A note of a provider about a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// What happened, for example `anthropic_strict_tools_fallback`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When, in milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// The error behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// Why an assistant message ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// It has not ended: the message still streams.
    Pending,
    /// The model was done.
    #[default]
    Stop,
    /// The output cap was reached.
    Length,
    /// The model calls tools.
    ToolUse,
    /// The request failed; see `error_message` and `failure`.
    Error,
    /// The host aborted it.
    Aborted,
    /// The vendor answers later (no provider of this crate does).
    Deferred,
}

impl Message {
    /// Makes a user message of a text, with the current time.
    pub fn user(text: impl Into<String>) -> Message {
        Message::User(UserMessage::new(MessageContent::Text(text.into())))
    }

    /// Makes a user message of a text and images, with the current time.
    pub fn user_with_images(text: impl Into<String>, images: Vec<ImageContent>) -> Message {
        let mut blocks = vec![Content::text(text)];
        blocks.extend(images.into_iter().map(Content::Image));
        Message::User(UserMessage::new(MessageContent::Blocks(blocks)))
    }

    /// Makes a system message of a text, with the current time.
    pub fn system(text: impl Into<String>) -> Message {
        Message::System(SystemMessage {
            content: MessageContent::Text(text.into()),
            timestamp: now_ms(),
            ..SystemMessage::default()
        })
    }

    /// The role as JSON has it.
    pub fn role(&self) -> &str {
        match self {
            Message::System(_) => "system",
            Message::User(_) => "user",
            Message::Assistant(_) => "assistant",
            Message::ToolResult(_) => "toolResult",
            Message::Custom(custom) => custom.role(),
        }
    }

    /// The system message, if it is one.
    pub fn as_system(&self) -> Option<&SystemMessage> {
        if let Message::System(it) = self { Some(it) } else { None }
    }

    /// The assistant message, if it is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        if let Message::Assistant(it) = self { Some(it) } else { None }
    }

    /// The tool result, if it is one.
    pub fn as_tool_result(&self) -> Option<&ToolResultMessage> {
        if let Message::ToolResult(it) = self { Some(it) } else { None }
    }

    /// All its text blocks, joined by line breaks; thinking is not part of it.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Message::System(it) => it.content.text(),
            Message::User(it) => it.content.text(),
            Message::Assistant(it) => join_texts(it.texts()),
            Message::ToolResult(it) => join_texts(it.content.iter().filter_map(Content::as_text)),
            Message::Custom(_) => Cow::Borrowed(""),
        }
    }
}

impl SystemMessage {
    /// The text of its content, without the sections.
    pub fn content_text(&self) -> Cow<'_, str> {
        self.content.text()
    }
}

impl UserMessage {
    /// Makes a message with the current time.
    pub fn new(content: MessageContent) -> UserMessage {
        UserMessage { content, timestamp: now_ms(), extra: Map::new() }
    }
}

impl AssistantMessage {
    /// Its text blocks in order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            AssistantContent::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
    }

    /// Its tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            AssistantContent::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Whether it ended in an error or an abort, so that it is no part of what a model is shown again.
    pub fn is_failed(&self) -> bool {
        matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }
}

impl CustomMessage {
    /// Makes a message of its fields; `role` is put first. A role of the four known ones makes it one of those when it is
    /// read again.
    pub fn new(role: impl Into<String>, fields: Map<String, Value>) -> CustomMessage {
        let mut all = Map::new();
        all.insert("role".to_owned(), Value::String(role.into()));
        all.extend(fields.into_iter().filter(|(name, _)| name != "role"));
        CustomMessage { fields: all }
    }

    /// The role; empty if the `role` field is no text.
    pub fn role(&self) -> &str {
        self.fields.get("role").and_then(Value::as_str).unwrap_or_default()
    }

    /// All fields, `role` included.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

impl MessageContent {
    /// The text, or the text blocks joined by line breaks.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            MessageContent::Text(text) => Cow::Borrowed(text),
            MessageContent::Blocks(blocks) => {
                join_texts(blocks.iter().filter_map(Content::as_text))
            }
        }
    }
}

impl Default for MessageContent {
    fn default() -> MessageContent {
        MessageContent::Text(String::new())
    }
}

impl Content {
    /// Makes a text block.
    pub fn text(text: impl Into<String>) -> Content {
        Content::Text(TextContent { text: text.into(), text_signature: None })
    }

    /// The text, if it is a text block.
    pub fn as_text(&self) -> Option<&str> {
        if let Content::Text(text) = self { Some(&text.text) } else { None }
    }
}

impl AssistantContent {
    /// Makes a text block.
    pub fn text(text: impl Into<String>) -> AssistantContent {
        AssistantContent::Text(TextContent { text: text.into(), text_signature: None })
    }
}

impl From<&str> for MessageContent {
    fn from(text: &str) -> MessageContent {
        MessageContent::Text(text.to_owned())
    }
}

impl From<String> for MessageContent {
    fn from(text: String) -> MessageContent {
        MessageContent::Text(text)
    }
}

impl From<SystemMessage> for Message {
    fn from(message: SystemMessage) -> Message {
        Message::System(message)
    }
}

impl From<UserMessage> for Message {
    fn from(message: UserMessage) -> Message {
        Message::User(message)
    }
}

impl From<AssistantMessage> for Message {
    fn from(message: AssistantMessage) -> Message {
        Message::Assistant(message)
    }
}

impl From<ToolResultMessage> for Message {
    fn from(message: ToolResultMessage) -> Message {
        Message::ToolResult(message)
    }
}

impl From<CustomMessage> for Message {
    fn from(message: CustomMessage) -> Message {
        Message::Custom(message)
    }
}

/// The current time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn join_texts<'a>(mut texts: impl Iterator<Item = &'a str>) -> Cow<'a, str> {
    let Some(first) = texts.next() else { return Cow::Borrowed("") };
    let mut joined = Cow::Borrowed(first);
    for text in texts {
        let joined = joined.to_mut();
        joined.push('\n');
        joined.push_str(text);
    }
    joined
}

/// Puts each message behind an `Arc`, as transcripts hold them.
pub(crate) fn shared(messages: impl IntoIterator<Item = Message>) -> Vec<Arc<Message>> {
    messages.into_iter().map(Arc::new).collect()
}
