//! TLS as it is built in: by rustls, or else by the library of the system.

#[cfg(not(feature = "rustls"))]
use ureq::unversioned::transport::NativeTlsConnector as TlsConnector;
#[cfg(feature = "rustls")]
use ureq::unversioned::transport::RustlsConnector as TlsConnector;
use ureq::{
    tls::{
        Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsConfigBuilder,
        TlsProvider, parse_pem,
    },
    unversioned::transport::{Connector, Transport},
};

use crate::{
    error::{Error, ErrorKind, Result},
    http::options::{ClientCertificate, HttpOptions},
};

const PROVIDER: TlsProvider =
    if cfg!(feature = "rustls") { TlsProvider::Rustls } else { TlsProvider::NativeTls };

/// What the options say about certificates, read and checked.
pub(crate) struct Tls {
    pub(crate) config: TlsConfig,
}

impl Tls {
    pub(crate) fn new(options: &HttpOptions) -> Result<Tls> {
        let mut builder = usual();
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
        Ok(Tls { config: builder.build() })
    }

    pub(crate) fn wrap<In: Transport, C: Connector<(), Out = In>>(inner: C) -> impl Connector {
        inner.chain(TlsConnector::default())
    }
}

impl Default for Tls {
    fn default() -> Tls {
        Tls { config: usual().build() }
    }
}

/// Begins with what holds where the options say nothing. The system's own library knows the system's authorities.
fn usual() -> TlsConfigBuilder {
    let roots = if cfg!(feature = "platform-verifier") || PROVIDER == TlsProvider::NativeTls {
        RootCerts::PlatformVerifier
    } else {
        RootCerts::WebPki
    };
    TlsConfig::builder().provider(PROVIDER).root_certs(roots)
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
