//! Bodies in both directions: pieces, framings, limits, compression, and what becomes of the connection.

use std::io::{Read, Write};

use flate2::{Compression, write::GzEncoder};

use super::*;
use crate::{
    http::Body,
    testing::server::{End, Framing, Gate},
};

#[test]
fn a_request_arrives_as_it_was_made() {
    let server = Server::start([Response::new(200).text("ok")]).unwrap();
    let request = HttpRequest::post(format!("{}/v1/x?beta=true", server.url()), "{\"a\":1}")
        .header("Content-Type", "application/json")
        .header("X-First", "1")
        .header("x-second", "2");
    assert_eq!(text(send(&client(), &request)), "ok");
    let arrived = server.requests().remove(0);
    assert_eq!((&*arrived.method, &*arrived.path), ("POST", "/v1/x?beta=true"));
    assert_eq!(arrived.text(), "{\"a\":1}");
    let own: Vec<_> =
        arrived.headers.iter().filter(|(name, _)| name.starts_with("x-")).cloned().collect();
    assert_eq!(own, [("x-first".into(), "1".into()), ("x-second".into(), "2".into())]);
    assert_eq!(arrived.header("content-length"), Some("7"));
    assert_eq!(arrived.header("user-agent"), Some(&*options().user_agent));
}

#[test]
fn a_body_of_shared_pieces_is_sent_with_its_length() {
    let piece: Arc<[u8]> = vec![b'x'; 100_000].into();
    let mut body = Body::new();
    for _ in 0..3 {
        body.push(piece.clone());
        body.push(&b""[..]);
        body.push(&b","[..]);
    }
    let server = Server::start([Response::new(200)]).unwrap();
    send(&client(), &HttpRequest::post(server.url(), body.clone())).finish();
    let arrived = server.requests().remove(0);
    assert_eq!(arrived.header("content-length"), Some("300003"));
    assert_eq!(arrived.header("transfer-encoding"), None);
    let mut expected = Vec::new();
    body.reader().read_to_end(&mut expected).unwrap();
    assert!(arrived.body == expected);
}

#[test]
fn an_empty_post_says_that_it_is_empty() {
    let server = Server::start([Response::new(200).text("ok")]).unwrap();
    assert_eq!(text(send(&client(), &HttpRequest::post(server.url(), ""))), "ok");
    assert_eq!(server.requests()[0].header("content-length"), Some("0"));
}

#[test]
fn a_get_and_a_delete_have_no_body() {
    let server =
        Server::start([Response::new(200).text("ok"), Response::new(200).text("ok")]).unwrap();
    let client = client();
    for method in [crate::http::Method::Get, crate::http::Method::Delete] {
        let request = HttpRequest { method, ..get(&server, "/") };
        assert_eq!(text(send(&client, &request)), "ok");
    }
    for arrived in server.requests() {
        assert_eq!(arrived.header("content-length"), None);
        assert_eq!(arrived.header("transfer-encoding"), None);
    }
}

#[test]
fn each_piece_is_readable_as_soon_as_it_is_there() {
    let (one, two) = (Gate::new(), Gate::new());
    let response = Response::events(["data: 1\n\n"])
        .chunk_behind(&one, "data: 2\n\n")
        .chunk_behind(&two, "data: 3\n\n");
    let server = Server::start([response]).unwrap();
    let reports = start(&client(), get(&server, "/"), &AbortSignal::never());
    expect_report(&reports, &piece("data: 1\n\n"));
    one.open();
    expect_report(&reports, &piece("data: 2\n\n"));
    two.open();
    expect_report(&reports, &piece("data: 3\n\n"));
    expect_report(&reports, &Report::End(Ok(())));
}

#[test]
fn bytes_that_are_here_are_told_before_they_are_read() {
    let server = Server::start([Response::new(200).text("abcdef")]).unwrap();
    let mut response = send(&client(), &get(&server, "/"));
    assert!(!response.more_is_ready());
    assert_eq!(response.fill().unwrap(), b"abcdef");
    response.consume(2);
    assert!(response.more_is_ready());
    let mut rest = String::new();
    response.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "cdef");
    assert!(!response.more_is_ready());
}

/// Sends two requests; the first answer is read by `read`.
#[track_caller]
fn check_reuse(first: Response, read: impl FnOnce(HttpResponse), connections: usize) {
    let server = Server::start([first, Response::new(200).text("second")]).unwrap();
    let client = client();
    read(send(&client, &get(&server, "/1")));
    assert_eq!(text(send(&client, &get(&server, "/2"))), "second");
    assert_eq!(server.connections(), connections);
}

#[test]
fn a_connection_is_used_again_after_a_whole_body() {
    check_reuse(Response::new(200).text("first"), |it| drop(text(it)), 1);
    check_reuse(Response::events(["a", "b"]), |it| drop(text(it)), 1);
}

