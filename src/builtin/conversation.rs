//! What a transcript tells: what is asked now, what tools gave since, what was said before.

use std::sync::Arc;

use crate::{
    builtin::request::Request,
    message::{
        AssistantMessage, Content, Message, MessageContent, ToolCall, ToolDeclaration,
        ToolResultMessage, UserMessage,
    },
    stream::{StreamRequest, ToolChoice},
    transcript,
};

/// A transcript as the model looks at it.
pub(super) struct Conversation<'a> {
    messages: &'a [Arc<Message>],
    pub(super) tools: Vec<ToolDeclaration>,
    pub(super) choice: Option<&'a ToolChoice>,
    /// The last message of the user.
    pub(super) request: Request,
    /// The images of that message, by their type.
    pub(super) images: Vec<&'a str>,
    /// How many times tools were called for that message.
    pub(super) steps_done: usize,
    /// What the last calls gave, if nothing was said since.
    pub(super) results: Vec<Gave<'a>>,
    /// Whether the last message of the user came while tools were at work.
    pub(super) interrupted: bool,
}

/// A call and what it gave.
pub(super) struct Gave<'a> {
    pub(super) call: Option<&'a ToolCall>,
    pub(super) result: &'a ToolResultMessage,
}

impl<'a> Conversation<'a> {
    pub(super) fn of(request: &'a StreamRequest) -> Conversation<'a> {
        let messages = request.transcript.messages();
        let choice = request.options.tool_choice.as_ref();
        let mut tools = transcript::current_tools(messages.iter().map(|message| &**message));
        if choice == Some(&ToolChoice::None) {
            tools.clear();
        }
        let asked = messages.iter().rposition(|message| matches!(**message, Message::User(_)));
        let said = messages.iter().rposition(|message| matches!(**message, Message::Assistant(_)));
        let since = |place: Option<usize>| &messages[place.map_or(0, |place| place + 1)..];
        let user = asked.and_then(|place| as_user(&messages[place]));
        let calls: Vec<&ToolCall> = said
            .and_then(|place| messages[place].as_assistant())
            .into_iter()
            .flat_map(AssistantMessage::tool_calls)
            .collect();
        let results: Vec<Gave<'_>> = since(said)
            .iter()
            .filter_map(|message| message.as_tool_result())
            .map(|result| {
                let call = calls.iter().find(|call| call.id == result.tool_call_id).copied();
                Gave { call, result }
            })
            .collect();
        Conversation {
            messages,
            tools,
            choice,
            request: Request::new(&user.map(|user| user.content.text()).unwrap_or_default()),
            images: user.map(images).unwrap_or_default(),
            steps_done: since(asked).iter().filter(|message| calls_tools(message)).count(),
            interrupted: asked > said && !results.is_empty(),
            results,
        }
    }

    /// What the user said, in order.
    pub(super) fn said(&self) -> impl DoubleEndedIterator<Item = String> {
        self.messages
            .iter()
            .filter_map(|message| as_user(message))
            .map(|user| user.content.text().into_owned())
    }

    /// How many messages there are, the prompt left out.
    pub(super) fn length(&self) -> usize {
        self.messages.iter().filter(|message| message.as_system().is_none()).count()
    }

    pub(super) fn system_prompt(&self) -> String {
        let system = transcript::current_system(self.messages.iter().map(|message| &**message));
        system.map(|system| transcript::prompt_text(&system)).unwrap_or_default()
    }

    /// An id that no call before has.
    pub(super) fn call_id(&self, place: usize) -> String {
        let before: usize = self
            .messages
            .iter()
            .filter_map(|message| message.as_assistant())
            .map(|message| message.tool_calls().count())
            .sum();
        format!("call-{}", before + place + 1)
    }
}

fn as_user(message: &Message) -> Option<&UserMessage> {
    if let Message::User(user) = message { Some(user) } else { None }
}

fn calls_tools(message: &Message) -> bool {
    message.as_assistant().is_some_and(|message| message.tool_calls().next().is_some())
}

fn images(user: &UserMessage) -> Vec<&str> {
    let MessageContent::Blocks(blocks) = &user.content else { return Vec::new() };
    blocks
        .iter()
        .filter_map(|block| match block {
            Content::Image(image) => Some(image.mime_type.as_str()),
            Content::Text(_) => None,
        })
        .collect()
}
