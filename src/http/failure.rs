//! Failures of the layers underneath as errors of this crate: what failed, at which host, and whether to try again.

use std::{error, io, time::Duration};

use ureq::Timeout;

use crate::{
    error::{Error, ErrorKind},
    http::ticket::Phase,
};

/// Where a request failed.
pub(crate) struct Place<'a> {
    pub(crate) host: &'a str,
    /// The proxy in between, if there is one.
    pub(crate) proxy: Option<String>,
    pub(crate) phase: Phase,
    pub(crate) connect: Option<Duration>,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) idle: Option<Duration>,
}

impl Place<'_> {
    pub(crate) fn error(&self, error: &ureq::Error) -> Error {
        Error::new(self.kind(error), self.text(error))
    }

    fn kind(&self, error: &ureq::Error) -> ErrorKind {
        match error {
            ureq::Error::Http(_)
            | ureq::Error::BadUri(_)
            | ureq::Error::InvalidProxyUrl
            | ureq::Error::TlsRequired => ErrorKind::Configuration,
            ureq::Error::Protocol(_) if self.phase == Phase::Connecting => ErrorKind::Configuration,
            ureq::Error::Protocol(_) | ureq::Error::Decompress(..) => ErrorKind::Protocol,
            ureq::Error::LargeResponseHeader(..) => ErrorKind::Limit,
            _ => ErrorKind::Network,
        }
    }

    fn text(&self, error: &ureq::Error) -> String {
        let host = self.host;
        match error {
            ureq::Error::Timeout(reason) => self.timeout_text(*reason),
            ureq::Error::TlsRequired => {
                format!("cannot ask {host} over https: this build has no TLS (feature `rustls`)")
            }
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => match self
                .phase
            {
                Phase::Connecting => {
                    format!("cannot connect to {}: it closed the connection", self.way())
                }
                Phase::Sent => format!("{host} closed the connection without an answer"),
                Phase::Body => format!("{host} closed the connection in the middle of the answer"),
            },
            error => {
                let cause = cause(error);
                match self.phase {
                    Phase::Connecting => {
                        format!("cannot connect to {}: {cause}{}", self.way(), advice(&cause))
                    }
                    Phase::Sent => format!("the request to {host} failed: {cause}"),
                    Phase::Body => format!("the answer of {host} broke off: {cause}"),
                }
            }
        }
    }

    /// The host and how it is reached: what failed on the way may be the proxy.
    fn way(&self) -> String {
        match &self.proxy {
            Some(proxy) => format!("{} through the proxy {proxy}", self.host),
            None => self.host.to_owned(),
        }
    }

    fn timeout_text(&self, reason: Timeout) -> String {
        let host = self.host;
        let within = |limit: Option<Duration>| {
            limit.map_or_else(String::new, |it| format!(" within {}", seconds(it)))
        };
        match reason {
            Timeout::Connect | Timeout::Resolve => {
                format!("cannot connect to {}: no connection{}", self.way(), within(self.connect))
            }
            Timeout::RecvResponse => format!("{host} sent no answer{}", within(self.first_byte)),
            Timeout::PerRead => format!("{host} sent nothing more{}", within(self.idle)),
            Timeout::PerWrite => {
                format!("{host} took nothing more of the request{}", within(self.idle))
            }
            other => format!("the request to {host} timed out ({other})"),
        }
    }
}

/// What to do about a cause that says little to people.
fn advice(cause: &str) -> &'static str {
    // The words of rustls and of OpenSSL for bytes that are no TLS.
    if ["InvalidContentType", "wrong version number"].iter().any(|it| cause.contains(it)) {
        ": it does not speak TLS, use http:// if that is meant"
    } else {
        ""
    }
}

/// Returns a duration as people write it: `10 s`, `1.5 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// Returns the text of the innermost error, which is the one that says what happened.
fn cause(error: &ureq::Error) -> String {
    let text = match error {
        ureq::Error::Io(error) => innermost(error).to_string(),
        ureq::Error::Protocol(error) => error.to_string(),
        error => error.to_string(),
    };
    lower_first(&text)
}

fn innermost<'a>(error: &'a (dyn error::Error + 'static)) -> &'a (dyn error::Error + 'static) {
    let inner: Option<&'a (dyn error::Error + 'static)> = match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|it| it as &(dyn error::Error + 'static)),
        None => error.source(),
    };
    inner.map_or(error, innermost)
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        // An abbreviation keeps its capitals.
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}