#[test]
fn a_connection_is_not_used_again_when_an_answer_is_dropped_before_its_end() {
    check_reuse(Response::events(["a", "b"]), drop, 2);
}

#[test]
fn finishing_an_answer_keeps_the_connection() {
    check_reuse(
        Response::events(["data: [DONE]\n\n"]),
        |mut it| {
            let amount = it.fill().unwrap().len();
            it.consume(amount);
            it.finish();
        },
        1,
    );
}

#[test]
fn finishing_gives_up_on_a_server_that_does_not_end() {
    check_reuse(Response::events(["data: [DONE]\n\n"]).end(End::Hang), HttpResponse::finish, 2);
}

#[test]
fn finishing_gives_up_on_a_long_rest() {
    check_reuse(Response::new(200).text("x".repeat(1 << 20)), HttpResponse::finish, 2);
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_compressed_body_is_unpacked_and_its_connection_kept() {
    let packed = Response::new(200).header("content-encoding", "gzip").chunk(gzip("hello"));
    for framing in [Framing::Chunked, Framing::Length] {
        check_reuse(packed.clone().framing(framing), |it| assert_eq!(text(it), "hello"), 1);
    }
}

#[test]
fn an_event_of_a_compressed_stream_is_readable_once_the_server_flushes() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"data: 1\n\n").unwrap();
    encoder.flush().unwrap();
    let first = std::mem::take(encoder.get_mut());
    encoder.write_all(b"data: 2\n\n").unwrap();
    let second = encoder.finish().unwrap();
    let gate = Gate::new();
    let response = Response::new(200)
        .header("content-encoding", "gzip")
        .chunk(first)
        .chunk_behind(&gate, second);
    let server = Server::start([response]).unwrap();
    let reports = start(&client(), get(&server, "/"), &AbortSignal::never());
    expect_report(&reports, &piece("data: 1\n\n"));
    gate.open();
    expect_report(&reports, &piece("data: 2\n\n"));
}

#[test]
fn a_body_above_the_limit_is_an_error_even_if_it_was_small_on_the_wire() {
    let packed =
        Response::new(200).header("content-encoding", "gzip").chunk(gzip(&"x".repeat(1 << 20)));
    let server = Server::start([packed]).unwrap();
    let client = HttpClient::new(HttpOptions { max_body_bytes: 1 << 16, ..options() }).unwrap();
    let error = failure(&client, &get(&server, "/"));
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn a_reader_with_a_limit_of_its_own_stops_there() {
    let server = Server::start([Response::new(200).text("x".repeat(100))]).unwrap();
    let error = send(&client(), &get(&server, "/")).read_to_limit(99).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn a_head_without_end_is_an_error() {
    let server = Server::start([Response::new(200).header("x-long", "y".repeat(40_000))]).unwrap();
    assert_eq!(failure(&client(), &get(&server, "/")).kind(), ErrorKind::Limit);
}

#[test]
fn the_body_of_a_failed_request_is_read_up_to_its_limit() {
    let server = Server::start([Response::new(400).text("x".repeat(1000))]).unwrap();
    let client = HttpClient::new(HttpOptions { max_error_bytes: 10, ..options() }).unwrap();
    let mut response = send(&client, &get(&server, "/"));
    assert_eq!(response.error_text().unwrap(), "x".repeat(10));
}

#[test]
fn the_body_of_a_failed_request_may_break_off() {
    let cut = Response::new(500).chunk("half").end(End::Destroy);
    let server = Server::start([cut]).unwrap();
    assert_eq!(send(&client(), &get(&server, "/")).error_text().unwrap(), "half");
}

#[test]
fn headers_are_told_in_lower_case() {
    let server = Server::start([Response::new(204).header("Request-Id", "r1")]).unwrap();
    let response = send(&client(), &get(&server, "/"));
    assert_eq!(response.status(), 204);
    assert_eq!(response.header("Request-ID"), Some("r1"));
    assert!(response.headers().contains(&("request-id".into(), "r1".into())));
}

#[test]
fn a_rewriting_client_asks_elsewhere_on_the_same_connections() {
    let server = Server::answering(|_| Response::new(200).text("ok")).unwrap();
    let plain = client();
    let url = server.url();
    let rewriting = plain.rewriting(move |asked| asked.replace("https://api.test", &url));
    assert_eq!(text(send(&rewriting, &HttpRequest::get("https://api.test/v1?x=1"))), "ok");
    assert_eq!(text(send(&plain, &get(&server, "/v2"))), "ok");
    let paths: Vec<_> = server.requests().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["/v1?x=1", "/v2"]);
    assert_eq!(server.connections(), 1);
}

#[test]
fn the_client_of_the_process_is_one() {
    let server = Server::answering(|_| Response::new(200).text("ok")).unwrap();
    for _ in 0..2 {
        assert_eq!(text(send(&HttpClient::shared(), &get(&server, "/"))), "ok");
    }
    assert_eq!(server.connections(), 1);
}
