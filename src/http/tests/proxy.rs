//! Proxies: which is chosen, and requests through one.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    thread::JoinHandle,
};

use crossbeam_channel::Sender;

use super::*;
use crate::{
    AbortController,
    http::{proxy::Proxies, url::parse},
    testing::server::{End, Framing},
};

/// Chooses the proxy for `url` with an environment of these variables.
#[track_caller]
fn check(variables: &[(&str, &str)], url: &str, expected: Option<&str>) {
    let proxies = Proxies::from_environment(|name| {
        let found = variables.iter().find(|(it, _)| *it == name);
        found.map(|(_, value)| (*value).to_owned())
    });
    let chosen = proxies.select(&parse(url).unwrap()).map(|it| it.url.expose().to_owned());
    assert_eq!(chosen.as_deref(), expected, "{url} with {variables:?}");
}

#[test]
fn each_scheme_has_its_variable() {
    let both = [("http_proxy", "http://p"), ("HTTPS_PROXY", "http://s")];
    check(&both, "http://a.test", Some("http://p"));
    check(&both, "https://a.test", Some("http://s"));
    check(&both[..1], "https://a.test", None);
    check(&[("ALL_PROXY", "socks5://q")], "https://a.test", Some("socks5://q"));
    check(
        &[("all_proxy", "http://q"), ("https_proxy", "http://s")],
        "https://a.test",
        Some("http://s"),
    );
    check(&[], "https://a.test", None);
}

#[test]
fn the_machine_itself_is_asked_directly() {
    for url in
        ["http://localhost:11434", "http://127.0.0.1:1", "http://[::1]:1", "http://127.8.8.8"]
    {
        check(&[("ALL_PROXY", "http://p")], url, None);
    }
}

#[test]
fn exceptions_cover_names_ports_and_networks() {
    let spared = |no_proxy: &str, url: &str, expected: bool| {
        let variables = [("https_proxy", "http://p"), ("no_proxy", no_proxy)];
        check(&variables, url, (!expected).then_some("http://p"));
    };
    spared("*", "https://a.test", true);
    spared("b.test, a.test", "https://a.test", true);
    spared("b.test a.test", "https://A.Test", true);
    spared("a.test", "https://x.a.test", true);
    spared("a.test", "https://xa.test", false);
    spared(".a.test", "https://x.a.test", true);
    spared(".a.test", "https://a.test", true);
    spared("*.a.test", "https://x.a.test", true);
    spared("*.a.test", "https://a.test", false);
    spared("a.test:8443", "https://a.test:8443", true);
    spared("a.test:443", "https://a.test", true);
    spared("a.test:8443", "https://a.test", false);
    spared("10.1.2.3", "https://10.1.2.3", true);
    spared("10.0.0.0/8", "https://10.9.9.9", true);
    spared("10.0.0.0/8", "https://11.0.0.1", false);
    spared("0.0.0.0/0", "https://11.0.0.1", true);
    spared("fd00::/8", "https://[fd12::1]", true);
    spared("[fd12::1]:8443", "https://[fd12::1]:8443", true);
    spared("[fd12::1]:8443", "https://[fd12::1]", false);
    spared("10.0.0.0/8", "https://ten.test", false);
    spared("", "https://a.test", false);
}

/// What a test proxy was asked for.
pub(super) type Asked = Receiver<String>;

/// A proxy that takes each connection through `greet`, which says what was asked for, and then passes bytes to `target`.
pub(super) fn proxy_to(
    target: SocketAddr,
    greet: fn(&mut TcpStream) -> io::Result<String>,
) -> (SocketAddr, Asked) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, asked) = unbounded();
    let accept = move || {
        for client in listener.incoming() {
            let sender = sender.clone();
            spawn(move || pass(client?, target, greet, &sender));
        }
        Ok(())
    };
    spawn(accept);
    (address, asked)
}

fn spawn(body: impl FnOnce() -> io::Result<()> + Send + 'static) -> JoinHandle<()> {
    crate::thread::spawn("test-proxy", move || drop(body())).unwrap()
}

fn pass(
    mut client: TcpStream,
    target: SocketAddr,
    greet: fn(&mut TcpStream) -> io::Result<String>,
    asked: &Sender<String>,
) -> io::Result<()> {
    let name = greet(&mut client)?;
    let _ = asked.send(name);
    let server = TcpStream::connect(target)?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    spawn(move || {
        let copied = io::copy(&mut from, &mut to);
        to.shutdown(Shutdown::Both)?;
        copied.map(drop)
    });
    let (mut from, mut to) = (server, client);
    io::copy(&mut from, &mut to)?;
    to.shutdown(Shutdown::Both)
}

