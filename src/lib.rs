//! A complete LLM agent for programs without an async runtime.
#![warn(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod abort;
mod error;
mod thread;

pub use crate::{
    abort::{AbortController, AbortHook, AbortSignal},
    error::{Error, ErrorKind, Failure, Result},
};
