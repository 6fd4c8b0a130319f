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

use crate::apis;

mod keys;
mod overlay;
mod providers;
mod refresh;
mod registry;
#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod transport;

/// The whole internet: answers every request by its path, whatever the host, and keeps the addresses.
struct Internet {
    server: Server,
    urls: Arc<Mutex<Vec<String>>>,
}

impl Internet {
    fn new() -> Internet {
        let server = Server::answering(|request| {
            let endings = [
                ("/messages", "anthropic-messages"),
                ("/chat/completions", "openai-completions"),
                ("/responses", "openai-responses"),
                (":streamGenerateContent", "google-generative-ai"),
            ];
            let path = request.path.split('?').next().unwrap_or_default();
            let known = endings.iter().find(|(ending, _)| path.ends_with(ending));
            Response::events([apis::hi(known.map_or("openai-completions", |it| it.1))])
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
