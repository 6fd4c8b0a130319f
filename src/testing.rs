//! What tests of agents need: a scripted model, recordings of real ones, a scripted server, a clock that stands still.

pub mod clock;
pub mod record;
pub mod scripted;
pub mod server;
#[cfg(feature = "providers")]
pub mod wire;

pub use crate::testing::record::{Recorder, Replay};
pub use crate::testing::scripted::{Answer, Scripted, ScriptedOptions};

/// The HTTP layer, for benchmarks and tests of it.
#[cfg(feature = "providers")]
#[doc(hidden)]
pub mod http {
    pub use crate::http::{
        Attempt, Body, ClientCertificate, Decision, HttpClient, HttpOptions, HttpRequest,
        HttpResponse, Lookup, Method, PauseHint, ProxyChoice, Refusal, Retries, RetryPolicy,
        Rewrite, retry_after,
    };
}
