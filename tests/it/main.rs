//! All integration tests in one binary.
// Expected texts are written by the test library, which always puts the hashes.
#![allow(clippy::needless_pass_by_value, clippy::needless_raw_string_hashes)]

mod anthropic;
mod apis;
mod approval;
mod ask;
mod auth;
mod bad_input;
mod builtin;
mod catalogue;
mod chat;
#[cfg(feature = "codemode")]
mod codemode;
mod coding_agent;
mod conformance;
mod fallback;
mod field;
mod google;
mod handoff;
mod hooks;
mod hosted;
mod images;
mod limiter;
mod limits;
mod live;
#[cfg(feature = "mcp")]
mod mcp;
mod memo;
mod mistral;
mod models;
mod openai_completions;
mod openai_responses;
mod partial_json;
mod pi_messages;
mod proxy;
mod record;
mod render;
mod retries;
mod robust;
mod rules;
mod saved;
mod schema;
mod scripted;
mod secrets;
mod server;
mod spans;
mod sse;
mod sub_agents;
mod subscriber;
mod tidy;
