//! Plays a message that is known from the start as the stream that a model would have sent.

use std::{collections::VecDeque, fmt, ops::RangeInclusive, sync::Arc, time::Duration, vec};

use serde_json::Value;

use crate::{
    abort::AbortSignal,
    clock::Clock,
    error::{ErrorKind, Failure, wording},
    message::{AssistantContent, AssistantMessage, StopReason},
    stream::{AssistantStream, ResponseInfo, StreamEvent},
};

/// A token is so many characters, as a rule of thumb.
pub(crate) const TOKEN: usize = 4;

/// A stream of events that are there already, given out at a pace and cut short by an abort.
pub(crate) struct Playback {
    events: Box<dyn Iterator<Item = StreamEvent> + Send>,
    pace: Option<Pace>,
    signal: AbortSignal,
    ended: bool,
}

/// How fast a playback runs.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    pub(crate) tokens_per_second: f64,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Cuts texts into pieces of random length; the same seed cuts the same text alike.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    state: u64,
    tokens: RangeInclusive<usize>,
}

/// The events of a message, made while they are asked for.
struct MessageEvents {
    head: VecDeque<StreamEvent>,
    blocks: vec::IntoIter<AssistantContent>,
    open: Option<Open>,
    next_index: usize,
    tail: VecDeque<StreamEvent>,
    cut: Cut,
}

/// A block whose deltas are given out.
struct Open {
    index: usize,
    kind: Kind,
    text: String,
    read: usize,
    begun: bool,
    end: StreamEvent,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Thinking,
    ToolCall,
}

impl Playback {
    /// Plays a message; a stop reason of an error or abort ends it as one after its content.
    pub(crate) fn of_message(
        message: AssistantMessage,
        cut: Cut,
        pace: Option<Pace>,
        signal: &AbortSignal,
    ) -> Playback {
        Playback::of_events(MessageEvents::of(message, cut), pace, signal)
    }

    /// Plays events as they are.
    pub(crate) fn of_events(
        events: impl Iterator<Item = StreamEvent> + Send + 'static,
        pace: Option<Pace>,
        signal: &AbortSignal,
    ) -> Playback {
        Playback { events: Box::new(events), pace, signal: signal.clone(), ended: false }
    }

    /// Waits as long as a model would take for the event; tells whether the signal fired.
    fn keep_pace(&self, event: &StreamEvent) -> bool {
        let Some(pace) = &self.pace else { return false };
        let (StreamEvent::TextDelta { delta, .. }
        | StreamEvent::ThinkingDelta { delta, .. }
        | StreamEvent::ToolCallDelta { delta, .. }) = event
        else {
            return false;
        };
        let tokens = u32::try_from(delta.chars().count().div_ceil(TOKEN)).unwrap_or(u32::MAX);
        let seconds = f64::from(tokens) / pace.tokens_per_second;
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        pace.clock.sleep(wait, &self.signal)
    }
}

impl Iterator for Playback {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        if self.ended {
            return None;
        }
        if !self.signal.is_aborted() {
            let event = self.events.next();
            if !event.as_ref().is_some_and(|event| self.keep_pace(event)) {
                self.ended = event.as_ref().is_none_or(StreamEvent::is_terminal);
                return event;
            }
        }
        self.ended = true;
        Some(StreamEvent::aborted())
    }
}

impl AssistantStream for Playback {
    fn more_is_ready(&self) -> bool {
        self.pace.is_none() && !self.ended
    }
}

impl Cut {
    /// Cuts into pieces of `tokens` times four characters.
    pub(crate) fn new(seed: u64, tokens: RangeInclusive<usize>) -> Cut {
        Cut { state: seed, tokens }
    }

    /// The end of the next piece of `text`, which begins at `start`.
    fn end_of_piece(&mut self, text: &str, start: usize) -> usize {
        let (least, most) = (*self.tokens.start(), *self.tokens.end());
        let choices = u64::try_from(most.saturating_sub(least)).map_or(1, |span| span + 1);
        let extra = usize::try_from(self.random() % choices).unwrap_or(0);
        let characters = (least + extra).max(1) * TOKEN;
        let rest = &text[start..];
        rest.char_indices().nth(characters).map_or(text.len(), |(length, _)| start + length)
    }

