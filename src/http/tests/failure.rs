//! What an error says, and what it never says.

use std::net::{TcpListener, TcpStream};

use super::*;
use crate::{
    Secret,
    testing::server::{End, Framing},
};

/// Fails against a server with one response.
fn failed(options: HttpOptions, response: Response) -> (Error, String) {
    let server = Server::start([response]).unwrap();
    let client = HttpClient::new(options).unwrap();
    let host = server.address().to_string();
    (failure(&client, &get(&server, "/?key=secret-in-query")), host)
}

#[track_caller]
fn check(options: HttpOptions, response: Response, text: &str) {
    let (error, host) = failed(options, response);
    assert_eq!(error.to_string(), text.replace("HOST", &host));
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Network, true));
}

#[test]
fn a_server_that_answers_nothing_is_named() {
    check(options(), Response::close(), "HOST closed the connection without an answer");
}

#[test]
fn a_body_that_is_cut_is_an_error_where_its_length_is_known() {
    let text = "HOST closed the connection in the middle of the answer";
    let cut = Response { extra_length: 10, ..Response::new(200) }.chunk("half").end(End::Destroy);
    check(options(), cut.clone(), text);
    check(options(), cut.framing(Framing::Length), text);
}

#[test]
fn a_reset_is_an_error_also_where_the_length_is_not_known() {
    for framing in [Framing::Chunked, Framing::Length, Framing::Close] {
        let response = Response { extra_length: 10, ..Response::new(200) };
        let reset = response.chunk("half").framing(framing).end(End::Reset);
        let (error, host) = failed_post(reset);
        let begin = format!("the answer of {host} broke off: connection reset");
        assert!(error.to_string().starts_with(&begin), "{error}");
        assert_eq!(error.kind(), ErrorKind::Network);
    }
}

/// A request with a body, of which the server leaves the last byte unread.
fn failed_post(response: Response) -> (Error, String) {
    let server = Server::start([response]).unwrap();
    (failure(&client(), &HttpRequest::post(server.url(), "body")), server.address().to_string())
}

#[test]
fn a_failed_body_does_not_end_when_it_is_read_again() {
    let cut = Response::new(200).chunk("half").end(End::Destroy);
    let server = Server::start([cut]).unwrap();
    let mut response = send(&client(), &get(&server, "/"));
    assert!(response.read_to_limit(100).is_err());
    assert!(response.read_to_limit(100).is_err());
}

#[test]
fn a_server_that_lets_wait_for_the_head_times_out() {
    let options = HttpOptions { first_byte_timeout: Some(Duration::from_millis(50)), ..options() };
    check(options, Response::hang(), "HOST sent no answer within 0.05 s");
}

#[test]
fn a_request_may_have_a_limit_of_its_own_for_the_head() {
    let server = Server::start([Response::hang()]).unwrap();
    let limit = Some(Duration::from_millis(50));
    let request = HttpRequest { first_byte_timeout: limit, ..get(&server, "/") };
    assert!(failure(&client(), &request).to_string().ends_with("sent no answer within 0.05 s"));
}

#[test]
fn a_body_that_stands_still_times_out() {
    let options = HttpOptions { idle_timeout: Some(Duration::from_millis(50)), ..options() };
    let response = Response::new(200).chunk("half").end(End::Hang);
    check(options, response, "HOST sent nothing more within 0.05 s");
}

#[test]
fn the_idle_limit_of_the_body_does_not_hold_for_the_head() {
    let options = HttpOptions {
        idle_timeout: Some(Duration::from_millis(20)),
        first_byte_timeout: Some(LIMIT),
        ..options()
    };
    let late = Response { delay: Duration::from_millis(200), ..Response::new(200) }.text("late");
    let server = Server::start([late]).unwrap();
    let client = HttpClient::new(options).unwrap();
    assert_eq!(text(send(&client, &get(&server, "/"))), "late");
}

#[test]
fn a_body_can_be_read_on_after_a_deadline() {
    let gate = crate::testing::server::Gate::new();
    let server =
        Server::start([Response::new(200).chunk("one").chunk_behind(&gate, "two")]).unwrap();
    let mut response = send(&client(), &get(&server, "/"));
    let amount = response.fill().unwrap().len();
    response.consume(amount);
    response.set_deadline(Some(std::time::Instant::now() + Duration::from_millis(20)));
    let error = response.fill().unwrap_err();
    assert_eq!(error.to_string(), format!("{} sent nothing more", server.address()));
    assert_eq!(error.kind(), ErrorKind::Network);
    response.set_deadline(None);
    gate.open();
    assert_eq!(text(response), "two");
}

#[test]
fn an_upload_that_nobody_reads_times_out() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let options = HttpOptions { idle_timeout: Some(Duration::from_millis(50)), ..options() };
    let client = client_at(options, listener.local_addr().unwrap());
    let error = failure(&client, &HttpRequest::post("http://api.test/", vec![7; 16 << 20]));
    assert_eq!(error.to_string(), "api.test took nothing more of the request within 0.05 s");
}

