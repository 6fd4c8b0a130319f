//! A scripted HTTP server on the loopback interface: answers as told, also in ways that no good server would.
//!
//! # Examples
//!
//! ```
//! use std::{io::{Read, Write}, net::TcpStream};
//! use steerage::testing::server::{Response, Server};
//!
//! let server = Server::start([Response::new(200).header("content-type", "text/plain").text("hello")])?;
//! let mut stream = TcpStream::connect(server.address())?;
//! stream.write_all(b"GET /greeting HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert!(answer.ends_with("hello"));
//! assert_eq!(server.requests()[0].path, "/greeting");
//! # Ok::<(), std::io::Error>(())
//! ```

use std::{
    collections::VecDeque,
    fmt, io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    abort::AbortController,
    thread::{
        self,
        lock::{Condvar, Mutex},
    },
};

mod script;
mod wire;

pub use crate::testing::server::{
    script::{Behavior, Chunk, End, Framing, Gate, Response},
    wire::{Stream, Wrap},
};

/// A server that answers each request with the next response of its script, or as a function says.
///
/// Connections are kept open between requests. Dropping the server closes them all and ends its threads.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The headers in order, their names as sent.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Which connection it came on, counted from 1.
    pub connection: usize,
}

struct Shared {
    answer: Answer,
    log: Mutex<Log>,
    changed: Condvar,
    closing: AbortController,
    connections: AtomicUsize,
    wrap: Option<Wrap>,
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    closed: usize,
    /// Held so that the drop of the server can end the threads that read from them.
    sockets: Vec<(usize, TcpStream)>,
}

enum Answer {
    Script(Mutex<VecDeque<Response>>),
    Function(Box<dyn Fn(&Request) -> Response + Send + Sync>),
}

impl Server {
    /// Starts a server that answers the n-th request with the n-th response, and with status 500 after the last one.
    pub fn start(script: impl IntoIterator<Item = Response>) -> io::Result<Server> {
        Server::run(Answer::Script(Mutex::new(script.into_iter().collect())), None)
    }

    /// Starts a server that asks `answer` what to answer. Requests on different connections are asked about at the
    /// same time.
    pub fn answering(
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Server> {
        Server::run(Answer::Function(Box::new(answer)), None)
    }

    /// Starts a server like [`answering`](Self::answering) whose connections go through `wrap` first, which may put
    /// TLS on them.
    pub fn wrapped(
        wrap: impl Fn(TcpStream) -> io::Result<Box<dyn Stream>> + Send + Sync + 'static,
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Server> {
        Server::run(Answer::Function(Box::new(answer)), Some(Box::new(wrap)))
    }

    /// Returns the address, `127.0.0.1` with a port of the system's choice.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL without a path: `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, in the order in which they arrived whole.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log.lock().requests.clone()
    }

    /// Waits until `count` requests have arrived; tells whether they did within `limit`.
    pub fn wait_for_requests(&self, count: usize, limit: Duration) -> bool {
        self.wait(limit, |log| log.requests.len() >= count)
    }

    /// Waits until `count` connections were closed, by either side; tells whether they were within `limit`.
    pub fn wait_for_closed(&self, count: usize, limit: Duration) -> bool {
        self.wait(limit, |log| log.closed >= count)
    }

    /// Returns how many connections were made so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Returns how many responses of the script are left.
    pub fn unused(&self) -> usize {
        match &self.shared.answer {
            Answer::Script(script) => script.lock().len(),
            Answer::Function(_) => 0,
        }
    }

    fn run(answer: Answer, wrap: Option<Wrap>) -> io::Result<Server> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            answer,
            log: Mutex::default(),
            changed: Condvar::new(),
            closing: AbortController::new(),
            connections: AtomicUsize::new(0),
            wrap,
        });
        let accepting = shared.clone();
        thread::spawn("test-server", move || accept(&listener, &accepting))?;
        Ok(Server { address, shared })
    }

    fn wait(&self, limit: Duration, done: impl Fn(&Log) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut log = self.shared.log.lock();
        while !done(&log) {
            let is_late;
            (log, is_late) = self.shared.changed.wait_until(log, deadline);
            if is_late {
                return done(&log);
            }
        }
        true
    }
}

impl Request {
    /// Returns the first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_str())
    }

    /// Returns the body as text; what is no UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        let Ok(socket) = socket else { continue };
        if shared.closing.signal().is_aborted() {
            return;
        }
        let number = shared.connections.fetch_add(1, Ordering::AcqRel) + 1;
        let shared = shared.clone();
        let _ = thread::spawn(&format!("test-conn-{number}"), move || {
            let _ = thread::catch(|| shared.serve(socket, number));
            shared.closed(number);
        });
    }
}

impl Shared {
    /// Answers the requests of one connection. An error ends the connection, and nobody else is concerned.
    fn serve(&self, socket: TcpStream, number: usize) -> io::Result<()> {
        socket.set_nodelay(true)?;
        {
            let mut log = self.log.lock();
            log.sockets.push((number, socket.try_clone()?));
        }
        // The server may have been dropped before the socket was in the list.
        if self.closing.signal().is_aborted() {
            return Ok(());
        }
        let mut wire = match &self.wrap {
            Some(wrap) => wire::Wire::wrapped(socket, wrap)?,
            None => wire::Wire::plain(socket),
        };
        while let Some(request) = wire.read_request(number)? {
            let response = self.answer(&request);
            let last =
                request.header("connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
            {
                self.log.lock().requests.push(request);
                self.changed.notify_all();
            }
            if !wire.write_response(&response, &self.closing.signal())? || last {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Response {
        match &self.answer {
            Answer::Script(script) => script.lock().pop_front().unwrap_or_else(|| {
                Response::new(500).text("the script of the server has no response left")
            }),
            Answer::Function(answer) => answer(request),
        }
    }

    fn closed(&self, number: usize) {
        let mut log = self.log.lock();
        log.sockets.retain(|(it, _)| *it != number);
        log.closed += 1;
        self.changed.notify_all();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closing.abort();
        for (_, socket) in &self.shared.log.lock().sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("requests", &self.shared.log.lock().requests.len())
            .finish_non_exhaustive()
    }
}
