//! The HTTP layer against scripted servers on the loopback interface.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use crossbeam_channel::{Receiver, unbounded};

use crate::{
    AbortSignal, Error, ErrorKind,
    http::{HttpClient, HttpOptions, HttpRequest, HttpResponse, ProxyChoice, connect::Lookup},
    testing::server::{Response, Server},
};

mod abort;
mod body;
mod failure;
mod proxy;
mod redirect;
mod retry;
#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod tls;
mod url;

/// How long a test waits for something that must happen: a bound for failures, not a measure.
const LIMIT: Duration = Duration::from_secs(30);

fn options() -> HttpOptions {
    HttpOptions { proxy: ProxyChoice::Direct, ..HttpOptions::default() }
}

fn client() -> HttpClient {
    HttpClient::new(options()).unwrap()
}

/// A client that finds every host at `address`.
fn client_at(options: HttpOptions, address: SocketAddr) -> HttpClient {
    let lookup: Lookup = Arc::new(move |_| Ok(vec![address]));
    HttpClient::with_lookup(options, &lookup).unwrap()
}

fn get(server: &Server, path: &str) -> HttpRequest {
    HttpRequest::get(format!("{}{path}", server.url()))
}

fn send(client: &HttpClient, request: &HttpRequest) -> HttpResponse {
    client.send(request, &AbortSignal::never()).unwrap()
}

fn text(mut response: HttpResponse) -> String {
    String::from_utf8(response.read_to_limit(u64::MAX).unwrap()).unwrap()
}

fn failure(client: &HttpClient, request: &HttpRequest) -> Error {
    let response = client.send(request, &AbortSignal::never());
    response.and_then(|mut it| it.read_to_limit(u64::MAX).map(drop)).unwrap_err()
}

/// What a request on a thread of its own reports.
#[derive(Debug, PartialEq, Eq)]
enum Report {
    Piece(String),
    End(Result<(), ErrorKind>),
}

/// Sends a request on a thread of its own and reports each piece of the answer.
fn start(client: &HttpClient, request: HttpRequest, signal: &AbortSignal) -> Receiver<Report> {
    let (sender, receiver) = unbounded();
    let (client, signal) = (client.clone(), signal.clone());
    let body = move || {
        let report = |report| drop(sender.send(report));
        let result = client.send(&request, &signal).and_then(|mut response| {
            loop {
                let piece = response.fill()?;
                if piece.is_empty() {
                    return Ok(());
                }
                let text = String::from_utf8_lossy(piece).into_owned();
                let amount = piece.len();
                response.consume(amount);
                report(Report::Piece(text));
            }
        });
        report(Report::End(result.map_err(|error| error.kind())));
    };
    crate::thread::spawn("test-request", body).unwrap();
    receiver
}

#[track_caller]
fn expect_report(reports: &Receiver<Report>, expected: &Report) {
    assert_eq!(&reports.recv_timeout(LIMIT).expect("nothing was reported"), expected);
}

fn piece(text: &str) -> Report {
    Report::Piece(text.to_owned())
}

const ABORTED: Report = Report::End(Err(ErrorKind::Aborted));
