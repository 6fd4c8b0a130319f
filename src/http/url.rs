//! Addresses: what is accepted as one, where a redirect leads, and what counts as the same origin.

use ureq::http::{
    Uri,
    uri::{PathAndQuery, Scheme},
};

use crate::{
    error::{Error, ErrorKind, Result},
    secret::without_query,
};

/// Reads an absolute `http` or `https` URL. The error does not show it: a query may hold a key.
pub(crate) fn parse(url: &str) -> Result<Uri> {
    const WITHOUT_SCHEME: &str = "it does not begin with http:// or https://";
    const WITHOUT_HOST: &str = "it names no host";
    let problem = match url.trim().parse::<Uri>() {
        Err(_) if !url.contains("://") => WITHOUT_SCHEME.to_owned(),
        Err(_) if names_nothing(url) => WITHOUT_HOST.to_owned(),
        Err(error) => error.to_string(),
        Ok(uri) => match (uri.scheme_str(), uri.host()) {
            (Some("http" | "https"), Some(host)) if !host.is_empty() => return Ok(uri),
            (Some("http" | "https"), _) => WITHOUT_HOST.to_owned(),
            (Some(scheme), _) => format!("the scheme `{scheme}` is neither http nor https"),
            (None, _) => WITHOUT_SCHEME.to_owned(),
        },
    };
    let text = format!("`{}` is no URL that can be asked: {problem}", without_query(url));
    Err(Error::new(ErrorKind::Configuration, text))
}

fn names_nothing(url: &str) -> bool {
    let after = url.split_once("://").map_or("", |(_, after)| after).trim();
    after.is_empty() || after.starts_with(['/', '?', '#', ':'])
}

/// Returns the host, and the port where it is given, for texts.
pub(crate) fn host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    uri.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Tells whether two addresses have the same scheme, host and port.
pub(crate) fn same_origin(one: &Uri, other: &Uri) -> bool {
    let host = |uri: &Uri| uri.host().unwrap_or_default().to_ascii_lowercase();
    one.scheme() == other.scheme() && host(one) == host(other) && port(one) == port(other)
}

/// Returns the port, the usual one of the scheme where none is given.
pub(crate) fn port(uri: &Uri) -> u16 {
    let usual = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    uri.port_u16().unwrap_or(usual)
}

/// Returns where `location`, sent by the server at `base`, leads.
pub(crate) fn join(base: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default().trim();
    let scheme = base.scheme_str().unwrap_or("http");
    if location.starts_with("//") {
        return parse(&format!("{scheme}:{location}")).ok();
    }
    if location.split(['/', '?']).next().is_some_and(|start| start.contains(':')) {
        return parse(location).ok();
    }
    let path = base.path();
    let target = if location.starts_with('/') {
        location.to_owned()
    } else if location.starts_with('?') || location.is_empty() {
        format!("{path}{location}")
    } else {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        without_dots(&format!("{folder}/{location}"))
    };
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(target.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

/// Resolves `.` and `..` in a path; the query stays as it is.
fn without_dots(target: &str) -> String {
    let (path, query) =
        target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            part => kept.push(part),
        }
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("/{}{query}", kept.join("/"))
}
