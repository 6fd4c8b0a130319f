//! TLS: certificates of one's own, and aborts through it.

use std::{
    io::{Read, Write},
    net::TcpListener,
};

use super::*;
use crate::{
    AbortController,
    http::ClientCertificate,
    testing::server::{End, Framing, Gate, Request, Stream},
};

#[path = "../../../tests/support/authority.rs"]
mod authority;

use authority::Authority;

impl Authority {
    fn server(
        &self,
        wants_client: bool,
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Server {
        let accept = self.acceptor(wants_client);
        Server::wrapped(move |socket| Ok(Box::new(accept(socket)?) as Box<dyn Stream>), answer)
            .unwrap()
    }

    fn options(&self) -> HttpOptions {
        HttpOptions { ca_certificates: Some(self.pem()), ..options() }
    }

    /// A client that goes through the proxy of this URL, at this address.
    fn through(&self, url: String, address: SocketAddr) -> HttpClient {
        let proxy = ProxyChoice::Url { url: url.into(), except: Vec::new() };
        client_at(HttpOptions { proxy, ..self.options() }, address)
    }
}

/// A request to a server of an authority, and a client that trusts it.
fn secured(
    answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> (Server, HttpClient, HttpRequest) {
    let authority = Authority::new();
    let server = authority.server(false, answer);
    let client = client_at(authority.options(), server.address());
    (server, client, HttpRequest::get("https://api.test/"))
}

#[test]
fn a_connection_over_tls_is_used_again() {
    let (server, client, request) = secured(|_| Response::events(["data: 1\n\n", "data: 2\n\n"]));
    for _ in 0..3 {
        assert_eq!(text(send(&client, &request)), "data: 1\n\ndata: 2\n\n");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_large_body_goes_through_tls_in_both_directions() {
    let (_server, client, request) = secured(|request| Response::new(200).text(request.text()));
    let body = "0123456789".repeat(100_000);
    let request = HttpRequest::post(request.url, body.clone());
    assert!(text(send(&client, &request)) == body);
}

#[test]
fn an_event_over_tls_is_readable_at_once() {
    let gate = Gate::new();
    let held = gate.clone();
    let (_server, client, request) =
        secured(move |_| Response::events(["data: 1\n\n"]).chunk_behind(&held, "data: 2\n\n"));
    let reports = start(&client, request, &AbortSignal::never());
    expect_report(&reports, &piece("data: 1\n\n"));
    gate.open();
    expect_report(&reports, &piece("data: 2\n\n"));
    expect_report(&reports, &Report::End(Ok(())));
}

#[track_caller]
fn check_abort(response: Response) {
    let first = !response.chunks.is_empty();
    let (server, client, request) = secured(move |_| response.clone());
    let controller = AbortController::new();
    let reports = start(&client, request, &controller.signal());
    if first {
        expect_report(&reports, &piece("first"));
    } else {
        assert!(server.wait_for_requests(1, LIMIT));
    }
    controller.abort();
    expect_report(&reports, &ABORTED);
}

#[test]
fn a_body_over_tls_that_stands_still_is_aborted() {
    for framing in [Framing::Chunked, Framing::Length, Framing::Close] {
        let response = Response { extra_length: 100, ..Response::new(200) };
        check_abort(response.chunk("first").framing(framing).end(End::Hang));
    }
}

#[test]
fn a_wait_for_headers_over_tls_is_aborted() {
    check_abort(Response::hang());
}

#[test]
fn an_idle_limit_holds_over_tls() {
    let authority = Authority::new();
    let server = authority.server(false, |_| Response::new(200).chunk("half").end(End::Hang));
    let limited =
        HttpOptions { idle_timeout: Some(Duration::from_millis(50)), ..authority.options() };
    let client = client_at(limited, server.address());
    let error = failure(&client, &HttpRequest::get("https://api.test/"));
    assert_eq!(error.to_string(), "api.test sent nothing more within 0.05 s");
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    let server = Authority::new().server(false, |_| Response::new(200));
    for trusted in [options(), Authority::new().options()] {
        let client = client_at(trusted, server.address());
        let error = failure(&client, &HttpRequest::get("https://api.test/"));
        let text = error.to_string();
        assert!(text.starts_with("cannot connect to api.test: "), "{text}");
        assert!(text.contains("certificate"), "{text}");
        assert_eq!(error.kind(), ErrorKind::Network);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let server = authority.server(false, |_| Response::new(200));
    let client = client_at(authority.options(), server.address());
    let error = failure(&client, &HttpRequest::get("https://other.test/"));
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn a_server_may_ask_for_a_certificate_of_the_client() {
    let authority = Authority::new();
    let server = authority.server(true, |_| Response::new(200).text("known"));
    let (certificate, key) = authority.sign("client.test");
    let known = HttpOptions {
        client_certificate: Some(ClientCertificate {
            chain: certificate.pem(),
            key: key.serialize_pem().into(),
        }),
        ..authority.options()
    };
    let request = HttpRequest::get("https://api.test/");
    assert_eq!(text(send(&client_at(known, server.address()), &request)), "known");
    let unknown = client_at(authority.options(), server.address());
    assert_eq!(failure(&unknown, &request).kind(), ErrorKind::Network);
}

#[track_caller]
fn check_refused(options: HttpOptions, text: &str) {
    let error = HttpClient::new(options).unwrap_err();
    assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Configuration, text));
}

#[test]
fn a_certificate_that_cannot_be_read_is_refused_before_the_first_request() {
    let with = |chain: &str, key: &str| HttpOptions {
        client_certificate: Some(ClientCertificate { chain: chain.into(), key: key.into() }),
        ..options()
    };
    let pem = Authority::new().pem();
    let authority = HttpOptions { ca_certificates: Some("nonsense".into()), ..options() };
    check_refused(authority, "the certificate of an authority is no PEM text: none found in it");
    check_refused(
        with("nonsense", ""),
        "the certificate of the client is no PEM text: none found in it",
    );
    check_refused(with(&pem, "nonsense"), "the key of the client is no PEM text");
}

#[cfg(feature = "rustls")]
#[test]
fn a_key_that_belongs_to_another_certificate_is_a_mistake_of_the_program() {
    let authority = Authority::new();
    let server = authority.server(false, |_| Response::new(200));
    let (certificate, _) = authority.sign("client.test");
    let mixed = HttpOptions {
        client_certificate: Some(ClientCertificate {
            chain: certificate.pem(),
            key: rcgen::KeyPair::generate().unwrap().serialize_pem().into(),
        }),
        ..authority.options()
    };
    let client = client_at(mixed, server.address());
    let error = failure(&client, &HttpRequest::get("https://api.test/"));
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[test]
fn a_request_over_tls_goes_through_a_proxy_that_sees_nothing_of_it() {
    let authority = Authority::new();
    let server = authority.server(false, |_| Response::events(["data: 1\n\n"]));
    let (address, asked) = proxy::proxy_to(server.address(), proxy::connect);
    let client = authority.through(format!("http://{address}"), address);
    let request = HttpRequest::get("https://api.test/x").header("authorization", "Bearer secret");
    for _ in 0..2 {
        assert_eq!(text(send(&client, &request)), "data: 1\n\n");
    }
    let head = asked.recv_timeout(LIMIT).unwrap();
    assert!(head.starts_with("CONNECT api.test:443 HTTP/1.1\r\n"), "{head}");
    assert!(!head.contains("secret"), "{head}");
    assert_eq!((server.connections(), asked.len()), (1, 0));
}

#[test]
fn a_proxy_is_asked_over_tls_where_its_url_says_so() {
    let authority = Authority::new();
    let proxy = authority.server(false, |_| Response::new(403));
    let url = format!("https://user:word@api.test:{}", proxy.address().port());
    let client = authority.through(url, proxy.address());
    let request =
        HttpRequest::get("https://elsewhere.test/x").header("authorization", "Bearer key");
    let error = failure(&client, &request);
    assert!(error.to_string().contains("403"), "{error}");
    let asked = &proxy.requests()[0];
    assert_eq!((&*asked.method, &*asked.path), ("CONNECT", "elsewhere.test:443"));
    assert!(asked.header("proxy-authorization").is_some());
    assert_eq!(asked.header("authorization"), None);
}

#[test]
fn an_abort_goes_through_tls_and_a_proxy() {
    let authority = Authority::new();
    let server = authority.server(false, |_| {
        Response::new(200).chunk("first").framing(Framing::Close).end(End::Hang)
    });
    let (address, _asked) = proxy::proxy_to(server.address(), proxy::connect);
    let client = authority.through(format!("http://{address}"), address);
    let controller = AbortController::new();
    let reports = start(&client, HttpRequest::get("https://api.test/"), &controller.signal());
    expect_report(&reports, &piece("first"));
    controller.abort();
    expect_report(&reports, &ABORTED);
}

#[cfg(feature = "rustls")]
#[test]
fn a_server_without_tls_is_told_as_such() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let peer = move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    };
    crate::thread::spawn("test-peer", peer).unwrap();
    let error = failure(&client(), &HttpRequest::get(format!("https://{address}/")));
    let text = error.to_string();
    assert!(text.ends_with(": it does not speak TLS, use http:// if that is meant"), "{text}");
}
