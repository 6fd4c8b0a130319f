//! The table: medians over the rounds, and ratios to the work by hand of the same run.

use crate::{
    measure::{
        Contender::{self, ByHand, Observed, Ours, WithHop},
        START, Sample, Samples,
    },
    numbers::{exponent, median, number, quantile, ratio},
};

/// Requests of W4: 64 conversations of 20 turns with calls and one without.
const REQUESTS: f64 = 64.0 * 21.0;

/// Turns between the two marks of W3a.
const MARKED: f64 = 40.0;

pub(crate) fn print(samples: &Samples) {
    let rounds = samples.rounds;
    println!("Medians of {rounds} rounds. The ratio is that of this crate to the work by hand.\n");
    println!("| work | what | by hand | by hand, a hop | this crate | ratio |");
    println!("|---|---|---:|---:|---:|---:|");
    let table = Table { samples };
    table.texts();
    table.turns();
    table.one_at_a_time();
}

struct Table<'a> {
    samples: &'a Samples,
}

impl Table<'_> {
    fn texts(&self) {
        self.cpu("W1", "200,000 text deltas: CPU for 100,000, ms", "W1", 2000.0);
        self.memory("W1");
        self.waits("W1");
        self.cpu("W1drip", "5,000 deltas, each a write: CPU a delta, µs", "W1drip", 5000.0);
        let drip = |it| Some(self.net_cpu("W1drip", it)? / 5000.0);
        if drip(Ours).is_some() {
            let ratio = ratio(drip(Ours), drip(WithHop));
            println!("| | the same, beside by hand with a hop | | | | {ratio} |");
        }
        self.waits("W1drip");
        let points = [("W2-10", 10.0), ("W2-40", 40.0), ("W2-160", 160.0)];
        let growth = |it| self.exponent(&points, it);
        let what = "exponent of CPU, 10,000 to 160,000 deltas";
        plain("W2", what, [growth(ByHand), None, growth(Ours)]);
        let what = "the same, while an observer reads nothing";
        plain("", what, [growth(ByHand), None, growth(Observed)]);
        let cpu = |it| Some(self.net_cpu("W2-160", it)? / 1600.0);
        let what = "160,000 deltas, an observer that reads nothing: CPU for 100,000, ms";
        row("", what, [cpu(ByHand), None, cpu(Observed)]);
    }

    fn turns(&self) {
        self.cpu("W3a", "500 turns with one call: CPU a turn, ms", "W3a", 500_000.0);
        let late = |it| {
            let marked =
                |it: &Sample| it.report.marked_us.map_or(f64::NAN, |us| us / 1000.0 / MARKED);
            median(self.samples.of("W3a", it).iter().map(marked))
        };
        row("", "at turn 450, ms", [late(ByHand), None, late(Ours)]);
        self.waits("W3a");
        self.cpu("W3b", "100 turns with 16 calls: CPU a turn, ms", "W3b", 100_000.0);
        self.waits("W3b");
        let rate = |it| Some(REQUESTS * 1e6 / self.net_cpu("W4", it)?);
        let what = "64 agents at once: requests in a second of CPU (more is better)";
        row("W4", what, [rate(ByHand), None, rate(Ours)]);
        self.memory("W4");
        self.cpu("W5", "80,000 deltas of arguments: CPU a delta, µs", "W5-80", 80_000.0);
        let growth = |it| self.exponent(&[("W5-20", 20.0), ("W5-80", 80.0)], it);
        let what = "exponent of CPU, 20,000 to 80,000 deltas";
        plain("", what, [growth(ByHand), None, growth(Ours)]);
    }

    fn one_at_a_time(&self) {
        let delay = |it, percent| {
            let of_run = |it: &Sample| quantile(it.report.delays_us.clone(), percent);
            median(self.samples.of("W6", it).iter().map(of_run))
        };
        let delays = |percent| [ByHand, WithHop, Ours].map(|it| delay(it, percent));
        row("W6", "the server's write to the listener: median, µs", delays(50));
        row("", "99 of 100, µs", delays(99));
        let abort = |it, percent| {
            let samples = self.samples.of("W7", it).iter();
            let all: Vec<f64> = samples.flat_map(|it| it.report.aborts_us.clone()).collect();
            (!all.is_empty()).then(|| quantile(all, percent) / 1000.0)
        };
        let aborts = |percent| [abort(ByHand, percent), None, abort(Ours, percent)];
        row("W7", "abort of a silent stream to idle: median, ms", aborts(50));
        row("", "worst, ms", aborts(100));
        let start = |it| median(self.samples.of(START, it).iter().map(|it| it.start_ms));
        let what = "start of the process to its first request, ms";
        row("W8", what, [start(ByHand), None, start(Ours)]);
        self.memory(START);
    }

    /// Lists what a piece of work takes beyond the start of its process.
    fn cpu(&self, name: &str, what: &str, work: &'static str, per: f64) {
        let cpu = |it| Some(self.net_cpu(work, it)? / per);
        row(name, what, [ByHand, WithHop, Ours].map(cpu));
    }

    fn memory(&self, work: &'static str) {
        let peak = |it| median(self.samples.of(work, it).iter().map(|it| it.report.peak_mib));
        row("", "peak memory, MiB", [ByHand, WithHop, Ours].map(peak));
    }

    fn waits(&self, work: &'static str) {
        let waits = |it| {
            let of_run = |it: &Sample| it.report.waits;
            median(self.samples.of(work, it).iter().map(of_run))
        };
        plain("", "how often its threads waited", [ByHand, WithHop, Ours].map(waits));
    }

    fn net_cpu(&self, work: &'static str, contender: Contender) -> Option<f64> {
        let cpu = |work| median(self.samples.of(work, contender).iter().map(|it| it.report.cpu_us));
        Some(cpu(work)? - cpu(START)?)
    }

    fn exponent(&self, points: &[(&'static str, f64)], contender: Contender) -> Option<f64> {
        let costs = points.iter().map(|(work, size)| Some((*size, self.net_cpu(work, contender)?)));
        Some(exponent(&costs.collect::<Option<Vec<_>>>()?))
    }
}

fn row(name: &str, what: &str, values: [Option<f64>; 3]) {
    if let [_, _, Some(_)] = values {
        let [by_hand, _, ours] = values;
        let cells = values.map(number).join(" | ");
        println!("| {name} | {what} | {cells} | {} |", ratio(ours, by_hand));
    }
}

/// A row whose ratio would say nothing.
fn plain(name: &str, what: &str, values: [Option<f64>; 3]) {
    if values[2].is_some() {
        let cells = values.map(number).join(" | ");
        println!("| {name} | {what} | {cells} | |");
    }
}
