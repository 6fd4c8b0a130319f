//! Addresses taken apart, and forms.

use std::fmt::Write as _;

use crate::mcp::config::is_loopback;

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

/// Whether a URL may be asked, or opened, at all.
pub(crate) fn is_http(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Whether secrets may be sent there.
pub(crate) fn is_safe(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://") && is_loopback(url)
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
    fn parameters_survive_the_way_there_and_back() {
        let url = with_query("http://a/b?x=1#f", &[("a b", "ä&="), ("c", "")]);
        assert_eq!(url, "http://a/b?x=1&a%20b=%C3%A4%26%3D&c=");
        assert_eq!(parameter(&url, "a b").as_deref(), Some("ä&="));
        assert_eq!(parameter(&url, "x").as_deref(), Some("1"));
        assert_eq!(parameter("http://a?b=%zz+%4", "b").as_deref(), Some("%zz %4"));
        assert_eq!(parameter(&url, "none"), None);
    }
}
