//! HTTP without an async runtime: blocking calls that an abort ends at once, whatever they wait for.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use ureq::{
    Agent, SendBody,
    http::{Request, Response, Uri, header},
};

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    http::{
        connect::system_lookup,
        failure::Place,
        proxy::{Found, Proxies},
        response::Context,
        ticket::Ticket,
        tls::Tls,
    },
    secret::{Secret, scrub},
    thread,
};

mod agent;
mod connect;
mod failure;
mod options;
mod proxy;
mod request;
mod response;
mod retry;
mod ticket;
#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod tls;
#[cfg(not(any(feature = "rustls", feature = "native-tls")))]
#[path = "http/no_tls.rs"]
mod tls;
mod url;

#[cfg(test)]
mod tests;

pub use crate::http::{
    connect::Lookup,
    options::{ClientCertificate, HttpOptions, ProxyChoice},
    request::{Body, HttpRequest, Method},
    response::HttpResponse,
    retry::{Attempt, Decision, PauseHint, Refusal, Retries, RetryPolicy, retry_after},
};

/// Rewrites the address of a request just before it is sent.
pub type Rewrite = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Sends requests and keeps connections for the next ones.
///
/// Clones share the connections and may be used from any thread.
#[derive(Clone)]
pub struct HttpClient {
    inner: Arc<Inner>,
    rewrite: Option<Rewrite>,
}

struct Inner {
    options: HttpOptions,
    proxies: Proxies,
    direct: Agent,
    /// One client for each proxy, since a connection knows only the proxy of its own client.
    by_proxy: Vec<(Found, Result<Agent>)>,
}

impl HttpClient {
    /// Makes a client with connections of its own. Reads the environment for proxies if the options say so.
    pub fn new(options: HttpOptions) -> Result<HttpClient> {
        HttpClient::with_lookup(options, &system_lookup())
    }

    /// Returns the client of the process, with default options, which is made when it is first asked for.
    pub fn shared() -> HttpClient {
        static SHARED: OnceLock<HttpClient> = OnceLock::new();
        let make = || {
            let options = HttpOptions::default();
            let proxies = Proxies::new(&options.proxy);
            HttpClient::assemble(options, &Tls::default(), proxies, &system_lookup())
        };
        SHARED.get_or_init(make).clone()
    }

    /// Makes a client that finds the addresses of hosts with `lookup`.
    pub fn with_lookup(options: HttpOptions, lookup: &Lookup) -> Result<HttpClient> {
        let tls = Tls::new(&options)?;
        let proxies = Proxies::new(&options.proxy);
        if matches!(options.proxy, ProxyChoice::Url { .. }) {
            for found in proxies.all() {
                found.open()?;
            }
        }
        Ok(HttpClient::assemble(options, &tls, proxies, lookup))
    }

