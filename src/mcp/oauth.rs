//! Signing in to servers at an address: OAuth 2.1 as "Authorization" of the MCP specification has it.
//!
//! [`OAuth`] finds out who gives out the tokens of a server, registers the program there, lets the user sign in (PKCE,
//! `resource`, `iss`), renews tokens once for all threads, and asks for more rights when the server wants them. It is the
//! [`Authorization`] of one server.
//!
//! The browser is the host's: a [`Browser`] shows the page and brings the answer, in one go ([`Loopback`] does so with a
//! port of the machine), or the host does it in two halves, [`OAuth::start`] and [`OAuth::finish`].

use std::{fmt, sync::Arc, time::SystemTime};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use crossbeam_channel::{bounded, select};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::{
    abort::{AbortController, AbortSignal},
    auth::CredentialStore,
    error::{Error, ErrorKind, Failure, Result},
    http::{HttpClient, HttpRequest},
    mcp::{
        client::PROTOCOL_VERSION,
        hex,
        oauth::{
            challenge::Challenge,
            discovery::{Discovered, refused},
            kept::Kept,
        },
        transport::{Authorization, Refusal, patient_client},
    },
    secret::Secret,
    thread::{self, timer, turn::Turns},
};

mod challenge;
mod discovery;
mod grant;
mod kept;
mod loopback;
mod registration;
mod url;

pub use crate::mcp::oauth::loopback::{Loopback, OpenFn};

/// How long one request may take.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(15);

/// How large an answer may be.
const LARGEST: u64 = 1 << 20;

/// How the program signs in to one server.
#[derive(Clone)]
pub struct OAuthOptions {
    /// The address of the server. Tokens are bound to it.
    pub server_url: String,
    /// Where tokens and registered clients are kept, under `mcp:` and the address.
    pub store: Arc<dyn CredentialStore>,
    /// Shows the user the page of the sign-in. Default: nobody; then a server that wants a sign-in is an error, and the
    /// host uses [`OAuth::start`].
    pub browser: Option<Arc<dyn Browser>>,
    /// The name that the program registers with. Default: `steerage`.
    pub client_name: String,
    /// The id of a client that was registered beforehand. Default: none.
    pub client_id: Option<String>,
    /// Its secret. Default: none.
    pub client_secret: Option<Secret>,
    /// The `https` address of a document about the program, which is its id where the server takes such documents. Its
    /// redirect address must be that of the browser. Default: none.
    pub client_metadata_url: Option<String>,
    /// The scope to ask for where the server names none. Default: what the server says that it supports.
    pub scope: Option<String>,
    /// Where the metadata of the authorization server is. Default: found out.
    pub metadata_url: Option<String>,
    /// What sends the requests. Default: one for all MCP servers of the process.
    pub http: HttpClient,
}

/// Shows the user the page of a sign-in, and brings the answer.
pub trait Browser: Send + Sync {
    /// The address that the page will lead to in the end.
    fn redirect_url(&self) -> Result<String>;

    /// Shows `page` and waits until the user was led to the redirect address; returns that whole address with its query.
    /// It should return soon after the signal fires.
    fn visit(&self, page: &str, signal: &AbortSignal) -> Result<String>;
}

/// Signs in to one server, and keeps its token. Clones share everything. It may be used from any thread.
#[derive(Clone)]
pub struct OAuth {
    shared: Arc<Shared>,
}

struct Shared {
    options: OAuthOptions,
    /// What the server said when it last wanted a token.
    challenge: Mutex<Challenge>,
    /// Whose turn it is to sign in.
    turns: Turns,
}

/// A sign-in that is under way: the user is to be shown [`page`](SignIn::page).
pub struct SignIn {
    page: String,
    redirect_url: String,
    state: String,
    verifier: Secret,
    found: Discovered,
    kept: Kept,
}

/// Sends the requests of a sign-in, each with a limit of time.
pub(crate) struct Asker<'a> {
    http: &'a HttpClient,
}

impl OAuthOptions {
    /// Makes options for the server at an address.
    pub fn new(
        server_url: impl Into<String>,
        store: impl CredentialStore + 'static,
    ) -> OAuthOptions {
        OAuthOptions::with_store(server_url, Arc::new(store))
    }

