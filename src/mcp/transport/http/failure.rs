//! Answers that are failures, as errors.

use serde_json::Value;

use crate::{
    error::{Error, ErrorKind, Failure, Result},
    http::HttpResponse,
    mcp::transport::SESSION_LOST,
};

/// How much of a body an error shows.
const SHOWN: usize = 500;

/// Makes an error of an answer that is no success. `in_session` tells whether the request named a session.
pub(super) fn of(mut response: HttpResponse, in_session: bool) -> Result<Error> {
    let status = response.status();
    let host = response.host().to_owned();
    let body = response.error_text()?;
    let said = message_in(&body).unwrap_or(body);
    let shown = said[..said.floor_char_boundary(SHOWN)].trim().to_owned();
    let kind = match status {
        401 | 403 => ErrorKind::Auth,
        408 | 500.. => ErrorKind::Overloaded,
        429 => ErrorKind::RateLimited,
        _ => ErrorKind::InvalidRequest,
    };
    let mut failure = Failure::new(kind);
    failure.status = Some(status);
    if status == 404 && in_session {
        failure.code = Some(SESSION_LOST.to_owned());
        let text = format!("the MCP server at {host} does not know the session any more");
        return Ok(Error::from_failure(failure, text));
    }
    let mut text = format!("the MCP server at {host} answered with status {status}");
    if !shown.is_empty() {
        text.push_str(": ");
        text.push_str(&shown);
    }
    if matches!(status, 404 | 405) && !in_session {
        text.push_str(" (is this the address of its streamable HTTP endpoint?)");
    }
    Ok(Error::from_failure(failure, text))
}

/// Whether a stream may be asked for again after this.
pub(super) fn may_pass(error: &Error) -> bool {
    match error.failure().status {
        Some(status) => matches!(status, 408 | 429 | 500..),
        None => error.kind() == ErrorKind::Network,
    }
}

/// Servers often answer with an error of JSON-RPC, or with one of their framework.
fn message_in(body: &str) -> Option<String> {
    let value: Value = serde_json::from_str(body).ok()?;
    let places = ["/error/message", "/error_description", "/message", "/detail", "/error"];
    places.iter().find_map(|place| value.pointer(place)?.as_str()).map(str::to_owned)
}
