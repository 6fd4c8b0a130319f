//! The one reducer: folds the events of a response into the message under construction.

use std::{fmt, sync::Arc, time::Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind, Failure},
    message::{
        AssistantContent, AssistantMessage, Message, StopReason, TextContent, ThinkingContent,
        ToolCall, now_ms,
    },
    model::Model,
    partial_json::PartialJson,
    stream::event::{Answerer, ResponseInfo, StreamEvent},
};

/// A message under construction, shared by the loop that builds it and whoever reads it.
///
/// Handles are cheap to clone and may be kept: after the end they show the finished message. Reading costs what is read:
/// [`snapshot`](LiveMessage::snapshot) copies the message so far, [`with_text`](LiveMessage::with_text) and
/// [`with_arguments`](LiveMessage::with_arguments) borrow from it for a moment.
#[derive(Clone)]
pub struct LiveMessage {
    state: Arc<Mutex<State>>,
}

struct State {
    /// The message without its content while it streams.
    head: AssistantMessage,
    blocks: Vec<Block>,
    began: Instant,
    finished: Option<Arc<Message>>,
}

enum Block {
    Text(TextContent),
    Thinking(ThinkingContent),
    Call {
        call: ToolCall,
        /// The argument text while it arrives.
        open: Option<Box<PartialJson>>,
    },
}

impl LiveMessage {
    /// Begins a message of a model.
    pub fn of(model: &Model) -> LiveMessage {
        LiveMessage::with_head(AssistantMessage {
            api: model.api.clone(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            stop_reason: StopReason::Pending,
            timestamp: now_ms(),
            ..AssistantMessage::default()
        })
    }

    /// Takes a message as it stands, for one that was read from JSON.
    pub fn with_message(message: AssistantMessage) -> LiveMessage {
        let live = LiveMessage::with_head(AssistantMessage::default());
        live.state.lock().finished = Some(Arc::new(Message::Assistant(message)));
        live
    }

    fn with_head(head: AssistantMessage) -> LiveMessage {
        let state = State { head, blocks: Vec::new(), began: Instant::now(), finished: None };
        LiveMessage { state: Arc::new(Mutex::new(state)) }
    }

    /// Folds one event in, and completes it: ends without content get what the deltas gave.
    ///
    /// An event that does not fit (a block that was never begun) is a protocol error; the message stays as it was.
    pub fn apply(&self, event: &mut StreamEvent) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.finished.is_some() {
            return Ok(());
        }
        state.apply(event)
    }

    /// Copies the message so far; its stop reason is `pending` until it has ended.
    pub fn snapshot(&self) -> AssistantMessage {
        let state = self.state.lock();
        if let Some(Message::Assistant(message)) = state.finished.as_deref() {
            return message.clone();
        }
        let mut message = state.head.clone();
        message.content = state.blocks.iter().map(Block::content).collect();
        message
    }

    /// Shows the text or thinking of a block so far; `None` if there is no such block.
    ///
    /// The loop waits while `read` runs: keep it short.
    pub fn with_text<T>(&self, content_index: usize, read: impl FnOnce(&str) -> T) -> Option<T> {
        let state = self.state.lock();
        match state.blocks.get(content_index) {
            Some(Block::Text(block)) => return Some(read(&block.text)),
            Some(Block::Thinking(block)) => return Some(read(&block.thinking)),
            _ => (),
        }
        let finished = state.finished.clone();
        drop(state);
        match finished.as_deref()?.as_assistant()?.content.get(content_index)? {
            AssistantContent::Text(block) => Some(read(&block.text)),
            AssistantContent::Thinking(block) => Some(read(&block.thinking)),
            AssistantContent::ToolCall(_) => None,
        }
    }

    /// Shows the arguments of a tool call as far as they have arrived; `None` if there is no such call.
    ///
    /// The loop waits while `read` runs: keep it short.
    pub fn with_arguments<T>(
        &self,
        content_index: usize,
        read: impl FnOnce(&Map<String, Value>) -> T,
    ) -> Option<T> {
        let state = self.state.lock();
        match state.blocks.get(content_index) {
            Some(Block::Call { open: Some(open), .. }) => return Some(read(open.arguments())),
            Some(Block::Call { call, open: None }) => return Some(read(&call.arguments)),
            _ => (),
        }
        let finished = state.finished.clone();
        drop(state);
        match finished.as_deref()?.as_assistant()?.content.get(content_index)? {
            AssistantContent::ToolCall(call) => Some(read(&call.arguments)),
            _ => None,
        }
    }

