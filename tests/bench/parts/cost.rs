//! What something takes of the processor, and tables of it.

use std::{hint::black_box, time::Duration};

use crate::numbers::{median, number, ratio};

const ROUNDS: usize = 5;

/// A measurement goes on for at least this long.
const LONG_ENOUGH: Duration = Duration::from_millis(2);

/// What one `body` takes, in microseconds.
pub(crate) fn cost<R>(mut body: impl FnMut() -> R) -> f64 {
    cost_of(|| (), |()| body())
}

/// What one `body` takes, in microseconds, without what makes its input and drops its result.
pub(crate) fn cost_of<T, R>(mut input: impl FnMut() -> T, mut body: impl FnMut(T) -> R) -> f64 {
    let mut run = |count: u32| {
        let inputs: Vec<T> = (0..count).map(|_| input()).collect();
        let mut results = Vec::with_capacity(inputs.len());
        let start = cpu();
        for input in inputs {
            results.push(black_box(body(input)));
        }
        cpu().saturating_sub(start)
    };
    let mut count = 1;
    while run(count) < LONG_ENOUGH {
        count *= 2;
    }
    let times = (0..ROUNDS).map(|_| run(count).as_secs_f64() * 1e6 / f64::from(count));
    median(times).expect("rounds")
}

/// What all threads have used so far.
#[cfg(unix)]
fn cpu() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// The time that has passed, where nothing better is to be had.
#[cfg(not(unix))]
fn cpu() -> Duration {
    use std::{sync::LazyLock, time::Instant};

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

pub(crate) fn head(title: &str, value: &str, floor: &str) {
    println!("\n### {title}\n\n| what | {value} | {floor} | ratio |\n|---|---:|---:|---:|");
}

/// A line of a table: a cost, and that of the least that could do the same.
pub(crate) fn line(what: &str, value: f64, floor: Option<f64>) {
    let ratio = ratio(Some(value), floor);
    println!("| {what} | {} | {} | {ratio} |", number(Some(value)), number(floor));
}
