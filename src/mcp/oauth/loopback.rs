//! The answer of a sign-in, caught on the machine itself (RFC 8252).

use std::{
    fmt,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::{Sender, bounded, select};
use parking_lot::Mutex;

use super::{Browser, url};
use crate::{
    abort::{AbortController, AbortSignal},
    error::{Error, ErrorKind, Result},
    thread::{self, timer},
};

/// How long the user has to sign in, unless said otherwise.
const PATIENCE: Duration = Duration::from_mins(5);

/// How long a connection may take to say what it wants, and how much.
const HURRY: Duration = Duration::from_secs(5);
const LONGEST: usize = 16 << 10;

const PATH: &str = "/callback";

/// Opens the page of a sign-in, and waits for its answer on a port of this machine, up to five minutes.
///
/// It listens on 127.0.0.1 only, and only while a sign-in is under way.
pub struct Loopback {
    open: OpenFn,
    port: u16,
    listener: Mutex<Option<TcpListener>>,
}

/// Shows a page to the user: starts a browser, or prints the address. Called with an `http` or `https` URL.
pub type OpenFn = Arc<dyn Fn(&str) -> Result<()> + Send + Sync>;

impl Loopback {
    /// Makes one that shows pages with `open`, on a port of the system's choice.
    pub fn new(open: impl Fn(&str) -> Result<()> + Send + Sync + 'static) -> Loopback {
        Loopback { open: Arc::new(open), port: 0, listener: Mutex::default() }
    }

    /// Sets the port, for clients that were registered with one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Loopback {
        self.port = port;
        self
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        let text =
            format!("cannot listen for the answer of the sign-in on port {}: {error}", self.port);
        Error::new(ErrorKind::Configuration, text)
    }
}

impl Browser for Loopback {
    fn redirect_url(&self) -> Result<String> {
        let mut listener = self.listener.lock();
        let bound = match listener.take() {
            Some(bound) => bound,
            None => TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))
                .map_err(|error| self.failed(&error))?,
        };
        let port = bound.local_addr().map_err(|error| self.failed(&error))?.port();
        *listener = Some(bound);
        Ok(format!("http://127.0.0.1:{port}{PATH}"))
    }

    fn visit(&self, page: &str, signal: &AbortSignal) -> Result<String> {
        let listener = self.listener.lock().take();
        let missing = || Error::new(ErrorKind::Configuration, "nothing listens for the answer");
        let listener = listener.ok_or_else(missing)?;
        let address = listener.local_addr().map_err(|error| self.failed(&error))?;
        let over = AbortController::child_of(signal);
        // A connection of our own wakes the thread that waits for one.
        let _hook = over.signal().on_abort(move || drop(TcpStream::connect(address)));
        let (sender, answers) = bounded(1);
        let (ended, state) = (over.signal(), url::parameter(page, "state").unwrap_or_default());
        let listen = move || accept(&listener, address, &state, &ended, &sender);
        thread::spawn("mcp-callback", listen).map_err(|error| self.failed(&error))?;
        let limit =
            timer::after(PATIENCE).map_or_else(crossbeam_channel::never, crossbeam_channel::at);
        let opened = thread::catch(|| (self.open)(page)).unwrap_or_else(|panic| {
            Err(Error::new(ErrorKind::Callback, format!("the page could not be opened: {panic}")))
        });
        let result = opened.and_then(|()| {
            select! {
                recv(answers) -> answer => answer.map_err(|_| missing()),
                recv(signal.channel()) -> _ => Err(Error::aborted()),
                recv(limit) -> _ => {
                    Err(Error::new(ErrorKind::Limit, "nobody signed in within five minutes"))
                }
            }
        });
        over.abort();
        result
    }
}

/// Answers connections until one brings the answer of the sign-in.
fn accept(
    listener: &TcpListener,
    address: SocketAddr,
    state: &str,
    over: &AbortSignal,
    answers: &Sender<String>,
) {
    for connection in listener.incoming() {
        if over.is_aborted() {
            return;
        }
        let Ok(mut connection) = connection else { continue };
        let Some(target) = read_target(&mut connection) else { continue };
        let answer = format!("http://{address}{target}");
        let (status, text) = if url::path(&answer) != PATH {
            ("404 Not Found", "There is nothing here.")
        } else if url::parameter(&answer, "state").as_deref() != Some(state) {
            ("400 Bad Request", "This answers no sign-in that is under way.")
        } else if url::parameter(&answer, "error").is_some() {
            ("200 OK", "The sign-in was refused. You can close this page.")
        } else {
            ("200 OK", "You are signed in. You can close this page.")
        };
        let is_right = status == "200 OK";
        let page = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
            text.len()
        );
        let _ = connection.write_all(page.as_bytes());
        if is_right {
            let _ = answers.send(answer);
            return;
        }
    }
}

/// Reads the head of a request and returns its path with the query.
fn read_target(connection: &mut TcpStream) -> Option<String> {
    let end = timer::after(HURRY)?;
    connection.set_write_timeout(Some(HURRY)).ok()?;
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        connection.set_read_timeout(Some(left).filter(|left| !left.is_zero())).ok()?;
        if left.is_zero() {
            return None;
        }
        let amount = connection.read(&mut buffer).ok()?;
        if amount == 0 || head.len() > LONGEST {
            return None;
        }
        head.extend_from_slice(&buffer[..amount]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next()?.split(' ');
    let target = (words.next()? == "GET").then(|| words.next()).flatten()?;
    target.starts_with('/').then(|| target.to_owned())
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback").field("port", &self.port).finish_non_exhaustive()
    }
}
