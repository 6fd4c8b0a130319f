//! What a vendor says when it fails, as an error: the kind from status, code and type first, from the text last.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind, Failure, wording},
    http::{HttpResponse, retry_after},
    model::Model,
    partial_json::repair::from_str_repaired,
};

/// So many characters of a body are shown.
const SHOWN: usize = 4000;

/// What is known of a failure.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The HTTP status, or a number of that kind within a stream.
    pub(crate) status: Option<u16>,
    /// The vendor's code.
    pub(crate) code: Option<&'a str>,
    /// The vendor's type, which is often coarser than the code.
    pub(crate) kind: Option<&'a str>,
    /// The reason among the details, which Google's APIs are more exact in.
    pub(crate) reason: Option<&'a str>,
    /// The text.
    pub(crate) text: &'a str,
}

impl Facts<'_> {
    /// Decides what a caller can do: the code first, then type, status and text.
    pub(crate) fn failure(&self) -> Failure {
        let named =
            [self.reason, self.code, self.kind].into_iter().flatten().find_map(kind_of_code);
        let mut failure = match (named, self.status) {
            (Some(kind), _) => Failure::new(kind),
            (None, Some(status)) => of_status(status, self.text),
            (None, None) => wording::failure_in(self.text)
                .unwrap_or_else(|| Failure::new(ErrorKind::InvalidRequest)),
        };
        failure.status = self.status;
        failure.code = self.code.or(self.kind).map(str::to_owned);
        failure
    }
}

/// Reads a response that is no success to its end and makes an error of it.
pub(crate) fn of_response(
    response: &mut HttpResponse,
    model: &Model,
    has_key: bool,
    now: SystemTime,
) -> Result<Error, Error> {
    let body = response.error_text()?;
    let status = response.status();
    let parsed: Option<Value> = from_str_repaired(&body).ok();
    let object = parsed.as_ref().and_then(error_object);
    let named = object.map(Named::of).unwrap_or_default();
    let mut text = match object {
        Some(object) => object_text(object),
        None => body.trim().to_owned(),
    };
    // Cerebras says nothing at all when the prompt is too long.
    let is_mute = model.provider == "cerebras" && matches!(status, 400 | 413) && text.is_empty();
    if text.is_empty() {
        "the server gave no reason".clone_into(&mut text);
    }
    let facts = Facts { status: Some(status), text: &text, ..named.facts() };
    let mut failure = facts.failure();
    if is_mute {
        failure.kind = ErrorKind::ContextOverflow;
    }
    let asked = response.refusal().map(|refusal| refusal.asked);
    let asked = asked.or_else(|| retry_after(response.headers(), now)).or_else(|| pause_in(&body));
    failure.retry_after_ms = asked.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
    failure.request_id = request_id(response);
    match response.header("x-should-retry") {
        Some("true") => failure.retryable = true,
        Some("false") => failure.retryable = false,
        _ => (),
    }
    let advice = advice(status, &failure, model, has_key);
    let mut message =
        format!("{} answered {status}{advice}: {}", response.host(), shortened(&text));
    if let Some(refusal) = response.refusal() {
        message = format!("{refusal}: {message}");
    }
    Ok(Error::from_failure(failure, message))
}

/// Whose failure it is, and what to do about it.
fn advice(status: u16, failure: &Failure, model: &Model, has_key: bool) -> String {
    let Model { id, provider, .. } = model;
    match (status, failure.kind) {
        (403, ErrorKind::Auth) if has_key => {
            format!(" (check what the key for `{provider}` may do)")
        }
        (_, ErrorKind::Auth) if has_key => format!(" (check the key for `{provider}`)"),
        (_, ErrorKind::Auth) => format!(" (no key was sent: set one for `{provider}`)"),
        (404, _) => {
            format!(" (check the id, `{id}`, and the base URL of the model of `{provider}`)")
        }
        (_, kind) => format!(" (`{provider}`: {})", remedy(kind, model)),
    }
}

/// What to do about a failure of a kind.
fn remedy(kind: ErrorKind, model: &Model) -> String {
    match kind {
        ErrorKind::Auth => "check the key".to_owned(),
        ErrorKind::RateLimited => "wait, then ask again".to_owned(),
        ErrorKind::Quota => "check the plan of the account".to_owned(),
        ErrorKind::Overloaded | ErrorKind::Network => "ask again later".to_owned(),
        ErrorKind::ContextOverflow => "shorten the transcript".to_owned(),
        ErrorKind::Refused => "change what is asked".to_owned(),
        ErrorKind::Protocol => {
            format!("ask again, or check that the base URL leads to a server of `{}`", model.api)
        }
        _ => "check the request against what the model takes".to_owned(),
    }
}

