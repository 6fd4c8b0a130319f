//! Compares what came of a call with its recording: what carries meaning, tokens for our own words, numbers by value.

use serde_json::{Map, Value};
use steerage::ErrorKind;

use super::{parse, play::Played};

/// What else the comparison goes by.
pub(super) struct View<'a> {
    /// The scripted responses.
    pub(super) script: &'a Value,
    pub(super) may_leave_responses: bool,
    pub(super) record_headers: Value,
    /// Whether texts of the recording are those of another language's runtime.
    pub(super) has_runtime_texts: bool,
}

/// Headers that may not be sent if they were not recorded.
const MEANINGFUL: &[&str] = &[
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "anthropic-version",
    "anthropic-beta",
    "content-type",
    "session_id",
    "session-id",
    "x-session-id",
    "x-client-request-id",
    "x-session-affinity",
    "x-affinity",
    "x-opencode-session",
    "x-opencode-client",
    "http-referer",
    "x-openrouter-title",
    "x-openrouter-categories",
    "x-billing-invoke-origin",
];

/// Headers that hold a key in one form or another.
const KEYS: &[&str] = &["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Recorded headers that carry no meaning.
const IGNORED: &[&str] = &["accept", "user-agent", "anthropic-dangerous-direct-browser-access"];

/// The first difference of a call.
pub(super) fn turn(golden: &Value, played: &Played, view: &View<'_>) -> Option<String> {
    let golden = &with_server(golden, &played.server);
    requests(golden, played, view)
        .or_else(|| list("event", golden["events"].as_array()?, &played.events))
        .or_else(|| message(&golden["message"], &played.message))
        .or_else(|| usage(&golden["usage"], &played.message["usage"]))
        .or_else(|| delays(golden, played))
        .or_else(|| error(played, view))
        .or_else(|| {
            let is_left = played.unused > 0 && !view.may_leave_responses;
            is_left.then(|| format!("{} responses were not asked for", played.unused))
        })
}

fn requests(golden: &Value, played: &Played, view: &View<'_>) -> Option<String> {
    let recorded = golden["requests"].as_array()?;
    if recorded.len() != played.requests.len() {
        let (expected, got) = (recorded.len(), played.requests.len());
        return Some(format!("expected {expected} requests, got {got}"));
    }
    for (index, (recorded, sent)) in recorded.iter().zip(&played.requests).enumerate() {
        let differs =
            |what: &str, expected: &dyn std::fmt::Display, got: &dyn std::fmt::Display| {
                Some(format!("request {index}: {what}\n  expected {expected}\n  got      {got}"))
            };
        let path = sent.path.replace("?beta=true", "");
        let recorded_path = recorded["path"].as_str().unwrap().replace("?beta=true", "");
        if recorded["method"] != sent.method || recorded_path != path {
            return differs("place", &recorded_path, &path);
        }
        if let Some(origin) = recorded["origin"].as_str() {
            let got = played.origins.get(index).map_or("", String::as_str);
            if got != origin {
                return differs("origin", &origin, &got);
            }
        }
        if let Some(difference) = headers(recorded["headers"].as_object()?, sent, view) {
            return Some(format!("request {index}: {difference}"));
        }
        let body: Value = serde_json::from_slice(&sent.body).unwrap_or_default();
        if !same(&recorded["body"], &body) {
            let place = first_difference("body", &recorded["body"], &body);
            return differs(&place, &recorded["body"], &body);
        }
    }
    None
}

fn headers(
    recorded: &Map<String, Value>,
    sent: &steerage::testing::server::Request,
    view: &View<'_>,
) -> Option<String> {
    let is_key = |name: &str| KEYS.contains(&name);
    let recorded_keys = recorded.iter().filter(|(name, _)| is_key(name));
    let mut expected: Vec<&str> =
        recorded_keys.filter_map(|(_, it)| it.as_str().map(bare)).collect();
    let sent_keys = KEYS.iter().filter_map(|name| sent.header(name).map(bare));
    let mut got: Vec<&str> = sent_keys.collect();
    expected.sort_unstable();
    got.sort_unstable();
    if expected != got {
        return Some(format!("keys\n  expected {expected:?}\n  got      {got:?}"));
    }
    for (name, value) in recorded {
        let is_recorded =
            view.record_headers.as_array().is_some_and(|it| it.contains(&name.as_str().into()));
        if is_key(name) || (IGNORED.contains(&name.as_str()) && !is_recorded) {
            continue;
        }
        let got = sent.header(name);
        let is_own_name = match (name.as_str(), value.as_str()) {
            // The name of the other library, or of its language.
            ("user-agent", Some("pi")) => got == Some("steerage"),
            ("user-agent", Some("node")) => true,
            _ => false,
        };
        if got != value.as_str() && !is_own_name {
            return Some(format!("header {name}\n  expected {value}\n  got      {got:?}"));
        }
    }
    for (name, value) in &sent.headers {
        let name = name.to_lowercase();
        let is_meant = MEANINGFUL.contains(&name.as_str()) && !is_key(&name);
        if is_meant && !recorded.contains_key(&name) {
            return Some(format!("header {name}: {value} was not recorded"));
        }
    }
    None
}

fn bare(value: &str) -> &str {
    value.strip_prefix("Bearer ").unwrap_or(value)
}

fn message(golden: &Value, ours: &Map<String, Value>) -> Option<String> {
    let mut ours = ours.clone();
    for own in ["usage", "timestamp", "durationMs", "failure"] {
        ours.remove(own);
    }
    for note in ours.get_mut("diagnostics").and_then(Value::as_array_mut).into_iter().flatten() {
        note.as_object_mut()?.remove("timestamp");
    }
    let mut golden = golden.as_object()?.clone();
    golden.remove("role");
    let (golden, ours) = (Value::Object(golden), Value::Object(ours));
    (!same(&golden, &ours)).then(|| {
        let place = first_difference("message", &golden, &ours);
        format!("{place}\n  expected {golden}\n  got      {ours}")
    })
}

fn usage(golden: &Value, ours: &Value) -> Option<String> {
    // What is false or absent says the same.
    let clean = |usage: &Value| {
        let mut usage = usage.clone();
        if usage["cost"]["totalFromProvider"] != true {
            usage["cost"].as_object_mut()?.remove("totalFromProvider");
        }
        Some(usage)
    };
    let (golden, ours) = (clean(golden)?, clean(ours)?);
    (!same(&golden, &ours)).then(|| format!("usage\n  expected {golden}\n  got      {ours}"))
}

fn delays(golden: &Value, played: &Played) -> Option<String> {
    let recorded: Vec<f64> = golden["retryDelaysMs"]
        .as_array()
        .map(|it| it.iter().filter_map(Value::as_f64).collect())
        .unwrap_or_default();
    let ours = &played.retry_delays;
    let same = recorded.len() == ours.len()
        && recorded.iter().zip(ours).all(|(a, b)| (a - b).abs() < 0.01);
    (!same).then(|| format!("retry delays\n  expected {recorded:?}\n  got      {ours:?}"))
}

/// A failure says what the server said, and has the kind that the status asks for.
fn error(played: &Played, view: &View<'_>) -> Option<String> {
    let text = played.message.get("errorMessage")?.as_str()?;
    let last = view.script.as_array()?.get(played.requests.len().checked_sub(1)?)?;
    let failure = &played.message["failure"];
    if played.message["stopReason"] == "aborted" {
        return None;
    }
    if let Some(said) = said_by_server(last).filter(|_| !view.has_runtime_texts)
        && !text.contains(&said)
    {
        return Some(format!(
            "the error does not say what the server said\n  expected {said}\n  got      {text}"
        ));
    }
    let status = last["status"].as_u64().filter(|it| *it >= 400)?;
    let kind = kind_of(status, &String::from_utf8_lossy(&parse::body(last)));
    let expected = serde_json::to_value(kind).unwrap();
    let is_right = failure["kind"] == expected && failure["status"] == status;
    (!is_right).then(|| {
        format!("failure\n  expected {expected} with status {status}\n  got      {failure}")
    })
}

/// The server's own words, if it has any.
fn said_by_server(response: &Value) -> Option<String> {
    let body = parse::body(response);
    let body = String::from_utf8_lossy(&body);
    let without_key = |text: &str| text.replace("test-key", "***");
    let in_json = |text: &str| -> Option<String> {
        let json: Value = serde_json::from_str(text).ok()?;
        let json = json.as_array().and_then(|it| it.first()).unwrap_or(&json);
        let error = json.get("error")?;
        error.as_str().or_else(|| error["message"].as_str()).map(without_key)
    };
    if response["status"].as_u64().unwrap_or(200) >= 400 {
        let is_json = serde_json::from_str::<Value>(&body).is_ok();
        let plain = body.trim();
        return in_json(&body)
            .or_else(|| (!is_json && !plain.is_empty()).then(|| without_key(plain)));
    }
    body.lines().filter_map(|line| line.strip_prefix("data:")).find_map(|data| in_json(data.trim()))
}

fn kind_of(status: u64, body: &str) -> ErrorKind {
    let says = |words: &[&str]| words.iter().any(|word| body.contains(word));
    match status {
        _ if says(&["context_length_exceeded", "prompt is too long", "maximum context length"]) => {
            ErrorKind::ContextOverflow
        }
        400 if says(&["API_KEY_INVALID"]) => ErrorKind::Auth,
        400 if says(&["\"content_filter\""]) => ErrorKind::Refused,
        429 if says(&["insufficient_quota"]) => ErrorKind::Quota,
        401 | 403 => ErrorKind::Auth,
        402 => ErrorKind::Quota,
        413 => ErrorKind::ContextOverflow,
        429 => ErrorKind::RateLimited,
        500.. => ErrorKind::Overloaded,
        _ => ErrorKind::InvalidRequest,
    }
}

fn list(what: &str, golden: &[Value], ours: &[Value]) -> Option<String> {
    for index in 0..golden.len().max(ours.len()) {
        let (expected, got) = (golden.get(index), ours.get(index));
        if !matches!((expected, got), (Some(expected), Some(got)) if same(expected, got)) {
            let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            let (expected, got) = (show(expected), show(got));
            return Some(format!("{what} {index}\n  expected {expected}\n  got      {got}"));
        }
    }
    None
}

/// Whether two values say the same: numbers by value, our own words where the recording has a token.
fn same(golden: &Value, ours: &Value) -> bool {
    match (golden, ours) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        (Value::String(golden), Value::String(ours)) => says_the_same(golden, ours),
        (Value::Array(golden), Value::Array(ours)) => {
            golden.len() == ours.len() && golden.iter().zip(ours).all(|(a, b)| same(a, b))
        }
        (Value::Object(golden), Value::Object(ours)) => {
            golden.len() == ours.len()
                && golden
                    .iter()
                    .all(|(name, value)| ours.get(name).is_some_and(|it| same(value, it)))
        }
        _ => golden == ours,
    }
}

