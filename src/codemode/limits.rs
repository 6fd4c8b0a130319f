//! What a script may use up.

use std::time::Duration;

/// What a script may use up.
#[derive(Debug, Clone)]
pub struct Limits {
    /// From its start to its end, the time of its tools included; `None` is any time. Default: 300 seconds.
    pub time: Option<Duration>,
    /// What its values may take, in bytes; the arguments and results of its open calls may take as much again together.
    /// Default: 64 MiB.
    pub memory: usize,
    /// How deep its functions may call each other, in bytes of stack. Default: 512 KiB; at most 8 MiB.
    pub stack: usize,
    /// How much it may print, in characters; the base64 of images counts too. Default: 16,777,216.
    pub output_characters: usize,
    /// In how many pieces; neighbouring texts are one. Default: 100,000.
    pub output_items: usize,
    /// How many tools it may call in all. Default: 10,000.
    pub calls: usize,
    /// How many of them run at once; the others wait. Default: 16.
    pub calls_at_once: usize,
    /// How long the arguments of one call may be, as JSON in bytes. Default: 4 MiB.
    pub argument_bytes: usize,
    /// How long the result of one call may be, as JSON in bytes. Default: 16 MiB.
    pub result_bytes: usize,
    /// How many threads may be stuck in earlier scripts (in a built-in function that cannot be interrupted) before new
    /// scripts are refused. Default: 4.
    pub stuck_threads: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            time: Some(Duration::from_mins(5)),
            memory: 64 << 20,
            stack: 512 << 10,
            output_characters: 16 << 20,
            output_items: 100_000,
            calls: 10_000,
            calls_at_once: 16,
            argument_bytes: 4 << 20,
            result_bytes: 16 << 20,
            stuck_threads: 4,
        }
    }
}
