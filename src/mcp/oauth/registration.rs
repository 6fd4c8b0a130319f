//! Which client signs in: one that was registered beforehand, one with a metadata document, or one that is registered now
//! (RFC 7591).

use serde_json::{Value, json};

use super::{
    Asker, OAuthOptions,
    discovery::{Discovered, refused, text},
    kept::{Kept, Registered},
    url,
};
use crate::{abort::AbortSignal, error::Result, http::HttpRequest, secret::Secret};

/// Returns the client to sign in with.
pub(super) fn client(
    asker: &Asker<'_>,
    options: &OAuthOptions,
    (found, kept): (&Discovered, &Kept),
    redirect_url: &str,
    signal: &AbortSignal,
) -> Result<Registered> {
    if let Some(id) = &options.client_id {
        let (id, secret) = (id.clone(), options.client_secret.clone());
        return Ok(Registered { id, secret, ..Registered::default() });
    }
    if let Some(client) = &kept.client
        && kept.issuer == found.issuer
        && client.redirect_url.as_deref().is_none_or(|url| fits(url, redirect_url))
    {
        return Ok(client.clone());
    }
    if let Some(document) = &options.client_metadata_url
        && found.takes_metadata_documents
    {
        let auth_method = Some("none".to_owned());
        return Ok(Registered { id: document.clone(), auth_method, ..Registered::default() });
    }
    register(asker, options, found, redirect_url, signal)
}

/// Whether a client that was registered with one address may sign in with the other. The port of an address on this
/// machine may differ (RFC 8252).
fn fits(registered: &str, wanted: &str) -> bool {
    let host = |url: &str| url::origin(url).rsplit_once(':').map(|(host, _)| host.to_owned());
    registered == wanted
        || url::is_safe(registered)
            && registered.starts_with("http://")
            && host(registered) == host(wanted)
            && url::path(registered) == url::path(wanted)
}

fn register(
    asker: &Asker<'_>,
    options: &OAuthOptions,
    found: &Discovered,
    redirect_url: &str,
    signal: &AbortSignal,
) -> Result<Registered> {
    let Some(endpoint) = &found.registration_endpoint else {
        let text = format!(
            "the authorization server at {} registers no clients by itself: set a client id",
            found.issuer
        );
        return Err(refused(&text));
    };
    let is_native = !redirect_url.starts_with("https://");
    let mut body = json!({
        "client_name": options.client_name,
        "redirect_uris": [redirect_url],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted_method(found),
        "application_type": if is_native { "native" } else { "web" },
    });
    if let Some(scope) = &options.scope {
        body["scope"] = json!(scope);
    }
    let request = HttpRequest::post(endpoint, body.to_string())
        .header("content-type", "application/json")
        .header("accept", "application/json");
    let (status, body) = asker.ask(&request, signal)?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = text(&answer, "client_id").filter(|_| (200..300).contains(&status));
    let Some(id) = id else {
        let said = text(&answer, "error_description").or(text(&answer, "error"));
        let text = format!(
            "the authorization server at {} did not register the client (status {status}): {}",
            found.issuer,
            said.unwrap_or_default()
        );
        return Err(refused(&text));
    };
    Ok(Registered {
        id,
        secret: text(&answer, "client_secret").map(Secret::new),
        auth_method: text(&answer, "token_endpoint_auth_method"),
        redirect_url: Some(redirect_url.to_owned()),
    })
}

/// A program of its user can keep no secret, so it has none where the server agrees.
fn wanted_method(found: &Discovered) -> &str {
    let methods = &found.auth_methods;
    if methods.is_empty() || methods.iter().any(|it| it == "none") {
        return "none";
    }
    let preferred = ["client_secret_basic", "client_secret_post"];
    preferred.into_iter().find(|it| methods.iter().any(|known| known == it)).unwrap_or("none")
}
