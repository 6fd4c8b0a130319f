//! Agents that share the limits of a provider.

use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crossbeam_channel::{Receiver, bounded};
use steerage::{
    AbortController, AbortSignal, Agent, AgentOptions, Clock, Error, ErrorKind, Limiter,
    LimiterOptions, Limits, Message, Model, StreamFn, StreamRequest, Usage,
    message::StopReason,
    stream::{AssistantStream, ResponseInfo, StreamEvent},
    testing::{Answer, Scripted},
};

/// No wait of these tests takes that long unless something hangs.
const BOUND: Duration = Duration::from_mins(1);

/// A clock on which a pause takes no time but counts.
#[derive(Debug)]
struct Leaping {
    now: Mutex<SystemTime>,
    pauses: Mutex<Vec<u64>>,
}

impl Clock for Leaping {
    fn sleep(&self, duration: Duration, signal: &AbortSignal) -> bool {
        *self.now.lock().unwrap() += duration;
        self.pauses.lock().unwrap().push(duration.as_secs());
        signal.is_aborted()
    }

    fn now(&self) -> SystemTime {
        *self.now.lock().unwrap()
    }
}

fn leaping() -> Arc<Leaping> {
    Arc::new(Leaping { now: Mutex::new(UNIX_EPOCH), pauses: Mutex::default() })
}

fn limiter(limits: Limits, clock: Arc<dyn Clock>) -> Limiter {
    Limiter::new(LimiterOptions { limits, clock, ..LimiterOptions::default() })
}

fn at_once(most: u32) -> Limiter {
    limiter(Limits { requests_at_once: Some(most), ..Limits::default() }, leaping())
}

/// A request whose prompt is estimated at so many tokens.
fn request(provider: &str, tokens: usize) -> StreamRequest {
    let model = Model { provider: provider.to_owned(), ..Model::default() };
    StreamRequest::new(model, [Message::user("1234567".repeat(tokens / 2))])
}

/// A stream function that answers at once and reports so many tokens.
fn reporting(tokens: u64) -> impl StreamFn + use<> {
    move |_: StreamRequest, _: &AbortSignal| {
        let usage = Some(Usage { total_tokens: tokens, ..Usage::default() });
        let info = Box::new(ResponseInfo { usage, ..ResponseInfo::default() });
        let done = StreamEvent::Done { reason: StopReason::Stop };
        let events = vec![StreamEvent::Start, StreamEvent::Info(info), done];
        Ok(Box::new(events.into_iter()) as Box<dyn AssistantStream>)
    }
}

fn shared(stream: impl StreamFn + 'static) -> Arc<dyn StreamFn> {
    Arc::new(stream)
}

/// Asks on a thread of its own; the channel tells of the end.
fn ask(
    stream: &Arc<dyn StreamFn>,
    request: StreamRequest,
    signal: AbortSignal,
) -> Receiver<Vec<StreamEvent>> {
    let (ended, end) = bounded(1);
    let stream = stream.clone();
    let body = move || {
        let events = stream.stream(request, &signal).unwrap().collect();
        ended.send(events).unwrap();
    };
    thread::Builder::new().name("asks".to_owned()).spawn(body).unwrap();
    end
}

#[test]
fn as_many_are_under_way_as_the_limit_says() {
    let (pair, under_way, most) =
        (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let peak = most.clone();
    let stream = shared(move |_: StreamRequest, _: &AbortSignal| {
        let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        // None ends before another one has begun.
        pair.wait();
        let under_way = under_way.clone();
        let end = std::iter::once_with(move || {
            under_way.fetch_sub(1, Ordering::SeqCst);
            StreamEvent::Done { reason: StopReason::Stop }
        });
        Ok(Box::new(Plain(Box::new(end))) as Box<dyn AssistantStream>)
    });
    let limited = at_once(2).limit(stream);
    let ends: Vec<_> =
        (0..16).map(|_| ask(&limited, request("p", 1), AbortSignal::never())).collect();
    for end in ends {
        assert_eq!(end.recv_timeout(BOUND).expect("it hangs").len(), 1);
    }
    assert_eq!(peak.load(Ordering::SeqCst), 2);
}

/// A stream of whatever an iterator gives.
struct Plain(Box<dyn Iterator<Item = StreamEvent> + Send>);

impl Iterator for Plain {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        self.0.next()
    }
}

impl AssistantStream for Plain {}

