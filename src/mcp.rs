//! MCP servers as tools: programs and addresses that offer tools, resources and prompts over the Model Context Protocol.
//!
//! [`Client`] speaks to one server, over a [`transport`]: a process ([`Stdio`]), streamable HTTP ([`Http`]) or a pair of
//! ends in memory for tests. The revision is 2025-11-25; older servers (2025-06-18, 2025-03-26, 2024-11-05) are
//! understood. The stateless revision 2026-07-28 and the old HTTP+SSE transport are not spoken.
//!
//! # Threads
//!
//! | thread | owner | does | ends when |
//! |---|---|---|---|
//! | `mcp-post-…` | a client | sends what nobody waits for: answers, cancellations | the client is closed |
//! | `mcp-notices-…` | a client with a listener | tells the listener what the server says | the client is closed |
//! | `mcp-serve-…` | a request of the server | runs the host's callback | it has returned |
//! | `mcp-close-…` | a dropped client | ends the connection politely, then firmly | that is done |
//! | `mcp-in-…`, `mcp-out-…`, `mcp-err-…`, `mcp-wait-…` | a process | its pipes and its end | the process is gone |
//! | `mcp-http-…` | a request over HTTP | waits for the answer | it is here, or nobody waits for it |
//! | `mcp-stream-…` | a session over HTTP | reads what the server sends unasked | the session ends |

use std::fmt::Write as _;

pub mod client;
pub mod config;
pub mod content;
pub mod definition;
pub mod naming;
pub mod oauth;
pub mod sampling;
pub mod servers;
pub mod transport;

pub use crate::mcp::{
    client::{
        CallOptions, Client, ClientOptions, Elicitation, ElicitationAnswer, Notice, Progress,
        Sampling,
    },
    config::Config,
    oauth::{Loopback, OAuth, OAuthOptions},
    servers::{ServerReport, ServerState, Servers, ServersOptions},
    transport::{Http, HttpServerOptions, Stdio, StdioOptions, Transport},
};

/// Bytes as text, two digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