    /// Returns a client that shares the connections of this one and sends each request where `rewrite` says.
    #[must_use]
    pub fn rewriting(
        &self,
        rewrite: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> HttpClient {
        HttpClient { inner: self.inner.clone(), rewrite: Some(Arc::new(rewrite)) }
    }

    /// Returns the options that the client was made with.
    pub fn options(&self) -> &HttpOptions {
        &self.inner.options
    }

    /// Sends a request and waits for the head of the answer, whatever its status. Nothing is sent twice, except after
    /// a redirect.
    ///
    /// 307 and 308 are followed with method and body; 301, 302 and 303 only for GET, since a POST that becomes a GET
    /// asks for something else. Headers with keys go to the same origin only.
    pub fn send(&self, request: &HttpRequest, signal: &AbortSignal) -> Result<HttpResponse> {
        let secrets: Arc<[Secret]> = request.secrets().into();
        self.follow(request, &secrets, signal).map_err(|error| clean(&error, signal, &secrets))
    }

    fn assemble(options: HttpOptions, tls: &Tls, proxies: Proxies, lookup: &Lookup) -> HttpClient {
        let agent = |proxy| agent::agent(&options, tls, proxy, lookup.clone());
        let direct = agent(None);
        let by_proxy = proxies
            .all()
            .map(|it| (it.clone(), it.open().map(|proxy| agent(Some(proxy)))))
            .collect();
        let inner = Inner { options, proxies, direct, by_proxy };
        HttpClient { inner: Arc::new(inner), rewrite: None }
    }

    fn follow(
        &self,
        request: &HttpRequest,
        secrets: &Arc<[Secret]>,
        signal: &AbortSignal,
    ) -> Result<HttpResponse> {
        let first = match &self.rewrite {
            Some(rewrite) => url::parse(&rewrite(&request.url))?,
            None => url::parse(&request.url)?,
        };
        let mut target = first.clone();
        let mut redirects = 0;
        loop {
            let with_secrets = url::same_origin(&first, &target);
            let exchange = Exchange { client: &self.inner, request, target: &target, with_secrets };
            let response = exchange.run(secrets, signal)?;
            let most = self.inner.options.max_redirects;
            if most == 0 || !matches!(response.status(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            let Some(location) = response.header("location") else { return Ok(response) };
            let next = redirect(request, &response, &target, location)?;
            redirects += 1;
            if redirects > most {
                let text = format!("{} redirected more than {most} times", url::host(&first));
                return Err(Error::new(ErrorKind::Protocol, text));
            }
            response.finish();
            target = next;
        }
    }
}

/// Says what is wrong with an address that cannot be asked.
pub(crate) fn check_url(url: &str) -> Result<()> {
    url::parse(url).map(drop)
}

/// Returns where a redirect leads, if it may be followed.
fn redirect(
    request: &HttpRequest,
    response: &HttpResponse,
    target: &Uri,
    location: &str,
) -> Result<Uri> {
    let (host, status) = (url::host(target), response.status());
    let refused = |why: &str| {
        let text = format!("{host} redirected the request (status {status}), {why}");
        Err(Error::new(ErrorKind::Configuration, text))
    };
    let Some(next) = url::join(target, location) else {
        return refused("but not to an address that can be asked");
    };
    let to = url::host(&next);
    if request.method != Method::Get && !matches!(status, 307 | 308) {
        return refused(&format!(
            "which would turn it into another one: use the address of {to} instead"
        ));
    }
    if target.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
        return refused(&format!("from https to plain http at {to}, which is not followed"));
    }
    Ok(next)
}

/// Returns the error without a key in it; an abort goes before whatever it led to.
fn clean(error: &Error, signal: &AbortSignal, secrets: &[Secret]) -> Error {
    if signal.is_aborted() {
        return Error::aborted();
    }
    Error::from_failure(error.failure().clone(), scrub(error.message(), secrets))
}

/// One request to one address.
struct Exchange<'a> {
    client: &'a Inner,
    request: &'a HttpRequest,
    target: &'a Uri,
    with_secrets: bool,
}

impl Exchange<'_> {
    fn run(&self, secrets: &Arc<[Secret]>, signal: &AbortSignal) -> Result<HttpResponse> {
        if signal.is_aborted() {
            return Err(Error::aborted());
        }
        let agent = self.agent()?;
        let HttpOptions { idle_timeout: idle, max_body_bytes, max_error_bytes, .. } =
            self.client.options;
        let host = url::host(self.target);
        let ticket = Ticket::new(signal.clone(), self.first_byte(), idle);
        let request = self.build(&host)?;
        let result = {
            let _entered = ticket.enter();
            thread::catch(|| agent.run(request))
        };
        let place = Place {
            host: &host,
            proxy: self.client.proxies.select(self.target).and_then(Found::address),
            phase: ticket.phase(),
            connect: self.client.options.connect_timeout,
            first_byte: self.first_byte(),
            idle,
        };
        let response = result
            .map_err(|panic| {
                let text = format!("the request to {host} failed inside: {panic}");
                Error::new(ErrorKind::Configuration, text)
            })?
            .map_err(|error| place.error(&error))?;
        if signal.is_aborted() {
            return Err(Error::aborted());
        }
        ticket.head_arrived();
        let context = Context {
            ticket,
            host,
            idle,
            max_bytes: max_body_bytes,
            max_error_bytes,
            secrets: secrets.clone(),
        };
        Ok(receive(response, context))
    }

    fn agent(&self) -> Result<&Agent> {
        let Some(found) = self.client.proxies.select(self.target) else {
            return Ok(&self.client.direct);
        };
        match self.client.by_proxy.iter().find(|(it, _)| it == found) {
            Some((_, Ok(agent))) => Ok(agent),
            Some((_, Err(error))) => Err(Error::new(error.kind(), error.message())),
            None => Ok(&self.client.direct),
        }
    }

    fn first_byte(&self) -> Option<Duration> {
        self.request.first_byte_timeout.or(self.client.options.first_byte_timeout)
    }

    fn build(&self, host: &str) -> Result<Request<SendBody<'static>>> {
        let request = self.request;
        let mut builder = Request::builder().method(request.method.as_str()).uri(self.target);
        for (name, value) in &request.headers {
            let follows = name.eq_ignore_ascii_case(header::CONTENT_LENGTH.as_str())
                || name.eq_ignore_ascii_case(header::TRANSFER_ENCODING.as_str());
            let is_secret = request.is_secret(name);
            if !follows && (self.with_secrets || !is_secret) {
                if let Some(why) = unsendable(value, is_secret) {
                    let text = format!(
                        "the header `{name}` of the request to {host} cannot be sent: {why}"
                    );
                    return Err(Error::new(ErrorKind::Configuration, text));
                }
                builder = builder.header(name.as_str(), value.as_str());
            }
        }
        let body = if request.method == Method::Post || !request.body.is_empty() {
            builder = builder.header(header::CONTENT_LENGTH, request.body.len());
            SendBody::from_owned_reader(request.body.reader())
        } else {
            SendBody::none()
        };
        builder.body(body).map_err(|error| {
            let text = format!("the request to {host} cannot be sent: {error}");
            Error::new(ErrorKind::Configuration, text)
        })
    }
}

/// Says why a header cannot have this value. Keys with other characters than ASCII were copied wrongly.
fn unsendable(value: &str, is_secret: bool) -> Option<&'static str> {
    let is_control = |it: char| it.is_ascii_control() && it != '\t';
    if value.contains(is_control) {
        Some("its value holds a line end or another control character")
    } else if is_secret && !value.is_ascii() {
        Some("its value holds characters that are not ASCII, which no key has")
    } else {
        None
    }
}

fn receive(response: Response<ureq::Body>, context: Context) -> HttpResponse {
    let (parts, body) = response.into_parts();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    HttpResponse::new(parts.status.as_u16(), headers, body.into_reader(), context)
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
