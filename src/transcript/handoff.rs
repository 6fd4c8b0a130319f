//! Makes a transcript ready for a model: complete, and without what only other models understand.

use std::{borrow::Cow, sync::Arc};

use crate::{
    message::{
        AssistantContent, AssistantMessage, Content, ImageContent, Message, MessageContent,
        TextContent, ToolCall, ToolResultMessage, UserMessage,
    },
    model::Model,
    transcript::replay::current_system,
};

/// What a call's result says where the transcript has none.
pub const NO_RESULT: &str = "No result was recorded for this call. It may have run or not.";

/// Stands for images of a user that the model cannot take.
pub const USER_IMAGE_OMITTED: &str = "[An image was left out: the model takes text only.]";

/// Stands for images of a tool result that the model cannot take.
pub const TOOL_IMAGE_OMITTED: &str =
    "[An image in this result was left out: the model takes text only.]";

/// Makes the messages ready for a model, whatever model produced them. What needs no change is shared, not copied.
///
/// - Responses that failed or were aborted are left out, together with the results of their calls.
/// - Each call has exactly one result, before the next message of the user or the model: a missing one is made up as an
///   error, late duplicates and results without a call are left out. System messages between a call and its results
///   come after them.
/// - A model that takes no images gets a line of text for each run of them.
/// - Thinking and signatures of other models are left out, and ids of their calls go through `call_id`.
/// - Messages of the host with roles of their own are left out.
///
/// `call_id` gives the id that a call of another model shall have; it sees the id and the message. It may keep state to
/// make ids unique. Ids of the model's own calls stay as they are, unless they are empty.
pub fn hand_over(
    messages: &[Arc<Message>],
    model: &Model,
    call_id: &mut dyn FnMut(&str, &AssistantMessage) -> String,
) -> Vec<Arc<Message>> {
    hand_over_part(messages, 0, model, call_id)
}

/// Makes the messages from number `first` on ready. They begin with the first of all, or with a response, so that nothing
/// before them has a say.
pub(crate) fn hand_over_part(
    messages: &[Arc<Message>],
    first: usize,
    model: &Model,
    call_id: &mut dyn FnMut(&str, &AssistantMessage) -> String,
) -> Vec<Arc<Message>> {
    let mut ready = Ready {
        messages: Vec::with_capacity(messages.len()),
        calls: Vec::new(),
        held: Vec::new(),
        timestamp: 0,
    };
    for (index, message) in (first..).zip(messages) {
        match &**message {
            Message::System(_) if ready.is_waiting() => ready.held.push(message.clone()),
            Message::System(_) => ready.messages.push(message.clone()),
            Message::User(user) => {
                ready.settle();
                ready.messages.push(user_for(user, model).unwrap_or_else(|| message.clone()));
            }
            Message::Assistant(assistant) if assistant.is_failed() => {}
            Message::Assistant(assistant) => {
                ready.settle();
                let changed = assistant_for(assistant, model, index, call_id);
                let message = changed.unwrap_or_else(|| message.clone());
                ready.open(assistant, &message);
                ready.messages.push(message);
            }
            Message::ToolResult(result) => ready.answer(message, result, model),
            Message::Custom(_) => {}
        }
    }
    ready.settle();
    ready.messages
}

/// The transcript in one of its two forms: as it is, for APIs that take system messages anywhere, or else with a single
/// system message at its head that says what all of them say together.
pub fn resolve_transcript(
    messages: &[Arc<Message>],
    takes_later_system_messages: bool,
) -> Vec<Arc<Message>> {
    resolved(messages, takes_later_system_messages).into_owned()
}

/// The same, borrowed where nothing is to be changed.
pub(crate) fn resolved(
    messages: &[Arc<Message>],
    takes_later_system_messages: bool,
) -> Cow<'_, [Arc<Message>]> {
    let later = messages.iter().skip(1).any(|message| message.as_system().is_some());
    if takes_later_system_messages || !later {
        return Cow::Borrowed(messages);
    }
    let head = current_system(messages.iter().map(|message| &**message));
    let others = messages.iter().filter(|message| message.as_system().is_none()).cloned();
    head.map(|system| Arc::new(Message::System(system))).into_iter().chain(others).collect()
}

/// The messages so far, and the calls of the last response with what became of them.
struct Ready {
    messages: Vec<Arc<Message>>,
    calls: Vec<OpenCall>,
    /// System messages that wait for results.
    held: Vec<Arc<Message>>,
    /// Of the last response; a result that is made up gets it.
    timestamp: u64,
}

struct OpenCall {
    /// The id as the transcript has it.
    told: String,
    /// The id as the model shall see it.
    id: String,
    name: String,
    is_answered: bool,
}

impl Ready {
    fn is_waiting(&self) -> bool {
        self.calls.iter().any(|call| !call.is_answered)
    }

