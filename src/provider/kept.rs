//! The finished part of a body, kept as bytes from one request of a conversation to the next.
//!
//! A body grows at its end: what stands before the last complete response is the same in the next request. It is rendered
//! once, so that a turn costs what is new in it, and its bytes cannot differ, which vendors' prompt caches rely on. What
//! comes after the cut is rendered anew each time: it may be marked, merged with what follows, or answered.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::{
    error::{Error, ErrorKind},
    message::{AssistantContent, Message},
    model::Model,
    stream::{RequestHooks, RequestMemo},
};

/// Renders messages for one wire API.
pub(crate) trait Render {
    /// What rendering remembers from one message to the next.
    type State: Clone + Default + Send + 'static;
    /// What, beside the model, the bytes of a message depend on.
    type Key: PartialEq + Send + 'static;

    /// The present key.
    fn key(&self) -> Self::Key;

    /// Appends messages as JSON, each followed by a comma. They begin with the first of all, or with a response that has
    /// something to show; `is_tail` says that they are the last ones.
    fn render(
        &self,
        messages: &[Arc<Message>],
        state: &mut Self::State,
        is_tail: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), Error>;
}

/// The bytes of the messages at the head of a conversation.
struct Kept<K, S> {
    model: Arc<Model>,
    key: K,
    messages: Vec<Arc<Message>>,
    json: Vec<u8>,
    state: S,
}

impl<K: PartialEq, S> Kept<K, S> {
    fn fits(&self, model: &Arc<Model>, key: &K, messages: &[Arc<Message>]) -> bool {
        let is_head = || {
            let head = messages.get(..self.messages.len());
            head.is_some_and(|head| {
                head.iter().zip(&self.messages).all(|(one, other)| Arc::ptr_eq(one, other))
            })
        };
        (Arc::ptr_eq(&self.model, model) || self.model == *model) && self.key == *key && is_head()
    }
}

/// Appends all messages as the elements of an array, of which those that were rendered for the request before are taken
/// from the memo.
pub(crate) fn render<R: Render>(
    renderer: &R,
    model: &Arc<Model>,
    messages: &[Arc<Message>],
    memo: &RequestMemo,
    json: &mut Vec<u8>,
) -> Result<(), Error> {
    let key = renderer.key();
    // Where a response was taken back, what is kept may reach further than what is finished now.
    let cut = messages.iter().rposition(|message| has_something(message)).unwrap_or(0);
    let kept = memo.take::<Kept<R::Key, R::State>>();
    let fitting = kept.filter(|kept| kept.fits(model, &key, &messages[..cut]));
    let mut kept = fitting.unwrap_or_else(|| Kept {
        model: model.clone(),
        key,
        messages: Vec::new(),
        json: Vec::new(),
        state: R::State::default(),
    });
    if cut > kept.messages.len() {
        let new = &messages[kept.messages.len()..cut];
        renderer.render(new, &mut kept.state, false, &mut kept.json)?;
        kept.messages.extend_from_slice(new);
    }
    let rest = &messages[kept.messages.len()..];
    json.reserve(kept.json.len() + 1024);
    json.extend_from_slice(&kept.json);
    let mut state = kept.state.clone();
    memo.put(kept);
    renderer.render(rest, &mut state, true, json)
}

/// Whether a message is a complete response that no API leaves out.
fn has_something(message: &Message) -> bool {
    message.as_assistant().is_some_and(|assistant| {
        let shows = |block: &AssistantContent| match block {
            AssistantContent::Text(text) => !text.text.trim().is_empty(),
            AssistantContent::ToolCall(_) => true,
            AssistantContent::Thinking(_) => false,
        };
        !assistant.is_failed() && assistant.content.iter().any(shows)
    })
}

/// Appends one message and a comma.
pub(crate) fn push(message: &impl Serialize, json: &mut Vec<u8>) -> Result<(), Error> {
    serde_json::to_writer(&mut *json, message).map_err(|error| no_json(&error))?;
    json.push(b',');
    Ok(())
}

/// Writes a body whose first fields are the model and an empty list, and lets `fill` put elements into the list, each
/// followed by a comma. A body that begins otherwise stays as it is.
pub(crate) fn write_body(
    body: &impl Serialize,
    model: &impl Serialize,
    list: &str,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let mut front = b"{\"model\":".to_vec();
    serde_json::to_writer(&mut front, model).map_err(|error| no_json(&error))?;
    front.extend_from_slice(format!(",\"{list}\":[").as_bytes());
    fill_list(body, front, fill)
}

/// The same for a body whose first field is the empty list.
pub(crate) fn write_list(
    body: &impl Serialize,
    list: &str,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    fill_list(body, format!("{{\"{list}\":[").into_bytes(), fill)
}

/// Lets `fill` put elements into the empty list that `json`, the beginning of the body, ends in.
pub(crate) fn fill_list(
    body: &impl Serialize,
    mut json: Vec<u8>,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let fields = serde_json::to_vec(body).map_err(|error| no_json(&error))?;
    let Some(back) = fields.strip_prefix(&*json).filter(|back| back.starts_with(b"]")) else {
        return Ok(fields);
    };
    let front = json.len();
    fill(&mut json)?;
    if json.len() > front && json.last() == Some(&b',') {
        json.pop();
    }
    json.extend_from_slice(back);
    Ok(json)
}

/// Makes a body that a hook wants to see the tree that it is; others stay bytes.
pub(crate) fn for_hook(body: Vec<u8>, hooks: &RequestHooks) -> Result<(Value, Vec<u8>), Error> {
    if hooks.on_payload.is_none() {
        return Ok((Value::Null, body));
    }
    let payload = serde_json::from_slice(&body).map_err(|error| no_json(&error))?;
    Ok((payload, Vec::new()))
}

fn no_json(error: &serde_json::Error) -> Error {
    let message = format!("the request cannot be written as JSON: {error}");
    Error::new(ErrorKind::Configuration, message)
}
