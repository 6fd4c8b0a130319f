//! The port to models: a [`StreamFn`] turns a request into an [`AssistantStream`], which is pulled.
//!
//! Events are lean: they carry deltas, never the message so far. One reducer, [`LiveMessage`], folds them into the
//! message; it serves the agent loop, the proxy protocol and programs that need no agent alike.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Failure},
    message::{AssistantMessage, Message},
    model::Model,
};

mod event;
mod live;
mod memo;
mod options;
mod playback;

pub(crate) use crate::stream::playback::{Cut, Pace, Playback, TOKEN};
pub use crate::stream::{
    event::{Answerer, ResponseInfo, StreamEvent},
    live::LiveMessage,
    memo::RequestMemo,
    options::{
        Attribution, CacheRetention, Identity, PayloadHook, ProviderEventHook, RequestHook,
        RequestHooks, RequestMeta, ResponseHook, ResponseMeta, StreamOptions, ToolChoice,
        Transport, UserAgent,
    },
};

/// Asks a model for one response.
///
/// It is called on the agent's worker thread and may block there: while it connects and waits for the first bytes, in the
/// stream's `next` afterwards. Both must return soon after `signal` fires. Failures of the request are best reported
/// inside the stream, as [`StreamEvent::Error`]; an `Err` here breaks the run.
///
/// Closures of the same shape are stream functions too.
pub trait StreamFn: Send + Sync {
    /// Starts the request and returns its stream.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error>;
}

/// The events of one response, pulled one by one. Dropping it cancels the request.
///
/// It ends with [`StreamEvent::Done`] or [`StreamEvent::Error`]; what comes after either is not read.
pub trait AssistantStream: Iterator<Item = StreamEvent> + Send {
    /// Whether `next` would give another event without blocking. Then several updates may be handed to the listeners as
    /// one batch. The default says no, which gives every update a barrier of its own.
    fn more_is_ready(&self) -> bool {
        false
    }

    /// Whether `next` may be called while the listeners are still at work on the event before. They are done with it before
    /// they get the next one all the same; only waiting for the server overlaps with them. The default says no.
    fn may_read_ahead(&self) -> bool {
        false
    }
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct StreamRequest {
    /// The model.
    pub model: Arc<Model>,
    /// The messages, the prompt and the tools among them.
    pub transcript: Transcript,
    /// Everything else.
    pub options: StreamOptions,
}

/// A list of messages in the form that providers take: the prompt and the tools are system messages in it.
///
/// Cloning copies a pointer.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    messages: Arc<[Arc<Message>]>,
    memo: RequestMemo,
}

impl Transcript {
    /// Makes a transcript of messages.
    pub fn new(messages: impl Into<Arc<[Arc<Message>]>>) -> Transcript {
        Transcript { messages: messages.into(), memo: RequestMemo::default() }
    }

    /// Keeps what providers want to use again for the next request in `memo`, which the requests of one conversation share.
    #[must_use]
    pub fn with_memo(self, memo: RequestMemo) -> Transcript {
        Transcript { memo, ..self }
    }

    /// Where providers keep what the next request of the conversation can use again.
    pub fn memo(&self) -> &RequestMemo {
        &self.memo
    }

    /// The messages in order.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }
}

impl PartialEq for Transcript {
    /// Whether the messages are the same.
    fn eq(&self, other: &Transcript) -> bool {
        self.messages == other.messages
    }
}

impl StreamRequest {
    /// Makes a request with default options.
    pub fn new(
        model: impl Into<Arc<Model>>,
        messages: impl IntoIterator<Item = Message>,
    ) -> StreamRequest {
        let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
        StreamRequest {
            model: model.into(),
            transcript: Transcript::new(messages),
            options: StreamOptions::default(),
        }
    }
}

impl<F> StreamFn for F
where
    F: Fn(StreamRequest, &AbortSignal) -> Result<Box<dyn AssistantStream>, Error> + Send + Sync,
{
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        self(request, signal)
    }
}

impl AssistantStream for std::vec::IntoIter<StreamEvent> {
    fn more_is_ready(&self) -> bool {
        self.len() > 0
    }
}

impl fmt::Debug for dyn AssistantStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AssistantStream")
    }
}

impl fmt::Debug for dyn StreamFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamFn")
    }
}

static DEFAULT: Mutex<Option<Arc<dyn StreamFn>>> = Mutex::new(None);

/// Sets the stream function of agents that are made without one: the one thing in this crate that is global.
pub fn set_default_stream_fn(stream: impl Into<Arc<dyn StreamFn>>) {
    let before = DEFAULT.lock().replace(stream.into());
    drop(before);
}

pub(crate) fn default_stream_fn() -> Option<Arc<dyn StreamFn>> {
    DEFAULT.lock().clone()
}

/// Reads a stream to its end and returns the message. An error or abort is a message too: look at its `stop_reason`.
pub fn collect(model: &Model, stream: &mut dyn AssistantStream) -> AssistantMessage {
    let live = LiveMessage::of(model);
    for mut event in stream {
        let result = live.apply(&mut event);
        if result.is_err() || event.is_terminal() {
            break;
        }
    }
    live.close_unfinished();
    live.snapshot()
}

impl StreamEvent {
    /// Makes the terminal event of a failure.
    pub fn failed(error: &Error) -> StreamEvent {
        StreamEvent::Error {
            message: error.to_string(),
            failure: Box::new(error.failure().clone()),
        }
    }

    /// Makes the terminal event of an abort.
    pub fn aborted() -> StreamEvent {
        StreamEvent::Error {
            message: "the request was aborted".to_owned(),
            failure: Box::new(Failure::new(ErrorKind::Aborted)),
        }
    }
}
