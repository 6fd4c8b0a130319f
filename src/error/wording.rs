//! What an error text says of the recovery, for vendors and gateways that tell it in no other way.
//!
//! Status, code and type decide before any of this is asked.

use crate::error::{ErrorKind, Failure};

/// Reads a kind of failure out of its text; `None` if nothing in it is known.
pub(crate) fn failure_in(text: &str) -> Option<Failure> {
    let text = text.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| contains(&text, phrase));
    let kind = if says(QUOTA) {
        ErrorKind::Quota
    } else if says(RATE_LIMIT) {
        ErrorKind::RateLimited
    } else if is_overflow(&text) {
        ErrorKind::ContextOverflow
    } else if says(OVERLOADED) || says_status(&text, &["500", "502", "503", "504", "520", "524"]) {
        ErrorKind::Overloaded
    } else if says(NETWORK) {
        ErrorKind::Network
    } else if says_status(&text, &["429"]) {
        ErrorKind::RateLimited
    } else {
        return None;
    };
    Some(Failure::new(kind))
}

/// Whether the text says that the transcript is too long. Throttling by tokens is not that.
pub(crate) fn says_overflow(text: &str) -> bool {
    let text = text.to_lowercase();
    !RATE_LIMIT.iter().any(|phrase| contains(&text, phrase))
        && !text.starts_with("service unavailable:")
        && is_overflow(&text)
}

fn is_overflow(text: &str) -> bool {
    OVERFLOW.iter().any(|phrase| contains(text, phrase))
        || text.starts_with("413")
        || text.contains(" api error (413):")
}

/// In all phrases `#` stands for a number and `*` for anything on the way to what follows.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "request_too_large",
    "input is too long for requested model",
    "exceeds the context window",
    "exceeds the maximum context length",
    "exceeds the model's maximum context length",
    "exceeds model's maximum context length",
    "exceeds maximum context length",
    "context window exceeded",
    "input token count*exceeds the maximum",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "maximum context length is # tokens",
    "exceeds maximum allowed input length of #",
    "exceeds the maximum allowed input length of #",
    "input (# tokens) is longer than the model's context length (# tokens)",
    "exceeds the limit of #",
    "exceeds the available context size",
    "exceed_context_size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "too large for model with # maximum context length",
    "prompt has # tokens, but the configured context size is #",
    "model_context_window_exceeded",
    "range of input length should be",
    "context_length_exceeded",
    "too many tokens",
    "token limit exceeded",
];

/// Waiting does not help.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "insufficient quota",
    "out of budget",
    "quota exceeded",
    "exceeded your current quota",
    "billing",
    "insufficient balance",
    "insufficient credits",
    "available balance",
    "monthly limit",
    "monthlylimit",
    "usage_limit_reached",
    "usage limit reached",
    "freeusagelimit",
    "gousagelimit",
    "\"1308\"",
];

const RATE_LIMIT: &[&str] = &[
    "rate limit",
    "rate_limit",
    "rate-limit",
    "ratelimit",
    "too many requests",
    "throttl",
    "resource_exhausted",
    "resourceexhausted",
    "retry delay",
];

const OVERLOADED: &[&str] = &[
    "overloaded",
    "server busy",
    "server is busy",
    "high demand",
    "at capacity",
    "service unavailable",
    "service_unavailable",
    "server error",
    "server_error",
    "server had an error",
    "internal error",
    "internal_error",
    "provider returned error",
    "upstream error",
    "upstream request failed",
    "upstream connect",
    "please try again",
    "please retry",
    "try again later",
    "temporarily unavailable",
];

const NETWORK: &[&str] = &[
    "reset before headers",
    "network error",
    "network_error",
    "connection error",
    "connection refused",
    "connection lost",
    "connection closed",
    "connection reset",
    "provider disconnected",
    "other side closed",
    "fetch failed",
    "getaddrinfo",
    "econnreset",
    "econnaborted",
    "econnrefused",
    "etimedout",
    "epipe",
    "enotfound",
    "eai_again",
    "socket hang up",
    "socket closed",
    "stream interrupted",
    "stream failed",
    "timed out",
    "timeout",
    "terminated",
    "ended without",
    "ended before",
    "stream disconnected",
    "broken pipe",
];

/// Whether one of the numbers stands in the text by itself.
fn says_status(text: &str, numbers: &[&str]) -> bool {
    text.split(|it: char| !it.is_ascii_alphanumeric()).any(|word| numbers.contains(&word))
}

fn contains(text: &str, pattern: &str) -> bool {
    let Some(special) = pattern.find(['#', '*']) else { return text.contains(pattern) };
    let (literal, rest) = pattern.split_at(special);
    let tail = &rest[1..];
    text.match_indices(literal).any(|(at, _)| {
        let after = &text[at + literal.len()..];
        if rest.starts_with('*') {
            return contains(after, tail);
        }
        let number = after.trim_start_matches(|it: char| it.is_ascii_digit() || it == ',');
        number.len() < after.len() && continues(number, tail)
    })
}

/// Whether `text` begins with the pattern.
fn continues(text: &str, pattern: &str) -> bool {
    let Some(special) = pattern.find('#') else { return text.starts_with(pattern) };
    let Some(after) = text.strip_prefix(&pattern[..special]) else { return false };
    let number = after.trim_start_matches(|it: char| it.is_ascii_digit() || it == ',');
    number.len() < after.len() && continues(number, &pattern[special + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, kind: Option<ErrorKind>) {
        assert_eq!(failure_in(text).map(|failure| failure.kind), kind, "{text}");
    }

    #[test]
    fn texts_of_vendors_tell_the_recovery() {
        use ErrorKind::{ContextOverflow, Network, Overloaded, Quota, RateLimited};
        for (text, kind) in [
            ("This model's maximum context length is 8,192 tokens. However", Some(ContextOverflow)),
            ("the request exceeds the available context size. try", Some(ContextOverflow)),
            ("The input token count (1200) exceeds the maximum number", Some(ContextOverflow)),
            (
                "input (9 tokens) is longer than the model's context length (8 tokens)",
                Some(ContextOverflow),
            ),
            ("maximum prompt length is unknown", None),
            ("Throttling error: Too many tokens, please wait", Some(RateLimited)),
            ("Rate limit reached for requests", Some(RateLimited)),
            ("You exceeded your current quota, check your plan and billing", Some(Quota)),
            ("Provider returned error", Some(Overloaded)),
            ("502: bad gateway", Some(Overloaded)),
            ("read ECONNRESET", Some(Network)),
            ("model not found", None),
            ("15020 things", None),
        ] {
            check(text, kind);
        }
    }

    #[test]
    fn throttling_by_tokens_is_no_overflow() {
        assert!(says_overflow("Too many tokens in the prompt"));
        assert!(!says_overflow("Throttling error: Too many tokens"));
    }
}
