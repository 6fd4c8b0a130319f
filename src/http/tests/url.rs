//! Addresses.

use super::*;
use crate::http::url::{join, parse, same_origin};

#[track_caller]
fn check_join(base: &str, location: &str, expected: Option<&str>) {
    let joined = join(&parse(base).unwrap(), location).map(|uri| uri.to_string());
    assert_eq!(joined.as_deref(), expected);
}

#[test]
fn a_location_is_read_against_the_address_that_sent_it() {
    let base = "https://a.test:8443/x/y?q=1";
    check_join(base, "https://b.test/z", Some("https://b.test/z"));
    check_join(base, "//b.test/z?k=v#part", Some("https://b.test/z?k=v"));
    check_join(base, "/z", Some("https://a.test:8443/z"));
    check_join(base, "z", Some("https://a.test:8443/x/z"));
    check_join(base, "./z?u=http://c.test", Some("https://a.test:8443/x/z?u=http://c.test"));
    check_join(base, "../z/", Some("https://a.test:8443/z/"));
    check_join(base, "../../../z", Some("https://a.test:8443/z"));
    check_join(base, "..", Some("https://a.test:8443/"));
    check_join(base, "?q=2", Some("https://a.test:8443/x/y?q=2"));
    check_join(base, "mailto:someone", None);
    check_join(base, "http://", None);
}

#[test]
fn an_origin_is_scheme_host_and_port() {
    let same = |one, other| same_origin(&parse(one).unwrap(), &parse(other).unwrap());
    assert!(same("https://a.test/x", "https://A.test:443/y"));
    assert!(!same("https://a.test", "http://a.test"));
    assert!(!same("http://a.test", "http://a.test:8080"));
    assert!(!same("http://a.test", "http://b.a.test"));
}

#[track_caller]
fn check_refused(url: &str, text: &str) {
    let error = failure(&client(), &HttpRequest::get(url));
    assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Configuration, text));
}

#[test]
fn what_is_no_url_is_refused_with_the_reason() {
    check_refused(
        "api.test/v1",
        "`api.test/v1` is no URL that can be asked: it does not begin with http:// or https://",
    );
    check_refused(
        "ftp://api.test/?key=k",
        "`ftp://api.test/` is no URL that can be asked: the scheme `ftp` is neither http nor https",
    );
    check_refused("", "`` is no URL that can be asked: it does not begin with http:// or https://");
    check_refused(
        "http://user:pass word@x",
        "`(hidden)` is no URL that can be asked: invalid uri character",
    );
}

#[cfg(not(any(feature = "rustls", feature = "native-tls")))]
#[test]
fn a_build_without_tls_says_so() {
    let server = Server::start([]).unwrap();
    let client = client_at(options(), server.address());
    let error = failure(&client, &HttpRequest::get("https://api.test/"));
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("this build has no TLS"), "{error}");
    let certified = HttpOptions { ca_certificates: Some("x".into()), ..options() };
    assert_eq!(HttpClient::new(certified).unwrap_err().kind(), ErrorKind::Configuration);
}
