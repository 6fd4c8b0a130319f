//! What can be set about the HTTP layer as a whole.

use std::time::Duration;

use crate::secret::Secret;

/// Limits, proxy and certificates of an HTTP client.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// How long name lookup, connect, proxy and TLS may take together. Default: 10 seconds.
    pub connect_timeout: Option<Duration>,
    /// How long a server may take from the end of the request to the head of its answer. Default: 600 seconds.
    pub first_byte_timeout: Option<Duration>,
    /// How long a body may stand still, in either direction. Comments that keep a stream alive count as movement.
    /// Default: 120 seconds.
    pub idle_timeout: Option<Duration>,
    /// How many bytes the body of an answer may have, after decompression. Default: 64 MiB.
    pub max_body_bytes: u64,
    /// How many bytes of the body of a failed request are read; the rest is left out. Default: 64 KiB.
    pub max_error_bytes: u64,
    /// How many redirects are followed. 0 follows none. Default: 5.
    pub max_redirects: u32,
    /// Which proxy is used. Default: what the environment says.
    pub proxy: ProxyChoice,
    /// Certificates of authorities in PEM form, which are trusted **instead of** the built-in ones. Default: none.
    pub ca_certificates: Option<String>,
    /// The certificate that this client shows. Default: none.
    pub client_certificate: Option<ClientCertificate>,
    /// The `user-agent` of a request that has none of its own. Default: `steerage/` and the version.
    pub user_agent: String,
}

/// Which proxy a client uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProxyChoice {
    /// What `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` (in either case) said when the client was made.
    /// The machine itself is always asked directly.
    #[default]
    Environment,
    /// None.
    Direct,
    /// This one, for every request.
    Url {
        /// `http://`, `https://`, `socks4://`, `socks4a://`, `socks5://` or `socks5h://`, with `user:password@` where
        /// the proxy wants it.
        url: Secret,
        /// Hosts that are asked directly, each in the form of an entry of `NO_PROXY`.
        except: Vec<String>,
    },
}

/// A certificate with its key, both in PEM form.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// The certificate, followed by those that lead from it to an authority.
    pub chain: String,
    /// The key of the certificate.
    pub key: Secret,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            connect_timeout: Some(Duration::from_secs(10)),
            first_byte_timeout: Some(Duration::from_mins(10)),
            idle_timeout: Some(Duration::from_mins(2)),
            max_body_bytes: 64 << 20,
            max_error_bytes: 64 << 10,
            max_redirects: 5,
            proxy: ProxyChoice::default(),
            ca_certificates: None,
            client_certificate: None,
            user_agent: concat!("steerage/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}
