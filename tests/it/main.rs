//! All integration tests in one binary.
#![allow(clippy::needless_pass_by_value)]

mod anthropic;
mod builtin;
mod catalogue;
mod conformance;
mod handoff;
mod partial_json;
mod schema;
mod scripted;
mod server;
mod sse;
mod tidy;
