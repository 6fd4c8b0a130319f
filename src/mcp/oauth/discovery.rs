//! Who gives out the tokens of a server, and where: RFC 9728, RFC 8414 and OpenID Connect discovery.

use serde_json::Value;

use super::{Asker, challenge::Challenge, url};
use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    http::HttpRequest,
};

/// What was found out about the authorization server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Discovered {
    /// What answers and tokens name as their origin.
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) registration_endpoint: Option<String>,
    /// Names the server to the authorization server.
    pub(crate) resource: Option<String>,
    /// Those of the server.
    pub(crate) scopes: Option<String>,
    /// Those that the authorization server knows.
    pub(crate) known_scopes: Vec<String>,
    /// How clients may show who they are; empty if it does not say.
    pub(crate) auth_methods: Vec<String>,
    pub(crate) takes_metadata_documents: bool,
    pub(crate) sends_iss: bool,
    /// Why its metadata forbids signing in, if it does.
    pub(crate) refusal: Option<String>,
}

/// What a server says about itself.
struct Resource {
    authorization_server: Option<String>,
    resource: Option<String>,
    scopes: Option<String>,
}

/// Finds out who gives out the tokens of `server`. `metadata_url` says where its metadata is, if that is known.
pub(super) fn discover(
    asker: &Asker<'_>,
    server: &str,
    challenge: &Challenge,
    metadata_url: Option<&str>,
    signal: &AbortSignal,
) -> Result<Discovered> {
    let resource = find_resource(asker, server, challenge, signal)?;
    let named = resource.as_ref().and_then(|it| it.authorization_server.clone());
    let issuer = named.clone().unwrap_or_else(|| url::origin(server).to_owned());
    if metadata_url.is_none() && !url::may_name(server, &issuer) {
        return Err(refused(
            "the MCP server names an authorization server that is not asked: it has no https address, or one of this \
             machine or network",
        ));
    }
    let places = match metadata_url {
        Some(place) => vec![place.to_owned()],
        None => places(&issuer),
    };
    let mut found = match find_metadata(asker, &places, signal)? {
        Some(metadata) => {
            let said = text(&metadata, "issuer").unwrap_or_default();
            // A server without metadata of its own has named nobody, so anything at its own place will do.
            let is_right = match (metadata_url, &named) {
                (Some(_), _) => true,
                (None, Some(_)) => said.trim_end_matches('/') == issuer.trim_end_matches('/'),
                (None, None) => url::same_origin(&said, &issuer),
            };
            if !is_right {
                return Err(refused(&format!(
                    "the authorization server at {issuer} says that it is {said}, which is somebody else"
                )));
            }
            from_metadata(&metadata, &issuer)
        }
        None => by_custom(&issuer),
    };
    if let Some(resource) = resource {
        found.resource = resource.resource;
        found.scopes = resource.scopes;
    }
    // Who set the address of the metadata trusts what is there.
    let is_right = |endpoint: &String| match metadata_url {
        Some(_) => url::is_http(endpoint),
        None => url::may_name(server, endpoint),
    };
    let endpoints = [&found.authorization_endpoint, &found.token_endpoint];
    if !endpoints.into_iter().chain(&found.registration_endpoint).all(is_right) {
        return Err(refused(
            "the authorization server has an endpoint that is not asked: it has no https address, or one of this \
             machine or network",
        ));
    }
    Ok(found)
}