    /// The same with a store that others use too.
    pub fn with_store(
        server_url: impl Into<String>,
        store: Arc<dyn CredentialStore>,
    ) -> OAuthOptions {
        OAuthOptions {
            server_url: server_url.into(),
            store,
            browser: None,
            client_name: "steerage".to_owned(),
            client_id: None,
            client_secret: None,
            client_metadata_url: None,
            scope: None,
            metadata_url: None,
            http: patient_client(),
        }
    }
}

impl OAuth {
    /// Makes the authorization of one server. Nothing is asked before the server wants a token.
    pub fn new(options: OAuthOptions) -> OAuth {
        let (challenge, turns) = (Mutex::default(), Turns::new(()));
        OAuth { shared: Arc::new(Shared { options, challenge, turns }) }
    }

    /// Begins a sign-in: the user is to be shown the page, which will lead to `redirect_url` in the end.
    pub fn start(&self, redirect_url: &str, signal: &AbortSignal) -> Result<SignIn> {
        let challenge = self.shared.challenge.lock().clone();
        self.shared.start(&challenge, redirect_url, signal)
    }

    /// Ends a sign-in with the address that the page has led to; the token is in the store then.
    pub fn finish(&self, sign_in: SignIn, answer: &str, signal: &AbortSignal) -> Result<()> {
        self.shared.finish(sign_in, answer, signal)
    }

    /// Forgets the token and the client of the server.
    pub fn forget(&self) -> Result<()> {
        self.shared.options.store.delete(&self.shared.name())
    }
}

impl SignIn {
    /// The page that the user is to be shown, an `http` or `https` address.
    pub fn page(&self) -> &str {
        &self.page
    }

    /// What the answer must carry as `state`, to tell several sign-ins apart.
    pub fn state(&self) -> &str {
        &self.state
    }
}

impl Authorization for OAuth {
    fn token(&self, signal: &AbortSignal) -> Result<Option<Secret>> {
        let kept = self.shared.kept()?;
        if kept.token().is_some() && kept.refresh.is_some() && kept.is_old(SystemTime::now()) {
            let old = kept.token().cloned();
            // If it cannot be renewed, the server says what it thinks of the old one.
            if let Err(error) = self.shared.renew(old.as_ref(), signal) {
                if signal.is_aborted() {
                    return Err(error);
                }
                tracing::warn!(%error, "the token of an MCP server was not renewed");
            }
            return Ok(self.shared.kept()?.token().cloned());
        }
        Ok(kept.token().cloned())
    }

    fn refused(&self, refusal: &Refusal<'_>, signal: &AbortSignal) -> Result<bool> {
        let shared = &self.shared;
        let challenge = refusal.challenge.map(Challenge::parse).unwrap_or_default();
        *shared.challenge.lock() = challenge.clone();
        if shared.has_another(refusal.token)? {
            return Ok(true);
        }
        if refusal.status == 401 && shared.renew(refusal.token, signal)? {
            return Ok(true);
        }
        let Some(browser) = &shared.options.browser else {
            let mut failure = Failure::new(ErrorKind::Auth);
            (failure.status, failure.code) = (Some(refusal.status), Some("sign_in".to_owned()));
            let text = format!(
                "the MCP server {} wants the user to sign in: use OAuth::start and finish, or give it a browser",
                url::origin(&shared.options.server_url)
            );
            return Err(Error::from_failure(failure, text));
        };
        let _turn = shared.turns.wait(signal.channel()).ok_or_else(Error::aborted)?;
        match shared.has_another(refusal.token) {
            Ok(false) => shared.sign_in(&**browser, &challenge, signal).map(|()| true),
            other => other,
        }
    }
}

impl Shared {
    fn name(&self) -> String {
        format!("mcp:{}", self.options.server_url)
    }

    fn kept(&self) -> Result<Kept> {
        let credential = self.options.store.read(&self.name())?;
        Ok(Kept::from_credential(credential, &self.options.server_url))
    }

    fn keep(&self, kept: Kept) -> Result<()> {
        let credential = kept.into_credential(&self.options.server_url);
        self.options.store.write(&self.name(), credential)
    }

