//! Limits that many agents share: requests at once, requests and tokens a minute, for each provider.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use parking_lot::Mutex;

use crate::{
    abort::AbortSignal,
    clock::{Clock, SystemClock},
    stream::{AssistantStream, StreamEvent, StreamFn, StreamRequest},
    transcript::estimate_tokens,
};

const MINUTE: Duration = Duration::from_mins(1);

/// Keeps many agents together within the limits of their providers.
///
/// Whoever asks a model waits for its turn, first come, first served for each provider; an abort ends the wait at once. A
/// request counts as one, however often its provider sends it again. Its tokens are estimated when it begins and corrected
/// when the provider reports them. A request that needs more tokens than a minute has goes when nothing else counts.
///
/// The wait is on the thread that asks, the agent's worker as a rule. Clones share the limits.
///
/// # Examples
///
/// ```no_run
/// use steerage::{Agent, AgentOptions, Limiter, LimiterOptions, Limits, Models};
///
/// let limits = Limits { requests_at_once: Some(8), ..Limits::default() };
/// let limiter = Limiter::new(LimiterOptions { limits, ..LimiterOptions::default() });
/// let models = Models::from_env();
/// let stream = limiter.limit(models.clone());
/// for _ in 0..100 {
///     let options = AgentOptions { stream: Some(stream.clone()), ..AgentOptions::default() };
///     let agent = Agent::new(models.get("anthropic", "claude-sonnet-4-6")?, options)?;
/// }
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone)]
pub struct Limiter {
    shared: Arc<Shared>,
}

/// What a limiter goes by.
#[derive(Debug, Clone)]
pub struct LimiterOptions {
    /// The limits of each provider that `providers` does not name. Default: none.
    pub limits: Limits,
    /// The limits of providers by their names ([`Model::provider`](crate::Model::provider)). Default: none is named.
    pub providers: HashMap<String, Limits>,
    /// The clock that minutes are counted by. Default: that of the system.
    pub clock: Arc<dyn Clock>,
}

/// The limits of one provider. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// How many requests are under way at once, from the first byte sent to the end of the answer; at least one.
    pub requests_at_once: Option<u32>,
    /// How many requests begin within any minute; at least one.
    pub requests_per_minute: Option<u32>,
    /// How many tokens, of prompts and answers, the requests that begin within any minute take.
    pub tokens_per_minute: Option<u64>,
}

struct Shared {
    options: LimiterOptions,
    gates: Mutex<HashMap<String, Arc<Gate>>>,
}

/// Where the requests to one provider wait.
struct Gate {
    limits: Limits,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    under_way: u32,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    /// Requests of the last minute.
    begun: VecDeque<Begun>,
}

struct Waiting {
    id: u64,
    wake: Sender<()>,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    id: u64,
    at: SystemTime,
    tokens: u64,
}

/// What the first in the queue shall do.
enum Turn {
    Go,
    /// Somebody else is first, or too many are under way: whoever changes that wakes it.
    Wait,
    /// The minute is full for so long.
    Sleep(Duration),
}

/// A place in the queue; dropping it leaves the queue.
struct Place {
    gate: Arc<Gate>,
    id: u64,
    woken: Receiver<()>,
}

/// A request that is under way; dropping it lets the next one begin.
struct Permit {
    gate: Arc<Gate>,
    id: u64,
}

impl Limiter {
    /// Makes a limiter.
    pub fn new(options: LimiterOptions) -> Limiter {
        Limiter { shared: Arc::new(Shared { options, gates: Mutex::default() }) }
    }

    /// Makes a stream function whose requests keep within the limits and are asked by `stream`. All that are made by one
    /// limiter share its limits.
    pub fn limit(&self, stream: impl Into<Arc<dyn StreamFn>>) -> Arc<dyn StreamFn> {
        let (limiter, stream) = (self.clone(), stream.into());
        Arc::new(move |request: StreamRequest, signal: &AbortSignal| {
            let tokens = estimate_tokens(request.transcript.messages());
            let Some(permit) = limiter.gate(&request.model.provider).enter(tokens, signal) else {
                let events = vec![StreamEvent::aborted()];
                return Ok(Box::new(events.into_iter()) as Box<dyn AssistantStream>);
            };
            let stream = stream.stream(request, signal)?;
            Ok(Box::new(Limited { stream, permit: Some(permit) }) as Box<dyn AssistantStream>)
        })
    }

    fn gate(&self, provider: &str) -> Arc<Gate> {
        let LimiterOptions { limits, providers, clock } = &self.shared.options;
        let mut gates = self.shared.gates.lock();
        if let Some(gate) = gates.get(provider) {
            return gate.clone();
        }
        let limits = *providers.get(provider).unwrap_or(limits);
        let gate = Gate { limits, clock: clock.clone(), state: Mutex::default() };
        gates.entry(provider.to_owned()).or_insert(Arc::new(gate)).clone()
    }
}

