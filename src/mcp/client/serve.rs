//! Requests of the server: each is answered by the host's callback, on a thread of its own.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::{
    abort::{AbortController, AbortSignal},
    jsonrpc::{INTERNAL_ERROR, INVALID_PARAMS, Id, METHOD_NOT_FOUND, Message, RpcError},
    mcp::client::core::Core,
    thread,
};

/// How many requests of a server are answered at the same time; more are refused.
const MOST: usize = 32;

/// The code of a refusal because of that.
const BUSY: i64 = -32000;

/// Answers requests of one kind. The signal fires when the server cancels the request or the connection goes.
pub type Handler<T> =
    Arc<dyn Fn(&T, &AbortSignal) -> Result<<T as Ask>::Answer, RpcError> + Send + Sync>;

/// A kind of question that servers ask.
pub trait Ask {
    /// What answers it.
    type Answer;
}

/// A server wants a model asked.
///
/// The user should see and allow what is asked and what is answered: a server that is not trusted may ask anything.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// The parameters as the server sent them: `messages`, `systemPrompt`, `maxTokens`, `modelPreferences`, …
    pub params: Map<String, Value>,
}

/// A server wants the user asked.
///
/// The user should see which server asks, and be able to decline. Never ask for passwords or keys in a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// What the user is to be told.
    pub message: String,
    /// The schema of the form: an object of texts, numbers, truth values and choices. `None` for a URL.
    pub schema: Option<Map<String, Value>>,
    /// Where the user is to be sent; show it, and open it only when the user agrees. `None` for a form.
    pub url: Option<String>,
    /// The parameters as the server sent them.
    pub params: Map<String, Value>,
}

/// What the user said.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// Agreed, with the form filled in (empty for a URL).
    Accept(Map<String, Value>),
    /// Said no.
    Decline,
    /// Gave no answer.
    Cancel,
}

impl Ask for Sampling {
    /// The result of `sampling/createMessage`: `role`, `content`, `model`, `stopReason`.
    type Answer = Value;
}

impl Ask for Elicitation {
    type Answer = ElicitationAnswer;
}

/// The requests of the server that are being answered.
#[derive(Default)]
pub(super) struct Serving {
    open: Mutex<HashMap<Id, AbortController>>,
}

impl Serving {
    pub(super) fn abort(&self, id: &Id) {
        let controller = self.open.lock().get(id).cloned();
        if let Some(controller) = controller {
            controller.abort();
        }
    }

    pub(super) fn abort_all(&self) {
        let all: Vec<_> = self.open.lock().drain().collect();
        for (_, controller) in all {
            controller.abort();
        }
    }

    /// Notes a request; `None` if there are too many.
    fn begin(&self, id: &Id) -> Option<AbortSignal> {
        let mut open = self.open.lock();
        if open.len() >= MOST {
            return None;
        }
        let controller = AbortController::new();
        let signal = controller.signal();
        open.insert(id.clone(), controller);
        Some(signal)
    }

    fn end(&self, id: &Id) {
        self.open.lock().remove(id);
    }
}

impl Core {
    /// Answers a request of the server. It does not block.
    pub(super) fn serve(self: &Arc<Core>, id: Id, method: String, params: Option<Value>) {
        if method == "ping" {
            self.answer(id, Ok(json!({})));
            return;
        }
        let Some(signal) = self.serving.begin(&id) else {
            self.answer(id, Err(RpcError::new(BUSY, "too many requests at the same time")));
            return;
        };
        let core = self.clone();
        let asked = id.clone();
        let run = move || {
            let outcome = thread::catch(|| core.handle(&method, params, &signal));
            let outcome = outcome.unwrap_or_else(|panic| Err(RpcError::new(INTERNAL_ERROR, panic)));
            core.serving.end(&id);
            core.answer(id, outcome);
        };
        if thread::spawn(&format!("mcp-serve-{}", self.options.name), run).is_err() {
            self.serving.end(&asked);
            self.answer(asked, Err(RpcError::new(BUSY, "no thread to answer with")));
        }
    }

    fn answer(&self, id: Id, outcome: Result<Value, RpcError>) {
        self.send_aside(Message::Response { id: Some(id), outcome });
    }

    fn handle(
        &self,
        method: &str,
        params: Option<Value>,
        signal: &AbortSignal,
    ) -> Result<Value, RpcError> {
        let options = &self.options;
        match method {
            "roots/list" if let Some(roots) = &options.roots => Ok(json!({"roots": roots()})),
            "sampling/createMessage" if let Some(handler) = &options.sampling => {
                handler(&Sampling { params: object(params)? }, signal)
            }
            "elicitation/create" if let Some(handler) = &options.elicitation => {
                let question = Elicitation::from_params(object(params)?)?;
                if question.url.is_some() && !options.elicitation_by_url {
                    let text = "the user cannot be sent to a URL here";
                    return Err(RpcError::new(INVALID_PARAMS, text));
                }
                handler(&question, signal).map(ElicitationAnswer::into_value)
            }
            _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("method not found: {method}"))),
        }
    }
}

impl Elicitation {
    fn from_params(params: Map<String, Value>) -> Result<Elicitation, RpcError> {
        let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        let invalid = |what: &str| RpcError::new(INVALID_PARAMS, what);
        let message = text("message").ok_or_else(|| invalid("no message to the user"))?;
        let (schema, url) = match text("mode").as_deref() {
            None | Some("form") => match params.get("requestedSchema") {
                Some(Value::Object(schema)) => (Some(schema.clone()), None),
                _ => return Err(invalid("no schema of the form")),
            },
            Some("url") => (None, Some(text("url").ok_or_else(|| invalid("no URL"))?)),
            Some(other) => return Err(invalid(&format!("unknown mode `{other}`"))),
        };
        Ok(Elicitation { message, schema, url, params })
    }

    /// The form filled in with the defaults of its schema.
    pub fn defaults(&self) -> Map<String, Value> {
        let properties = self.schema.as_ref().and_then(|schema| schema.get("properties"));
        let properties = properties.and_then(Value::as_object).into_iter().flatten();
        let default = |(name, schema): (&String, &Value)| {
            Some((name.clone(), schema.get("default")?.clone()))
        };
        properties.filter_map(default).collect()
    }
}

impl ElicitationAnswer {
    fn into_value(self) -> Value {
        match self {
            ElicitationAnswer::Accept(content) => json!({"action": "accept", "content": content}),
            ElicitationAnswer::Decline => json!({"action": "decline"}),
            ElicitationAnswer::Cancel => json!({"action": "cancel"}),
        }
    }
}

fn object(params: Option<Value>) -> Result<Map<String, Value>, RpcError> {
    match params {
        Some(Value::Object(params)) => Ok(params),
        None => Ok(Map::new()),
        Some(_) => Err(RpcError::new(INVALID_PARAMS, "the parameters are no object")),
    }
}
