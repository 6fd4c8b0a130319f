//! Signing in, against a scripted server that is its own authorization server.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use serde_json::{Value, json};
use steerage::{
    AbortController, AbortSignal, Error, ErrorKind, Result, Secret,
    auth::{Credential, CredentialStore, MemoryStore},
    mcp::{
        Client, ClientOptions, Http, HttpServerOptions, Loopback, OAuth, OAuthOptions,
        oauth::Browser,
        transport::{Authorization, Refusal},
    },
    testing::server::{Request, Response, Server},
};

use super::hello;

/// Where the user is led to, without a browser.
struct Quick {
    /// What is added to the answer.
    extra: &'static str,
    visits: Arc<AtomicUsize>,
}

const BACK: &str = "http://127.0.0.1/callback";

impl Browser for Quick {
    fn redirect_url(&self) -> Result<String> {
        Ok(BACK.to_owned())
    }

    fn visit(&self, page: &str, _: &AbortSignal) -> Result<String> {
        self.visits.fetch_add(1, Ordering::SeqCst);
        Ok(format!("{BACK}?code=c0de-123456&state={}{}", parameter(page, "state"), self.extra))
    }
}

fn parameter(url: &str, name: &str) -> String {
    let query = url.split('?').nth(1).unwrap_or_default();
    let pair = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    pair.unwrap_or_default().to_owned()
}

/// What the authorization server does at its endpoints.
#[derive(Clone)]
struct Plan {
    /// Changes the metadata of server and authorization server.
    metadata: fn(&mut Value, &mut Value),
    /// Answers the token endpoint.
    token: fn(&str) -> Response,
    /// Which token the server takes.
    good: &'static str,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            metadata: |_, _| (),
            token: |_| {
                Response::json(
                    200,
                    r#"{"access_token":"token-123456","refresh_token":"refresh-123456","expires_in":3600}"#,
                )
            },
            good: "token-123456",
        }
    }
}

