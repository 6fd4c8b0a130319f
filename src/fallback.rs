//! Asks the next model when one cannot answer.

use std::{collections::VecDeque, fmt, mem, sync::Arc};

use serde_json::{Value, json};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Failure},
    message::{Diagnostic, now_ms},
    model::Model,
    secret::sounds_secret,
    stream::{
        Answerer, AssistantStream, RequestMemo, ResponseInfo, StreamEvent, StreamFn, StreamRequest,
        Transcript,
    },
};

/// A stream function that goes on to the next model when one is overloaded, limits the rate, is out of quota or cannot be
/// reached, as long as nothing of an answer has come.
///
/// The model of the request is asked first, then the others in their order. Each is asked in its own form: what only the
/// model before understands is left out of the transcript as in any change of models. The finished message names the model
/// that answered, at its prices, and has a diagnostic `fallback` that says why the others did not. Other failures (a wrong
/// key, a request that is refused, a transcript that is too long) are the caller's to mend and end the response; so does an
/// abort.
///
/// A key, and headers whose names sound like one, go with the request to models of its own provider only; others are asked
/// with the key of their stream function. Providers send a request again themselves before they give up
/// ([`StreamOptions::max_retries`](crate::StreamOptions::max_retries)): zero makes the change of models come at once.
///
/// It runs on the thread that pulls the stream, the agent's worker as a rule. Clones share the list.
///
/// # Examples
///
/// ```no_run
/// use steerage::{Agent, AgentOptions, Fallback, Models};
///
/// let models = Models::from_env();
/// let stream = Fallback::new(models.clone())
///     .then(models.get("openai", "gpt-5.2")?, models.clone())
///     .then(models.get("mistral", "mistral-large-latest")?, models.clone());
/// let options = AgentOptions { stream: Some(stream.into()), ..AgentOptions::default() };
/// let agent = Agent::new(models.get("anthropic", "claude-sonnet-4-6")?, options)?;
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone)]
pub struct Fallback {
    first: Arc<dyn StreamFn>,
    others: Arc<Vec<Choice>>,
}

#[derive(Clone)]
struct Choice {
    model: Arc<Model>,
    stream: Arc<dyn StreamFn>,
}

/// One response, from whichever model gives it.
struct FallbackStream {
    current: Box<dyn AssistantStream>,
    /// Who is asked at present.
    model: Arc<Model>,
    others: Arc<Vec<Choice>>,
    next: usize,
    /// What came before the first content: it may yet turn out that there is none.
    held: Vec<StreamEvent>,
    has_begun: bool,
    ready: VecDeque<StreamEvent>,
    passed_over: Vec<(Arc<Model>, String)>,
    request: StreamRequest,
    signal: AbortSignal,
}

impl Fallback {
    /// Makes a stream function that asks the model of the request by `stream`.
    pub fn new(stream: impl Into<Arc<dyn StreamFn>>) -> Fallback {
        Fallback { first: stream.into(), others: Arc::default() }
    }

    /// Adds a model that is asked by `stream` when those before it cannot answer.
    #[must_use]
    pub fn then(
        mut self,
        model: impl Into<Arc<Model>>,
        stream: impl Into<Arc<dyn StreamFn>>,
    ) -> Fallback {
        let choice = Choice { model: model.into(), stream: stream.into() };
        Arc::make_mut(&mut self.others).push(choice);
        self
    }
}

impl StreamFn for Fallback {
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        let current = self.first.stream(request.clone(), signal)?;
        Ok(Box::new(FallbackStream {
            current,
            model: request.model.clone(),
            others: self.others.clone(),
            next: 0,
            held: Vec::new(),
            has_begun: false,
            ready: VecDeque::new(),
            passed_over: Vec::new(),
            request,
            signal: signal.clone(),
        }))
    }
}