impl Gate {
    /// Waits until a request may begin; `None` if the signal fires first.
    fn enter(self: Arc<Self>, tokens: u64, signal: &AbortSignal) -> Option<Permit> {
        let place = self.queue_up();
        // A clock of the host's may stand still: what was slept has passed.
        let mut earliest = SystemTime::UNIX_EPOCH;
        loop {
            if signal.is_aborted() {
                return None;
            }
            let now = self.clock.now().max(earliest);
            match self.turn(place.id, tokens, now) {
                Turn::Go => return Some(Permit { gate: self.clone(), id: place.id }),
                Turn::Wait => select! {
                    recv(place.woken) -> _ => (),
                    recv(signal.channel()) -> _ => return None,
                },
                Turn::Sleep(duration) => {
                    if self.clock.sleep(duration, signal) {
                        return None;
                    }
                    earliest = now.checked_add(duration).unwrap_or(now);
                }
            }
        }
    }

    fn queue_up(self: &Arc<Self>) -> Place {
        let (wake, woken) = bounded(1);
        let mut state = self.state.lock();
        state.last_id += 1;
        let id = state.last_id;
        state.waiting.push_back(Waiting { id, wake });
        Place { gate: self.clone(), id, woken }
    }

    /// Lets a request begin if it is its turn.
    fn turn(&self, id: u64, tokens: u64, now: SystemTime) -> Turn {
        let mut state = self.state.lock();
        let is_first = state.waiting.front().is_some_and(|first| first.id == id);
        let most = self.limits.requests_at_once.map_or(u32::MAX, |most| most.max(1));
        if !is_first || state.under_way >= most {
            return Turn::Wait;
        }
        state.forget(now);
        if let Some(time) = self.limits.full_until(&state.begun, tokens) {
            let left = time.duration_since(now).unwrap_or_default();
            return Turn::Sleep(left.max(Duration::from_millis(1)));
        }
        state.begun.push_back(Begun { id, at: now, tokens });
        state.under_way += 1;
        state.waiting.pop_front();
        state.wake_first();
        Turn::Go
    }
}

impl Limits {
    /// When the earliest of the requests that are in the way counts no more; `None` if another one may begin.
    fn full_until(&self, begun: &VecDeque<Begun>, tokens: u64) -> Option<SystemTime> {
        let most = self.requests_per_minute.map_or(usize::MAX, |most| most.max(1) as usize);
        let mut count = begun.len();
        let mut sum: u64 = begun.iter().map(|it| it.tokens).fold(0, u64::saturating_add);
        let mut time = None;
        for it in begun {
            let has_room =
                self.tokens_per_minute.is_none_or(|most| sum.saturating_add(tokens) <= most);
            if count < most && has_room {
                break;
            }
            (count, sum) = (count - 1, sum.saturating_sub(it.tokens));
            time = it.at.checked_add(MINUTE);
        }
        time
    }
}

impl State {
    fn forget(&mut self, now: SystemTime) {
        let counts = |it: &Begun| now.duration_since(it.at).is_ok_and(|age| age < MINUTE);
        self.begun.retain(counts);
    }

    fn wake_first(&self) {
        if let Some(first) = self.waiting.front() {
            // One that is there already is as good.
            let _ = first.wake.try_send(());
        }
    }
}

impl Permit {
    /// Puts what the request really took in the place of the estimate.
    fn took(&self, tokens: u64) {
        let mut state = self.gate.state.lock();
        if let Some(begun) = state.begun.iter_mut().find(|it| it.id == self.id) {
            begun.tokens = tokens;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        state.under_way -= 1;
        state.wake_first();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        state.waiting.retain(|it| it.id != self.id);
        state.wake_first();
    }
}

/// A stream whose end lets the next request begin.
struct Limited {
    stream: Box<dyn AssistantStream>,
    permit: Option<Permit>,
}

impl Iterator for Limited {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        let event = self.stream.next();
        if let (Some(StreamEvent::Info(info)), Some(permit)) = (&event, &self.permit)
            && let Some(usage) = info.usage.as_ref().filter(|usage| usage.total_tokens > 0)
        {
            permit.took(usage.total_tokens);
        }
        if event.as_ref().is_none_or(StreamEvent::is_terminal) {
            self.permit = None;
        }
        event
    }
}

impl AssistantStream for Limited {
    fn more_is_ready(&self) -> bool {
        self.stream.more_is_ready()
    }

    fn may_read_ahead(&self) -> bool {
        self.stream.may_read_ahead()
    }
}

impl Default for LimiterOptions {
    fn default() -> LimiterOptions {
        LimiterOptions {
            limits: Limits::default(),
            providers: HashMap::new(),
            clock: Arc::new(SystemClock),
        }
    }
}

impl Default for Limiter {
    fn default() -> Limiter {
        Limiter::new(LimiterOptions::default())
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_came_first_goes_first() {
        let limits = Limits { requests_at_once: Some(1), ..Limits::default() };
        let limiter = Limiter::new(LimiterOptions { limits, ..LimiterOptions::default() });
        let gate = limiter.gate("p");
        let places = [gate.queue_up(), gate.queue_up(), gate.queue_up()];
        let turn = |place: &Place| gate.turn(place.id, 0, SystemTime::UNIX_EPOCH);
        assert!(matches!(turn(&places[1]), Turn::Wait));
        assert!(matches!(turn(&places[0]), Turn::Go));
        assert!(matches!(turn(&places[1]), Turn::Wait), "one is under way");
        drop(Permit { gate: gate.clone(), id: places[0].id });
        assert!(matches!(turn(&places[2]), Turn::Wait), "it is not the first");
        assert!(places[1].woken.try_recv().is_ok());
        assert!(matches!(turn(&places[1]), Turn::Go));
    }
}
