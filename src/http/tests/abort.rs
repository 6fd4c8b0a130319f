//! An abort ends a request in every state that it can be blocked in, and touches no other.

use std::{
    io::Read,
    net::{TcpListener, TcpStream},
};

use crossbeam_channel::bounded;

use super::*;
use crate::{
    AbortController,
    testing::server::{Behavior, End, Framing, Gate},
};

/// Starts a request, waits for `reached` and aborts: the request must return, as aborted.
#[track_caller]
fn check(client: &HttpClient, request: HttpRequest, reached: impl FnOnce(&Receiver<Report>)) {
    let controller = AbortController::new();
    let reports = start(client, request, &controller.signal());
    reached(&reports);
    controller.abort();
    expect_report(&reports, &ABORTED);
}

/// An answer that stands still after its first piece.
fn stalled(framing: Framing) -> Response {
    Response { extra_length: 100, ..Response::new(200) }
        .chunk("first")
        .framing(framing)
        .end(End::Hang)
}

#[track_caller]
fn check_stalled_body(framing: Framing) {
    let server = Server::start([stalled(framing)]).unwrap();
    check(&client(), get(&server, "/"), |reports| expect_report(reports, &piece("first")));
    assert!(server.wait_for_closed(1, LIMIT));
}

#[test]
fn a_chunked_body_that_stands_still_is_aborted() {
    check_stalled_body(Framing::Chunked);
}

#[test]
fn a_body_of_known_length_that_stands_still_is_aborted() {
    check_stalled_body(Framing::Length);
}

#[test]
fn a_body_without_a_length_that_stands_still_is_aborted_not_ended() {
    check_stalled_body(Framing::Close);
}

#[test]
fn a_wait_for_headers_is_aborted() {
    let server = Server::start([Response::hang()]).unwrap();
    check(&client(), get(&server, "/"), |_| assert!(server.wait_for_requests(1, LIMIT)));
}

#[test]
fn a_name_lookup_is_aborted() {
    let (entered_sender, entered) = bounded(1);
    let (release, released) = bounded::<()>(0);
    let lookup: Lookup = Arc::new(move |_| {
        let _ = entered_sender.send(());
        let _ = released.recv();
        Err(io::Error::other("too late"))
    });
    let client = HttpClient::with_lookup(options(), &lookup).unwrap();
    check(&client, HttpRequest::get("http://api.test/"), |_| entered.recv_timeout(LIMIT).unwrap());
    drop(release);
}

#[test]
fn a_connect_to_a_full_backlog_is_aborted() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        waiting.push(stream);
    }
    let (entered_sender, entered) = bounded(1);
    let lookup: Lookup = Arc::new(move |_| {
        let _ = entered_sender.send(());
        Ok(vec![address])
    });
    let client = HttpClient::with_lookup(options(), &lookup).unwrap();
    check(&client, HttpRequest::get("http://api.test/"), |_| entered.recv_timeout(LIMIT).unwrap());
}

#[cfg(any(feature = "rustls", feature = "native-tls"))]
#[test]
fn a_tls_handshake_that_is_never_answered_is_aborted() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let client = client_at(options(), listener.local_addr().unwrap());
    let mut peer = None;
    check(&client, HttpRequest::get("https://api.test/"), |_| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        peer = Some(stream);
    });
}

#[test]
fn an_upload_that_nobody_reads_is_aborted() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let client = client_at(options(), listener.local_addr().unwrap());
    let mut peer = None;
    check(&client, HttpRequest::post("http://api.test/", vec![7; 16 << 20]), |_| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut vec![0; 1 << 20]).unwrap();
        peer = Some(stream);
    });
}

#[test]
fn a_request_whose_signal_has_fired_uses_no_connection() {
    let server = Server::start([]).unwrap();
    let controller = AbortController::new();
    controller.abort();
    let error = client().send(&get(&server, "/"), &controller.signal()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted);
    assert_eq!(server.connections(), 0);
}

#[test]
fn one_of_sixteen_streams_is_aborted_and_the_others_end() {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        Server::answering(move |_| Response::new(200).chunk("first").chunk_behind(&held, "last"))
            .unwrap();
    let client = client();
    let streams: Vec<_> = (0..16)
        .map(|_| {
            let controller = AbortController::new();
            (start(&client, get(&server, "/"), &controller.signal()), controller)
        })
        .collect();
    for (reports, _) in &streams {
        expect_report(reports, &piece("first"));
    }
    streams[5].1.abort();
    expect_report(&streams[5].0, &ABORTED);
    gate.open();
    for (number, (reports, _)) in streams.iter().enumerate() {
        if number != 5 {
            expect_report(reports, &piece("last"));
            expect_report(reports, &Report::End(Ok(())));
        }
    }
}

