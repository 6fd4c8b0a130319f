//! JSON-RPC 2.0 messages: JSON in, messages out, and back.
//!
//! The rules are those of <https://www.jsonrpc.org/specification> as MCP narrows them down: an id is a text or a number,
//! parameters are an object.

use std::fmt;

use serde_json::{Map, Number, Value, json};

use crate::partial_json::repair::from_str_repaired;

/// The message is no JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The message is JSON, but no request.
pub const INVALID_REQUEST: i64 = -32600;
/// The method is not known.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// The method failed inside.
pub const INTERNAL_ERROR: i64 = -32603;

/// What a response names its request by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Id {
    /// A number; those of this crate are counted from 1.
    Number(Number),
    /// A text.
    Text(String),
}

/// One message in either direction.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Asks for something and gets a response with the same id.
    Request {
        /// What the response names.
        id: Id,
        /// What is asked for.
        method: String,
        /// The parameters; `None` is sent as nothing.
        params: Option<Value>,
    },
    /// Tells something that is not answered.
    Notification {
        /// What is told.
        method: String,
        /// The parameters; `None` is sent as nothing.
        params: Option<Value>,
    },
    /// Answers a request.
    Response {
        /// The id of the request; `None` if the other side could not read it.
        id: Option<Id>,
        /// The result, or why there is none.
        outcome: Result<Value, RpcError>,
    },
}

/// Why a request failed, as the other side tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// What went wrong, as a number.
    pub code: i64,
    /// The same for people.
    pub message: String,
    /// Whatever else the other side says.
    pub data: Option<Value>,
}

impl Message {
    /// Makes a notification.
    pub fn notification(method: impl Into<String>, params: Option<Value>) -> Message {
        Message::Notification { method: method.into(), params }
    }

    /// Reads one message. The error says what is wrong with it, without its content.
    pub fn from_value(value: Value) -> Result<Message, String> {
        let Value::Object(mut fields) = value else {
            return Err("a message is no JSON object".to_owned());
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err("a message does not say `\"jsonrpc\": \"2.0\"`".to_owned());
        }
        let params = fields.remove("params");
        let id = fields.remove("id").map(Id::from_value);
        match fields.remove("method") {
            Some(Value::String(method)) => match id {
                None => Ok(Message::Notification { method, params }),
                Some(Some(id)) => Ok(Message::Request { id, method, params }),
                Some(None) => Err(format!("the id of `{method}` is neither a text nor a number")),
            },
            Some(_) => Err("the method of a message is no text".to_owned()),
            None => Message::response_from(fields, id.flatten()),
        }
    }

    fn response_from(mut fields: Map<String, Value>, id: Option<Id>) -> Result<Message, String> {
        let outcome = match (fields.remove("result"), fields.remove("error")) {
            (Some(result), None | Some(Value::Null)) => Ok(result),
            (None, Some(error)) => Err(RpcError::from_value(error)?),
            (Some(_), Some(_)) => return Err("a response has a result and an error".to_owned()),
            (None, None) => {
                return Err("a message has no method, no result and no error".to_owned());
            }
        };
        match id {
            None if outcome.is_ok() => Err("a response has no id".to_owned()),
            id => Ok(Message::Response { id, outcome }),
        }
    }

    /// Reads the bytes of one message, or of a list of them. Each faulty one is an error of its own.
    pub fn from_bytes(bytes: &[u8]) -> Vec<Result<Message, String>> {
        let read = serde_json::from_slice(bytes).or_else(|error| match str::from_utf8(bytes) {
            // Servers in JavaScript cut texts in the middle of a character and write the half that is left.
            Ok(text) => from_str_repaired(text),
            Err(_) => Err(error),
        });
        match read {
            Ok(Value::Array(list)) if !list.is_empty() => {
                list.into_iter().map(Message::from_value).collect()
            }
            Ok(value) => vec![Message::from_value(value)],
            Err(error) => vec![Err(format!("a message is no JSON: {error}"))],
        }
    }

