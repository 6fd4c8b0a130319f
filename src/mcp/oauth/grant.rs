//! The token endpoint: codes and refresh tokens in, tokens out (OAuth 2.1, RFC 7636, RFC 8707).

use std::time::{SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;

use super::{
    Asker,
    discovery::{refused, text},
    kept::{Kept, Registered},
    url,
};
use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Failure, Result},
    http::HttpRequest,
    secret::{Secret, scrub},
};

/// Asks for tokens with `grant`, and puts them into `kept`.
pub(super) fn ask(
    asker: &Asker<'_>,
    kept: &mut Kept,
    grant: &[(&str, &str)],
    signal: &AbortSignal,
) -> Result<()> {
    if !url::is_safe(&kept.token_endpoint) {
        let text = format!(
            "the token endpoint {} is not asked, since it is neither https nor on this machine",
            url::origin(&kept.token_endpoint)
        );
        return Err(refused(&text));
    }
    let client =
        kept.client.clone().ok_or_else(|| refused("there is no client to sign in with"))?;
    let mut pairs = grant.to_vec();
    if let Some(resource) = &kept.resource {
        pairs.push(("resource", resource));
    }
    let request = authenticated(&kept.token_endpoint, &client, &kept.auth_methods, &pairs);
    let secrets: Vec<Secret> = grant.iter().map(|(_, value)| Secret::new(*value)).collect();
    let (status, body) = asker.ask(&request, signal)?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(code) = text(&answer, "error") {
        let said = text(&answer, "error_description").unwrap_or_default();
        let said = scrub(&said, secrets.iter().chain(&client.secret));
        let mut failure = Failure::new(ErrorKind::Auth);
        (failure.status, failure.code) = (Some(status), Some(code.clone()));
        let message = format!("the authorization server gave no token ({code}): {said}");
        return Err(Error::from_failure(failure, message));
    }
    let access = text(&answer, "access_token").filter(|_| (200..300).contains(&status));
    let Some(access) = access else {
        let kind = if status >= 500 { ErrorKind::Overloaded } else { ErrorKind::Auth };
        let message = format!("the authorization server gave no token (status {status})");
        return Err(Error::new(kind, message));
    };
    kept.access = Secret::new(access);
    if let Some(refresh) = text(&answer, "refresh_token") {
        kept.refresh = Some(Secret::new(refresh));
    }
    kept.expires = answer.get("expires_in").and_then(seconds).map(|seconds| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        now.saturating_add(seconds.saturating_mul(1000))
    });
    if let Some(scope) = text(&answer, "scope") {
        kept.scope = Some(scope);
    }
    Ok(())
}

/// Some servers write the number as a text.
fn seconds(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A request that shows who the client is.
fn authenticated(
    endpoint: &str,
    client: &Registered,
    known: &[String],
    pairs: &[(&str, &str)],
) -> HttpRequest {
    let mut pairs = pairs.to_vec();
    let secret = client.secret.as_ref();
    let mut basic = None;
    match (method(client, known), secret) {
        ("client_secret_basic", Some(secret)) => {
            let pair = format!("{}:{}", url::encoded(&client.id), url::encoded(secret.expose()));
            basic = Some(Secret::new(format!("Basic {}", BASE64_STANDARD.encode(pair))));
        }
        ("client_secret_post", Some(secret)) => {
            pairs.push(("client_id", &client.id));
            pairs.push(("client_secret", secret.expose()));
        }
        _ => pairs.push(("client_id", &client.id)),
    }
    let request = HttpRequest::post(endpoint, url::form(&pairs))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json");
    match basic {
        Some(basic) => request.secret_header("authorization", &basic),
        None => request,
    }
}

fn method<'a>(client: &'a Registered, known: &'a [String]) -> &'a str {
    let is_known = |method: &str| known.is_empty() || known.iter().any(|it| it == method);
    if let Some(method) = client.auth_method.as_deref()
        && is_known(method)
    {
        return method;
    }
    if client.secret.is_none() {
        return "none";
    }
    let preferred = ["client_secret_basic", "client_secret_post", "none"];
    preferred.into_iter().find(|method| is_known(method)).unwrap_or("client_secret_basic")
}
