//! The client underneath, set up: limits, certificates, proxy and the chain of connectors.

use std::time::Duration;

use ureq::{
    Agent, Proxy,
    unversioned::transport::{ConnectProxyConnector, Connector},
};

use crate::http::{
    connect::{Dial, Later, Lookup},
    options::HttpOptions,
    tls::Tls,
};

/// A tool often runs longer than the quarter of a minute that is usual.
const IDLE_CONNECTION: Duration = Duration::from_secs(75);

/// As many as agents with sub-agents have in flight at a time.
const IDLE_CONNECTIONS: usize = 64;
const IDLE_CONNECTIONS_PER_HOST: usize = 16;

/// What the head of an answer may have; it must fit into the buffer below.
const LARGEST_HEAD: usize = (32 << 10) - 1;
/// A connection costs twice the sum with TLS, as far as it is used.
const INPUT_BUFFER: usize = 64 << 10;
const OUTPUT_BUFFER: usize = 64 << 10;

/// Makes a client with connections of its own.
pub(crate) fn agent(
    options: &HttpOptions,
    tls: &Tls,
    proxy: Option<Proxy>,
    lookup: Lookup,
) -> Agent {
    let builder = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(proxy)
        .user_agent(&options.user_agent)
        .timeout_connect(options.connect_timeout)
        .max_idle_age(IDLE_CONNECTION)
        .max_idle_connections(IDLE_CONNECTIONS)
        .max_idle_connections_per_host(IDLE_CONNECTIONS_PER_HOST)
        .input_buffer_size(INPUT_BUFFER)
        .output_buffer_size(OUTPUT_BUFFER)
        .max_response_header_size(LARGEST_HEAD);
    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    let builder = builder.tls_config(tls.config.clone());
    #[cfg(not(any(feature = "rustls", feature = "native-tls")))]
    let Tls {} = tls;
    let connector = ().chain(ConnectProxyConnector::default()).chain(Dial { lookup });
    Agent::with_parts(builder.build(), Tls::wrap(connector), Later)
}
