//! Redirects: which are followed, and what they carry.

use super::*;
use crate::testing::server::Request;

fn to(status: u16, location: impl Into<String>) -> Response {
    Response::new(status).header("location", location).text("moved")
}

#[test]
fn a_post_is_repeated_with_its_body_and_its_key_at_the_same_origin() {
    for status in [307, 308] {
        let server =
            Server::start([to(status, "/v2/chat?x=1"), Response::new(200).text("ok")]).unwrap();
        let request = HttpRequest::post(format!("{}/v1/chat", server.url()), "{\"a\":1}")
            .header("authorization", "Bearer sk-123456");
        assert_eq!(text(send(&client(), &request)), "ok");
        let arrived = server.requests().remove(1);
        assert_eq!((&*arrived.method, &*arrived.path), ("POST", "/v2/chat?x=1"));
        assert_eq!(arrived.text(), "{\"a\":1}");
        assert_eq!(arrived.header("authorization"), Some("Bearer sk-123456"));
        assert_eq!(server.connections(), 1);
    }
}

#[test]
fn another_origin_gets_the_body_but_no_key() {
    let other = Server::start([Response::new(200).text("ok")]).unwrap();
    let server = Server::start([to(307, format!("{}/there", other.url()))]).unwrap();
    let request = HttpRequest::post(server.url(), "body")
        .header("Authorization", "Bearer sk-123456")
        .header("x-api-key", "sk-123456")
        .header("api-key", "sk-123456")
        .header("x-goog-api-key", "sk-123456")
        .header("cookie", "a=b")
        .secret_header("X-Own", &"sk-123456".into())
        .header("content-type", "text/plain");
    assert_eq!(text(send(&client(), &request)), "ok");
    let arrived = other.requests().remove(0);
    assert_eq!(arrived.text(), "body");
    assert_eq!(arrived.header("content-type"), Some("text/plain"));
    let keys = ["authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "x-own"];
    assert!(keys.iter().all(|name| arrived.header(name).is_none()), "{arrived:?}");
}

#[test]
fn a_key_comes_back_with_the_way_back_to_its_origin() {
    let other = Arc::new(std::sync::OnceLock::<String>::new());
    let back = other.clone();
    let server = Server::answering(move |request: &Request| match &*request.path {
        "/" => to(307, back.get().unwrap()),
        _ => Response::new(200).text(request.header("x-api-key").unwrap_or("none")),
    })
    .unwrap();
    let home = format!("{}/back", server.url());
    let elsewhere = Server::answering(move |_| to(307, &home)).unwrap();
    other.set(elsewhere.url()).unwrap();
    let request = get(&server, "/").header("x-api-key", "sk-123456");
    assert_eq!(text(send(&client(), &request)), "sk-123456");
    assert_eq!(elsewhere.requests()[0].header("x-api-key"), None);
}

#[test]
fn a_post_does_not_turn_into_a_get() {
    for status in [301, 302, 303] {
        let server = Server::start([to(status, "https://login.test/?token=t")]).unwrap();
        let error = failure(&client(), &HttpRequest::post(server.url(), "body"));
        let text = format!(
            "{} redirected the request (status {status}), which would turn it into another one: use the address of \
             login.test instead",
            server.address()
        );
        assert_eq!(error.to_string(), text);
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Configuration, false));
    }
}

#[test]
fn a_get_is_repeated_whatever_the_kind_of_redirect() {
    for status in [301, 302, 303, 307, 308] {
        let server = Server::start([to(status, "there"), Response::new(200).text("ok")]).unwrap();
        assert_eq!(text(send(&client(), &get(&server, "/a/here"))), "ok");
        assert_eq!(server.requests()[1].path, "/a/there");
    }
}

#[test]
fn a_redirect_without_an_end_is_an_error() {
    let server = Server::answering(|_| to(307, "/again")).unwrap();
    let error = failure(&client(), &HttpRequest::post(server.url(), "body"));
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert_eq!(server.requests().len(), 6);
}

#[test]
fn redirects_can_be_switched_off() {
    let server = Server::start([to(307, "/there")]).unwrap();
    let client = HttpClient::new(HttpOptions { max_redirects: 0, ..options() }).unwrap();
    let response = send(&client, &HttpRequest::post(server.url(), "body"));
    assert_eq!((response.status(), response.header("location")), (307, Some("/there")));
    assert_eq!(text(response), "moved");
}

#[test]
fn a_redirect_without_an_address_is_an_answer() {
    let server = Server::start([Response::new(307).text("where?")]).unwrap();
    assert_eq!(text(send(&client(), &get(&server, "/"))), "where?");
}

#[test]
fn a_redirect_to_something_else_is_an_error() {
    let server = Server::start([to(307, "ftp://there/")]).unwrap();
    assert_eq!(failure(&client(), &get(&server, "/")).kind(), ErrorKind::Configuration);
}