    fn asker(&self) -> Asker<'_> {
        Asker { http: &self.options.http }
    }

    /// Whether there is a token that the server has not refused: another thread or process was faster.
    fn has_another(&self, token: Option<&Secret>) -> Result<bool> {
        let kept = self.kept()?;
        Ok(kept.token().is_some() && kept.token() != token)
    }

    /// Renews the token, unless somebody else has; tells whether there is a new one. It happens under the lock of the
    /// store and on a thread of its own, so that an abort ends only the wait for it.
    fn renew(self: &Arc<Shared>, token: Option<&Secret>, signal: &AbortSignal) -> Result<bool> {
        if self.kept()?.refresh.is_none() {
            return Ok(false);
        }
        let (shared, token) = (self.clone(), token.cloned());
        let (sender, outcome) = bounded(1);
        let renew = move || {
            let result = thread::catch(|| shared.renew_now(token.as_ref()));
            let _ = sender.send(result.unwrap_or_else(|panic| {
                Err(Error::new(ErrorKind::Callback, format!("renewing a token panicked: {panic}")))
            }));
        };
        thread::spawn("mcp-auth", renew).map_err(|error| {
            Error::new(ErrorKind::Configuration, format!("no thread to renew a token: {error}"))
        })?;
        select! {
            recv(outcome) -> outcome => outcome.unwrap_or(Ok(false)),
            recv(signal.channel()) -> _ => Err(Error::aborted()),
        }
    }

    fn renew_now(&self, token: Option<&Secret>) -> Result<bool> {
        let mut is_new = false;
        self.options.store.modify(&self.name(), &mut |credential| {
            let mut kept = Kept::from_credential(credential.clone(), &self.options.server_url);
            if kept.token() != token {
                is_new = kept.token().is_some();
                return Ok(credential);
            }
            let Some(refresh) = kept.refresh.clone() else { return Ok(credential) };
            let grant = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
            match grant::ask(&self.asker(), &mut kept, &grant, &AbortSignal::never()) {
                Ok(()) => is_new = true,
                // The server does not take it any more: the user has to sign in again.
                Err(error) if error.kind() == ErrorKind::Auth => {
                    kept.drop_tokens();
                    if is_unknown_client(&error) {
                        kept.client = None;
                    }
                }
                Err(error) => return Err(error),
            }
            Ok(Some(kept.into_credential(&self.options.server_url)))
        })?;
        Ok(is_new)
    }

    fn sign_in(
        &self,
        browser: &dyn Browser,
        challenge: &Challenge,
        signal: &AbortSignal,
    ) -> Result<()> {
        let redirect_url = browser.redirect_url()?;
        let sign_in = self.start(challenge, &redirect_url, signal)?;
        let answer = browser.visit(&sign_in.page, signal)?;
        match self.finish(sign_in, &answer, signal) {
            // The client that was kept is not known any more. One that is registered now will be.
            Err(error) if is_unknown_client(&error) && self.options.client_id.is_none() => {
                self.options.store.delete(&self.name())?;
                let redirect_url = browser.redirect_url()?;
                let sign_in = self.start(challenge, &redirect_url, signal)?;
                let answer = browser.visit(&sign_in.page, signal)?;
                self.finish(sign_in, &answer, signal)
            }
            result => result,
        }
    }

    fn start(
        &self,
        challenge: &Challenge,
        redirect_url: &str,
        signal: &AbortSignal,
    ) -> Result<SignIn> {
        let (options, asker) = (&self.options, self.asker());
        let metadata = options.metadata_url.as_deref();
        let found = discovery::discover(&asker, &options.server_url, challenge, metadata, signal)?;
        if let Some(refusal) = &found.refusal {
            return Err(refused(&format!("cannot sign in at {}: {refusal}", found.issuer)));
        }
        let before = self.kept()?;
        let client =
            registration::client(&asker, options, (&found, &before), redirect_url, signal)?;
        let scope = scope(challenge, options, &found, &before)?;
        let (state, verifier) = (hex(&random()?), BASE64_URL_SAFE_NO_PAD.encode(random()?));
        let proof = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        let mut pairs = vec![
            ("response_type", "code"),
            ("client_id", &client.id),
            ("code_challenge", &proof),
            ("code_challenge_method", "S256"),
            ("redirect_uri", redirect_url),
            ("state", &state),
        ];
        if let Some(scope) = &scope {
            pairs.push(("scope", scope));
            if scope.split(' ').any(|it| it == "offline_access") {
                pairs.push(("prompt", "consent"));
            }
        }
        if let Some(resource) = &found.resource {
            pairs.push(("resource", resource));
        }
        let page = url::with_query(&found.authorization_endpoint, &pairs);
        let kept = Kept {
            scope,
            issuer: found.issuer.clone(),
            token_endpoint: found.token_endpoint.clone(),
            auth_methods: found.auth_methods.clone(),
            resource: found.resource.clone(),
            client: Some(client),
            ..Kept::default()
        };
        // The client is kept at once: registering it again for the next try would leave the first one behind.
        let mut registered = before;
        registered.client.clone_from(&kept.client);
        registered.issuer.clone_from(&kept.issuer);
        self.keep(registered)?;
        let redirect_url = redirect_url.to_owned();
        Ok(SignIn { page, redirect_url, state, verifier: Secret::new(verifier), found, kept })
    }

    fn finish(&self, sign_in: SignIn, answer: &str, signal: &AbortSignal) -> Result<()> {
        let SignIn { redirect_url, state, verifier, found, mut kept, .. } = sign_in;
        let is_ours = url::same_origin(answer, &redirect_url)
            && url::path(answer) == url::path(&redirect_url)
            && url::parameter(answer, "state").as_deref() == Some(&state);
        if !is_ours {
            return Err(refused("the answer is not that of this sign-in"));
        }
        let iss = url::parameter(answer, "iss");
        if (found.sends_iss || iss.is_some()) && iss.as_deref() != Some(found.issuer.as_str()) {
            return Err(refused("the answer of the sign-in is from another authorization server"));
        }
        if let Some(error) = url::parameter(answer, "error") {
            let said = url::parameter(answer, "error_description").unwrap_or_default();
            return Err(refused(&format!("the sign-in was refused ({error}): {said}")));
        }
        let code = url::parameter(answer, "code").filter(|code| !code.is_empty());
        let code = code.ok_or_else(|| refused("the answer of the sign-in has no code"))?;
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("code_verifier", verifier.expose()),
            ("redirect_uri", &redirect_url),
        ];
        grant::ask(&self.asker(), &mut kept, &grant, signal)?;
        self.keep(kept)
    }
}