    /// The next number of the splitmix64 sequence.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl MessageEvents {
    fn of(mut message: AssistantMessage, cut: Cut) -> MessageEvents {
        let info = ResponseInfo {
            response_id: message.response_id.take(),
            response_model: message.response_model.take(),
            answerer: None,
            usage: Some(std::mem::take(&mut message.usage)),
            raw_stop_reason: message.raw_stop_reason.take(),
            provider_thinking_level: message.provider_thinking_level.take(),
            diagnostics: std::mem::take(&mut message.diagnostics),
        };
        let blocks = std::mem::take(&mut message.content).into_iter();
        let tail = [StreamEvent::Info(Box::new(info)), ending(message)].into();
        let head = [StreamEvent::Start].into();
        MessageEvents { head, blocks, open: None, next_index: 0, tail, cut }
    }

    /// Opens the next block and returns its start event.
    fn open(&mut self, block: AssistantContent) -> StreamEvent {
        let content_index = self.next_index;
        self.next_index += 1;
        let (start, kind, text, end) = match block {
            AssistantContent::Text(block) => {
                let content_signature = block.text_signature;
                let end = StreamEvent::TextEnd { content_index, content: None, content_signature };
                (StreamEvent::TextStart { content_index }, Kind::Text, block.text, end)
            }
            AssistantContent::Thinking(mut block) => {
                let text = std::mem::take(&mut block.thinking);
                let content_signature = block.thinking_signature.clone();
                let initial = block.redacted.then(|| Box::new(block));
                let end =
                    StreamEvent::ThinkingEnd { content_index, content: None, content_signature };
                (StreamEvent::ThinkingStart { content_index, initial }, Kind::Thinking, text, end)
            }
            AssistantContent::ToolCall(call) => {
                let (id, tool_name) = (call.id.clone(), call.name.clone());
                let text = Value::Object(call.arguments.clone()).to_string();
                let tool_call = Some(Box::new(call));
                let end = StreamEvent::ToolCallEnd { content_index, tool_call };
                let start = StreamEvent::ToolCallStart { content_index, id, tool_name };
                (start, Kind::ToolCall, text, end)
            }
        };
        self.open = Some(Open { index: content_index, kind, text, read: 0, begun: false, end });
        start
    }
}

impl Iterator for MessageEvents {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        if let Some(event) = self.head.pop_front() {
            return Some(event);
        }
        match self.open.take() {
            // A text that is empty still gives one delta.
            Some(mut open) if !open.begun || open.read < open.text.len() => {
                let event = open.next_delta(&mut self.cut);
                self.open = Some(open);
                Some(event)
            }
            Some(open) => Some(open.end),
            None => match self.blocks.next() {
                Some(block) => Some(self.open(block)),
                None => self.tail.pop_front(),
            },
        }
    }
}

impl Open {
    fn next_delta(&mut self, cut: &mut Cut) -> StreamEvent {
        let (start, end) = (self.read, cut.end_of_piece(&self.text, self.read));
        (self.read, self.begun) = (end, true);
        let (content_index, delta) = (self.index, self.text[start..end].to_owned());
        match self.kind {
            Kind::Text => StreamEvent::TextDelta { content_index, delta },
            Kind::Thinking => StreamEvent::ThinkingDelta { content_index, delta },
            Kind::ToolCall => StreamEvent::ToolCallDelta { content_index, delta },
        }
    }
}

/// The terminal event that the message asks for.
fn ending(message: AssistantMessage) -> StreamEvent {
    let kind = match message.stop_reason {
        StopReason::Error => ErrorKind::Overloaded,
        StopReason::Aborted => ErrorKind::Aborted,
        StopReason::Pending => ErrorKind::Protocol,
        reason => return StreamEvent::Done { reason },
    };
    let text = message.error_message.unwrap_or_else(|| match kind {
        ErrorKind::Aborted => "the request was aborted".to_owned(),
        ErrorKind::Protocol => "the message has not ended".to_owned(),
        _ => "the model failed".to_owned(),
    });
    let known = (kind == ErrorKind::Overloaded).then(|| wording::failure_in(&text)).flatten();
    let failure = message.failure.or(known).unwrap_or_else(|| Failure::new(kind));
    StreamEvent::Error { message: text, failure: Box::new(failure) }
}

impl fmt::Debug for Playback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Playback").field("ended", &self.ended).finish_non_exhaustive()
    }
}