    /// Ends a message whose stream stopped without a terminal event.
    pub(crate) fn close_unfinished(&self) {
        let mut state = self.state.lock();
        if state.head.stop_reason == StopReason::Pending && state.finished.is_none() {
            state.fail(
                "the stream ended without a terminal event",
                Failure::new(ErrorKind::Protocol),
            );
            state.head.failure =
                Some(Failure { retryable: true, ..Failure::new(ErrorKind::Protocol) });
        }
    }

    /// Ends the message, whatever its blocks are, with a failure.
    pub(crate) fn fail(&self, message: &str, failure: Failure) {
        self.state.lock().fail(message, failure);
    }

    /// Takes the finished message out; later reads see it as it is. `edit` may complete it before it is shared.
    pub(crate) fn finish(&self, edit: impl FnOnce(&mut AssistantMessage)) -> Arc<Message> {
        let mut state = self.state.lock();
        if let Some(finished) = &state.finished {
            return finished.clone();
        }
        let mut message = std::mem::take(&mut state.head);
        message.content =
            std::mem::take(&mut state.blocks).into_iter().map(Block::into_content).collect();
        edit(&mut message);
        let finished = Arc::new(Message::Assistant(message));
        state.finished = Some(finished.clone());
        finished
    }
}

impl LiveMessage {
    /// Makes a message that was finished, but told nobody, one that failed.
    pub(crate) fn withdraw(&self, message: &str, failure: Failure) -> Arc<Message> {
        let mut state = self.state.lock();
        if let Some(Message::Assistant(finished)) = state.finished.as_deref() {
            let content = finished.content.clone();
            state.head = AssistantMessage { content: Vec::new(), ..finished.clone() };
            state.fail(message, failure);
            let head = std::mem::take(&mut state.head);
            state.finished =
                Some(Arc::new(Message::Assistant(AssistantMessage { content, ..head })));
        }
        drop(state);
        self.finish(|_| ())
    }

