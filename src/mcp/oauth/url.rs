//! Addresses taken apart, and forms.

use std::{fmt::Write as _, net::IpAddr};

use crate::{
    http,
    mcp::config::{host, is_loopback},
};

/// Scheme, host and port, as far as they are written.
pub(crate) fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |place| place + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |place| start + place);
    &url[..end]
}

/// The path without a slash at its end; empty for the root.
pub(crate) fn path(url: &str) -> &str {
    let rest = &url[origin(url).len()..];
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    rest[..end].trim_end_matches('/')
}

/// Whether two addresses have the same scheme, host and port.
pub(crate) fn same_origin(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let origin = origin(url).to_ascii_lowercase();
        let usual = if origin.starts_with("https:") { ":443" } else { ":80" };
        origin.strip_suffix(usual).map_or(origin.clone(), str::to_owned)
    };
    plain(one) == plain(other)
}

/// Whether a URL may be asked, or opened, at all. One with a name or password before the host is meant to look like
/// another.
pub(crate) fn is_http(url: &str) -> bool {
    let is_plain = url.starts_with("https://") || url.starts_with("http://");
    is_plain && http::check_url(url).is_ok() && !host(url).is_empty()
}

/// Whether secrets may be sent there.
pub(crate) fn is_safe(url: &str) -> bool {
    is_http(url) && (url.starts_with("https://") || is_loopback(url))
}

/// Whether what the server at `server` names may be asked, or opened, for it. One elsewhere must not lead the program to
/// services of this machine or of its network, nor to plain HTTP.
pub(crate) fn may_name(server: &str, url: &str) -> bool {
    is_http(url)
        && (same_origin(server, url)
            || is_near(server)
            || url.starts_with("https://") && !is_near(url))
}

/// Whether an address is one of this machine or of a network that is not the internet.
fn is_near(url: &str) -> bool {
    let host = host(url);
    let host = host.trim_end_matches('.');
    let address = match host.parse() {
        Ok(IpAddr::V6(address)) => address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4),
        Ok(address) => address,
        Err(_) => {
            // A number is an address too, in ways of writing that parsers differ about.
            let is_number = host.split('.').next_back().is_some_and(|last| {
                let is_decimal = last.bytes().all(|it| it.is_ascii_digit());
                last.starts_with("0x") || is_decimal && !last.is_empty()
            });
            return is_number || host == "localhost" || host.ends_with(".localhost");
        }
    };
    match address {
        IpAddr::V4(address) => {
            let is_shared = matches!(address.octets(), [100, 64..=127, ..] | [0, ..]);
            address.is_loopback() || address.is_private() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
    }
}

/// Adds parameters to an address.
pub(crate) fn with_query(url: &str, pairs: &[(&str, &str)]) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}{}", form(pairs))
}

/// Pairs as a form is sent.
pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        encode(name, &mut text);
        text.push('=');
        encode(value, &mut text);
    }
    text
}

/// One value of a form.
pub(crate) fn encoded(value: &str) -> String {
    let mut text = String::new();
    encode(value, &mut text);
    text
}

fn encode(value: &str, text: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
}

/// The first parameter of this name in an address.
pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let query = url.split('#').next()?.split_once('?')?.1;
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key) == name).then(|| decoded(value))
    })
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while let Some(byte) = bytes.get(place) {
        let hex = bytes.get(place + 1..place + 3).and_then(|it| str::from_utf8(it).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                place += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(*byte),
        }
        place += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let url = "https://a.example:8443/x/y/?q=1#f";
        assert_eq!((origin(url), path(url)), ("https://a.example:8443", "/x/y"));
        assert_eq!((origin("http://a"), path("http://a")), ("http://a", ""));
        assert!(same_origin("https://A.example:443/x", "https://a.example?y"));
        assert!(!same_origin("https://a.example", "http://a.example"));
        assert!(!same_origin("https://a.example", "https://a.example.evil"));
        assert!(
            is_safe("http://127.0.0.1:1/")
                && is_safe("http://[::1]/")
                && !is_safe("http://localhost.evil/")
        );
    }

    #[test]
    fn a_host_that_only_looks_like_another_is_none() {
        for url in [
            "http://localhost:1@evil.example/",
            "http://127.0.0.1@evil.example",
            "http://localhost\\@evil.example",
            "http://[::1].evil.example/",
            "http://[::1]@evil.example/",
            "https://good.example@evil.example/",
            "https://",
            "https:///x",
            "javascript://localhost/%0aalert(1)",
            "https://a b/",
        ] {
            assert!(!is_safe(url), "{url}");
        }
    }

    #[track_caller]
    fn check_named(server: &str, url: &str, expected: bool) {
        assert_eq!(may_name(server, url), expected, "{url} by {server}");
    }

    #[test]
    fn a_server_elsewhere_leads_to_nothing_near() {
        let server = "https://mcp.example/mcp";
        check_named(server, "https://login.example/x", true);
        check_named(server, "https://mcp.example:443/x", true);
        check_named("http://mcp.example/mcp", "http://mcp.example/x", true);
        for url in [
            "http://login.example/x",
            "https://localhost/x",
            "https://a.localhost./x",
            "https://127.0.0.1/x",
            "https://127.1/x",
            "https://2130706433/x",
            "https://0x7f.0.0.1/x",
            "https://0x7f000001/x",
            "https://10.1.2.3/x",
            "https://192.168.1.1/x",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/x",
            "https://0.0.0.0/x",
            "https://[::1]/x",
            "https://[::ffff:10.0.0.1]/x",
            "https://[fd00::1]/x",
            "https://[fe80::1]/x",
        ] {
            check_named(server, url, false);
        }
        check_named("https://me:word@mcp.example/mcp", "https://127.0.0.1/x", false);
        check_named("http://localhost:1/mcp", "http://127.0.0.1:2/x", true);
        check_named("http://192.168.0.2/mcp", "http://192.168.0.3/x", true);
    }

    #[test]
    fn parameters_survive_the_way_there_and_back() {
        let url = with_query("http://a/b?x=1#f", &[("a b", "ä&="), ("c", "")]);
        assert_eq!(url, "http://a/b?x=1&a%20b=%C3%A4%26%3D&c=");
        assert_eq!(parameter(&url, "a b").as_deref(), Some("ä&="));
        assert_eq!(parameter(&url, "x").as_deref(), Some("1"));
        assert_eq!(parameter("http://a?b=%zz+%4", "b").as_deref(), Some("%zz %4"));
        assert_eq!(parameter(&url, "none"), None);
    }
}
