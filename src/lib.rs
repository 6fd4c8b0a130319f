//! A complete LLM agent for programs without an async runtime.
#![warn(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod abort;
mod agent;
pub mod agent_loop;
mod clock;
mod error;
mod event;
#[cfg(feature = "providers")]
mod http;
pub mod message;
mod model;
pub mod partial_json;
#[cfg(feature = "providers")]
pub mod provider;
pub mod schema;
mod secret;
pub mod sse;
pub mod stream;
pub mod testing;
mod thread;
mod tool;
pub mod transcript;
mod usage;

pub use crate::{
    abort::{AbortController, AbortHook, AbortSignal},
    agent::{
        Agent, AgentOptions, AgentState, Events, Prompt, QueueMode, QueueStatus, QueuedMessage,
        Receipt, Run, RunEnd, RunOutcome, Subscription, WeakAgent,
    },
    agent_loop::{Hooks, ToolDecision, TurnDecision},
    clock::{Clock, SystemClock},
    error::{Error, ErrorKind, Failure, Result},
    event::AgentEvent,
    message::Message,
    model::{Modality, Model, ThinkingBudgets, ThinkingLevel},
    secret::{Secret, scrub},
    stream::{
        AssistantStream, LiveMessage, StreamEvent, StreamFn, StreamOptions, StreamRequest,
        Transcript, set_default_stream_fn,
    },
    tool::{
        ExecutionMode, PrepareArguments, ReplayPolicy, Tool, ToolContext, ToolError, ToolHandler,
        ToolOutcome, ToolPool, ToolResult,
    },
    usage::{Cost, PriceTier, Prices, Usage},
};
