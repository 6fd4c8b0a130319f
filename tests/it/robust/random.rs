//! Everything at once from four threads, in a random order that a number fixes as far as the threads allow.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crossbeam_channel::unbounded;
use serde_json::{Map, json};
use steerage::{
    Agent, AgentEvent, ErrorKind, ExecutionMode, QueueMode, QueueStatus, Receipt, Run, RunEnd,
    Subscription, ThinkingLevel, Tool, ToolContext, ToolPool,
    testing::{Answer, Scripted},
};

use crate::robust::{BOUND, check_calls, options, process::spawn, tool};

const THREADS: u64 = 4;
const STEPS: usize = 40;

/// The splitmix64 sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// What the threads share and leave behind.
struct World {
    agent: Agent,
    runs: Mutex<Vec<Run>>,
    receipts: Mutex<Vec<(String, Receipt)>>,
    subscriptions: Mutex<Vec<Subscription>>,
    texts: AtomicUsize,
}

fn answer(count: usize, seed: u64) -> Answer {
    let mut random = Random(seed.wrapping_mul(31).wrapping_add(count as u64));
    match random.below(8) {
        0 => Answer::from("A text."),
        1 => Answer::new().text("It").fails(ErrorKind::Network, "the line is cut"),
        2 => Answer::new().text("It is").stops(steerage::message::StopReason::Length),
        more => (0..=more % 3).fold(Answer::new().text("Let me see."), |answer, _| {
            let names = ["plain", "nested", "fails", "panics", "waits", "coming and going", "none"];
            answer.tool_call(names[usize::try_from(random.below(7)).unwrap()], json!({}))
        }),
    }
}

fn tools() -> Vec<Tool> {
    let nested =
        tool("nested", |context: &ToolContext| Ok(context.run_tool("plain", Map::new()).result));
    let panics = tool("panics", |_| -> Result<String, _> {
        std::panic::resume_unwind(Box::new("it broke"))
    });
    // It goes on when the other threads have had their turn, or at an abort.
    let waits = tool("waits", |context: &ToolContext| {
        for _ in 0..50 {
            context.update("still there");
            if context.signal().is_aborted() {
                return Err("interrupted".into());
            }
            thread::yield_now();
        }
        Ok("done")
    });
    let fails = tool("fails", |_| Err::<String, _>("it failed".into()));
    vec![tool("plain", |_| Ok("done")), nested, fails, panics, waits]
}

impl World {
    fn new(seed: u64) -> Arc<World> {
        let scripted = Scripted::from_fn(move |_, count| answer(count, seed));
        let mut options = options(&scripted, tools());
        options.tool_pool = ToolPool::new(1 + (seed % 3) as usize);
        let agent = Agent::new(scripted.model(), options).unwrap();
        Arc::new(World {
            agent,
            runs: Mutex::default(),
            receipts: Mutex::default(),
            subscriptions: Mutex::default(),
            texts: AtomicUsize::new(0),
        })
    }

    fn text(&self) -> String {
        format!("text {}", self.texts.fetch_add(1, Ordering::SeqCst))
    }

    fn step(&self, random: &mut Random) {
        let agent = &self.agent;
        match random.below(24) {
            0..=5 => self.started(agent.prompt(self.text())),
            6 => self.started(agent.resume()),
            7..=9 => {
                let text = self.text();
                let receipt = agent.steer(text.as_str());
                self.receipts.lock().unwrap().push((text, receipt));
            }
            10..=11 => {
                let text = self.text();
                let receipt = agent.follow_up(text.as_str());
                self.receipts.lock().unwrap().push((text, receipt));
            }
            12..=13 => agent.abort(),
            14 => drop(agent.reset()),
            15 => self.configure(random),
            16 => {
                let subscription = agent.subscribe(|_, _| Ok(()));
                self.subscriptions.lock().unwrap().push(subscription);
            }
            17 => {
                let subscription = self.subscriptions.lock().unwrap().pop();
                drop(subscription);
            }
            18 => {
                let queued = agent.queued();
                if let Some(first) = queued.first() {
                    let _ = agent.remove(first.id);
                }
            }
            19 => match random.below(3) {
                0 => agent.clear_steering_queue(),
                1 => agent.clear_follow_up_queue(),
                _ => agent.clear_all_queues(),
            },
            20 => {
                let state = agent.state();
                assert!(state.is_streaming || state.pending_tool_calls.is_empty());
            }
            21 => {
                let run = self.runs.lock().unwrap().last().cloned();
                if let Some(run) = run {
                    run.stop_after_turn();
                }
            }
            _ => assert!(agent.wait_for_idle_timeout(BOUND).unwrap(), "the run hangs"),
        }
    }

