//! A model that answers as told: no network, no chance, no key.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    ops::RangeInclusive,
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{
    abort::AbortSignal,
    clock::{Clock, SystemClock},
    error::{Error, ErrorKind},
    message::{AssistantContent, AssistantMessage},
    model::{Modality, Model},
    stream::{
        AssistantStream, CacheRetention, Cut, Pace, Playback, ResponseMeta, StreamEvent, StreamFn,
        StreamRequest,
    },
    thread,
    usage::Usage,
};

mod answer;
mod estimate;

pub use crate::testing::scripted::answer::Answer;

/// A model that gives the answers of a queue, in the order in which the requests start.
///
/// It streams them in pieces as a model does (the same pieces each time), counts tokens, keeps the requests for the test to
/// look at, and stops at once on an abort. Clones are handles to the same model. A request that finds no answer fails.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use steerage::{Agent, AgentOptions, Tool, testing::{Answer, Scripted}};
///
/// let scripted = Scripted::new([
///     Answer::new().text("Let me look.").tool_call("weather", json!({"city": "Oslo"})),
///     Answer::from("It rains in Oslo."),
/// ]);
/// let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
/// let weather = Tool::with_schema("weather", "Tells the weather", parameters, |arguments, _| {
///     Ok(format!("rain in {}", arguments["city"]))
/// });
/// let agent = Agent::new(scripted.model(), AgentOptions {
///     stream: Some(scripted.clone().into()),
///     tools: vec![weather],
///     ..AgentOptions::default()
/// })?;
/// assert_eq!(agent.prompt("How is the weather?")?.wait()?.text, "It rains in Oslo.");
///
/// let second = &scripted.requests()[1];
/// assert_eq!(second.transcript.messages().last().unwrap().text(), r#"rain in "Oslo""#);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone)]
pub struct Scripted {
    shared: Arc<Shared>,
}

/// How a [`Scripted`] model streams.
#[derive(Debug, Clone)]
pub struct ScriptedOptions {
    /// What it calls itself. Default: `scripted-1`, which takes text and images, thinks and costs nothing.
    pub model: Model,
    /// What the cutting into pieces is derived from. Default: 0.
    pub seed: u64,
    /// How long the pieces are, in tokens of four characters. Default: 3 to 5.
    pub chunk_tokens: RangeInclusive<usize>,
    /// How fast it streams. Default: as fast as it is read.
    pub tokens_per_second: Option<f64>,
    /// What it waits on between pieces. Default: the clock of the system.
    pub clock: Arc<dyn Clock>,
}

type Factory = Arc<dyn Fn(&StreamRequest, usize) -> Answer + Send + Sync>;

struct Shared {
    options: ScriptedOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    /// Answers when the queue is empty.
    otherwise: Option<Factory>,
    requests: Vec<StreamRequest>,
    /// The last prompt of each session, which a vendor would have in its cache.
    prompts: HashMap<String, String>,
}

impl Default for ScriptedOptions {
    fn default() -> ScriptedOptions {
        ScriptedOptions {
            model: Model {
                id: "scripted-1".to_owned(),
                name: "Scripted model".to_owned(),
                api: "scripted".to_owned(),
                provider: "scripted".to_owned(),
                reasoning: true,
                input: vec![Modality::Text, Modality::Image],
                context_window: 128_000,
                max_tokens: 16_384,
                ..Model::default()
            },
            seed: 0,
            chunk_tokens: 3..=5,
            tokens_per_second: None,
            clock: Arc::new(SystemClock),
        }
    }
}

impl Scripted {
    /// Makes a model with the answers that it will give.
    pub fn new<A: Into<Answer>>(answers: impl IntoIterator<Item = A>) -> Scripted {
        Scripted::with_options(ScriptedOptions::default(), answers)
    }

    /// The same with options.
    pub fn with_options<A: Into<Answer>>(
        options: ScriptedOptions,
        answers: impl IntoIterator<Item = A>,
    ) -> Scripted {
        let answers = answers.into_iter().map(Into::into).collect();
        let state = Mutex::new(State { answers, ..State::default() });
        Scripted { shared: Arc::new(Shared { options, state }) }
    }

    /// Makes a model that asks `answer` for each of its answers; it is given the request and how many came before it.
    ///
    /// Answers that are [pushed](Scripted::push) come first. A panic fails the request.
    pub fn from_fn<A: Into<Answer>>(
        answer: impl Fn(&StreamRequest, usize) -> A + Send + Sync + 'static,
    ) -> Scripted {
        let scripted = Scripted::new::<Answer>([]);
        let otherwise: Factory = Arc::new(move |request, count| answer(request, count).into());
        scripted.shared.state.lock().otherwise = Some(otherwise);
        scripted
    }

    /// The model, to make an agent or a request with.
    pub fn model(&self) -> Model {
        self.shared.options.model.clone()
    }