/// Reads `CONNECT host:port` with its headers, and agrees.
pub(super) fn connect(client: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Takes a SOCKS5 request for a name, without a password.
fn socks(client: &mut TcpStream) -> io::Result<String> {
    let mut greeting = [0; 3];
    client.read_exact(&mut greeting)?;
    client.write_all(&[5, 0])?;
    let mut head = [0; 5];
    client.read_exact(&mut head)?;
    let mut name = vec![0; usize::from(head[4])];
    client.read_exact(&mut name)?;
    client.read_exact(&mut [0; 2])?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

fn through(url: String) -> HttpClient {
    let proxy = ProxyChoice::Url { url: url.into(), except: vec!["127.0.0.1".into()] };
    HttpClient::new(HttpOptions { proxy, ..HttpOptions::default() }).unwrap()
}

#[test]
fn a_request_goes_through_an_http_proxy_on_a_connection_that_is_kept() {
    let server = Server::answering(|_| Response::new(200).text("ok")).unwrap();
    let (address, asked) = proxy_to(server.address(), connect);
    let client = through(format!("http://user:pa%20ss@{address}"));
    for _ in 0..2 {
        assert_eq!(text(send(&client, &HttpRequest::get("http://api.test/x"))), "ok");
    }
    let head = asked.recv_timeout(LIMIT).unwrap();
    assert!(head.starts_with("CONNECT api.test:80 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic dXNlcjpwYSBzcw=="), "{head}");
    assert_eq!((server.connections(), asked.len()), (1, 0));
    assert_eq!(server.requests()[0].header("proxy-authorization"), None);
}

#[test]
fn a_request_goes_through_a_socks_proxy_that_looks_the_name_up() {
    let server = Server::answering(|_| Response::new(200).text("ok")).unwrap();
    let (address, asked) = proxy_to(server.address(), socks);
    let client = through(format!("socks5h://{address}"));
    for _ in 0..2 {
        assert_eq!(text(send(&client, &HttpRequest::get("http://api.test/x"))), "ok");
    }
    assert_eq!(asked.recv_timeout(LIMIT).unwrap(), "api.test");
    assert_eq!((server.connections(), asked.len()), (1, 0));
}

#[test]
fn an_exception_is_asked_directly() {
    let server = Server::answering(|_| Response::new(200).text("ok")).unwrap();
    let (address, asked) = proxy_to(server.address(), connect);
    assert_eq!(text(send(&through(format!("http://{address}")), &get(&server, "/"))), "ok");
    assert!(asked.is_empty());
}

#[track_caller]
fn check_abort(scheme: &str, greet: fn(&mut TcpStream) -> io::Result<String>) {
    let stalled = Response::new(200).chunk("first").framing(Framing::Close).end(End::Hang);
    let server = Server::answering(move |_| stalled.clone()).unwrap();
    let (address, _asked) = proxy_to(server.address(), greet);
    let controller = AbortController::new();
    let client = through(format!("{scheme}://{address}"));
    let request = HttpRequest::get("http://api.test/");
    let reports = start(&client, request, &controller.signal());
    expect_report(&reports, &piece("first"));
    controller.abort();
    expect_report(&reports, &ABORTED);
}

#[test]
fn an_abort_goes_through_a_proxy() {
    check_abort("http", connect);
    check_abort("socks5h", socks);
}

#[test]
fn a_proxy_that_never_answers_is_aborted() {
    for scheme in ["http", "socks5h"] {
        let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = through(format!("{scheme}://{}", silent.local_addr().unwrap()));
        let controller = AbortController::new();
        let request = HttpRequest::get("http://api.test/");
        let reports = start(&client, request, &controller.signal());
        let (mut peer, _) = silent.accept().unwrap();
        peer.read_exact(&mut [0; 3]).unwrap();
        controller.abort();
        expect_report(&reports, &ABORTED);
        // The thread that dials is told as well, and closes its end.
        io::copy(&mut peer, &mut io::sink()).unwrap();
    }
}

#[test]
fn a_proxy_that_refuses_is_named_by_its_answer() {
    let proxy = Server::start([Response::new(403).text("no")]).unwrap();
    let error = failure(&through(proxy.url()), &HttpRequest::get("http://api.test/"));
    assert_eq!(error.kind(), ErrorKind::Network);
    let begin = format!("cannot connect to api.test through the proxy {}: ", proxy.address());
    assert!(error.to_string().starts_with(&begin), "{error}");
    assert!(error.to_string().contains("403"), "{error}");
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named_without_its_password() {
    let address = {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.local_addr().unwrap()
    };
    for scheme in ["http", "socks5h"] {
        let client = through(format!("{scheme}://user:pa55word@{address}"));
        let error = failure(&client, &HttpRequest::get("http://api.test/"));
        let begin = format!("cannot connect to api.test through the proxy {address}: ");
        assert!(error.to_string().starts_with(&begin), "{error}");
    }
}

#[test]
fn a_proxy_that_is_no_url_is_refused_before_the_first_request() {
    let proxy = ProxyChoice::Url { url: "gopher://secret@p".into(), except: Vec::new() };
    let error = HttpClient::new(HttpOptions { proxy, ..options() }).unwrap_err();
    let begin = "the proxy in the options is no URL of a known kind: write it as http://";
    assert!(error.to_string().starts_with(begin), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}