/// A server that wants a token, which it also gives out.
fn server(plan: Plan) -> Server {
    let answer = move |request: &Request| {
        let host = format!("http://{}", request.header("host").unwrap_or_default());
        let mut resource = json!({"resource": format!("{host}/mcp"), "authorization_servers": [host], "scopes_supported": ["a", "b"]});
        let mut issuer = json!({
            "issuer": host, "authorization_endpoint": format!("{host}/authorize"), "token_endpoint": format!("{host}/token"),
            "registration_endpoint": format!("{host}/register"), "code_challenge_methods_supported": ["S256"],
        });
        (plan.metadata)(&mut resource, &mut issuer);
        match request.path.as_str() {
            "/.well-known/oauth-protected-resource/mcp" => {
                Response::json(200, resource.to_string())
            }
            "/.well-known/oauth-authorization-server" => Response::json(200, issuer.to_string()),
            "/register" => Response::json(201, r#"{"client_id":"client-1"}"#),
            "/token" => (plan.token)(&request.text()),
            "/mcp" => mcp(request, plan.good),
            _ => Response::new(404),
        }
    };
    Server::answering(answer).unwrap()
}

fn mcp(request: &Request, good: &str) -> Response {
    if request.header("authorization") != Some(&format!("Bearer {good}")) {
        return Response::new(401).header("www-authenticate", "Bearer");
    }
    let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    match message["method"].as_str() {
        Some("initialize") => Response::json(
            200,
            json!({"jsonrpc": "2.0", "id": message["id"], "result": hello()}).to_string(),
        ),
        Some("ping") => Response::json(
            200,
            json!({"jsonrpc": "2.0", "id": message["id"], "result": {}}).to_string(),
        ),
        Some(_) => Response::new(202),
        None => Response::new(405),
    }
}

fn options(server: &Server, extra: &'static str) -> (OAuthOptions, Arc<AtomicUsize>) {
    let visits = Arc::new(AtomicUsize::new(0));
    let browser = Quick { extra, visits: visits.clone() };
    let options = OAuthOptions {
        browser: Some(Arc::new(browser)),
        ..OAuthOptions::new(format!("{}/mcp", server.url()), MemoryStore::default())
    };
    (options, visits)
}

fn connect(server: &Server, oauth: OAuth) -> Result<Client> {
    let options = HttpServerOptions {
        authorization: Some(Arc::new(oauth)),
        ..HttpServerOptions::new(format!("{}/mcp", server.url()))
    };
    Client::connect(Http::new(options), ClientOptions::default(), &AbortSignal::never())
}

fn sent(server: &Server, path: &str) -> Vec<String> {
    let requests = server.requests();
    requests.iter().filter(|it| it.path == path).map(Request::text).collect()
}

#[test]
fn a_server_that_wants_a_token_gets_one() {
    let server = server(Plan::default());
    let (options, visits) = options(&server, "");
    let client = connect(&server, OAuth::new(options.clone())).unwrap();
    client.ping(&AbortSignal::never()).unwrap();
    assert_eq!(visits.load(Ordering::SeqCst), 1);
    let asked = &sent(&server, "/token")[0];
    for part in [
        "grant_type=authorization_code",
        "code=c0de-123456",
        "client_id=client-1",
        "resource=http%3A%2F%2F127.0.0.1",
        "code_verifier=",
    ] {
        assert!(asked.contains(part), "{part} in {asked}");
    }
    let registered: Value = serde_json::from_str(&sent(&server, "/register")[0]).unwrap();
    assert_eq!(registered["redirect_uris"], json!([BACK]));
    assert_eq!(registered["application_type"], "native");
    // The next start of the program needs no sign-in.
    connect(&server, OAuth::new(options)).unwrap();
    assert_eq!(visits.load(Ordering::SeqCst), 1);
}

#[track_caller]
fn check_refused(plan: Plan, extra: &'static str, expected: &str) {
    let server = server(plan);
    let (options, _) = options(&server, extra);
    let error = connect(&server, OAuth::new(options)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert!(error.message().contains(expected), "{error}");
    assert!(!error.message().contains("123456"), "{error}");
}

#[test]
fn a_sign_in_that_is_not_right_is_refused() {
    let metadata = |metadata| Plan { metadata, ..Plan::default() };
    check_refused(
        metadata(|resource, _| resource["resource"] = json!("https://evil.example/mcp")),
        "",
        "those of another one, https://evil.example/mcp",
    );
    check_refused(
        metadata(|_, issuer| issuer["issuer"] = json!("https://evil.example")),
        "",
        "says that it is https://evil.example",
    );
    check_refused(
        metadata(|_, issuer| issuer["code_challenge_methods_supported"] = json!(["plain"])),
        "",
        "does not know the challenge S256",
    );
    check_refused(
        metadata(|_, issuer| {
            issuer["authorization_response_iss_parameter_supported"] = json!(true);
        }),
        "",
        "from another authorization server",
    );
    check_refused(
        Plan::default(),
        "&iss=https%3A%2F%2Fevil.example",
        "from another authorization server",
    );
    check_refused(
        Plan::default(),
        "&error=access_denied&error_description=no",
        "(access_denied): no",
    );
    let token = |_: &str| {
        let said = r#"{"error":"invalid_grant","error_description":"code c0de-123456 is old"}"#;
        Response::json(400, said)
    };
    check_refused(Plan { token, ..Plan::default() }, "", "(invalid_grant): code *** is old");
}

#[test]
fn addresses_that_lead_elsewhere_are_refused() {
    let metadata = |metadata| Plan { metadata, ..Plan::default() };
    check_refused(
        metadata(|_, issuer| issuer["authorization_endpoint"] = json!("file:///bin/sh")),
        "",
        "an endpoint that is not asked",
    );
    // A password before the host makes an address look like one of this machine.
    check_refused(
        metadata(|_, issuer| {
            issuer["token_endpoint"] = json!("http://localhost:1@evil.example/token");
        }),
        "",
        "an endpoint that is not asked",
    );
    check_refused(
        metadata(|_, issuer| {
            issuer["registration_endpoint"] = json!("file:///etc/passwd");
        }),
        "",
        "an endpoint that is not asked",
    );
    check_refused(
        metadata(|resource, _| {
            resource["authorization_servers"] = json!(["http://127.0.0.1@evil.example"]);
        }),
        "",
        "names an authorization server that is not asked",
    );
    check_refused(
        metadata(|_, issuer| issuer["token_endpoint"] = json!("http://far.example/token")),
        "",
        "neither https nor on this machine",
    );
}

#[test]
fn a_token_that_is_refused_is_renewed_once_for_all() {
    let plan = Plan {
        token: |asked| {
            assert!(asked.contains("grant_type=refresh_token"), "{asked}");
            Response::json(200, r#"{"access_token":"token-new-123456","expires_in":"3600"}"#)
        },
        good: "token-new-123456",
        ..Plan::default()
    };
    let server = server(plan);
    let (options, visits) = options(&server, "");
    let store = options.store.clone();
    keep(&*store, &server, "token-old-123456");
    let oauth = OAuth::new(options);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| connect(&server, oauth.clone()))).collect();
        for one in all {
            one.join().unwrap().unwrap();
        }
    });
    assert_eq!(sent(&server, "/token").len(), 1);
    assert_eq!(visits.load(Ordering::SeqCst), 0);
    let kept = store.read(&format!("mcp:{}/mcp", server.url())).unwrap().unwrap();
    let Credential::Token(token) = kept else { panic!() };
    assert_eq!(token.refresh, Some(Secret::new("refresh-123456")), "the old one still counts");
}

