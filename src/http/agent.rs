//! The client underneath, set up: limits, certificates, proxy and the chain of connectors.

use std::time::Duration;

use ureq::{
    Agent, Proxy,
    unversioned::transport::{ConnectProxyConnector, Connector},
};

use crate::http::{
    connect::{Dial, Later, Lookup},
    options::HttpOptions,
};

#[cfg(feature = "rustls")]
pub(crate) use with_tls::Tls;
#[cfg(not(feature = "rustls"))]
pub(crate) use without_tls::Tls;

/// A tool often runs longer than the quarter of a minute that is usual.
const IDLE_CONNECTION: Duration = Duration::from_secs(75);

/// As many as agents with sub-agents have in flight at a time.
const IDLE_CONNECTIONS: usize = 64;
const IDLE_CONNECTIONS_PER_HOST: usize = 16;

/// A connection costs twice the sum with TLS. The head of an answer must fit into the first.
const INPUT_BUFFER: usize = 32 << 10;
const OUTPUT_BUFFER: usize = 16 << 10;

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
        .max_response_header_size(INPUT_BUFFER - 1);
    #[cfg(feature = "rustls")]
    let builder = builder.tls_config(tls.0.clone());
    #[cfg(not(feature = "rustls"))]
    let _ = tls;
    let connector = ().chain(ConnectProxyConnector::default()).chain(Dial { lookup });
    Agent::with_parts(builder.build(), Tls::wrap(connector), Later)
}

#[cfg(feature = "rustls")]
mod with_tls {
    use ureq::{
        tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem},
        unversioned::transport::{Connector, RustlsConnector, Transport},
    };

    use crate::{
        error::{Error, ErrorKind, Result},
        http::options::{ClientCertificate, HttpOptions},
    };

    /// What the options say about certificates, read and checked.
    #[derive(Default)]
    pub(crate) struct Tls(pub(crate) TlsConfig);

    impl Tls {
        pub(crate) fn new(options: &HttpOptions) -> Result<Tls> {
            let mut builder = TlsConfig::builder();
            if let Some(pem) = &options.ca_certificates {
                let certificates = certificates(pem, "of an authority")?;
                builder = builder.root_certs(RootCerts::new_with_certs(&certificates));
            }
            if let Some(ClientCertificate { chain, key }) = &options.client_certificate {
                let chain = certificates(chain, "of the client")?;
                let key = PrivateKey::from_pem(key.expose().as_bytes()).map_err(|_| {
                    Error::new(ErrorKind::Configuration, "the key of the client is no PEM text")
                })?;
                builder = builder.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
            }
            Ok(Tls(builder.build()))
        }

        pub(crate) fn wrap<In: Transport, C: Connector<(), Out = In>>(inner: C) -> impl Connector {
            inner.chain(RustlsConnector::default())
        }
    }

    fn certificates(pem: &str, whose: &str) -> Result<Vec<Certificate<'static>>> {
        let mut certificates = Vec::new();
        for item in parse_pem(pem.as_bytes()) {
            match item {
                Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
                Ok(_) => {}
                Err(_) => {
                    let text = format!("the certificate {whose} is no PEM text");
                    return Err(Error::new(ErrorKind::Configuration, text));
                }
            }
        }
        if certificates.is_empty() {
            let text = format!("the certificate {whose} is no PEM text: none found in it");
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        Ok(certificates)
    }
}

#[cfg(not(feature = "rustls"))]
mod without_tls {
    use ureq::unversioned::transport::Connector;

    use crate::{
        error::{Error, ErrorKind, Result},
        http::options::HttpOptions,
    };

    /// Without TLS there is nothing to say about certificates.
    #[derive(Default)]
    pub(crate) struct Tls;

    impl Tls {
        pub(crate) fn new(options: &HttpOptions) -> Result<Tls> {
            if options.ca_certificates.is_some() || options.client_certificate.is_some() {
                let text = "certificates are given, but this build has no TLS (feature `rustls`)";
                return Err(Error::new(ErrorKind::Configuration, text));
            }
            Ok(Tls)
        }

        pub(crate) fn wrap(inner: impl Connector) -> impl Connector {
            inner
        }
    }
}