fn find_resource(
    asker: &Asker<'_>,
    server: &str,
    challenge: &Challenge,
    signal: &AbortSignal,
) -> Result<Option<Resource>> {
    let (origin, path) = (url::origin(server), url::path(server));
    let known = format!("{origin}/.well-known/oauth-protected-resource");
    let places = match &challenge.resource_metadata {
        Some(place) if url::may_name(server, place) => vec![place.clone()],
        _ if path.is_empty() => vec![known],
        _ => vec![format!("{known}{path}"), known],
    };
    for place in places {
        let Some(metadata) = get(asker, &place, signal)? else { continue };
        let resource = text(&metadata, "resource");
        if let Some(resource) = &resource {
            let is_prefix = url::path(server)
                .strip_prefix(url::path(resource))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if !url::same_origin(resource, server) || !is_prefix {
                return Err(refused(&format!(
                    "the metadata of the MCP server are those of another one, {resource}"
                )));
            }
        }
        let first = |name: &str| metadata.get(name)?.get(0)?.as_str().map(str::to_owned);
        return Ok(Some(Resource {
            authorization_server: first("authorization_servers"),
            resource,
            scopes: Some(texts(&metadata, "scopes_supported").join(" "))
                .filter(|it| !it.is_empty()),
        }));
    }
    Ok(None)
}

/// Where the metadata of an authorization server may be.
fn places(issuer: &str) -> Vec<String> {
    let (origin, path) = (url::origin(issuer), url::path(issuer));
    let mut places = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    places
}

fn find_metadata(
    asker: &Asker<'_>,
    places: &[String],
    signal: &AbortSignal,
) -> Result<Option<Value>> {
    for place in places {
        if let Some(metadata) = get(asker, place, signal)? {
            return Ok(Some(metadata));
        }
    }
    Ok(None)
}

/// Asks for a document; none if it is not there, or is none.
fn get(asker: &Asker<'_>, place: &str, signal: &AbortSignal) -> Result<Option<Value>> {
    let request = HttpRequest::get(place).header("accept", "application/json");
    let (status, body) = asker.ask(&request, signal)?;
    match status {
        200..=299 => Ok(serde_json::from_slice(&body).ok().filter(Value::is_object)),
        400..=499 | 502 => Ok(None),
        status => {
            let text = format!("{} answered with status {status}", url::origin(place));
            Err(Error::new(ErrorKind::Overloaded, text))
        }
    }
}

fn from_metadata(metadata: &Value, issuer: &str) -> Discovered {
    let custom = by_custom(issuer);
    let flag = |name: &str| metadata.get(name).and_then(Value::as_bool).unwrap_or(false);
    let lacks = |name: &str, what: &str| {
        metadata.get(name).is_some_and(|list| {
            list.as_array().is_some_and(|list| !list.iter().any(|it| it == what))
        })
    };
    let refusal = if lacks("response_types_supported", "code") {
        Some("it does not offer to sign in with a code".to_owned())
    } else if lacks("code_challenge_methods_supported", "S256") {
        Some("it does not know the challenge S256 (PKCE)".to_owned())
    } else {
        None
    };
    Discovered {
        issuer: text(metadata, "issuer").unwrap_or(custom.issuer),
        authorization_endpoint: text(metadata, "authorization_endpoint")
            .unwrap_or(custom.authorization_endpoint),
        token_endpoint: text(metadata, "token_endpoint").unwrap_or(custom.token_endpoint),
        registration_endpoint: text(metadata, "registration_endpoint"),
        known_scopes: texts(metadata, "scopes_supported"),
        auth_methods: texts(metadata, "token_endpoint_auth_methods_supported"),
        takes_metadata_documents: flag("client_id_metadata_document_supported"),
        sends_iss: flag("authorization_response_iss_parameter_supported"),
        refusal,
        ..Discovered::default()
    }
}

/// What an authorization server without metadata has by custom.
fn by_custom(issuer: &str) -> Discovered {
    let origin = url::origin(issuer);
    Discovered {
        issuer: issuer.to_owned(),
        authorization_endpoint: format!("{origin}/authorize"),
        token_endpoint: format!("{origin}/token"),
        registration_endpoint: Some(format!("{origin}/register")),
        ..Discovered::default()
    }
}

pub(super) fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned)
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    let list = value.get(name).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn refused(text: &str) -> Error {
    Error::new(ErrorKind::Auth, text)
}
