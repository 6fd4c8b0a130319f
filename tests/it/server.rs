//! The scripted server, as tests of other programs use it.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

use steerage::testing::server::{Chunk, End, Framing, Gate, Response, Server};

/// How long a test waits for something that must happen.
const LIMIT: Duration = Duration::from_secs(30);

fn send(server: &Server, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn rest(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What a server with one response sends until it closes the connection.
#[track_caller]
fn check(response: Response, expected: &str) {
    let server = Server::start([response]).unwrap();
    let answer = rest(send(&server, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n"));
    assert_eq!(answer, expected.replace('\n', "\r\n"));
}

#[test]
fn a_body_is_framed_as_told() {
    let response = Response { reason: "OK".into(), ..Response::new(200) }
        .header("X-One", "1")
        .chunk("ab")
        .chunk("cde");
    check(
        response.clone(),
        "HTTP/1.1 200 OK\nX-One: 1\ntransfer-encoding: chunked\n\n2\nab\n3\ncde\n0\n\n",
    );
    check(
        response.clone().framing(Framing::Length),
        "HTTP/1.1 200 OK\nX-One: 1\ncontent-length: 5\n\nabcde",
    );
    check(
        Response { extra_length: 7, ..response.clone().framing(Framing::Length) },
        "HTTP/1.1 200 OK\nX-One: 1\ncontent-length: 12\n\nabcde",
    );
    check(
        response.clone().framing(Framing::Close),
        "HTTP/1.1 200 OK\nX-One: 1\nconnection: close\n\nabcde",
    );
    check(
        Response { split_every: Some(4), ..response.clone() },
        "HTTP/1.1 200 OK\nX-One: 1\ntransfer-encoding: chunked\n\n4\nabcd\n1\ne\n0\n\n",
    );
    check(
        response.end(End::Destroy),
        "HTTP/1.1 200 OK\nX-One: 1\ntransfer-encoding: chunked\n\n2\nab\n3\ncde\n",
    );
    check(Response::close(), "");
}

#[test]
fn requests_are_kept_in_order_with_their_bodies() {
    let server =
        Server::start([Response::new(200).text("1"), Response::new(200).text("2")]).unwrap();
    let stream = send(
        &server,
        "POST /a?b=c HTTP/1.1\r\nX-B: 1\r\nx-a:2\r\ncontent-length: 3\r\n\r\nabc\
         PUT /d HTTP/1.1\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n2\r\nxy\r\n1\r\nz\r\n0\r\n\r\n",
    );
    assert!(rest(stream).ends_with('2'));
    let requests = server.requests();
    let shown: Vec<_> =
        requests.iter().map(|it| (&*it.method, &*it.path, it.text(), it.connection)).collect();
    assert_eq!(shown, [("POST", "/a?b=c", "abc".into(), 1), ("PUT", "/d", "xyz".into(), 1)]);
    assert_eq!(requests[0].headers[..2], [("X-B".into(), "1".into()), ("x-a".into(), "2".into())]);
    assert_eq!((server.connections(), server.unused()), (1, 0));
}

#[test]
fn a_script_that_is_at_its_end_answers_with_an_error() {
    let server = Server::start([]).unwrap();
    let answer = rest(send(&server, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
}

#[test]
fn a_gate_holds_a_chunk_back() {
    let gate = Gate::new();
    let server = Server::start([Response::new(200).chunk("a").chunk_behind(&gate, "b")]).unwrap();
    let mut stream = send(&server, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n");
    let mut begin = Vec::new();
    while !begin.ends_with(b"a\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        begin.push(byte[0]);
    }
    gate.open();
    assert_eq!(rest(stream), "1\r\nb\r\n0\r\n\r\n");
}

#[test]
fn a_chunk_may_wait_for_a_time() {
    let late = Chunk { delay: Duration::from_millis(5), ..Chunk::new("late") };
    let response = Response { chunks: vec![late], ..Response::new(200) };
    check(response.framing(Framing::Length), "HTTP/1.1 200 \ncontent-length: 4\n\nlate");
}

#[test]
fn a_reset_is_seen_as_one() {
    let server = Server::start([Response::new(200).chunk("a").end(End::Reset)]).unwrap();
    let mut stream = send(&server, "GET / HTTP/1.1\r\n\r\n");
    let error = stream.read_to_string(&mut String::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn dropping_the_server_ends_its_connections() {
    let gate = Gate::new();
    let server = Server::start([
        Response::hang(),
        Response::new(200).chunk("a").end(End::Hang),
        Response::new(200).chunk_behind(&gate, "never"),
    ])
    .unwrap();
    let streams = [(); 3].map(|()| send(&server, "GET / HTTP/1.1\r\n\r\n"));
    assert!(server.wait_for_requests(3, LIMIT));
    let idle = TcpStream::connect(server.address()).unwrap();
    drop(server);
    for mut stream in streams.into_iter().chain([idle]) {
        // Closed or reset, but not open.
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

#[test]
fn a_connection_that_the_other_side_closes_is_counted() {
    let server = Server::start([Response::hang()]).unwrap();
    let stream = send(&server, "GET / HTTP/1.1\r\n\r\n");
    assert!(server.wait_for_requests(1, LIMIT));
    drop(stream);
    assert!(server.wait_for_closed(1, LIMIT));
}
