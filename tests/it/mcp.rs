//! MCP: the client against servers in memory, hostile processes, and the official servers where they are installed.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use steerage::AbortSignal;

mod client;
#[cfg(unix)]
mod conformance;
mod http;
mod jsonrpc;
mod oauth;
#[cfg(unix)]
mod official;
#[cfg(unix)]
mod servers;
#[cfg(unix)]
mod stdio;

/// Long enough for everything that has to happen, and only used up by a failure.
const LIMIT: Duration = Duration::from_mins(1);

/// The answer to `initialize` of a server that can do everything.
fn hello() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": true}, "resources": {}, "prompts": {}},
        "serverInfo": {"name": "test", "version": "1"},
    })
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Looks until something is so, which nothing tells of.
#[track_caller]
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        AbortSignal::never().wait_timeout(Duration::from_millis(5));
    }
}
