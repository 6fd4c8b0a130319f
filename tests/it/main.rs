//! All integration tests in one binary.

mod conformance;
mod partial_json;
mod sse;
mod schema;
#![allow(clippy::needless_pass_by_value)]

mod handoff;