    /// Adds an answer to the end of the queue.
    pub fn push(&self, answer: impl Into<Answer>) {
        let answer = answer.into();
        self.shared.state.lock().answers.push_back(answer);
    }

    /// Replaces the answers that are left.
    pub fn set_answers<A: Into<Answer>>(&self, answers: impl IntoIterator<Item = A>) {
        let answers = answers.into_iter().map(Into::into).collect();
        let before = std::mem::replace(&mut self.shared.state.lock().answers, answers);
        drop(before);
    }

    /// How many answers are left.
    pub fn answers_left(&self) -> usize {
        self.shared.state.lock().answers.len()
    }

    /// The requests so far, those included that found no answer. Taking them copies pointers.
    pub fn requests(&self) -> Vec<StreamRequest> {
        self.shared.state.lock().requests.clone()
    }

    /// How many requests there were.
    pub fn request_count(&self) -> usize {
        self.shared.state.lock().requests.len()
    }

    /// Takes the next answer; `None` if none is left. The number is how many requests came before.
    fn take(&self, request: &StreamRequest) -> (usize, Option<Answer>) {
        let mut state = self.shared.state.lock();
        let count = state.requests.len();
        state.requests.push(request.clone());
        let otherwise = state.otherwise.clone();
        let answer =
            state.answers.pop_front().or_else(|| otherwise.map(|factory| Answer::by(factory)));
        (count, answer)
    }

    /// What a vendor would count for the prompt; the prompt is in the session's cache from then on.
    fn prompt_usage(&self, request: &StreamRequest) -> Usage {
        let prompt = estimate::prompt(&request.transcript);
        let session = request.options.session_id.as_ref();
        let retention = request.options.cache_retention.unwrap_or_default();
        let Some(session) = session.filter(|_| retention != CacheRetention::None) else {
            return Usage { input: estimate::tokens(&prompt), ..Usage::default() };
        };
        let mut state = self.shared.state.lock();
        let cached = state.prompts.get(session);
        let usage = estimate::cached_usage(cached.map(String::as_str), &prompt);
        state.prompts.insert(session.clone(), prompt);
        usage
    }

    fn play(&self, request: &StreamRequest, signal: &AbortSignal) -> Result<Playback, Error> {
        let options = &self.shared.options;
        let (count, answer) = self.take(request);
        let mut usage = self.prompt_usage(request);
        let answer = answer.ok_or_else(|| none_left(count))?;
        let answer = thread::catch(|| answer.resolve(request, count))
            .map_err(|panic| Error::new(ErrorKind::Callback, panic))??;
        if let Some(hook) = &request.options.hooks.on_response
            && !signal.is_aborted()
        {
            hook(&ResponseMeta { status: 200, headers: Vec::new() }, &request.model)?;
        }
        let pace = options
            .tokens_per_second
            .map(|tokens_per_second| Pace { tokens_per_second, clock: options.clock.clone() });
        let mut message = match answer {
            answer::Content::Events(events) => {
                return Ok(Playback::of_events(events.into_iter(), pace, signal));
            }
            answer::Content::Message(message) => *message,
        };
        name_calls(&mut message, count);
        usage.output = estimate::output(&message.content);
        usage.total_tokens = usage.prompt_tokens() + usage.output;
        usage.price(&request.model.cost);
        message.usage = usage;
        // Each request has a sequence of its own, so that requests at the same time do not disturb one another.
        let seed = u64::try_from(count)
            .map_or(options.seed, |count| options.seed ^ count.wrapping_mul(0xd134_2543_de82_ef95));
        let cut = Cut::new(seed, options.chunk_tokens.clone());
        Ok(Playback::of_message(message, cut, pace, signal))
    }
}

impl StreamFn for Scripted {
    fn stream(
        &self,
        request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Box<dyn AssistantStream>, Error> {
        match self.play(&request, signal) {
            Ok(playback) => Ok(Box::new(playback)),
            Err(error) => Ok(Box::new(vec![StreamEvent::failed(&error)].into_iter())),
        }
    }
}

impl From<Scripted> for Arc<dyn StreamFn> {
    fn from(scripted: Scripted) -> Arc<dyn StreamFn> {
        Arc::new(scripted)
    }
}

/// Gives calls without an id one that no other call of this model has.
fn name_calls(message: &mut AssistantMessage, request: usize) {
    let mut place = 0;
    for block in &mut message.content {
        if let AssistantContent::ToolCall(call) = block {
            place += 1;
            if call.id.is_empty() {
                call.id = format!("call-{}-{place}", request + 1);
            }
        }
    }
}

fn none_left(count: usize) -> Error {
    let message = format!(
        "the scripted model has no answer left for request {}: give it one more",
        count + 1
    );
    Error::new(ErrorKind::Configuration, message)
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("Scripted")
            .field("model", &self.shared.options.model.id)
            .field("answers_left", &state.answers.len())
            .field("requests", &state.requests.len())
            .finish_non_exhaustive()
    }
}
