//! What went wrong, in this API's words.

use serde_json::Value;

use crate::{
    error::{Error, ErrorKind, Failure},
    partial_json::repair::from_str_repaired,
    provider::failure,
};

pub(super) use crate::provider::failure::{cut, malformed, refused};

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
