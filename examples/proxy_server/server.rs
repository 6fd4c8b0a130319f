//! The server: one thread that accepts, one for each request, and one that watches whether the client is still there.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::json;
use steerage::{
    AbortController, AbortSignal, Error, Model, Secret, StreamFn,
    proxy::{self, ProxyRequest},
};

/// The longest head and body of a request, and how many are answered at once.
const MAX_HEAD: u64 = 64 << 10;
const MAX_BODY: u64 = 64 << 20;
const MAX_CONNECTIONS: usize = 64;

/// How long a client may take to send its request, and to take a piece of the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// What a server needs to know.
pub(crate) struct Setup {
    /// Who sends it may ask.
    pub(crate) token: Secret,
    /// Finds a model by provider and id. It is the server's own: what the client says of it, its address above all, is not
    /// believed, since whoever is asked gets the key.
    pub(crate) model: ModelSource,
    /// Asks the vendors.
    pub(crate) stream: Arc<dyn StreamFn>,
    /// How long a client hears nothing before it is told that the server is still there: a model may think for minutes.
    pub(crate) keep_alive: Duration,
}

pub(crate) type ModelSource = Box<dyn Fn(&str, &str) -> Result<Arc<Model>, Error> + Send + Sync>;

/// A server at work. Dropping it ends all answers and waits for its threads.
pub(crate) struct Server {
    address: SocketAddr,
    stop: AbortController,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(address: impl ToSocketAddrs, setup: Setup) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let stop = AbortController::new();
        let signal = stop.signal();
        let accepting = thread::Builder::new()
            .name("proxy-accept".to_owned())
            .spawn(move || accept(&listener, &setup, &signal))?;
        Ok(Server { address, stop, accepting: Some(accepting) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.abort();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, setup: &Setup, signal: &AbortSignal) {
    let open = AtomicUsize::new(0);
    thread::scope(|scope| {
        for socket in listener.incoming() {
            if signal.is_aborted() {
                return;
            }
            let Ok(socket) = socket else { continue };
            let is_full = open.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS;
            let client = Client { socket, setup, signal };
            let open = &open;
            let work = move || {
                // Whoever is gone needs no answer.
                let _ = if is_full {
                    client.turn_away(503, "too many at once")
                } else {
                    client.serve()
                };
                let _ = client.socket.shutdown(Shutdown::Both);
                open.fetch_sub(1, Ordering::AcqRel);
            };
            let _ =
                thread::Builder::new().name("proxy-client".to_owned()).spawn_scoped(scope, work);
        }
    });
}

/// One connection, which takes one request.
struct Client<'a> {
    socket: TcpStream,
    setup: &'a Setup,
    signal: &'a AbortSignal,
}

/// What of the head of a request matters here.
struct Head {
    line: String,
    token: Option<String>,
    length: u64,
}

impl Client<'_> {
    fn serve(&self) -> io::Result<()> {
        self.socket.set_nodelay(true)?;
        self.socket.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        self.socket.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        // An end of the server ends what waits for its client.
        let socket = self.socket.try_clone()?;
        let _hook = self.signal.on_abort(move || _ = socket.shutdown(Shutdown::Both));
        let mut reader = BufReader::new(&self.socket);
        let head = read_head(&mut reader)?;
        if head.length > MAX_BODY {
            return self.turn_away(413, "the body is longer than 64 MiB");
        }
        let mut body = reader.take(head.length);
        let refusal = match &*head.line {
            _ if !self.knows(&head) => Some((401, "the token is not known")),
            line if line.starts_with("POST /api/stream ") => None,
            _ => Some((404, "there is only POST /api/stream")),
        };
        if let Some((status, text)) = refusal {
            // A client that is still sending would not read the answer.
            io::copy(&mut body, &mut io::sink())?;
            return self.refuse(status, text);
        }
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes)?;
        let asked = match ProxyRequest::read(&bytes) {
            Ok(asked) => asked,
            Err(error) => return self.refuse(400, error.message()),
        };
        let model = match (self.setup.model)(asked.provider(), asked.model_id()) {
            Ok(model) => model,
            Err(error) => return self.refuse(404, error.message()),
        };
        self.answer(asked, model)
    }

    /// Asks the vendor and passes on what it says, until either is gone.
    fn answer(&self, asked: ProxyRequest, model: Arc<Model>) -> io::Result<()> {
        let present = AbortController::child_of(self.signal);
        let signal = present.signal();
        let body = Body { socket: &self.socket, unsent: Mutex::default() };
        self.socket.set_read_timeout(Some(self.setup.keep_alive))?;
        thread::scope(|scope| {
            let watch = || {
                self.watch(&body);
                present.abort();
            };
            thread::Builder::new().name("proxy-watch".to_owned()).spawn_scoped(scope, watch)?;
            let mut writer = &body;
            let result = write!(
                writer,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
            )
            .and_then(|()| writer.flush())
            .and_then(|()| {
                let request = asked.with_model(model);
                proxy::serve(&*self.setup.stream, request, &signal, &mut writer)
            });
            let _ = self.socket.shutdown(Shutdown::Both);
            result
        })
    }

    /// Returns when the connection has ended, and keeps it alive until then. The client has nothing more to say.
    fn watch(&self, body: &Body<'_>) {
        loop {
            match (&self.socket).read(&mut [0]) {
                Err(error) if is_timeout(&error) => {
                    if body.keep_alive().is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    /// Whether the token is the right one, in a time that does not tell how much of it is.
    fn knows(&self, head: &Head) -> bool {
        let (wanted, given) = (self.setup.token.expose(), head.token.as_deref().unwrap_or(""));
        let pairs = wanted.bytes().zip(given.bytes());
        let differing = pairs.fold(0, |differing, (a, b)| differing | (a ^ b));
        wanted.len() == given.len() && differing == 0
    }

    /// Refuses a request that is not read. What of it has come is taken for a while all the same, or the client would see
    /// its connection reset before it sees the answer.
    fn turn_away(&self, status: u16, text: &str) -> io::Result<()> {
        self.refuse(status, text)?;
        self.socket.shutdown(Shutdown::Write)?;
        self.socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        io::copy(&mut (&self.socket).take(MAX_HEAD), &mut io::sink()).map(drop)
    }

    fn refuse(&self, status: u16, text: &str) -> io::Result<()> {
        let body = json!({ "error": text }).to_string();
        let length = body.len();
        write!(
            &self.socket,
            "HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The body of an answer, which is sent in whole events.
struct Body<'a> {
    socket: &'a TcpStream,
    unsent: Mutex<Vec<u8>>,
}

impl Body<'_> {
    fn unsent(&self) -> MutexGuard<'_, Vec<u8>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a comment, which every reader of events skips, unless events are on their way.
    fn keep_alive(&self) -> io::Result<()> {
        let unsent = self.unsent();
        let mut socket = self.socket;
        if unsent.is_empty() { socket.write_all(b": still here\n\n") } else { Ok(()) }
    }
}

impl Write for &Body<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unsent().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut unsent = self.unsent();
        let mut socket = self.socket;
        socket.write_all(&unsent)?;
        unsent.clear();
        Ok(())
    }
}

fn read_head(reader: &mut BufReader<&TcpStream>) -> io::Result<Head> {
    let mut lines = reader.take(MAX_HEAD).lines();
    let mut head = Head { line: String::new(), token: None, length: 0 };
    head.line = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            return Ok(head);
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        match &*name.to_ascii_lowercase() {
            "authorization" => head.token = value.trim().strip_prefix("Bearer ").map(str::to_owned),
            "content-length" => head.length = value.trim().parse().unwrap_or(0),
            _ => (),
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