/// The error of an answer that had begun well, with whose answer it was, and what to do.
pub(crate) fn in_answer(error: Error, response: &HttpResponse, model: &Model) -> Error {
    let kind = error.kind();
    let is_own = matches!(
        kind,
        ErrorKind::Aborted | ErrorKind::Callback | ErrorKind::Limit | ErrorKind::Configuration
    );
    if is_own {
        return error;
    }
    let (provider, status) = (&model.provider, response.status());
    let remedy = remedy(kind, model);
    let message = format!("{error} (`{provider}`, after status {status}: {remedy})");
    Error::from_failure(error.failure().clone(), message)
}

/// Makes an error of what a vendor sends as `error` within a stream: an object, a text, or anything else.
pub(crate) fn in_stream(error: &Value) -> Error {
    let object = match error {
        Value::Object(_) => error_object(error).unwrap_or(error),
        _ => error,
    };
    let named = Named::of(object);
    let text = object_text(object);
    // Gateways put the status of the server behind them into the code.
    let status =
        object.get("code").and_then(number).or_else(|| object.get("status").and_then(number));
    let status = status.and_then(|it| u16::try_from(it).ok()).filter(|it| (400..600).contains(it));
    let facts = Facts { status, text: &text, ..named.facts() };
    Error::from_failure(Failure { status: None, ..facts.failure() }, shortened(&text))
}

/// An answer that ended before it was complete; the same request may succeed.
pub(crate) fn cut(what: &str) -> Error {
    let failure = Failure { retryable: true, ..Failure::new(ErrorKind::Protocol) };
    Error::from_failure(failure, format!("the answer {what}"))
}

/// An event that is not what the API describes.
pub(crate) fn malformed(event: &str, why: &str) -> Error {
    let message = format!("the server sent a {event} event that cannot be read: {why}");
    Error::new(ErrorKind::Protocol, message)
}

/// An error that a vendor reports within a stream whose request it had accepted: if nothing else is known, the server
/// failed.
pub(crate) fn after_acceptance(error: &Value) -> Error {
    let error = in_stream(error);
    let is_unknown = error.kind() == ErrorKind::InvalidRequest && error.failure().code.is_none();
    let failure =
        if is_unknown { Failure::new(ErrorKind::Overloaded) } else { error.failure().clone() };
    Error::from_failure(failure, format!("the server broke off the answer: {}", error.message()))
}

/// The model or the vendor's policy declined.
pub(crate) fn refused(reason: &str, explanation: Option<&str>) -> Error {
    let failure = Failure { code: Some(reason.to_owned()), ..Failure::new(ErrorKind::Refused) };
    let message = match explanation.filter(|it| !it.trim().is_empty()) {
        Some(explanation) => format!("the model refused to answer: {explanation}"),
        None => format!("the model refused to answer ({reason})"),
    };
    Error::from_failure(failure, message)
}

/// The vendor's id of a request, for its support.
pub(crate) fn request_id(response: &HttpResponse) -> Option<String> {
    let names = ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "cf-ray"];
    names.iter().find_map(|name| response.header(name)).map(str::to_owned)
}

/// The pause that the body of a failed answer asks for: Google's `RetryInfo`.
pub(crate) fn pause_in(body: &str) -> Option<Duration> {
    let (_, rest) = body.split_once("\"retryDelay\"")?;
    let (_, rest) = rest.split_once('"')?;
    let (seconds, _) = rest.split_once("s\"")?;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

/// The object that describes the error, wherever vendors put it.
fn error_object(body: &Value) -> Option<&Value> {
    match body {
        Value::Array(items) => items.first().and_then(error_object),
        Value::Object(fields) => match fields.get("error") {
            Some(error @ (Value::Object(_) | Value::String(_))) => Some(error),
            _ => Some(body),
        },
        _ => None,
    }
}

/// Code and type of an error object.
#[derive(Debug, Default)]
struct Named<'a> {
    text: Option<&'a str>,
    number: Option<String>,
    kind: Option<&'a str>,
    reason: Option<&'a str>,
}

