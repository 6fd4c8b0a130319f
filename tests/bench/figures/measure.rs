//! The pieces of work, who does them, and the runs.

use std::{
    collections::HashMap,
    env,
    process::{Command, Stdio, exit},
};

use crate::{
    child::{Mode, Report, Task},
    clock,
    mock::Mock,
};

const ROUNDS: usize = 7;

/// Who does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Contender {
    /// By hand, on one thread.
    ByHand,
    /// By hand, with one thread that reads and one that counts.
    WithHop,
    /// An agent with a listener.
    Ours,
    /// The same, and an observer that nobody reads.
    Observed,
}

use Contender::{ByHand, Observed, Ours, WithHop};

/// A piece of work: its name, the model that makes the server send it, how it is done, and by whom.
type Work = (&'static str, &'static str, Mode, &'static [Contender]);

/// A process that hardly does anything; what it takes is the start, which is subtracted from the others.
pub(crate) const START: &str = "W8";

const WORKS: [Work; 14] = [
    (START, "text-1-16", Mode::Run, &[ByHand, WithHop, Ours, Observed]),
    ("W1", "text-200000-16", Mode::Run, &[ByHand, WithHop, Ours]),
    ("W1drip", "drip-5000-16-200", Mode::Run, &[ByHand, WithHop, Ours]),
    ("W2-10", "text-10000-16", Mode::Run, &[ByHand, Ours, Observed]),
    ("W2-40", "text-40000-16", Mode::Run, &[ByHand, Ours, Observed]),
    ("W2-160", "text-160000-16", Mode::Run, &[ByHand, Ours, Observed]),
    ("W3a", "calls-500-1", Mode::Run, &[ByHand, Ours]),
    ("W3b", "calls-100-16", Mode::Run, &[ByHand, Ours]),
    ("W4-1", "calls-20-2", Mode::Run, &[ByHand, Ours]),
    ("W4", "calls-20-2", Mode::Parallel(64), &[ByHand, Ours]),
    ("W5-20", "arguments-20000", Mode::Run, &[ByHand, Ours]),
    ("W5-80", "arguments-80000", Mode::Run, &[ByHand, Ours]),
    ("W6", "gap-20-50", Mode::Delay, &[ByHand, WithHop, Ours]),
    ("W7", "hang-30000", Mode::Abort, &[ByHand, Ours]),
];

/// What one process did.
pub(crate) struct Sample {
    pub(crate) report: Report,
    /// From before the process was there to its first request.
    pub(crate) start_ms: f64,
}

#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) rounds: usize,
    by_work: HashMap<(&'static str, Contender), Vec<Sample>>,
}

impl Samples {
    /// The samples of a piece of work; none if it was not asked for or is not done by this contender.
    pub(crate) fn of(&self, work: &'static str, contender: Contender) -> &[Sample] {
        self.by_work.get(&(work, contender)).map_or(&[], Vec::as_slice)
    }
}

impl Contender {
    fn name(self) -> &'static str {
        match self {
            ByHand => "by-hand",
            WithHop => "with-hop",
            Ours => "ours",
            Observed => "observed",
        }
    }

    /// What the process shall do that was started with these arguments, if it was started to do work.
    pub(crate) fn of_child(arguments: &[String]) -> Option<(Contender, Task)> {
        let [mark, name, mode, url, model] = arguments else { return None };
        let contender = [ByHand, WithHop, Ours, Observed].into_iter().find(|it| it.name() == name);
        let mode = match &**mode {
            "run" => Mode::Run,
            "delay" => Mode::Delay,
            "abort" => Mode::Abort,
            count => Mode::Parallel(count.parse().ok()?),
        };
        let task = Task { url: url.clone(), model: model.clone(), mode };
        (mark == "--work").then_some(()).and(contender).map(|contender| (contender, task))
    }
}

/// Does the work that the arguments name, or all of it, in rounds.
pub(crate) fn measure(arguments: &[String]) -> Samples {
    let (rounds, names) = read(arguments);
    let mock = Mock::start().expect("a server");
    let is_wanted = |name: &str| {
        name == START
            || names.is_empty()
            || names.iter().any(|it| name.split('-').next() == Some(it))
    };
    let mut samples = Samples { rounds, ..Samples::default() };
    let mut work_done = HashMap::new();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for (name, model, mode, contenders) in WORKS.iter().filter(|work| is_wanted(work.0)) {
            for contender in *contenders {
                let sample = run(&mock, *contender, *mode, model);
                let Report { deltas, bytes, tools, .. } = sample.report;
                let done = *work_done.entry(name).or_insert((deltas, bytes, tools));
                assert_eq!(
                    (deltas, bytes, tools),
                    done,
                    "{contender:?} does less or more at {name}"
                );
                samples.by_work.entry((name, *contender)).or_default().push(sample);
            }
        }
    }
    samples
}

fn read(arguments: &[String]) -> (usize, Vec<&str>) {
    let mut rounds = ROUNDS;
    let mut names = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--rounds" {
            let number = arguments.next().and_then(|it| it.parse().ok());
            rounds = number.unwrap_or_else(|| refuse("--rounds takes a number"));
        } else if WORKS.iter().any(|work| work.0.split('-').next() == Some(argument)) {
            names.push(argument.as_str());
        } else {
            refuse(&format!(
                "there is no work `{argument}`: name W1, W1drip, W2, W3a, W3b, or W4 to W8"
            ));
        }
    }
    (rounds, names)
}

fn refuse(message: &str) -> ! {
    eprintln!("{message}");
    exit(2)
}

fn run(mock: &Mock, contender: Contender, mode: Mode, model: &str) -> Sample {
    let mode = match mode {
        Mode::Run => "run".to_owned(),
        Mode::Delay => "delay".to_owned(),
        Mode::Abort => "abort".to_owned(),
        Mode::Parallel(count) => count.to_string(),
    };
    let url = mock.url();
    let arguments = ["--work", contender.name(), &mode, &url, model];
    mock.reset();
    let start = clock::now();
    let output = Command::new(env::current_exe().expect("a program"))
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("a process");
    let report: Report = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report.error, None, "{contender:?} at {model}");
    let first = mock.first_request();
    Sample { report, start_ms: clock::micros(first.saturating_sub(start)) / 1000.0 }
}