/// Puts a token into the store as an earlier sign-in would have.
fn keep(store: &dyn CredentialStore, server: &Server, access: &str) {
    let url = format!("{}/mcp", server.url());
    let credential = json!({
        "type": "oauth", "access": access, "refresh": "refresh-123456",
        "mcp": {
            "server": url, "issuer": server.url(), "tokenEndpoint": format!("{}/token", server.url()),
            "client": {"id": "client-1"}, "scope": "a",
        },
    });
    store.write(&format!("mcp:{url}"), Credential::from_json(&credential).unwrap()).unwrap();
}

#[test]
fn a_refresh_token_that_is_refused_leads_to_a_new_sign_in() {
    let plan = Plan {
        token: |asked| {
            if asked.contains("grant_type=refresh_token") {
                return Response::json(400, r#"{"error":"invalid_grant"}"#);
            }
            Response::json(200, r#"{"access_token":"token-123456"}"#)
        },
        ..Plan::default()
    };
    let server = server(plan);
    let (options, visits) = options(&server, "");
    keep(&*options.store, &server, "token-old-123456");
    connect(&server, OAuth::new(options)).unwrap();
    assert_eq!(visits.load(Ordering::SeqCst), 1);
    assert!(sent(&server, "/register").is_empty(), "the client is still known");
}

#[test]
fn a_token_of_another_address_is_never_sent() {
    let server = server(Plan::default());
    let (options, _) = options(&server, "");
    let url = &options.server_url;
    let credential = json!({"type": "oauth", "access": "token-123456", "mcp": {"server": "https://other.example/mcp"}});
    options
        .store
        .write(&format!("mcp:{url}"), Credential::from_json(&credential).unwrap())
        .unwrap();
    assert_eq!(OAuth::new(options).token(&AbortSignal::never()).unwrap(), None);
}

#[test]
fn more_rights_are_asked_for_on_top_of_those_that_were_given() {
    let server = server(Plan::default());
    let (options, _) = options(&server, "");
    keep(&*options.store, &server, "token-old-123456");
    let (pages, seen) = mpsc::channel();
    let oauth = OAuth::new(OAuthOptions { browser: Some(Arc::new(Watched(pages))), ..options });
    let token = oauth.token(&AbortSignal::never()).unwrap();
    let refusal = Refusal {
        status: 403,
        challenge: Some(r#"Bearer error="insufficient_scope", scope="x a""#),
        token: token.as_ref(),
    };
    assert!(oauth.refused(&refusal, &AbortSignal::never()).unwrap());
    assert_eq!(parameter(&seen.recv().unwrap(), "scope"), "a%20x");
    // The same again would lead nowhere.
    let token = oauth.token(&AbortSignal::never()).unwrap();
    let again = Refusal { token: token.as_ref(), ..refusal };
    let error = oauth.refused(&again, &AbortSignal::never()).unwrap_err();
    assert!(error.message().contains("rights that the token has already"), "{error}");
}

/// Tells which pages were shown.
struct Watched(mpsc::Sender<String>);

impl Browser for Watched {
    fn redirect_url(&self) -> Result<String> {
        Ok(BACK.to_owned())
    }

    fn visit(&self, page: &str, _: &AbortSignal) -> Result<String> {
        let _ = self.0.send(page.to_owned());
        Ok(format!("{BACK}?code=c0de-123456&state={}", parameter(page, "state")))
    }
}

#[test]
fn a_host_may_sign_in_in_two_halves() {
    let server = server(Plan::default());
    let (options, _) = options(&server, "");
    let oauth = OAuth::new(OAuthOptions { browser: None, ..options });
    let error = connect(&server, oauth.clone()).unwrap_err();
    assert_eq!((error.kind(), error.failure().code.as_deref()), (ErrorKind::Auth, Some("sign_in")));
    let signal = AbortSignal::never();
    let wrong = oauth.start(BACK, &signal).unwrap();
    let answer = format!("{BACK}?code=c0de-123456&state=another");
    let error = oauth.finish(wrong, &answer, &signal).unwrap_err();
    assert_eq!(error.message(), "the answer is not that of this sign-in");
    let sign_in = oauth.start(BACK, &signal).unwrap();
    assert!(sign_in.page().starts_with(&format!("{}/authorize?", server.url())));
    let answer = format!("{BACK}?code=c0de-123456&state={}", sign_in.state());
    oauth.finish(sign_in, &answer, &signal).unwrap();
    connect(&server, oauth).unwrap();
}

fn get(url: &str, target: &str) -> String {
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn the_port_of_the_machine_takes_the_right_answer_only() {
    let (pages, page) = mpsc::channel();
    let loopback = Loopback::new(move |url| {
        pages.send(url.to_owned()).map_err(|_| Error::new(ErrorKind::Callback, "gone"))
    });
    let redirect = loopback.redirect_url().unwrap();
    std::thread::scope(|scope| {
        let visit =
            scope.spawn(|| loopback.visit("https://a.example/?state=st4te", &AbortSignal::never()));
        assert_eq!(page.recv().unwrap(), "https://a.example/?state=st4te");
        assert_eq!(get(&redirect, "/favicon.ico"), "HTTP/1.1 404 Not Found");
        assert_eq!(get(&redirect, "/callback?state=wrong&code=1"), "HTTP/1.1 400 Bad Request");
        assert_eq!(get(&redirect, "/callback?state=st4te&code=1"), "HTTP/1.1 200 OK");
        assert_eq!(visit.join().unwrap().unwrap(), format!("{redirect}?state=st4te&code=1"));
    });
}

#[test]
fn an_abort_ends_the_wait_for_the_user() {
    let loopback = Loopback::new(|_| Ok(()));
    loopback.redirect_url().unwrap();
    let controller = AbortController::new();
    std::thread::scope(|scope| {
        let visit = scope.spawn(|| loopback.visit("https://a.example/", &controller.signal()));
        controller.abort();
        assert_eq!(visit.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    });
}
