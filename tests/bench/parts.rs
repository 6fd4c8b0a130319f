//! What single parts cost, beside the least that could do the same where there is such a thing.
//!
//! `cargo bench --bench parts` prints tables. Costs are of the processor, all threads together, medians of five runs.

mod parts {
    pub(crate) mod bodies;
    pub(crate) mod cost;
    pub(crate) mod decoders;
    pub(crate) mod listeners;
    #[path = "../numbers.rs"]
    pub(crate) mod numbers;
    #[path = "../recorded.rs"]
    pub(crate) mod recorded;
    pub(crate) mod sample;
    pub(crate) mod tools;
    pub(crate) mod transcripts;
}

use parts::{bodies, cost, decoders, listeners, numbers, recorded, sample, tools, transcripts};

fn main() {
    listeners::print();
    tools::print();
    transcripts::print();
    bodies::print();
    decoders::print();
}