impl<'a> Named<'a> {
    fn of(error: &'a Value) -> Named<'a> {
        let code = error.get("code");
        Named {
            text: code.and_then(Value::as_str).filter(|it| !it.is_empty()),
            number: code.and_then(number).map(|it| it.to_string()),
            kind: ["type", "status"]
                .iter()
                .find_map(|name| error.get(name).and_then(Value::as_str))
                .filter(|it| !it.is_empty()),
            reason: error
                .get("details")
                .and_then(Value::as_array)
                .and_then(|details| details.iter().find_map(|it| it.get("reason")?.as_str())),
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            code: self.text.or(self.number.as_deref()),
            kind: self.kind,
            reason: self.reason,
            ..Facts::default()
        }
    }
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The server's own message, and after it whatever else the object says.
fn object_text(error: &Value) -> String {
    let Value::Object(fields) = error else {
        return error.as_str().map_or_else(|| error.to_string(), str::to_owned);
    };
    let Some(message) = fields.get("message").and_then(Value::as_str) else {
        return error.to_string();
    };
    let mut rest: Map<String, Value> = fields
        .iter()
        .filter(|(name, value)| *name != "message" && !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // What the server behind a gateway said is for people too.
    let raw = rest
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|metadata| metadata.shift_remove("raw"));
    let mut text = message.to_owned();
    if !rest.is_empty() {
        text.push(' ');
        text.push_str(&Value::Object(rest).to_string());
    }
    match raw {
        Some(Value::String(raw)) if !text.contains(&raw) => {
            text.push('\n');
            text.push_str(&raw);
        }
        _ => (),
    }
    text
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => {
            let left = text[end..].chars().count();
            format!("{} ({left} more characters)", &text[..end])
        }
        None => text.to_owned(),
    }
}

fn of_status(status: u16, text: &str) -> Failure {
    let said = wording::failure_in(text).map(|failure| failure.kind);
    let says = |kind| said == Some(kind);
    let kind = match status {
        401 | 403 => ErrorKind::Auth,
        402 => ErrorKind::Quota,
        408 => ErrorKind::Network,
        409 => ErrorKind::Overloaded,
        413 => ErrorKind::ContextOverflow,
        429 if says(ErrorKind::Quota) => ErrorKind::Quota,
        429 => ErrorKind::RateLimited,
        500.. if says(ErrorKind::ContextOverflow) => ErrorKind::ContextOverflow,
        500.. => ErrorKind::Overloaded,
        _ if says(ErrorKind::ContextOverflow) => ErrorKind::ContextOverflow,
        _ if says(ErrorKind::Quota) => ErrorKind::Quota,
        _ => ErrorKind::InvalidRequest,
    };
    Failure::new(kind)
}

/// The kind that a vendor's code or type stands for; `None` for those that say no more than the status.
fn kind_of_code(code: &str) -> Option<ErrorKind> {
    let kind = match code.to_ascii_lowercase().as_str() {
        "context_length_exceeded"
        | "model_context_window_exceeded"
        | "exceed_context_size_error"
        | "request_too_large" => ErrorKind::ContextOverflow,
        "insufficient_quota"
        | "exceeded_current_quota_error"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "billing_error"
        | "insufficient_credits"
        | "insufficient_balance"
        | "usage_limit_reached"
        | "1308" => ErrorKind::Quota,
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limited"
        | "rate_limit_reached_error"
        | "too_many_requests"
        | "resource_exhausted"
        | "throttling_exception" => ErrorKind::RateLimited,
        "overloaded_error"
        | "overloaded"
        | "engine_overloaded_error"
        | "server_error"
        | "server_is_overloaded"
        | "slow_down"
        | "api_error"
        | "internal_error"
        | "internal_server_error"
        | "internal"
        | "service_unavailable"
        | "unavailable" => ErrorKind::Overloaded,
        "timeout_error" | "deadline_exceeded" => ErrorKind::Network,
        "invalid_api_key"
        | "api_key_invalid"
        | "authentication_error"
        | "invalid_authentication_error"
        | "permission_error"
        | "permission_denied"
        | "unauthenticated"
        | "account_deactivated" => ErrorKind::Auth,
        "content_filter"
        | "content_policy_violation"
        | "responsibleaipolicyviolation"
        | "moderation_blocked" => ErrorKind::Refused,
        _ => return None,
    };
    Some(kind)
}
