//! What servers offer, as data: tools, resources, prompts and what comes of using them.
//!
//! The fields are those of the schema of revision 2025-11-25. Servers write them loosely: whatever is missing has its
//! default, and only what makes an entry useless is an error.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who answers at the other end, from its answer to `initialize`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerInfo {
    /// The name that it gives itself. It need not be the one of the configuration.
    pub name: String,
    /// Its version, in whatever form; may be empty.
    pub version: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What a model should know of it.
    pub instructions: Option<String>,
    /// The revision that both sides speak.
    pub protocol_version: String,
    /// What it can do, as it says.
    pub capabilities: Map<String, Value>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// The name that calls use.
    pub name: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The schema of its arguments, as the server gives it.
    pub input_schema: Map<String, Value>,
    /// The schema of its structured content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the server says of its effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// How it may be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Value>,
}

/// What a server says of the effects of a tool. They are hints: a server that is not trusted may say anything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolAnnotations {
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it changes nothing. Unsaid means that it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// Whether it may destroy something, if it changes anything. Unsaid means that it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Whether a second call with the same arguments changes nothing more. Unsaid means that it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// Whether it reaches into an open world, such as the web. Unsaid means that it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// What a call of a tool gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallResult {
    /// The blocks as the server sent them; [`content`](crate::mcp::content) makes of them what a model understands.
    pub content: Vec<Value>,
    /// The result as data.
    pub structured_content: Option<Value>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// What else the server says of the result.
    pub meta: Option<Value>,
}

/// A resource of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// What it is read by.
    pub uri: String,
    /// Its name; the URI where the server gives none.
    #[serde(default)]
    pub name: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What form it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// How many bytes it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// For whom it is, how important, how old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

/// A pattern of URIs (RFC 6570) that a server has resources for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// The pattern.
    pub uri_template: String,
    /// Its name; the pattern where the server gives none.
    #[serde(default)]
    pub name: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What such resources are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What form they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// What is in a resource, or in a part of it: `text`, or `blob` in base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceContents {
    /// Where it is from.
    pub uri: String,
    /// What form it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

/// A prompt that a server has ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// The name that it is asked for by.
    pub name: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What can be filled in.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
}

/// Something to be filled into a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What belongs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it must be given.
    #[serde(default)]
    pub required: bool,
}

/// A prompt, filled in.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct PromptText {
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// The messages, in order.
    #[serde(default)]
    pub messages: Vec<PromptMessage>,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PromptMessage {
    /// Who says it: `user` or `assistant`.
    pub role: String,
    /// The block as the server sent it.
    pub content: Value,
}

/// What a server would fill in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Completion {
    /// At most a hundred values, the best first.
    pub values: Vec<String>,
    /// How many there are in all.
    pub total: Option<u64>,
    /// Whether there are more.
    pub has_more: bool,
}

/// What a completion is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
pub enum CompletionOf {
    /// An argument of a prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// The name of the prompt.
        name: String,
    },
    /// A variable of a resource template.
    #[serde(rename = "ref/resource")]
    Resource {
        /// The pattern.
        uri: String,
    },
}

/// A folder or file that servers may work in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// How important a log message is, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// What goes on.
    Info,
    /// What goes on and matters.
    Notice,
    /// What may go wrong.
    Warning,
    /// What went wrong.
    Error,
    /// What does not work any more.
    Critical,
    /// What must be mended at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl ToolDefinition {
    /// The name for people: title, title of the annotations, or name.
    pub fn label(&self) -> &str {
        let of_annotations = self.annotations.as_ref().and_then(|it| it.title.as_deref());
        self.title.as_deref().or(of_annotations).unwrap_or(&self.name)
    }

    /// Whether it can only be run as a task, which this client does not do.
    pub fn needs_task(&self) -> bool {
        let support = self.execution.as_ref().and_then(|it| it.get("taskSupport"));
        support.and_then(Value::as_str) == Some("required")
    }
}

impl CallResult {
    /// Reads the result of `tools/call`.
    pub(crate) fn from_value(value: Value) -> Result<CallResult, &'static str> {
        let Value::Object(mut fields) = value else { return Err("it is no object") };
        let content = match fields.remove("content") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(content)) => content,
            Some(_) => return Err("its content is no list"),
        };
        Ok(CallResult {
            content,
            structured_content: fields.remove("structuredContent"),
            is_error: fields.get("isError").and_then(Value::as_bool).unwrap_or(false),
            meta: fields.remove("_meta"),
        })
    }
}

impl ServerInfo {
    /// Reads the result of `initialize`.
    pub(crate) fn from_value(value: &Value) -> Result<ServerInfo, &'static str> {
        let text = |place: &str| value.pointer(place).and_then(Value::as_str).map(str::to_owned);
        let capabilities = match value.get("capabilities") {
            Some(Value::Object(capabilities)) => capabilities.clone(),
            _ => return Err("it does not say what the server can do"),
        };
        Ok(ServerInfo {
            name: text("/serverInfo/name").ok_or("it does not name the server")?,
            version: text("/serverInfo/version").unwrap_or_default(),
            title: text("/serverInfo/title"),
            instructions: text("/instructions"),
            protocol_version: text("/protocolVersion").ok_or("it names no revision")?,
            capabilities,
        })
    }

    /// Whether it says that it can do this.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.contains_key(capability)
    }
}