    /// Whether both are handles to the same message.
    pub(crate) fn is_same(&self, other: &LiveMessage) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl State {
    fn apply(&mut self, event: &mut StreamEvent) -> Result<(), Error> {
        match event {
            StreamEvent::Start => {}
            StreamEvent::TextStart { content_index } => {
                self.begin(*content_index, Block::Text(TextContent::default()))?;
            }
            StreamEvent::ThinkingStart { content_index, initial } => {
                let block = initial.as_deref().cloned().unwrap_or_default();
                self.begin(*content_index, Block::Thinking(block))?;
            }
            StreamEvent::ToolCallStart { content_index, id, tool_name } => {
                let call =
                    ToolCall { id: id.clone(), name: tool_name.clone(), ..ToolCall::default() };
                self.begin(*content_index, Block::Call { call, open: Some(Box::default()) })?;
            }
            StreamEvent::TextDelta { content_index, delta }
            | StreamEvent::InitialText { content_index, text: delta } => {
                match self.blocks.get_mut(*content_index) {
                    Some(Block::Text(block)) => block.text.push_str(delta),
                    _ => return Err(misfit("text_delta", *content_index)),
                }
            }
            StreamEvent::ThinkingDelta { content_index, delta } => {
                match self.blocks.get_mut(*content_index) {
                    Some(Block::Thinking(block)) => block.thinking.push_str(delta),
                    _ => return Err(misfit("thinking_delta", *content_index)),
                }
            }
            StreamEvent::ToolCallDelta { content_index, delta } => {
                match self.blocks.get_mut(*content_index) {
                    Some(Block::Call { open: Some(open), .. }) => open.push(delta),
                    _ => return Err(misfit("toolcall_delta", *content_index)),
                }
            }
            StreamEvent::TextEnd { .. }
            | StreamEvent::ThinkingEnd { .. }
            | StreamEvent::ToolCallEnd { .. } => {
                self.end(event)?;
            }
            StreamEvent::Info(info) => self.inform(info),
            StreamEvent::Signature { content_index, signature } => {
                self.sign(*content_index, signature)?;
            }
            StreamEvent::Done { reason } => {
                self.head.stop_reason = *reason;
                self.took();
            }
            StreamEvent::Error { message, failure } => self.fail(message, (**failure).clone()),
        }
        Ok(())
    }

    fn begin(&mut self, content_index: usize, block: Block) -> Result<(), Error> {
        if content_index != self.blocks.len() {
            return Err(misfit("a start", content_index));
        }
        self.blocks.push(block);
        Ok(())
    }

    fn end(&mut self, event: &mut StreamEvent) -> Result<(), Error> {
        let Some(index) = event.content_index() else { return Ok(()) };
        match (event, self.blocks.get_mut(index)) {
            (StreamEvent::TextEnd { content, content_signature, .. }, Some(Block::Text(block))) => {
                settle(content, &mut block.text);
                if let Some(signature) = content_signature {
                    block.text_signature = Some(signature.clone());
                }
            }
            (
                StreamEvent::ThinkingEnd { content, content_signature, .. },
                Some(Block::Thinking(block)),
            ) => {
                settle(content, &mut block.thinking);
                if let Some(signature) = content_signature {
                    block.thinking_signature = Some(signature.clone());
                }
            }
            (StreamEvent::ToolCallEnd { tool_call, .. }, Some(Block::Call { call, open })) => {
                match tool_call {
                    Some(given) => *call = (**given).clone(),
                    None => {
                        if let Some(open) = open.take() {
                            close_call(call, &open);
                        }
                        *tool_call = Some(Box::new(call.clone()));
                    }
                }
                *open = None;
            }
            _ => return Err(misfit("an end", index)),
        }
        Ok(())
    }

    fn inform(&mut self, info: &ResponseInfo) {
        let head = &mut self.head;
        let take = |to: &mut Option<String>, from: &Option<String>| {
            if from.is_some() {
                to.clone_from(from);
            }
        };
        take(&mut head.response_id, &info.response_id);
        take(&mut head.response_model, &info.response_model);
        take(&mut head.raw_stop_reason, &info.raw_stop_reason);
        take(&mut head.provider_thinking_level, &info.provider_thinking_level);
        if let Some(Answerer { api, provider, model }) = &info.answerer {
            head.api.clone_from(api);
            head.provider.clone_from(provider);
            head.model.clone_from(model);
        }
        if let Some(usage) = &info.usage {
            head.usage = usage.clone();
        }
        head.diagnostics.extend(info.diagnostics.iter().cloned());
    }

    fn sign(&mut self, content_index: usize, signature: &str) -> Result<(), Error> {
        let slot = match self.blocks.get_mut(content_index) {
            Some(Block::Text(block)) => &mut block.text_signature,
            Some(Block::Thinking(block)) => &mut block.thinking_signature,
            Some(Block::Call { call, .. }) => &mut call.thought_signature,
            None => return Err(misfit("a signature", content_index)),
        };
        *slot = Some(signature.to_owned());
        Ok(())
    }

    fn fail(&mut self, message: &str, failure: Failure) {
        self.head.stop_reason = if failure.kind == ErrorKind::Aborted {
            StopReason::Aborted
        } else {
            StopReason::Error
        };
        self.head.error_message = Some(message.to_owned());
        self.head.failure = Some(failure);
        self.took();
    }

    fn took(&mut self) {
        let took = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.head.duration_ms.get_or_insert(took);
    }
}

impl Block {
    fn content(&self) -> AssistantContent {
        match self {
            Block::Text(block) => AssistantContent::Text(block.clone()),
            Block::Thinking(block) => AssistantContent::Thinking(block.clone()),
            Block::Call { call, open } => {
                let mut call = call.clone();
                if let Some(open) = open {
                    call.arguments = open.snapshot();
                }
                AssistantContent::ToolCall(call)
            }
        }
    }

    /// The finished block. The arguments of a call that was cut are what had arrived: such a call is never run.
    fn into_content(self) -> AssistantContent {
        match self {
            Block::Text(block) => AssistantContent::Text(block),
            Block::Thinking(block) => AssistantContent::Thinking(block),
            Block::Call { mut call, open } => {
                if let Some(open) = open {
                    call.arguments = open.snapshot();
                }
                AssistantContent::ToolCall(call)
            }
        }
    }
}

/// Parses the complete argument text; what is no object becomes an error that the call carries.
fn close_call(call: &mut ToolCall, open: &PartialJson) {
    match open.finish() {
        Ok(arguments) => call.arguments = arguments,
        Err(error) => {
            call.arguments = Map::new();
            call.arguments_error = Some(error.to_string());
        }
    }
}

/// The text of an end event wins over the deltas; without one it gets theirs.
fn settle(content: &mut Option<String>, text: &mut String) {
    match content {
        Some(content) if content != text => text.clone_from(content),
        Some(_) => (),
        None => *content = Some(text.clone()),
    }
}

fn misfit(what: &str, content_index: usize) -> Error {
    let message = format!(
        "the stream sent {what} for block {content_index}, which does not fit the blocks before it"
    );
    Error::new(ErrorKind::Protocol, message)
}

impl fmt::Debug for LiveMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("LiveMessage")
            .field("blocks", &state.blocks.len())
            .field("finished", &state.finished.is_some())
            .finish_non_exhaustive()
    }
}