#[test]
fn one_signal_aborts_all_its_streams() {
    let server = Server::answering(|_| stalled(Framing::Chunked)).unwrap();
    let client = client();
    let controller = AbortController::new();
    let streams: Vec<_> =
        (0..8).map(|_| start(&client, get(&server, "/"), &controller.signal())).collect();
    for reports in &streams {
        expect_report(reports, &piece("first"));
    }
    controller.abort();
    for reports in &streams {
        expect_report(reports, &ABORTED);
    }
}

#[test]
fn the_signal_of_a_finished_request_does_not_reach_the_next_user_of_its_connection() {
    let gate = Gate::new();
    let server = Server::start([
        Response::new(200).text("one"),
        Response::new(200).chunk("first").chunk_behind(&gate, "last"),
    ])
    .unwrap();
    let client = client();
    let finished = AbortController::new();
    let response = client.send(&get(&server, "/one"), &finished.signal()).unwrap();
    assert_eq!(text(response), "one");
    let reports = start(&client, get(&server, "/two"), &AbortSignal::never());
    expect_report(&reports, &piece("first"));
    finished.abort();
    gate.open();
    expect_report(&reports, &piece("last"));
    expect_report(&reports, &Report::End(Ok(())));
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_connection_is_not_used_again_after_an_abort() {
    let server =
        Server::start([stalled(Framing::Chunked), Response::new(200).text("again")]).unwrap();
    let client = client();
    check(&client, get(&server, "/one"), |reports| expect_report(reports, &piece("first")));
    assert_eq!(text(send(&client, &get(&server, "/two"))), "again");
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_stream_that_moved_to_another_thread_is_aborted_there() {
    let server = Server::start([stalled(Framing::Chunked)]).unwrap();
    let controller = AbortController::new();
    let mut response = client().send(&get(&server, "/"), &controller.signal()).unwrap();
    let (sender, receiver) = bounded(0);
    let reader = move || {
        let amount = response.fill().unwrap().len();
        response.consume(amount);
        sender.send(None).unwrap();
        let _ = sender.send(Some(response.fill().unwrap_err().kind()));
    };
    crate::thread::spawn("test-reader", reader).unwrap();
    assert_eq!(receiver.recv_timeout(LIMIT), Ok(None));
    controller.abort();
    assert_eq!(receiver.recv_timeout(LIMIT), Ok(Some(ErrorKind::Aborted)));
}

#[test]
fn reading_on_for_the_sake_of_the_connection_is_aborted_too() {
    let server = Server::start([stalled(Framing::Chunked)]).unwrap();
    let controller = AbortController::new();
    let mut response = client().send(&get(&server, "/"), &controller.signal()).unwrap();
    assert!(!response.fill().unwrap().is_empty());
    controller.abort();
    response.finish();
    assert!(server.wait_for_closed(1, LIMIT));
}

#[test]
fn a_request_within_a_request_gives_its_thread_back() {
    // The answer of the inner request is asked for while the lookup of the outer one runs elsewhere, so the only thing
    // they share is the thread that sends: here the inner one is sent between two reads of the outer one.
    let server = Server::answering(|request| {
        if request.path == "/outer" {
            stalled(Framing::Chunked)
        } else {
            Response::new(200).text("in")
        }
    })
    .unwrap();
    let client = client();
    let controller = AbortController::new();
    let mut outer = client.send(&get(&server, "/outer"), &controller.signal()).unwrap();
    assert_eq!(outer.fill().unwrap(), b"first");
    assert_eq!(text(send(&client, &get(&server, "/inner"))), "in");
    controller.abort();
    assert_eq!(outer.fill().unwrap_err().kind(), ErrorKind::Aborted);
}

#[test]
fn dropping_an_answer_cancels_its_request() {
    let server = Server::start([stalled(Framing::Chunked)]).unwrap();
    drop(send(&client(), &get(&server, "/")));
    assert!(server.wait_for_closed(1, LIMIT));
}

#[test]
fn a_server_that_closes_before_an_answer_is_no_abort() {
    let server =
        Server::start([Response { behavior: Behavior::CloseBeforeHeaders, ..Response::default() }])
            .unwrap();
    assert_eq!(failure(&client(), &get(&server, "/")).kind(), ErrorKind::Network);
}