/// The scope to ask for: what the server wants now, on top of what was given before; else what is configured; else what
/// the server says that it knows.
fn scope(
    challenge: &Challenge,
    options: &OAuthOptions,
    found: &Discovered,
    before: &Kept,
) -> Result<Option<String>> {
    let wanted = challenge.scope.clone().or(options.scope.clone()).or(found.scopes.clone());
    let is_more = challenge.error.as_deref() == Some("insufficient_scope");
    let given = before.scope.as_deref().filter(|_| is_more).unwrap_or_default();
    let mut all: Vec<&str> = given.split_whitespace().collect();
    let count = all.len();
    for scope in wanted.as_deref().unwrap_or_default().split_whitespace() {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    if is_more && count > 0 && all.len() == count {
        let text = "the MCP server wants rights that the token has already: the account lacks them";
        return Err(refused(text));
    }
    // Only with it will some servers give a token to renew others with.
    let offline = "offline_access";
    if !all.is_empty()
        && found.known_scopes.iter().any(|it| it == offline)
        && !all.contains(&offline)
    {
        all.push(offline);
    }
    Ok(Some(all.join(" ")).filter(|scope| !scope.is_empty()))
}

fn is_unknown_client(error: &Error) -> bool {
    matches!(error.failure().code.as_deref(), Some("invalid_client" | "unauthorized_client"))
}

fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(ErrorKind::Configuration, format!("the system gives no random bytes: {error}"))
    })?;
    Ok(bytes)
}

impl Asker<'_> {
    /// Sends a request and returns status and body.
    fn ask(&self, request: &HttpRequest, signal: &AbortSignal) -> Result<(u16, Vec<u8>)> {
        let limit = AbortController::child_of(signal);
        if let Some(deadline) = timer::after(LIMIT) {
            limit.abort_at(deadline);
        }
        let request = request.clone().header("mcp-protocol-version", PROTOCOL_VERSION);
        let result = self.http.send(&request, &limit.signal()).and_then(|mut response| {
            let body = response.read_to_limit(LARGEST)?;
            Ok((response.status(), body))
        });
        result.map_err(|error| {
            if error.kind() == ErrorKind::Aborted && !signal.is_aborted() {
                let host = url::origin(&request.url);
                let text = format!("{host} did not answer within {} s", LIMIT.as_secs());
                return Error::new(ErrorKind::Network, text);
            }
            error
        })
    }
}

impl fmt::Debug for OAuthOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthOptions")
            .field("server_url", &self.server_url)
            .field("client_name", &self.client_name)
            .field("client_id", &self.client_id)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn")
            .field("issuer", &self.found.issuer)
            .field("redirect_url", &self.redirect_url)
            .finish_non_exhaustive()
    }
}
