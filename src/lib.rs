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
mod error;
mod event;
pub mod message;
mod model;
pub mod partial_json;
pub mod schema;
mod secret;
pub mod sse;
pub mod stream;
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
    error::{Error, ErrorKind, Failure, Result},
    event::AgentEvent,
    message::Message,
    model::{Modality, Model, ThinkingBudgets, ThinkingLevel},
    secret::Secret,
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
