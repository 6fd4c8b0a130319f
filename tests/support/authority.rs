//! A certificate authority for servers on the loopback interface.

use std::{io, net::TcpStream, sync::Arc};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};

/// The name of every server that an [`Authority`] signs for.
pub(crate) const NAME: &str = "api.test";

/// An authority that signs what the tests need.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Makes an authority that nobody knows yet.
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority { issuer: CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    /// Returns its own certificate, for those who shall trust it.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Returns a certificate for `name` and its key.
    pub(crate) fn sign(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Returns what puts TLS on the connections of a server; `wants_client` makes it ask for a certificate in return.
    pub(crate) fn acceptor(
        &self,
        wants_client: bool,
    ) -> impl Fn(TcpStream) -> io::Result<StreamOwned<ServerConnection, TcpStream>> + use<> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if wants_client {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let (certificate, key) = self.sign(NAME);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![certificate.der().clone()];
        let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
        move |mut socket| {
            let mut connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
            connection.complete_io(&mut socket)?;
            Ok(StreamOwned::new(connection, socket))
        }
    }
}
