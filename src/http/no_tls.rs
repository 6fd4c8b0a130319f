//! In place of TLS, where none is built in.

use ureq::unversioned::transport::Connector;

use crate::{
    error::{Error, ErrorKind, Result},
    http::options::HttpOptions,
};

/// Without TLS there is nothing to say about certificates.
#[derive(Default)]
pub(crate) struct Tls {}

impl Tls {
    pub(crate) fn new(options: &HttpOptions) -> Result<Tls> {
        if options.ca_certificates.is_some() || options.client_certificate.is_some() {
            let text = "certificates are given, but this build has no TLS (feature `rustls`)";
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        Ok(Tls {})
    }

    pub(crate) fn wrap(inner: impl Connector) -> impl Connector {
        inner
    }
}
