//! Requests that no run makes.

use tracing::{Metadata, Span};

use crate::{
    abort::AbortSignal,
    error::Error,
    message::StopReason,
    stream::{AssistantStream, ResponseInfo, StreamEvent, StreamFn, StreamRequest},
    trace::{CHAT, TARGET, chat, failed, finished, said},
};

/// Asks through `stream` within a span of the request's own, unless this thread is at work on one already.
pub(crate) fn traced(
    stream: &dyn StreamFn,
    request: StreamRequest,
    signal: &AbortSignal,
) -> Result<Box<dyn AssistantStream>, Error> {
    let Some(span) = own(&request) else { return stream.stream(request, signal) };
    match span.in_scope(|| stream.stream(request, signal)) {
        Ok(stream) => Ok(Box::new(Traced { stream, span })),
        Err(error) => {
            failed(&span, error.kind());
            Err(error)
        }
    }
}

/// The same for a stream that has asked nothing yet.
pub(crate) fn attend(
    request: &StreamRequest,
    stream: impl AssistantStream + 'static,
) -> Box<dyn AssistantStream> {
    match own(request) {
        Some(span) => Box::new(Traced { stream: Box::new(stream), span }),
        None => Box::new(stream),
    }
}

/// The span that a request needs, where somebody listens and nobody has made one.
fn own(request: &StreamRequest) -> Option<Span> {
    let is_chat = |metadata: &Metadata<'_>| metadata.name() == CHAT && metadata.target() == TARGET;
    if Span::current().metadata().is_some_and(is_chat) {
        return None;
    }
    Some(chat(request)).filter(|span| !span.is_disabled())
}

/// A stream whose request has a span.
struct Traced {
    stream: Box<dyn AssistantStream>,
    span: Span,
}

impl Iterator for Traced {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        let event = self.span.in_scope(|| self.stream.next())?;
        match &event {
            StreamEvent::Info(info) => {
                let ResponseInfo { response_id, response_model, usage, .. } = &**info;
                said(&self.span, response_id.as_deref(), response_model.as_deref(), usage.as_ref());
            }
            StreamEvent::Done { reason } => finished(&self.span, *reason),
            StreamEvent::Error { failure, .. } => {
                finished(&self.span, StopReason::Error);
                failed(&self.span, failure.kind);
            }
            _ => (),
        }
        Some(event)
    }
}

impl AssistantStream for Traced {
    fn more_is_ready(&self) -> bool {
        self.stream.more_is_ready()
    }

    fn may_read_ahead(&self) -> bool {
        self.stream.may_read_ahead()
    }
}
