//! What went wrong, in this API's words.

use serde_json::Value;

use crate::{
    error::{Error, ErrorKind, Failure},
    partial_json::repair::from_str_repaired,
    provider::failure,
};

/// The error that an `error` event of a stream reports.
pub(super) fn in_stream(data: &str) -> Error {
    let event: Value = from_str_repaired(data).unwrap_or_else(|_| Value::String(data.to_owned()));
    let error = failure::in_stream(&event);
    let mut facts = error.failure().clone();
    let text = |path: &str| event.pointer(path).and_then(Value::as_str);
    facts.request_id = text("/request_id").map(str::to_owned);
    if text("/error/type").is_none() && facts.kind == ErrorKind::InvalidRequest {
        // Nothing is known of it; but the request was accepted, so the server failed.
        facts = Failure {
            request_id: facts.request_id,
            code: facts.code,
            ..Failure::new(ErrorKind::Overloaded)
        };
    }
    Error::from_failure(facts, format!("the server broke off the answer: {}", error.message()))
}

/// An answer that ended before it was complete; the same request may succeed.
pub(super) fn cut(what: &str) -> Error {
    let failure = Failure { retryable: true, ..Failure::new(ErrorKind::Protocol) };
    Error::from_failure(failure, format!("the answer {what}"))
}

/// An event that is not what the API describes.
pub(super) fn malformed(event: &str, why: &str) -> Error {
    let message = format!("the server sent a {event} event that cannot be read: {why}");
    Error::new(ErrorKind::Protocol, message)
}

/// A stop reason that is no good ending and that nothing is known of but its name.
pub(super) fn unknown_ending(reason: &str) -> Error {
    if reason == "model_context_window_exceeded" {
        let message = "the answer filled up the model's context window: shorten the transcript";
        let failure =
            Failure { code: Some(reason.to_owned()), ..Failure::new(ErrorKind::ContextOverflow) };
        return Error::from_failure(failure, message);
    }
    let failure = Failure { code: Some(reason.to_owned()), ..Failure::new(ErrorKind::Protocol) };
    Error::from_failure(failure, format!("the answer ended for an unknown reason: {reason}"))
}

/// The model or the vendor's policy declined.
pub(super) fn refused(reason: &str, explanation: Option<&str>) -> Error {
    let failure = Failure { code: Some(reason.to_owned()), ..Failure::new(ErrorKind::Refused) };
    let message = match explanation.filter(|it| !it.trim().is_empty()) {
        Some(explanation) => format!("the model refused to answer: {explanation}"),
        None => format!("the model refused to answer ({reason})"),
    };
    Error::from_failure(failure, message)
}
