//! pi's own protocol, in which a gateway takes a transcript as it is and answers with this library's events. The Radius
//! gateway speaks it (<https://radius.pi.dev>), and a server of one's own may: it is the event model itself.
//!
//! A request is `POST {base URL}/messages` with `{model, context: {messages}, options}`. The answer is an event stream whose
//! `data` are JSON objects: `start`, `text_start`, `text_delta`, `text_end`, the same of `thinking`, `toolcall_start`,
//! `toolcall_delta`, `toolcall_end`, and at last `done` or `error`, with the usage as the gateway bills it. What the model
//! can take is for the gateway to see to: levels of thinking and caps go out as they are given.
//!
//! # The API's own options
//!
//! [`StreamOptions::native`](crate::StreamOptions::native) takes `reasoning`, `toolChoice` (`auto`, `none`, `required`, or
//! an object that names a function) and `debug`.

use std::fmt;

use crate::{
    abort::AbortSignal,
    error::Error,
    message::now_ms,
    provider::{
        ProviderOptions,
        driver::{FrameDecoder, ProviderStream},
        pi_messages::response::{Decoder, Dialect},
    },
    stream::{AssistantStream, StreamFn, StreamRequest},
    trace,
};

pub(crate) mod request;
pub(crate) mod response;

/// The stream function for gateways that speak pi's protocol.
///
/// # Examples
///
/// ```no_run
/// use steerage::{
///     AbortSignal, Message, Model, StreamFn, StreamRequest,
///     provider::{ProviderOptions, pi_messages::PiMessages},
///     stream::collect,
/// };
///
/// let gateway = PiMessages::new(ProviderOptions::default());
/// let model = Model {
///     id: "fast".to_owned(),
///     api: "pi-messages".to_owned(),
///     provider: "my-gateway".to_owned(),
///     base_url: "http://localhost:4000/v1".to_owned(),
///     ..Model::default()
/// };
/// let request = StreamRequest::new(model.clone(), [Message::user("Hello!")]);
/// let mut stream = gateway.stream(request, &AbortSignal::never())?;
/// let answer = collect(&model, &mut *stream);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct PiMessages {
    options: ProviderOptions,
}

impl PiMessages {
    /// Makes the stream function.
    pub fn new(options: ProviderOptions) -> PiMessages {
        PiMessages { options }
    }
}

impl StreamFn for PiMessages {
    /// Prepares the request, which is sent when the first event is asked for. All failures are events.
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let call = request::build(&request, &self.options);
        let decoder = Decoder::new(now_ms(), Dialect::Gateway);
        Ok(trace::attend(
            &request,
            ProviderStream::new(call, decoder, &request, &self.options, signal),
        ))
    }
}

/// The decoder of the response to a request that is never sent: its clock stands still.
pub(crate) fn decoder() -> Box<dyn FrameDecoder> {
    Box::new(Decoder::new(0, Dialect::Gateway))
}

impl fmt::Debug for PiMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PiMessages").field("options", &self.options).finish()
    }
}
