//! Decodes recorded responses without a connection.

use crate::{
    error::{Error, ErrorKind, Result},
    provider::{
        anthropic, azure_openai_responses,
        driver::{Events, FrameDecoder},
        google_generative_ai, google_vertex, mistral, openai_completions, openai_responses,
        pi_messages,
    },
    proxy,
    sse::{SseDecoder, SseOptions},
    stream::{StreamEvent, StreamRequest},
};

/// Returns the events of a response to `request` whose body came in `pieces`, and then ended or, if it is not `whole`,
/// broke off.
pub fn decode<P: AsRef<[u8]>>(
    request: &StreamRequest,
    pieces: impl IntoIterator<Item = P>,
    whole: bool,
) -> Result<Vec<StreamEvent>> {
    let mut decoder = decoder(request)?;
    let mut events = Events::new();
    if let Err(error) = feed(&mut *decoder, pieces, whole, &mut events) {
        decoder.fail(&error, &mut events);
        events.push_back(StreamEvent::failed(&error));
    }
    Ok(events.into())
}

fn decoder(request: &StreamRequest) -> Result<Box<dyn FrameDecoder>> {
    match request.model.api.as_str() {
        "anthropic-messages" => Ok(anthropic::decoder(request)),
        "azure-openai-responses" => azure_openai_responses::decoder(request),
        "google-generative-ai" => Ok(google_generative_ai::decoder(request)),
        "google-vertex" => Ok(google_vertex::decoder(request)),
        "mistral-conversations" => Ok(mistral::decoder(request)),
        "openai-completions" => openai_completions::decoder(request),
        "openai-responses" => openai_responses::decoder(request),
        "pi-messages" => Ok(pi_messages::decoder()),
        "proxy" => Ok(proxy::decoder()),
        other => {
            let message = format!("there is no decoder for the API `{other}`");
            Err(Error::new(ErrorKind::Configuration, message))
        }
    }
}

fn feed<P: AsRef<[u8]>>(
    decoder: &mut dyn FrameDecoder,
    pieces: impl IntoIterator<Item = P>,
    whole: bool,
    events: &mut Events,
) -> Result<()> {
    let data_lines = decoder.data_lines();
    let mut sse = SseDecoder::new(SseOptions { data_lines, ..SseOptions::default() });
    let mut pieces = pieces.into_iter();
    loop {
        while let Some(frame) = sse.next_frame() {
            let frame = frame?;
            decoder.frame(frame.event, frame.data, events)?;
            if events.back().is_some_and(StreamEvent::is_terminal) {
                return Ok(());
            }
        }
        match pieces.next() {
            Some(piece) => sse.push(piece.as_ref()),
            None if !whole => return Err(Error::new(ErrorKind::Network, "the body broke off")),
            None => break,
        }
    }
    sse.finish();
    while let Some(frame) = sse.next_frame() {
        let frame = frame?;
        decoder.frame(frame.event, frame.data, events)?;
        if events.back().is_some_and(StreamEvent::is_terminal) {
            return Ok(());
        }
    }
    decoder.end(events)
}
