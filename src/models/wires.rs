//! The wire APIs: which stream function speaks which.

use std::sync::Arc;

use crate::{
    error::{Error, ErrorKind, Result},
    models::near,
    provider::{
        ProviderOptions, anthropic::AnthropicMessages,
        azure_openai_responses::AzureOpenAiResponses, google_generative_ai::GoogleGenerativeAi,
        google_vertex::GoogleVertex, mistral::MistralConversations,
        openai_completions::OpenAiCompletions, openai_responses::OpenAiResponses,
        pi_messages::PiMessages,
    },
    stream::StreamFn,
};

/// The stream function of each wire API.
pub(super) struct Wires {
    list: Vec<(String, Arc<dyn StreamFn>)>,
}

impl Wires {
    /// All APIs of this crate. One more is one more line.
    pub(super) fn new(options: &ProviderOptions) -> Wires {
        let mut wires = Wires { list: Vec::new() };
        let new = || options.clone();
        wires.set("anthropic-messages".to_owned(), Arc::new(AnthropicMessages::new(new())));
        wires.set("azure-openai-responses".to_owned(), Arc::new(AzureOpenAiResponses::new(new())));
        wires.set("google-generative-ai".to_owned(), Arc::new(GoogleGenerativeAi::new(new())));
        wires.set("google-vertex".to_owned(), Arc::new(GoogleVertex::new(new())));
        wires.set("mistral-conversations".to_owned(), Arc::new(MistralConversations::new(new())));
        wires.set("openai-completions".to_owned(), Arc::new(OpenAiCompletions::new(new())));
        wires.set("openai-responses".to_owned(), Arc::new(OpenAiResponses::new(new())));
        wires.set("pi-messages".to_owned(), Arc::new(PiMessages::new(new())));
        wires
    }

    /// Sets the stream function of an API; gives back the one before.
    pub(super) fn set(
        &mut self,
        api: String,
        stream: Arc<dyn StreamFn>,
    ) -> Option<Arc<dyn StreamFn>> {
        match self.list.iter_mut().find(|(it, _)| *it == api) {
            Some((_, place)) => Some(std::mem::replace(place, stream)),
            None => {
                self.list.push((api, stream));
                None
            }
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn get(&self, api: &str) -> Result<Arc<dyn StreamFn>> {
        self.list.iter().find(|(it, _)| it == api).map(|(_, stream)| stream.clone()).ok_or_else(|| {
            let message = format!(
                "there is no stream function for the wire API `{api}`{}; known are {}; set one with Models::set_api",
                near::hint(api, self.names()),
                self.names().collect::<Vec<_>>().join(", ")
            );
            Error::new(ErrorKind::Configuration, message)
        })
    }
}