/// Tokens that stand for words of our own; those with a name want to see it.
const TOKENS: &[&str] = &[
    "@present",
    "@image-omitted",
    "@image-follows",
    "@image-caption",
    "@see-image",
    "@no-result",
    "@no-output",
    "@bridge",
    "@redacted",
    "@error ",
    "@section-updated(",
    "@section-removed(",
    "@tools-update",
    "@tools-removed",
    "{{now}}",
];

fn says_the_same(golden: &str, ours: &str) -> bool {
    let next = TOKENS.iter().filter_map(|token| Some((golden.find(token)?, *token))).min();
    let Some((at, token)) = next else { return golden == ours };
    if golden == "@present" {
        return !ours.is_empty();
    }
    let Some(rest) = ours.strip_prefix(&golden[..at]) else { return false };
    let mut after = &golden[at + token.len()..];
    let mut name = "";
    if token.ends_with('(') {
        (name, after) = after.split_once(')').unwrap_or((after, ""));
    }
    let fits = |words: &str| match token {
        "{{now}}" => words.bytes().all(|it| it.is_ascii_alphanumeric()),
        _ => words.contains(name) && words.len() < 2000,
    };
    (1..=rest.len())
        .filter(|end| rest.is_char_boundary(*end) && fits(&rest[..*end]))
        .any(|end| says_the_same(after, &rest[end..]))
}

/// Names the first place where two values differ.
fn first_difference(place: &str, golden: &Value, ours: &Value) -> String {
    match (golden, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) if same(a, b) => (),
                    (Some(a), Some(b)) => {
                        return first_difference(&format!("{place}.{name}"), a, b);
                    }
                    _ => return format!("{place}.{name}"),
                }
            }
            place.to_owned()
        }
        (Value::Array(a), Value::Array(b)) => {
            let differing = a.iter().zip(b).position(|(a, b)| !same(a, b));
            match differing {
                Some(index) => first_difference(&format!("{place}[{index}]"), &a[index], &b[index]),
                None => format!("{place} (length)"),
            }
        }
        _ => place.to_owned(),
    }
}

fn with_server(value: &Value, server: &str) -> Value {
    let host = server.split_once("://").unwrap().1;
    let text = value.to_string().replace("{{server}}", server).replace("{{server_host}}", host);
    serde_json::from_str(&text).unwrap()
}