    fn started(&self, run: Result<Run, steerage::Error>) {
        match run {
            Ok(run) => self.runs.lock().unwrap().push(run),
            Err(error) => {
                use ErrorKind::{Busy, EndsWithAssistant, NothingToContinue};
                let kind = error.kind();
                assert!(matches!(kind, Busy | EndsWithAssistant | NothingToContinue), "{error}");
            }
        }
    }

    fn configure(&self, random: &mut Random) {
        let choice = random.below(6);
        let changed = self.agent.configure(|options| match choice {
            0 => options.steering_mode = QueueMode::All,
            1 => options.follow_up_mode = QueueMode::All,
            2 => options.tool_execution = ExecutionMode::Sequential,
            3 => options.thinking_level = ThinkingLevel::High,
            4 => options.tools = tools(),
            _ => options.tools.push(tool("coming and going", |_| Ok("done"))),
        });
        changed.unwrap();
    }
}

/// The user's messages of a run's events, and how many runs there were. No event is outside of a run.
#[derive(Default)]
struct Record {
    is_running: bool,
    runs: usize,
    delivered: HashMap<String, usize>,
    fault: Option<String>,
}

impl Record {
    fn note(&mut self, event: &AgentEvent) {
        let fits = match event {
            AgentEvent::AgentStart => !std::mem::replace(&mut self.is_running, true),
            AgentEvent::AgentEnd { .. } => {
                self.runs += 1;
                std::mem::replace(&mut self.is_running, false)
            }
            _ => self.is_running,
        };
        if !fits {
            self.fault.get_or_insert(format!("{} does not fit", event.type_name()));
        }
        if let AgentEvent::MessageEnd { message } = event
            && message.role() == "user"
        {
            *self.delivered.entry(message.text().into_owned()).or_default() += 1;
        }
    }
}

fn play(seed: u64) {
    let world = World::new(seed);
    let record = Arc::new(Mutex::new(Record::default()));
    {
        let record = record.clone();
        let recorder = world.agent.subscribe(move |event, _| {
            record.lock().unwrap().note(event);
            Ok(())
        });
        recorder.keep();
    }
    let (done, is_done) = unbounded();
    for thread in 0..THREADS {
        let (world, done) = (world.clone(), done.clone());
        spawn(move || {
            let mut random = Random(seed * THREADS + thread);
            for _ in 0..STEPS {
                world.step(&mut random);
            }
            let _ = done.send(());
        });
    }
    drop(done);
    for _ in 0..THREADS {
        assert!(is_done.recv_timeout(BOUND).is_ok(), "seed {seed}: a thread hangs or failed");
    }
    assert!(world.agent.wait_for_idle_timeout(BOUND).unwrap(), "seed {seed}: the run hangs");
    check(seed, &world, &record.lock().unwrap());
}

fn check(seed: u64, world: &World, record: &Record) {
    let agent = &world.agent;
    let runs = world.runs.lock().unwrap();
    for run in runs.iter() {
        assert!(run.is_done(), "seed {seed}");
        let outcome = run.outcome().unwrap();
        assert_ne!(outcome.end, RunEnd::Broken, "seed {seed}: {:?}", outcome.error_message);
        check_calls(&outcome.messages);
    }
    let state = agent.state();
    assert!(!state.is_streaming && state.streaming_message.is_none(), "seed {seed}");
    assert!(state.pending_tool_calls.is_empty(), "seed {seed}: {:?}", state.pending_tool_calls);
    check_calls(&state.messages);
    assert_eq!(record.fault, None, "seed {seed}");
    assert_eq!((record.runs, record.is_running), (runs.len(), false), "seed {seed}");
    let queued: Vec<_> = agent.queued().into_iter().map(|queued| queued.id).collect();
    for (text, receipt) in &*world.receipts.lock().unwrap() {
        let is_queued = queued.contains(&receipt.id());
        assert_eq!(receipt.status() == QueueStatus::Queued, is_queued, "seed {seed}: {text}");
        let times = record.delivered.get(text).copied().unwrap_or_default();
        let expected = usize::from(receipt.status() == QueueStatus::Delivered);
        assert_eq!(times, expected, "seed {seed}: {text} is {:?}", receipt.status());
    }
    agent.clear_all_queues();
    for (text, receipt) in &*world.receipts.lock().unwrap() {
        assert_ne!(receipt.status(), QueueStatus::Queued, "seed {seed}: {text}");
    }
}

#[test]
fn whatever_four_threads_do_at_once_the_transcript_is_whole_and_all_is_settled() {
    for seed in 0..60 {
        play(seed);
    }
}
