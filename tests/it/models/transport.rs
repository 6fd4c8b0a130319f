//! Certificates and proxies, as a program sets them.

use std::sync::Arc;

use steerage::{
    AbortSignal, ErrorKind, Models,
    models::{ModelsOptions, Provider},
    provider::{ClientCertificate, HttpClient, HttpOptions, ProxyChoice},
    testing::{
        clock::RecordingClock,
        http::Lookup,
        server::{Response, Server, Stream},
    },
};

#[path = "../../support/authority.rs"]
mod authority;

use authority::{Authority, NAME};

/// A server that wants to see a certificate, signed by the authority.
fn strict_server(authority: &Authority) -> Server {
    let accept = authority.acceptor(true);
    let wrap = move |socket| Ok(Box::new(accept(socket)?) as Box<dyn Stream>);
    Server::wrapped(wrap, |_| Response::json(200, r#"{"data": [{"id": "m"}]}"#)).unwrap()
}

/// A registry whose client reaches the server under its name.
fn models(options: HttpOptions, server: &Server) -> Models {
    let address = server.address();
    let lookup: Lookup = Arc::new(move |_| Ok(vec![address]));
    let options = HttpOptions { proxy: ProxyChoice::Direct, ..options };
    let client = HttpClient::with_lookup(options, &lookup).unwrap();
    let clock = Arc::new(RecordingClock::default());
    let models = Models::with_options(ModelsOptions { client, clock, ..ModelsOptions::default() });
    models.add(Provider::new("desk", format!("https://{NAME}/v1")));
    models
}

#[test]
fn an_authority_and_a_client_certificate_of_ones_own_are_used() {
    let authority = Authority::new();
    let server = strict_server(&authority);
    let (certificate, key) = authority.sign("client.test");
    let own = ClientCertificate { chain: certificate.pem(), key: key.serialize_pem().into() };
    let ca_certificates = Some(authority.pem());
    let known = HttpOptions {
        ca_certificates: ca_certificates.clone(),
        client_certificate: Some(own.clone()),
        ..HttpOptions::default()
    };
    let listed = models(known, &server).refresh("desk", &AbortSignal::never()).unwrap();
    assert_eq!(listed[0].id, "m");
    let without_authority = HttpOptions { client_certificate: Some(own), ..HttpOptions::default() };
    let without_certificate = HttpOptions { ca_certificates, ..HttpOptions::default() };
    for options in [without_authority, without_certificate] {
        let error = models(options, &server).refresh("desk", &AbortSignal::never()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Network);
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_proxy_of_ones_own_is_asked_for_the_way() {
    let proxy = Server::answering(|_| Response::new(403)).unwrap();
    let choice =
        ProxyChoice::Url { url: proxy.url().into(), except: vec!["direct.test".to_owned()] };
    let client = HttpClient::new(HttpOptions { proxy: choice, ..HttpOptions::default() }).unwrap();
    let clock = Arc::new(RecordingClock::default());
    let models = Models::with_options(ModelsOptions { client, clock, ..ModelsOptions::default() });
    models.add(Provider::new("desk", "https://desk.test/v1"));
    models.refresh("desk", &AbortSignal::never()).unwrap_err();
    let asked = &proxy.requests()[0];
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("CONNECT", "desk.test:443"));
}