#[test]
fn a_lookup_that_takes_too_long_times_out() {
    let (release, released) = crossbeam_channel::bounded::<()>(0);
    let lookup: Lookup = Arc::new(move |_| {
        let _ = released.recv();
        Ok(Vec::new())
    });
    let options = HttpOptions { connect_timeout: Some(Duration::from_millis(50)), ..options() };
    let client = HttpClient::with_lookup(options, &lookup).unwrap();
    let error = failure(&client, &HttpRequest::get("http://api.test/"));
    assert_eq!(error.to_string(), "cannot connect to api.test: no connection within 0.05 s");
    assert!(error.is_retryable());
    drop(release);
}

/// An address where nobody listens. It is no port that the system hands out: one that was free a moment ago may be the
/// port of another test by now.
fn refusing() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

#[test]
fn a_refused_connection_is_named_with_its_cause() {
    let error = failure(&client(), &HttpRequest::get(format!("http://{}/", refusing())));
    let begin = format!("cannot connect to {}: connection refused", refusing());
    assert!(error.to_string().starts_with(&begin), "{error}");
    assert!(error.is_retryable());
}

#[test]
fn the_next_address_is_tried_when_the_first_refuses() {
    let server = Server::start([Response::new(200).text("ok")]).unwrap();
    let addresses = vec![refusing(), server.address()];
    let lookup: Lookup = Arc::new(move |_| Ok(addresses.clone()));
    let client = HttpClient::with_lookup(options(), &lookup).unwrap();
    assert_eq!(text(send(&client, &HttpRequest::get("http://api.test/"))), "ok");
}

#[test]
fn the_next_address_is_tried_when_the_first_is_silent() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let silent = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&silent, Duration::from_millis(100)) {
        waiting.push(stream);
    }
    let server = Server::start([Response::new(200).text("ok")]).unwrap();
    let addresses = vec![silent, server.address()];
    let lookup: Lookup = Arc::new(move |_| Ok(addresses.clone()));
    let options = HttpOptions { connect_timeout: Some(Duration::from_secs(3)), ..options() };
    let client = HttpClient::with_lookup(options, &lookup).unwrap();
    assert_eq!(text(send(&client, &HttpRequest::get("http://api.test/"))), "ok");
}

#[test]
fn a_name_that_is_not_found_is_a_network_error() {
    let lookup: Lookup = Arc::new(|_| Ok(Vec::new()));
    let client = HttpClient::with_lookup(options(), &lookup).unwrap();
    let error = failure(&client, &HttpRequest::get("http://api.test/"));
    assert_eq!(error.to_string(), "cannot connect to api.test: host not found");
    assert_eq!(error.kind(), ErrorKind::Network);
}

#[test]
fn what_cannot_be_sent_is_a_mistake_of_the_program() {
    let server = Server::start([]).unwrap();
    let request = get(&server, "/").header("x-broken", "a\nb");
    let error = failure(&client(), &request);
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Configuration, false));
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_header_that_cannot_be_sent_is_named_without_its_value() {
    let server = Server::start([]).unwrap();
    for (name, value, why) in [
        ("authorization", "Bearer sk-broken-1\n", "control character"),
        ("x-api-key", "sk-brökén-1", "not ASCII"),
        ("x-title", "a\r\nb: c", "control character"),
    ] {
        let error = failure(&client(), &get(&server, "/").header(name, value));
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Configuration, false));
        let text = error.to_string();
        assert!(text.starts_with(&format!("the header `{name}` of the request to ")), "{text}");
        assert!(text.contains(why) && !text.contains("sk-"), "{text}");
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_server_that_speaks_something_else_breaks_the_protocol() {
    let (listener, address) = listener();
    let peer = move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").unwrap();
    };
    crate::thread::spawn("test-peer", peer).unwrap();
    let error = failure(&client(), &HttpRequest::get(format!("http://{address}/")));
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Protocol, false), "{error}");
}

fn listener() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn a_header_that_sounds_like_a_key_is_one() {
    let request = HttpRequest::get("").header("x-mine", "1").secret_header("X-Own", &"2".into());
    for name in ["Authorization", "cf-aig-authorization", "X-API-Key", "x-amz-security-token"] {
        assert!(request.is_secret(name), "{name}");
    }
    assert!(request.is_secret("x-own"));
    for name in ["x-mine", "content-type", "anthropic-beta", "session-id", "user-agent"] {
        assert!(!request.is_secret(name), "{name}");
    }
}

#[test]
fn a_password_is_taken_out_of_a_text_too() {
    let server = Server::start([Response::new(401).text("no user me with hunter22")]).unwrap();
    let request = get(&server, "/").header("authorization", "Basic bWU6aHVudGVyMjI=");
    assert_eq!(send(&client(), &request).error_text().unwrap(), "no user me with ***");
}

#[test]
fn no_text_shows_a_key() {
    let key = Secret::new("sk-very-secret-123");
    let server = Server::start([
        Response::new(401).text("wrong key sk-very-secret-123, or sk%2Dvery? no"),
        Response::close(),
    ])
    .unwrap();
    let request = HttpRequest::post(format!("{}/?key=sk-very-secret-123", server.url()), "{}")
        .header("authorization", "Bearer sk-very-secret-123")
        .secret_header("x-own-key", &key);
    let client = client();
    let mut response = send(&client, &request);
    assert_eq!(response.error_text().unwrap(), "wrong key ***, or sk%2Dvery? no");
    let error = failure(&client, &request);
    let shown = format!("{error} {error:?} {request:?} {response:?} {client:?}");
    assert!(!shown.contains("very-secret"), "{shown}");
}