    /// The message as JSON.
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("jsonrpc".to_owned(), json!("2.0"));
        let (method, params) = match self {
            Message::Request { id, method, params } => {
                fields.insert("id".to_owned(), id.to_value());
                (method, params)
            }
            Message::Notification { method, params } => (method, params),
            Message::Response { id, outcome } => {
                fields.insert("id".to_owned(), id.as_ref().map_or(Value::Null, Id::to_value));
                match outcome {
                    Ok(result) => fields.insert("result".to_owned(), result.clone()),
                    Err(error) => fields.insert("error".to_owned(), error.to_value()),
                };
                return Value::Object(fields);
            }
        };
        fields.insert("method".to_owned(), json!(method));
        if let Some(params) = params {
            fields.insert("params".to_owned(), params.clone());
        }
        Value::Object(fields)
    }

    /// The message as one line of JSON, without the line feed.
    pub fn to_line(&self) -> String {
        self.to_value().to_string()
    }

    /// The id of a request.
    pub fn request_id(&self) -> Option<&Id> {
        match self {
            Message::Request { id, .. } => Some(id),
            _ => None,
        }
    }
}

impl Id {
    /// Reads an id.
    pub fn from_value(value: Value) -> Option<Id> {
        match value {
            Value::Number(number) => Some(Id::Number(number)),
            Value::String(text) => Some(Id::Text(text)),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Id::Number(number) => Value::Number(number.clone()),
            Id::Text(text) => Value::String(text.clone()),
        }
    }

    /// The number, if it is one that this crate gives out. A server may write `1.0` for `1`.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Id::Number(number) => number.as_u64().or_else(|| {
                let float = number.as_f64()?;
                // Beyond this a float cannot tell two ids apart.
                let is_exact = float.fract() == 0.0 && (0.0..9e15).contains(&float);
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                is_exact.then_some(float as u64)
            }),
            Id::Text(_) => None,
        }
    }
}

impl RpcError {
    /// Makes an error of a code and a text.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    /// Keeps `data` for the other side.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> RpcError {
        self.data = Some(data);
        self
    }

    fn from_value(value: Value) -> Result<RpcError, String> {
        let Value::Object(mut fields) = value else {
            return Err("the error of a response is no object".to_owned());
        };
        let code = fields.get("code").and_then(Value::as_i64);
        let code = code.ok_or("the error of a response has no code")?;
        let message = match fields.remove("message") {
            Some(Value::String(message)) => message,
            _ => String::new(),
        };
        Ok(RpcError { code, message, data: fields.remove("data") })
    }

    fn to_value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("code".to_owned(), json!(self.code));
        fields.insert("message".to_owned(), json!(self.message));
        if let Some(data) = &self.data {
            fields.insert("data".to_owned(), data.clone());
        }
        Value::Object(fields)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(number) => write!(f, "{number}"),
            Id::Text(text) => write!(f, "`{text}`"),
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Id {
        Id::Number(number.into())
    }
}

/// Cuts a stream of bytes into lines, each at most so long.
///
/// A line is joined once, when its end arrives; what is too long is skipped to its end.
#[derive(Debug)]
pub struct LineCutter {
    line: Vec<u8>,
    most: usize,
    is_skipping: bool,
}

/// What [`LineCutter::push`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line that is not blank, without its end.
    Whole(&'a [u8]),
    /// A line that was longer than allowed. It was dropped.
    TooLong,
}

impl LineCutter {
    /// Makes a cutter for lines of at most `most` bytes.
    pub fn new(most: usize) -> LineCutter {
        LineCutter { line: Vec::new(), most, is_skipping: false }
    }

    /// Takes the next bytes and gives each line that they end to `each`.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.keep(&bytes[..end], &mut each);
            if !self.is_skipping && !self.line.trim_ascii().is_empty() {
                each(Line::Whole(self.line.strip_suffix(b"\r").unwrap_or(&self.line)));
            }
            self.is_skipping = false;
            self.line.clear();
            // One large message must not hold its memory for the rest of the connection.
            self.line.shrink_to(64 << 10);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes, &mut each);
    }

    /// How many bytes of a line without an end are here.
    pub fn unfinished(&self) -> usize {
        self.line.trim_ascii().len()
    }

    fn keep(&mut self, bytes: &[u8], each: &mut impl FnMut(Line<'_>)) {
        if self.is_skipping {
            return;
        }
        if self.line.len() + bytes.len() > self.most {
            self.is_skipping = true;
            self.line.clear();
            each(Line::TooLong);
            return;
        }
        self.line.extend_from_slice(bytes);
    }
}

/// Returns the beginning of bytes that are no message, as a text to show.
pub fn excerpt(bytes: &[u8]) -> String {
    const MOST: usize = 200;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]);
    text.trim_end_matches(char::REPLACEMENT_CHARACTER).trim().to_owned()
}
