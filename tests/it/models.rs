//! The registry of providers: what it knows, what it adds to a request, what it says when something is missing.
#![cfg(feature = "providers")]

use std::sync::{Arc, Mutex};

use steerage::{
    AbortSignal, Error, Message, Model, Models, StreamOptions, StreamRequest,
    message::AssistantMessage,
    models::{Environment, ModelsOptions},
    provider::HttpClient,
    testing::server::{Request, Response, Server},
};

mod keys;
mod overlay;
mod providers;
mod refresh;
mod registry;
#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod transport;

/// What a server of chat completions answers.
const COMPLETION: &str = "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\
    \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// What a server of Anthropic's API answers.
const MESSAGE: &str = concat!(
    "event: message_start\n",
    r#"data: {"type":"message_start","message":{"id":"1","usage":{"input_tokens":1,"output_tokens":1}}}"#,
    "\n\nevent: content_block_start\n",
    r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    "\n\nevent: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
    "\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}",
    "\n\nevent: message_delta\n",
    r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#,
    "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

/// The whole internet: answers every request by its path, whatever the host, and keeps the addresses.
struct Internet {
    server: Server,
    urls: Arc<Mutex<Vec<String>>>,
}

impl Internet {
    fn new() -> Internet {
        let server = Server::answering(|request| {
            let is_anthropic = request.path.contains("/messages");
            Response::events([if is_anthropic { MESSAGE } else { COMPLETION }])
        });
        Internet { server: server.unwrap(), urls: Arc::default() }
    }

    /// A client that reaches this in place of every host.
    fn client(&self) -> HttpClient {
        let (to, urls) = (self.server.url(), self.urls.clone());
        HttpClient::shared().rewriting(move |url| {
            urls.lock().unwrap().push(url.to_owned());
            let (_, rest) = url.split_once("://").unwrap();
            format!("{to}/{}", rest.split_once('/').unwrap().1)
        })
    }

    fn models(&self, options: ModelsOptions) -> Models {
        Models::with_options(ModelsOptions { client: self.client(), ..options })
    }

    fn models_with(&self, variables: &[(&str, &str)]) -> Models {
        let environment = Environment::of(variables.iter().copied());
        self.models(ModelsOptions { environment, ..ModelsOptions::default() })
    }

    /// The last request and the address that it was meant for.
    fn last(&self) -> (String, Request) {
        let url = self.urls.lock().unwrap().last().unwrap().clone();
        (url, self.server.requests().last().unwrap().clone())
    }
}

fn ask(
    models: &Models,
    model: impl Into<Arc<Model>>,
    options: StreamOptions,
) -> Result<AssistantMessage, Error> {
    let mut request = StreamRequest::new(model, [Message::user("Hello")]);
    request.options = options;
    models.complete(request, &AbortSignal::never())
}