    /// Remembers the calls of a response: `told` as the transcript has them, `ready` as the model sees them.
    fn open(&mut self, told: &AssistantMessage, ready: &Message) {
        let Message::Assistant(ready) = ready else { return };
        self.timestamp = told.timestamp;
        self.calls = told
            .tool_calls()
            .zip(ready.tool_calls())
            .map(|(told, ready)| OpenCall {
                told: told.id.clone(),
                id: ready.id.clone(),
                name: ready.name.clone(),
                is_answered: false,
            })
            .collect();
    }

    /// Takes a result if a call of the last response still waits for it.
    fn answer(&mut self, message: &Arc<Message>, result: &ToolResultMessage, model: &Model) {
        let waiting = self
            .calls
            .iter_mut()
            .find(|call| !call.is_answered && call.told == result.tool_call_id);
        let Some(call) = waiting else { return };
        call.is_answered = true;
        let content = content_for(&result.content, model, TOOL_IMAGE_OMITTED);
        if call.id == result.tool_call_id && matches!(content, Cow::Borrowed(_)) {
            self.messages.push(message.clone());
        } else {
            let result = ToolResultMessage {
                tool_call_id: call.id.clone(),
                content: content.into_owned(),
                ..result.clone()
            };
            self.messages.push(Arc::new(Message::ToolResult(result)));
        }
        if !self.is_waiting() {
            self.messages.append(&mut self.held);
        }
    }

    /// Makes up the results that are missing, then lets the system messages follow.
    fn settle(&mut self) {
        for call in self.calls.drain(..).filter(|call| !call.is_answered) {
            self.messages.push(Arc::new(Message::ToolResult(ToolResultMessage {
                tool_call_id: call.id,
                tool_name: call.name,
                content: vec![Content::text(NO_RESULT)],
                is_error: true,
                timestamp: self.timestamp,
                ..ToolResultMessage::default()
            })));
        }
        self.messages.append(&mut self.held);
    }
}

fn user_for(user: &UserMessage, model: &Model) -> Option<Arc<Message>> {
    let MessageContent::Blocks(blocks) = &user.content else { return None };
    let Cow::Owned(blocks) = content_for(blocks, model, USER_IMAGE_OMITTED) else { return None };
    let user = UserMessage { content: MessageContent::Blocks(blocks), ..user.clone() };
    Some(Arc::new(Message::User(user)))
}

/// The blocks as the model can take them: each run of images becomes one placeholder if it takes none.
fn content_for<'a>(blocks: &'a [Content], model: &Model, placeholder: &str) -> Cow<'a, [Content]> {
    let is_image = |block: &Content| matches!(block, Content::Image(ImageContent { .. }));
    if model.takes_images() || !blocks.iter().any(is_image) {
        return Cow::Borrowed(blocks);
    }
    let mut kept: Vec<Content> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let block = if is_image(block) { Content::text(placeholder) } else { block.clone() };
        let repeats = block.as_text() == Some(placeholder)
            && kept.last().is_some_and(|last| last.as_text() == Some(placeholder));
        if !repeats {
            kept.push(block);
        }
    }
    Cow::Owned(kept)
}

/// The response as the model can take it; `None` if it can take it as it is.
fn assistant_for(
    assistant: &AssistantMessage,
    model: &Model,
    index: usize,
    call_id: &mut dyn FnMut(&str, &AssistantMessage) -> String,
) -> Option<Arc<Message>> {
    let is_own = model.is_same(&assistant.provider, &assistant.api, &assistant.model);
    let is_fine = |block: &AssistantContent| match block {
        AssistantContent::Text(_) => true,
        AssistantContent::Thinking(_) => is_kept(block),
        AssistantContent::ToolCall(call) => !call.id.is_empty(),
    };
    if is_own && assistant.content.iter().all(is_fine) {
        return None;
    }
    let mut content = Vec::with_capacity(assistant.content.len());
    for block in &assistant.content {
        content.push(match block {
            AssistantContent::Thinking(_) if is_own && is_kept(block) => block.clone(),
            AssistantContent::Thinking(_) => continue,
            AssistantContent::Text(_) if is_own => block.clone(),
            AssistantContent::Text(text) => AssistantContent::Text(TextContent {
                text: text.text.clone(),
                text_signature: None,
            }),
            AssistantContent::ToolCall(call) => {
                let id = if call.id.is_empty() {
                    Cow::Owned(format!("call_{index}_{}", content.len()))
                } else {
                    Cow::Borrowed(call.id.as_str())
                };
                let call = if is_own {
                    ToolCall { id: id.into_owned(), ..call.clone() }
                } else {
                    let id = call_id(&id, assistant);
                    ToolCall { id, thought_signature: None, ..call.clone() }
                };
                AssistantContent::ToolCall(call)
            }
        });
    }
    Some(Arc::new(Message::Assistant(AssistantMessage { content, ..assistant.clone() })))
}

/// Whether thinking says something to the model that it came from.
fn is_kept(block: &AssistantContent) -> bool {
    let AssistantContent::Thinking(thinking) = block else { return true };
    let is_signed = thinking.thinking_signature.as_ref().is_some_and(|it| !it.is_empty());
    thinking.redacted || is_signed || !thinking.thinking.trim().is_empty()
}
