//! A complete LLM agent for programs without an async runtime: games, desktop programs, command-line tools, services.
//!
//! An [`Agent`] holds a conversation with a model, runs the tools that the model calls, streams, is steered while it works
//! and aborted at once. Everything blocks or returns at once; nothing needs an executor. The low-level loop
//! ([`agent_loop`]) and the streams ([`StreamFn`]) work without an agent.
//!
//! # The first minute
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use steerage::{Agent, AgentOptions, Tool, testing::Scripted};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! let add = Tool::new("add", "Adds two numbers", |args: Add, _| Ok((args.a + args.b).to_string()));
//! let model = Scripted::new(["Hello!"]);
//! let options = AgentOptions { stream: Some(model.clone().into()), tools: vec![add], ..AgentOptions::default() };
//! let agent = Agent::new(model.model(), options)?;
//! let _subscription = agent.subscribe(|event, _signal| {
//!     if let Some(text) = event.text_delta() {
//!         print!("{text}");
//!     }
//!     Ok(())
//! });
//! agent.prompt("Hello!")?.wait()?;
//! # Ok::<(), steerage::Error>(())
//! ```
//!
//! # The architecture
//!
//! A layer may use those below it; a test checks the arrows.
//!
//! ```text
//!  L6  builtin   codemode   mcp::servers   sub_agent   ask      built on the agent
//!  L6  builtin   codemode   mcp::servers   hosted   approval    built on the agent
//!  L5  agent: state, listeners, observers, queues, worker, run  owns threads and the one lock
//!  L4  agent_loop: turns, response, calls, execution            orchestration; no thread, no lock of its own
//!  L3  provider, models, proxy, mcp; http (private) under them         one folder for each wire API
//!  L2  stream (the port to models)   tool (what models call)   event (what a run tells)   catalogue   auth
//!      fallback   limiter                                      another model where one cannot; taking turns
//!  L1  sse   partial_json   schema   transcript   jsonrpc       pure
//!  L0  message   model   usage   error   secret                 pure
//!      abort, thread, clock                                     beside L0
//! ```
//!
//! L0 and L1 do no I/O, start no thread and read no clock but for timestamps. Decoders are state machines: bytes or frames
//! in, events out. A stream is pulled by the loop; dropping it cancels its request. A message under construction lives
//! once ([`LiveMessage`]) and every event is lean, so that streaming costs what arrives.
//!
//! The run goes on when the listeners are done with an event. Where nothing but further events comes next, no hook, tool or
//! request, several are handed over at once, and each is put into the state when the listener is done with the one before:
//! waking a thread costs more than most listeners do. If a listener aborts or stops the run in one of them, what was only
//! expected to follow is not told.
//!
//! # Threads
//!
//! | thread | owner | does | ends when |
//! |---|---|---|---|
//! | the host's | host | calls the handles; nothing of it blocks but what says so | - |
//! | `agent-run-N` | agent N, from its first run on | runs the loop, reads the stream, runs hooks, tells listeners | the last handle is dropped and the run has ended |
//! | `listener-N` | a [`Subscription`] | runs one listener, event by event | it is unsubscribed or the agent is gone |
//! | `tool-N` | a [`ToolPool`] | run tools | the pool is dropped, or replaced because a tool is stuck |
//! | `tool-standin-N` | a [`ToolPool`] | runs tools in place of one that waits for others | that wait has ended and no job is left for it |
//! | `auth-NAME` | a [`Credentials`](auth::Credentials) | renews one token | it is renewed, or 15 s are over |
//! | `codemode-N` | a script | runs it | it has ended or was interrupted |
//! | `codemode-call-N` | a script | wait for the tools that it calls | the script has ended and the tool has returned |
//! | `http-…` | a request | looks a name up and connects | connected, failed, or given up |
//! | `mcp-…` | a client of an MCP server | see `mcp` | the client is closed |
//! | `steerage-timer` | process | fires deadlines | no deadline is pending |
//!
//! A process that is forked off has none of these threads. In it runs of the parent are neither waited for (that is
//! [`ErrorKind::WouldDeadlock`]) nor aborted, their connections are left alone, and a listener must be subscribed anew; new
//! agents, and idle ones without listeners, work.
//!
//! # What may never happen
//!
//! - A lock is held while a tool, hook, listener, stream function or any other code of the host runs.
//! - After [`Agent::abort`] has returned, a request, a tool, or a hook but `after_tool_call` and `finish_turn` starts.
//! - A call of a complete message has no result, or two, when the run has ended.
//! - A panic of the host's code ends a thread of this crate, or the process.
//! - Dropping a handle blocks.
//! - A key shows up in an error, a log line or `Debug` output.
//!
//! # Spans
//!
//! Each run is a span of [`tracing`](https://docs.rs/tracing) named `invoke_agent`; in it are `chat` for each request and
//! `execute_tool` for each tool at work, and in that what the tool asks of other tools and agents, on whatever threads.
//! A run belongs to the span of the thread that starts it, a listener to what it is told of. A
//! request that no run makes has its `chat` span from [`Models`] or its provider. The target is `steerage`, the level `info`; the attributes are OpenTelemetry's for generative
//! AI (`gen_ai.request.model`, `gen_ai.usage.input_tokens`, `error.type` and so on), which bridges such as
//! `tracing-opentelemetry` pass on, with `otel.name` for the name. What was said is in none of them. A tool that is left
//! alone after an abort keeps its span, and those around it, open until it returns.
//!
//! # Log lines
//!
//! The log lines are this crate's. `ureq` underneath writes lines of its own through the `log` crate, URLs at the level
//! `debug` and bytes at `trace`: leave `ureq` and `ureq_proto` at `info`.
//!
//! # Features
//!
//! `providers` (the HTTP layer and the vendors' protocols), `rustls` (TLS), `validate` (full JSON Schema validation of tool
//! arguments) are on by default; `codemode` (scripts of the model), `mcp` (servers of the Model Context Protocol as tools)
//! and `images` (scales down what is too large for a model, [`ImageContent::fit`](message::ImageContent::fit)) are not.
//! Without them the crate is the agent, its loop, tools and the scripted model.
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
pub mod approval;
mod ask;
pub mod auth;
mod builtin;
#[cfg(feature = "providers")]
pub mod catalogue;
mod clock;
#[cfg(feature = "codemode")]
pub mod codemode;
mod error;
mod event;
mod fallback;
pub mod hosted;
#[cfg(feature = "providers")]
mod http;
mod image;
#[cfg(feature = "mcp")]
pub mod jsonrpc;
mod limiter;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod message;
mod model;
#[cfg(feature = "providers")]
pub mod models;
pub mod partial_json;
#[cfg(feature = "providers")]
pub mod provider;
#[cfg(feature = "providers")]
pub mod proxy;
pub mod render;
pub mod schema;
mod secret;
pub mod sse;
pub mod stream;
mod sub_agent;
pub mod testing;
mod thread;
mod tool;
mod trace;
pub mod transcript;
mod usage;

