//! An abort at every event, hook, tool and request of many scenarios: nothing starts after it has returned, and every call
//! has one result.

use std::sync::{Arc, Mutex, OnceLock};

use crossbeam_channel::{Receiver, Sender, bounded};
use steerage::{Agent, AgentEvent, QueueMode, WeakAgent, message::StopReason, testing::Scripted};

use crate::robust::{BOUND, check_calls, outcome};

mod scenes;

/// Where the abort is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aborter {
    /// On the thread that is at the place: a listener, a hook, a tool, the stream function.
    Same,
    /// On a thread of the host's, and the place waits until the abort has returned.
    Other,
    /// On a thread of the host's, at the same time as what comes after the place.
    Racing,
}

/// Counts the places where something happens and aborts at one of them.
#[derive(Clone)]
struct Probe {
    shared: Arc<Shared>,
}

struct Shared {
    agent: OnceLock<WeakAgent>,
    abort_at: usize,
    aborter: Aborter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    places: usize,
    log: Vec<Entry>,
    /// Tells when an abort of another thread has returned.
    aborting: Option<Receiver<()>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// Something that no abort may let start.
    Starts(String),
    /// Anything else.
    Sees(String),
    AbortReturned,
}

impl Probe {
    fn new(abort_at: usize, aborter: Aborter) -> Probe {
        let (agent, state) = (OnceLock::new(), Mutex::default());
        Probe { shared: Arc::new(Shared { agent, abort_at, aborter, state }) }
    }

    /// Something starts that must not start after an abort.
    fn starts(&self, what: impl Into<String>) {
        self.note_start(what);
        self.place();
    }

    /// The same, for a tool whose siblings may be just about to start: no place to abort at.
    fn note_start(&self, what: impl Into<String>) {
        self.log(Entry::Starts(what.into()));
    }

    /// Anything else happens.
    fn sees(&self, what: impl Into<String>) {
        self.log(Entry::Sees(what.into()));
        self.place();
    }

    fn log(&self, entry: Entry) {
        self.shared.state.lock().unwrap().log.push(entry);
    }

    fn place(&self) {
        let is_here = {
            let mut state = self.shared.state.lock().unwrap();
            state.places += 1;
            state.places == self.shared.abort_at
        };
        if !is_here {
            return;
        }
        match self.shared.aborter {
            Aborter::Same => self.abort(),
            Aborter::Other => self.on_other_thread().recv_timeout(BOUND).unwrap(),
            Aborter::Racing => {
                let aborting = Some(self.on_other_thread());
                self.shared.state.lock().unwrap().aborting = aborting;
            }
        }
    }

    /// An abort that comes late must not hit the next run.
    fn wait_for_abort(&self) {
        let aborting = self.shared.state.lock().unwrap().aborting.take();
        if let Some(aborting) = aborting {
            aborting.recv_timeout(BOUND).unwrap();
        }
    }

    fn abort(&self) {
        let agent = self.shared.agent.get().and_then(WeakAgent::upgrade);
        agent.expect("the agent lives as long as its scene").abort();
        self.log(Entry::AbortReturned);
    }

    #[allow(clippy::disallowed_methods)]
    fn on_other_thread(&self) -> Receiver<()> {
        let (done, receiver): (Sender<()>, _) = bounded(1);
        let probe = self.clone();
        std::thread::spawn(move || {
            probe.abort();
            let _ = done.send(());
        });
        receiver
    }

    fn log_so_far(&self) -> Vec<Entry> {
        self.shared.state.lock().unwrap().log.clone()
    }

    fn places(&self) -> usize {
        self.shared.state.lock().unwrap().places
    }
}

#[test]
fn an_abort_at_any_place_lets_nothing_start_and_leaves_no_call_open() {
    abort_everywhere(Aborter::Same);
}

#[test]
fn an_abort_of_another_thread_at_any_place_lets_nothing_start_and_leaves_no_call_open() {
    abort_everywhere(Aborter::Other);
}

#[test]
fn an_abort_at_any_time_leaves_no_call_open() {
    abort_everywhere(Aborter::Racing);
}

fn abort_everywhere(aborter: Aborter) {
    for (name, scene) in scenes::ALL {
        let places = play(name, *scene, usize::MAX, aborter);
        assert!(places > 5, "{name} has {places} places");
        for place in 1..=places {
            play(name, *scene, place, aborter);
        }
    }
}

/// Plays a scene with an abort at one place and returns how many places there were.
fn play(name: &str, scene: scenes::Scene, abort_at: usize, aborter: Aborter) -> usize {
    let probe = Probe::new(abort_at, aborter);
    let scripted = Scripted::new::<&str>([]);
    let agent = scene(&probe, &scripted);
    let _ = probe.shared.agent.set(agent.downgrade());
    let _subscription = {
        let probe = probe.clone();
        agent.subscribe(move |event: &AgentEvent, _| {
            probe.sees(event.type_name());
            Ok(())
        })
    };
    let about = format!("{name}, abort at place {abort_at} by {aborter:?}");
    let run = agent.prompt("Go").unwrap();
    assert!(run.wait_timeout(BOUND).is_some(), "{about} hangs: {:#?}", probe.log_so_far());
    let ended = outcome(&run);
    agent.wait_for_idle().unwrap();
    probe.wait_for_abort();
    let places = probe.places();
    let log = probe.log_so_far();
    if aborter != Aborter::Racing {
        let after = log.iter().skip_while(|entry| **entry != Entry::AbortReturned);
        let started: Vec<_> = after.filter(|entry| matches!(entry, Entry::Starts(_))).collect();
        assert!(started.is_empty(), "{about}: {started:?} started late in {log:#?}");
    }
    check_idle(&about, &agent);
    let added = ended.messages.iter().filter(|message| message.role() == "assistant");
    assert!(added.count() > 0, "{about}: the run has no message of a model");
    check_usable(&agent, &scripted);
    places
}

#[track_caller]
fn check_idle(about: &str, agent: &Agent) {
    let state = agent.state();
    assert!(!state.is_streaming, "{about}");
    assert!(state.streaming_message.is_none(), "{about}");
    assert!(state.pending_tool_calls.is_empty(), "{about}: {:?}", state.pending_tool_calls);
    check_calls(&state.messages);
}

/// The next run works, and what it sends answers every call.
#[track_caller]
fn check_usable(agent: &Agent, scripted: &Scripted) {
    agent.clear_all_queues();
    agent.set_steering_mode(QueueMode::All);
    agent.configure(|options| options.hooks = steerage::Hooks::default()).unwrap();
    scripted.set_answers(["Here I am."]);
    let run = agent.prompt("Are you there?").unwrap();
    let ended = outcome(&run);
    assert_eq!(ended.text, "Here I am.", "{ended:?}");
    let requests = scripted.requests();
    let sent = requests.last().unwrap().transcript.messages();
    let calls = sent.iter().filter_map(|message| message.as_assistant());
    let answered: Vec<_> = calls
        .filter(|message| !matches!(message.stop_reason, StopReason::Error | StopReason::Aborted))
        .flat_map(|message| message.tool_calls().map(|call| call.id.clone()))
        .collect();
    for id in answered {
        let results = sent.iter().filter_map(|message| message.as_tool_result());
        assert_eq!(results.filter(|result| result.tool_call_id == id).count(), 1, "{id}");
    }
}
