//! A process that does one piece of work: what it is told, what it counts meanwhile, and what it says of itself at its end.

use std::{
    fs,
    io::Write,
    path::Path,
    process,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::clock;

pub(crate) const SYSTEM: &str = "You are a helpful assistant.";
pub(crate) const PROMPT: &str = "go";

/// How many streams a process aborts one after the other.
pub(crate) const ABORTS: usize = 5;

/// How long a stream is silent before it is aborted.
pub(crate) const SILENCE: Duration = Duration::from_millis(20);

/// Whatever ended the work before its end.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// One prompt.
    Run,
    /// So many conversations at once.
    Parallel(usize),
    /// As `Run`; each text delta holds the time at which it was sent.
    Delay,
    /// [`ABORTS`] prompts, each aborted after its first delta.
    Abort,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) mode: Mode,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) cpu_us: f64,
    /// Between the two turns of [`MARKS`], if there were as many.
    pub(crate) marked_us: Option<f64>,
    pub(crate) peak_mib: f64,
    /// How often a thread gave the processor away to wait.
    pub(crate) waits: f64,
    pub(crate) deltas: u64,
    pub(crate) bytes: u64,
    pub(crate) tools: u64,
    pub(crate) delays_us: Vec<f64>,
    pub(crate) aborts_us: Vec<f64>,
    pub(crate) error: Option<String>,
}

/// The turns between which the time of a late turn is taken. Each turn has one text delta.
pub(crate) const MARKS: [u64; 2] = [430, 470];

pub(crate) static TALLY: Tally = Tally {
    deltas: AtomicU64::new(0),
    texts: AtomicU64::new(0),
    bytes: AtomicU64::new(0),
    tools: AtomicU64::new(0),
    marks: [AtomicU64::new(0), AtomicU64::new(0)],
    delays: Mutex::new(Vec::new()),
    aborts: Mutex::new(Vec::new()),
};

pub(crate) struct Tally {
    deltas: AtomicU64,
    texts: AtomicU64,
    bytes: AtomicU64,
    tools: AtomicU64,
    /// The processor time at each of [`MARKS`].
    marks: [AtomicU64; 2],
    delays: Mutex<Vec<f64>>,
    aborts: Mutex<Vec<f64>>,
}

impl Tally {
    /// Counts a text delta.
    pub(crate) fn text(&self, delta: &str, mode: Mode) {
        if mode == Mode::Delay {
            self.delay(delta);
        }
        let number = self.texts.fetch_add(1, Ordering::Relaxed);
        if let Some(mark) = MARKS.iter().position(|mark| *mark == number) {
            self.marks[mark].store(clock::cpu(), Ordering::Relaxed);
        }
        self.arguments(delta);
    }

    /// Counts a delta of arguments.
    pub(crate) fn arguments(&self, delta: &str) {
        self.deltas.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(delta.len() as u64, Ordering::Relaxed);
    }

    /// Does the work of the tool.
    pub(crate) fn echo(&self, x: i64) -> String {
        self.tools.fetch_add(1, Ordering::Relaxed);
        format!("echo {x}")
    }

    /// Keeps when an abort was asked for, and when nothing of the request was left.
    pub(crate) fn aborted(&self, asked: u64, settled: u64) {
        self.aborts.lock().expect("no panic").push(clock::micros(settled.saturating_sub(asked)));
    }

    fn delay(&self, delta: &str) {
        let now = clock::now();
        let sent = delta.strip_prefix('T').and_then(|it| it.strip_suffix(';')?.parse().ok());
        let sent: u64 = sent.expect("a delta with the time of its write");
        self.delays.lock().expect("no panic").push(clock::micros(now.saturating_sub(sent)));
    }
}

/// Says what the process did and ends it, after what the work has left. What this function itself does is not counted.
pub(crate) fn report<T>(result: Result<T, Failure>) -> ! {
    let worked = clock::cpu();
    let waits = waits();
    let paused = clock::cpu();
    let error = result.map(drop).err();
    let cpu = worked + (clock::cpu() - paused);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let [first, second] = &TALLY.marks;
    let (first, second) = (count(first), count(second));
    let report = Report {
        cpu_us: clock::micros(cpu),
        marked_us: (second > 0).then(|| clock::micros(second - first)),
        peak_mib: status(Path::new("/proc/self/status"), "VmHWM:") / 1024.0,
        waits,
        deltas: count(&TALLY.deltas),
        bytes: count(&TALLY.bytes),
        tools: count(&TALLY.tools),
        delays_us: TALLY.delays.lock().expect("no panic").clone(),
        aborts_us: TALLY.aborts.lock().expect("no panic").clone(),
        error: error.map(|error| error.to_string()),
    };
    let line = serde_json::to_string(&report).expect("plain data");
    let _ = writeln!(std::io::stdout(), "{line}");
    process::exit(0)
}

/// Of the threads that are still there.
fn waits() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.map(|task| status(&task.path().join("status"), "voluntary_ctxt_switches:")).sum()
}

/// A number in a file of `/proc`; 0 if it is not there.
fn status(file: &Path, field: &str) -> f64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(field));
    value.and_then(|it| it.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