#[test]
fn requests_of_a_minute_are_counted() {
    let clock = leaping();
    let limits = Limits { requests_per_minute: Some(2), ..Limits::default() };
    let limited = limiter(limits, clock.clone()).limit(shared(reporting(1)));
    for _ in 0..5 {
        limited.stream(request("p", 1), &AbortSignal::never()).unwrap().for_each(drop);
        *clock.now.lock().unwrap() += Duration::from_secs(10);
    }
    // At 0 and 10; at 60, when the first one counts no more, and 70; at 120.
    assert_eq!(*clock.pauses.lock().unwrap(), [40, 40]);
}

#[test]
fn tokens_of_a_minute_are_counted_as_reported() {
    let clock = leaping();
    let limits = Limits { tokens_per_minute: Some(100), ..Limits::default() };
    let limiter = limiter(limits, clock.clone());
    let ask = |estimate, reported| {
        let limited = limiter.limit(shared(reporting(reported)));
        limited.stream(request("p", estimate), &AbortSignal::never()).unwrap().for_each(drop);
        std::mem::take(&mut *clock.pauses.lock().unwrap())
    };
    assert_eq!(ask(20, 70), [0; 0]);
    assert_eq!(ask(30, 10), [0; 0], "70 and 30 are 100");
    assert_eq!(ask(20, 5), [0; 0], "of the 30 no more than 10 were taken");
    assert_eq!(ask(30, 30), [60], "85 and 30 are too many");
    assert_eq!(ask(1000, 1000), [60], "it goes alone");
    assert_eq!(ask(2, 2), [60], "nothing goes beside it");
}

#[test]
fn providers_do_not_wait_for_one_another() {
    let named = Limits { requests_at_once: Some(2), ..Limits::default() };
    let limiter = Limiter::new(LimiterOptions {
        limits: Limits { requests_at_once: Some(1), ..Limits::default() },
        providers: [("roomy".to_owned(), named)].into(),
        clock: leaping(),
    });
    let limited = limiter.limit(shared(reporting(1)));
    let never = AbortSignal::never();
    let held: Vec<_> = ["p", "q", "roomy", "roomy"]
        .map(|provider| limited.stream(request(provider, 1), &never).unwrap())
        .into();
    drop(held);
}

#[test]
fn an_abort_ends_the_wait_and_the_queue_goes_on() {
    let limited = at_once(1).limit(shared(reporting(1)));
    let held = limited.stream(request("p", 1), &AbortSignal::never()).unwrap();
    let controller = AbortController::new();
    let aborted = ask(&limited, request("p", 1), controller.signal());
    let last = ask(&limited, request("p", 1), AbortSignal::never());
    controller.abort();
    let events = aborted.recv_timeout(BOUND).expect("the abort does not end the wait");
    assert_eq!(events, [StreamEvent::aborted()]);
    assert!(last.is_empty(), "one is still under way");
    drop(held);
    assert_eq!(last.recv_timeout(BOUND).expect("the queue is stuck").len(), 3);
}

#[test]
fn whatever_ends_a_request_lets_the_next_one_begin() {
    let limiter = at_once(1);
    let failing = limiter.limit(shared(|_: StreamRequest, _: &AbortSignal| {
        Err::<Box<dyn AssistantStream>, _>(Error::new(ErrorKind::Configuration, "no"))
    }));
    let panicking = limiter.limit(shared(
        |_: StreamRequest, _: &AbortSignal| -> Result<Box<dyn AssistantStream>, Error> {
            panic!("no")
        },
    ));
    let good = limiter.limit(shared(reporting(1)));
    let never = AbortSignal::never();
    assert!(failing.stream(request("p", 1), &never).is_err());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        panicking.stream(request("p", 1), &never).map(drop)
    }));
    assert!(panicked.is_err());
    // Read to the end, but kept; then dropped in the middle.
    let mut whole = good.stream(request("p", 1), &never).unwrap();
    assert_eq!(whole.by_ref().count(), 3);
    let mut half = good.stream(request("p", 1), &never).unwrap();
    half.next();
    drop(half);
    assert_eq!(ask(&good, request("p", 1), never).recv_timeout(BOUND).expect("it hangs").len(), 3);
}

#[test]
fn agents_share_a_limiter() {
    let limiter = at_once(2);
    let runs: Vec<_> = (0..24)
        .map(|index| {
            let scripted = Scripted::new([Answer::new().text(index.to_string())]);
            let stream: Arc<dyn StreamFn> = scripted.clone().into();
            let options =
                AgentOptions { stream: Some(limiter.limit(stream)), ..AgentOptions::default() };
            let agent = Agent::new(scripted.model(), options).unwrap();
            (agent.prompt("Hi").unwrap(), agent)
        })
        .collect();
    for (index, (run, _agent)) in runs.iter().enumerate() {
        assert!(run.wait_timeout(BOUND).is_some(), "run {index} hangs");
        assert_eq!(run.outcome().unwrap().text, index.to_string());
    }
}
