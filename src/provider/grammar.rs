//! Tools that take one text of a grammar, for vendors of OpenAI's kind: their calls hold a text, ours hold JSON.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    error::{Error, ErrorKind},
    message::{ToolCall, ToolDeclaration},
    provider::constraint::{self, Grammar},
};

/// Grammar tools by name: the property that their one text is kept under.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct GrammarTools {
    properties: HashMap<String, String>,
}

impl GrammarTools {
    /// The grammar tools among `tools`, if the server knows such.
    pub(crate) fn among(
        tools: &[ToolDeclaration],
        are_supported: bool,
    ) -> Result<GrammarTools, Error> {
        let mut properties = HashMap::new();
        if are_supported {
            for tool in tools {
                if let Some(Grammar { property, .. }) = constraint::grammar(tool)? {
                    properties.insert(tool.name.clone(), property);
                }
            }
        }
        Ok(GrammarTools { properties })
    }

    /// The property of a grammar tool's text; `None` for any other tool.
    pub(crate) fn property(&self, tool: &str) -> Option<&str> {
        self.properties.get(tool).map(String::as_str)
    }

    /// The text of a call, as the vendor wants it back; `None` for a call of any other tool.
    pub(crate) fn input<'a>(&self, call: &'a ToolCall) -> Result<Option<&'a str>, Error> {
        let Some(property) = self.property(&call.name) else { return Ok(None) };
        match call.arguments.get(property) {
            Some(Value::String(input)) => Ok(Some(input.as_str())),
            // The arguments of a call that was cut are empty; that must not end the conversation.
            None => Ok(Some("")),
            Some(_) => {
                let message = format!(
                    "call `{}` of grammar tool `{}` has no text as `{property}`: take it out of the transcript",
                    call.id, call.name
                );
                Err(Error::new(ErrorKind::InvalidRequest, message))
            }
        }
    }
}

/// The text of a call on its way to become JSON.
#[derive(Debug)]
pub(crate) struct GrammarText {
    property: String,
    is_open: bool,
}

impl GrammarText {
    /// Begins a text that is kept under `property`.
    pub(crate) fn new(property: &str) -> GrammarText {
        GrammarText { property: property.to_owned(), is_open: false }
    }

    /// The property that the text is kept under.
    pub(crate) fn property(&self) -> &str {
        &self.property
    }

    /// More of the JSON, for more of the text; empty for nothing.
    pub(crate) fn push(&mut self, input: &str) -> String {
        if input.is_empty() {
            return String::new();
        }
        self.open() + &escaped(input)
    }

    /// The rest of the JSON.
    pub(crate) fn close(&mut self) -> String {
        self.open() + "\"}"
    }

    fn open(&mut self) -> String {
        if std::mem::replace(&mut self.is_open, true) {
            return String::new();
        }
        format!("{{\"{}\":\"", escaped(&self.property))
    }
}

/// The text as it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
