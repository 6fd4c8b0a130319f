//! Code mode: the model writes a program that calls tools, and only what it prints or returns comes back to it.
//!
//! [`tool()`] makes the tool for an agent. Each of its calls runs a script in a fresh JavaScript engine (QuickJS) on a thread
//! of its own; the script sees the language, its tools and a handful of functions. A [`Sandbox`] runs scripts without an
//! agent.
//!
//! # What this protects against, and what not
//!
//! It guards against *wrong* code: a script cannot reach files, the network, the environment, the process or any object of
//! the host. All it has is one native function whose every argument is checked. Built-in objects are frozen before the
//! script starts, so that it cannot falsify what is reported. Time, memory, stack, output, calls, arguments and results are
//! limited. A script that computes for ever is interrupted, in loops, regular expressions and chains of promises alike.
//!
//! It is no boundary against *hostile* code. The engine is a C library in this process: a fault in it may crash the process
//! or worse. A few built-in functions cannot be interrupted while they work; those that models do use are refused input
//! that would keep them busy for long, but code that tries can find others. Then the result comes at the deadline all the
//! same, the thread is left behind and counted ([`Sandbox::stuck_threads`]), and new scripts are refused when there are too
//! many. And a script may call every tool that it is given, with any arguments: what must not happen without a question
//! belongs into `before_tool_call`, which sees nested calls too. Where scripts come from strangers, run the whole program
//! in a container or a virtual machine.
//!
//! # Threads
//!
//! | thread | does | ends when |
//! |---|---|---|
//! | `codemode-N` | runs one script and drops its engine | the script has ended or was interrupted |
//! | `codemode-call-N` | waits for nested calls of one script | the script has ended and the call has returned |

mod bridge;
mod calls;
mod catalogue;
mod declarations;
mod execution;
mod identifier;
mod image;
mod ledger;
mod limits;
mod report;
mod sandbox;
mod shelf;
mod source;
mod stack;
mod tool;
mod vm;

pub use crate::codemode::{
    declarations::{Declared, declarations},
    execution::{CallRecord, CallStatus, Execution, Output, ScriptError, ScriptErrorKind},
    limits::Limits,
    sandbox::{Sandbox, ScriptCall, ScriptHost, ScriptTool},
    tool::{CodeModeOptions, tool, tool_with},
};
