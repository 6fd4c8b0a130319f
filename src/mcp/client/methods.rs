//! The methods of a server, each as a function.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    mcp::{
        client::{CallOptions, Client},
        definition::{
            CallResult, Completion, CompletionOf, LogLevel, Prompt, PromptText, Resource,
            ResourceContents, ResourceTemplate, ToolDefinition,
        },
    },
};

/// More pages than this have no end.
const MOST_PAGES: usize = 1_000;

/// The tools of a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolList {
    /// Those that can be used.
    pub tools: Vec<ToolDefinition>,
    /// What is wrong with those that cannot.
    pub faults: Vec<String>,
}

/// The requests of the specification. Lists are read to their last page.
impl Client {
    /// Asks whether the server is there.
    pub fn ping(&self, signal: &AbortSignal) -> Result<()> {
        self.ask("ping", None, signal).map(drop)
    }

    /// Lists the tools. An entry that cannot be used is left out and reported; it does not spoil the others.
    pub fn list_tools(&self, signal: &AbortSignal) -> Result<ToolList> {
        let mut list = ToolList::default();
        for entry in self.pages("tools/list", "tools", signal)? {
            let name = entry.get("name").and_then(Value::as_str).unwrap_or("without a name");
            let fault = |problem: String| format!("the tool `{name}` cannot be used: {problem}");
            match serde_json::from_value::<ToolDefinition>(entry.clone()) {
                Ok(tool) if tool.needs_task() => {
                    list.faults.push(fault("it can only be run as a task".to_owned()));
                }
                Ok(tool) => list.tools.push(tool),
                Err(error) => list.faults.push(fault(error.to_string())),
            }
        }
        Ok(list)
    }

    /// Calls a tool. A tool that fails gives a result that says so; an error means that there is no result.
    pub fn call_tool(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        options: &CallOptions<'_>,
        signal: &AbortSignal,
    ) -> Result<CallResult> {
        let params = json!({"name": name, "arguments": arguments});
        let result = self.request("tools/call", Some(params), options, signal)?;
        CallResult::from_value(result).map_err(|problem| useless("tools/call", problem))
    }

    /// Lists the resources.
    pub fn list_resources(&self, signal: &AbortSignal) -> Result<Vec<Resource>> {
        let mut resources: Vec<Resource> = self.list("resources/list", "resources", signal)?;
        for resource in &mut resources {
            if resource.name.is_empty() {
                resource.name.clone_from(&resource.uri);
            }
        }
        Ok(resources)
    }

    /// Lists the patterns of further resources.
    pub fn list_resource_templates(&self, signal: &AbortSignal) -> Result<Vec<ResourceTemplate>> {
        let mut templates: Vec<ResourceTemplate> =
            self.list("resources/templates/list", "resourceTemplates", signal)?;
        for template in &mut templates {
            if template.name.is_empty() {
                template.name.clone_from(&template.uri_template);
            }
        }
        Ok(templates)
    }

    /// Reads a resource, which may consist of several parts.
    pub fn read_resource(&self, uri: &str, signal: &AbortSignal) -> Result<Vec<ResourceContents>> {
        let result = self.ask("resources/read", Some(json!({"uri": uri})), signal)?;
        field(result, "resources/read", "contents")
    }

    /// Asks to be told when a resource changes.
    pub fn subscribe(&self, uri: &str, signal: &AbortSignal) -> Result<()> {
        self.ask("resources/subscribe", Some(json!({"uri": uri})), signal).map(drop)
    }

    /// Ends that.
    pub fn unsubscribe(&self, uri: &str, signal: &AbortSignal) -> Result<()> {
        self.ask("resources/unsubscribe", Some(json!({"uri": uri})), signal).map(drop)
    }

    /// Lists the prompts.
    pub fn list_prompts(&self, signal: &AbortSignal) -> Result<Vec<Prompt>> {
        self.list("prompts/list", "prompts", signal)
    }

    /// Fills in a prompt.
    pub fn get_prompt(
        &self,
        name: &str,
        arguments: &[(&str, &str)],
        signal: &AbortSignal,
    ) -> Result<PromptText> {
        let params = json!({"name": name, "arguments": texts(arguments)});
        let result = self.ask("prompts/get", Some(params), signal)?;
        serde_json::from_value(result).map_err(|error| useless("prompts/get", &error.to_string()))
    }

    /// Asks what could be filled in for the argument `name`, of which `value` is written already. `known` are arguments
    /// that are decided.
    pub fn complete(
        &self,
        of: &CompletionOf,
        (name, value): (&str, &str),
        known: &[(&str, &str)],
        signal: &AbortSignal,
    ) -> Result<Completion> {
        let mut params = json!({"ref": of, "argument": {"name": name, "value": value}});
        if !known.is_empty() {
            params["context"] = json!({"arguments": texts(known)});
        }
        let result = self.ask("completion/complete", Some(params), signal)?;
        field(result, "completion/complete", "completion")
    }

    /// Sets from which level on the server's log comes as [`Notice::Log`](crate::mcp::Notice::Log).
    pub fn set_log_level(&self, level: LogLevel, signal: &AbortSignal) -> Result<()> {
        self.ask("logging/setLevel", Some(json!({"level": level})), signal).map(drop)
    }

    /// Tells the server that the roots have changed.
    pub fn roots_changed(&self, signal: &AbortSignal) -> Result<()> {
        self.notify("notifications/roots/list_changed", None, signal)
    }

    fn ask(&self, method: &str, params: Option<Value>, signal: &AbortSignal) -> Result<Value> {
        self.request(method, params, &CallOptions::default(), signal)
    }

    fn list<T: DeserializeOwned>(
        &self,
        method: &str,
        field: &str,
        signal: &AbortSignal,
    ) -> Result<Vec<T>> {
        let entries = self.pages(method, field, signal)?.into_iter();
        let read = |entry| {
            serde_json::from_value(entry).map_err(|error| useless(method, &error.to_string()))
        };
        entries.map(read).collect()
    }

    fn pages(&self, method: &str, field: &str, signal: &AbortSignal) -> Result<Vec<Value>> {
        let mut entries = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let params = cursor.as_ref().map(|cursor| json!({"cursor": cursor}));
            let mut page = self.ask(method, params, signal)?;
            match page.get_mut(field).map(Value::take) {
                Some(Value::Array(list)) => entries.extend(list),
                _ => return Err(useless(method, &format!("it has no list `{field}`"))),
            }
            let next = page.get("nextCursor").and_then(Value::as_str).filter(|it| !it.is_empty());
            match next {
                None => return Ok(entries),
                Some(next) if cursor.as_deref() == Some(next) => {
                    return Err(useless(method, "its pages repeat"));
                }
                Some(next) => cursor = Some(next.to_owned()),
            }
        }
        Err(useless(method, &format!("it has more than {MOST_PAGES} pages")))
    }
}

fn texts(pairs: &[(&str, &str)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}

fn field<T: DeserializeOwned>(mut result: Value, method: &str, name: &str) -> Result<T> {
    let value = result.get_mut(name).map(Value::take).unwrap_or_default();
    serde_json::from_value(value).map_err(|error| useless(method, &format!("`{name}`: {error}")))
}

fn useless(method: &str, problem: &str) -> Error {
    let text = format!("the MCP server's answer to `{method}` cannot be used: {problem}");
    Error::new(ErrorKind::Protocol, text)
}