impl FallbackStream {
    /// Takes one event of the present model.
    fn advance(&mut self) -> Option<()> {
        let event = self.current.next()?;
        match event {
            StreamEvent::Error { message, failure } if self.goes_on(&failure) => {
                self.passed_over.push((self.model.clone(), message));
                self.held.clear();
                if let Err(error) = self.ask_next() {
                    let event = self.failed(error.to_string(), error.failure().clone());
                    self.ready.push_back(event);
                }
            }
            StreamEvent::Error { message, failure } => {
                let event = self.failed(message, *failure);
                self.ready.append(&mut mem::take(&mut self.held).into());
                self.ready.push_back(event);
            }
            StreamEvent::Start | StreamEvent::Info(_) => self.held.push(event),
            event => {
                self.begin();
                self.ready.push_back(event);
            }
        }
        Some(())
    }

    fn goes_on(&self, failure: &Failure) -> bool {
        use ErrorKind::{Network, Overloaded, Quota, RateLimited};
        let is_theirs = matches!(failure.kind, Network | Overloaded | Quota | RateLimited);
        is_theirs && self.next < self.others.len() && !self.signal.is_aborted()
    }

    fn ask_next(&mut self) -> Result<(), Error> {
        let Some(Choice { model, stream }) = self.others.get(self.next).cloned() else {
            return Ok(());
        };
        self.next += 1;
        let request = self.request_for(&model);
        self.model = model;
        self.current = stream.stream(request, &self.signal)?;
        Ok(())
    }

    fn request_for(&self, model: &Arc<Model>) -> StreamRequest {
        let StreamRequest { model: asked, transcript, options } = &self.request;
        let mut options = options.clone();
        if model.provider != asked.provider {
            options.api_key = None;
            options.headers.retain(|(name, _)| !sounds_secret(name));
        }
        if model.api != asked.api {
            options.native = None;
        }
        // What one model keeps for its next request is of no use to another.
        let transcript = Transcript::new(transcript.messages()).with_memo(RequestMemo::default());
        StreamRequest { model: model.clone(), transcript, options }
    }

    /// Lets out what was held back, with who answers.
    fn begin(&mut self) {
        self.has_begun = true;
        self.ready.extend(self.held.drain(..));
        if self.passed_over.is_empty() {
            return;
        }
        let entries = self.passed_over.iter().map(
            |(model, error)| json!({"provider": model.provider, "model": model.id, "error": error}),
        );
        let details = json!({ "passedOver": entries.collect::<Vec<Value>>() });
        let diagnostic = Diagnostic {
            kind: "fallback".to_owned(),
            timestamp: now_ms(),
            error: None,
            details: Some(details),
        };
        let info = ResponseInfo {
            answerer: Some(Answerer::of(&self.model)),
            diagnostics: vec![diagnostic],
            ..ResponseInfo::default()
        };
        self.ready.push_back(StreamEvent::Info(Box::new(info)));
    }

    /// The last error, with those of the models before.
    fn failed(&mut self, message: String, failure: Failure) -> StreamEvent {
        let message = if self.passed_over.is_empty() || failure.kind == ErrorKind::Aborted {
            message
        } else {
            let last = (self.model.clone(), message);
            let all =
                self.passed_over.iter().chain([&last]).map(|(model, error)| {
                    format!("`{}` of `{}`: {error}", model.id, model.provider)
                });
            format!("no model answered: {}", all.collect::<Vec<_>>().join("; "))
        };
        StreamEvent::Error { message, failure: Box::new(failure) }
    }
}

impl Iterator for FallbackStream {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.has_begun {
                return self.current.next();
            }
            self.advance()?;
        }
    }
}

impl AssistantStream for FallbackStream {
    fn more_is_ready(&self) -> bool {
        !self.ready.is_empty() || self.has_begun && self.current.more_is_ready()
    }

    fn may_read_ahead(&self) -> bool {
        self.current.may_read_ahead()
    }
}

impl From<Fallback> for Arc<dyn StreamFn> {
    fn from(fallback: Fallback) -> Arc<dyn StreamFn> {
        Arc::new(fallback)
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others: Vec<&str> = self.others.iter().map(|it| &*it.model.id).collect();
        f.debug_struct("Fallback").field("others", &others).finish_non_exhaustive()
    }
}
