//! What an agent costs its host, beside the same work by hand, in ten pieces of work.
//!
//! `cargo bench --bench figures` prints tables; FIGURES.md explains them. `-- W3a W5 --rounds 3` does a part. Every
//! measurement is a process of its own, which reports what it used; in each round all contenders take their turn, so that
//! whatever else the machine does meets them alike. Read the ratios: the columns of one table come from one run.
//!
//! For a profiler the binary does one piece of work alone: `--serve` starts the server and prints its URL,
//! `--work ours run URL text-200000-16` does W1.

#[cfg(target_os = "linux")]
mod figures {
    pub(crate) mod by_hand;
    pub(crate) mod child;
    pub(crate) mod clock;
    pub(crate) mod measure;
    pub(crate) mod mock;
    #[path = "../numbers.rs"]
    pub(crate) mod numbers;
    pub(crate) mod ours;
    #[path = "../recorded.rs"]
    pub(crate) mod recorded;
    pub(crate) mod rows;
}

#[cfg(target_os = "linux")]
use figures::{by_hand, child, clock, measure, mock, numbers, ours, recorded, rows};

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    match measure::Contender::of_child(&arguments) {
        Some((measure::Contender::ByHand, task)) => child::report(by_hand::run(&task, false)),
        Some((measure::Contender::WithHop, task)) => child::report(by_hand::run(&task, true)),
        Some((measure::Contender::Ours, task)) => child::report(ours::run(&task, false)),
        Some((measure::Contender::Observed, task)) => child::report(ours::run(&task, true)),
        None if arguments == ["--serve"] => mock::serve(),
        None => rows::print(&measure::measure(&arguments)),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("The figures are taken from Linux: processor time and memory of a process.");
}