#[cfg(feature = "providers")]
pub use crate::models::Models;
/// The programs of the README are compiled and run with the documentation's.
#[cfg(all(doctest, feature = "providers"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub use crate::{
    abort::{AbortController, AbortHook, AbortSignal},
    agent::{
        Agent, AgentOptions, AgentState, Events, Prompt, QueueMode, QueueStatus, QueuedMessage,
        Receipt, Run, RunEnd, RunOutcome, Subscription, WeakAgent,
    },
    agent_loop::{Hooks, RetryOptions, ToolDecision, TurnDecision},
    ask::AskOptions,
    builtin::{Builtin, BuiltinOptions},
    clock::{Clock, SystemClock},
    error::{Error, ErrorKind, Failure, Result},
    event::AgentEvent,
    fallback::Fallback,
    limiter::{Limiter, LimiterOptions, Limits},
    message::Message,
    model::{Modality, Model, ThinkingBudgets, ThinkingLevel},
    secret::{Secret, scrub},
    stream::{
        AssistantStream, LiveMessage, StreamEvent, StreamFn, StreamOptions, StreamRequest,
        Transcript, set_default_stream_fn,
    },
    sub_agent::agent_tool,
    tool::{
        CallLimits, CallResources, ExecutionMode, PrepareArguments, ReplayPolicy, Tool,
        ToolContext, ToolError, ToolHandler, ToolHints, ToolOutcome, ToolPool, ToolResult,
    },
    usage::{Cost, PriceTier, Prices, Usage},
};
