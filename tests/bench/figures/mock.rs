//! A server on the loopback interface that answers as Anthropic's API does, as fast as the socket takes it.
//!
//! The id of the model says what is answered:
//!
//! | model | answer |
//! |---|---|
//! | `text-N-SIZE` | N text deltas of SIZE bytes |
//! | `drip-N-SIZE-US` | the same, each delta in a write of its own, US microseconds apart |
//! | `calls-T-P` | T turns with P calls each, then a text |
//! | `arguments-N` | a call whose arguments come in N deltas, then a text |
//! | `gap-MS-N` | N deltas, MS milliseconds apart, each with the time of its write |
//! | `hang-MS` | a delta, silence for MS milliseconds, the end |
//!
//! Every event is a chunk of the body. The turn is counted from the results in the request, so there is nothing to keep.

use std::{
    collections::HashMap,
    hint,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    num::NonZero,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use memchr::memmem;
use rustix::thread::set_current_timer_slack;

use crate::{
    clock::{self, pause},
    recorded,
};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\nrequest-id: req_1\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &[u8] = b"0\r\n\r\n";

/// How far before the time a wait gives way to a busy one.
const BUSY: Duration = Duration::from_micros(60);

/// The model and the turn.
type Key = (String, usize);

pub(crate) struct Mock {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    first_request: AtomicU64,
    /// What does not depend on the time, by model and turn.
    answers: Mutex<HashMap<Key, Arc<Vec<u8>>>>,
}

impl Mock {
    pub(crate) fn start() -> io::Result<Mock> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        named("mock").spawn(move || accept(&listener, &accepting))?;
        Ok(Mock { address, shared })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for a first request anew.
    pub(crate) fn reset(&self) {
        self.shared.first_request.store(0, Ordering::Relaxed);
    }

    /// When the first request had arrived, on the monotonic clock.
    pub(crate) fn first_request(&self) -> u64 {
        self.shared.first_request.load(Ordering::Relaxed)
    }
}

/// Serves until the process is ended.
pub(crate) fn serve() {
    let mock = Mock::start().expect("a server");
    println!("{}", mock.url());
    loop {
        thread::park();
    }
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned()).stack_size(256 << 10)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    // The threads of the connections take it over: a pause ends when it should.
    let _ = set_current_timer_slack(NonZero::new(1000));
    for socket in listener.incoming().flatten() {
        let shared = shared.clone();
        let _ = named("connection").spawn(move || shared.serve(socket));
    }
}

impl Shared {
    fn serve(&self, mut socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let mut bytes = Vec::with_capacity(64 << 10);
        let mut piece = vec![0; 64 << 10];
        loop {
            let head = loop {
                if let Some(end) = memmem::find(&bytes, b"\r\n\r\n") {
                    break end + 4;
                }
                if !receive(&mut socket, &mut piece, &mut bytes)? {
                    return Ok(());
                }
            };
            let whole = head + content_length(&bytes[..head]);
            while bytes.len() < whole {
                if !receive(&mut socket, &mut piece, &mut bytes)? {
                    return Ok(());
                }
            }
            let now = clock::now();
            let _ =
                self.first_request.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            self.answer(&mut socket, &bytes[head..whole])?;
            bytes.drain(..whole);
        }
    }

    fn answer(&self, socket: &mut TcpStream, body: &[u8]) -> io::Result<()> {
        let model = model_of(body);
        let mut words = model.split('-');
        let kind = words.next().unwrap_or_default();
        let numbers: Vec<usize> = words.map(|it| it.parse().unwrap_or_default()).collect();
        let results = memmem::find_iter(body, b"\"tool_use_id\"").count();
        match (kind, &*numbers) {
            ("text", &[count, size]) => {
                self.send_all(socket, model, 0, || recorded::text(count, size))
            }
            ("calls", &[turns, count]) if results < turns * count => {
                let turn = results / count;
                self.send_all(socket, model, turn, || recorded::calls(turn, count))
            }
            ("arguments", &[count]) if results == 0 => {
                self.send_all(socket, model, 0, || recorded::long_arguments(count))
            }
            ("calls" | "arguments", _) => {
                self.send_all(socket, model, usize::MAX, || recorded::text(4, 16))
            }
            ("drip", &[count, size, micros]) => drip(socket, count, size, micros),
            ("gap", &[millis, count]) => gaps(socket, millis, count),
            ("hang", &[millis]) => hang(socket, millis),
            _ => socket.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
        }
    }

    fn send_all(
        &self,
        socket: &mut TcpStream,
        model: &str,
        turn: usize,
        events: impl FnOnce() -> Vec<String>,
    ) -> io::Result<()> {
        let mut answers = self.answers.lock().map_err(|_| io::Error::other("a thread panicked"))?;
        let answer = answers
            .entry((model.to_owned(), turn))
            .or_insert_with(|| {
                let mut bytes = HEAD.to_vec();
                put_chunks(&mut bytes, &events());
                bytes.extend_from_slice(END);
                Arc::new(bytes)
            })
            .clone();
        drop(answers);
        socket.write_all(&answer)
    }
}

/// Reads on; tells whether anything came.
fn receive(socket: &mut TcpStream, piece: &mut [u8], bytes: &mut Vec<u8>) -> io::Result<bool> {
    let amount = socket.read(piece)?;
    bytes.extend_from_slice(&piece[..amount]);
    Ok(amount > 0)
}

fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head);
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

/// The first `model` of a body, which all clients put before the messages.
fn model_of(body: &[u8]) -> &str {
    let Some(at) = memmem::find(body, b"\"model\"") else { return "" };
    let rest = std::str::from_utf8(&body[at + 7..body.len().min(at + 107)]).unwrap_or_default();
    rest.split('"').nth(1).unwrap_or_default()
}

fn put_chunks(bytes: &mut Vec<u8>, events: &[String]) {
    for event in events {
        bytes.extend_from_slice(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
    }
}

fn send(socket: &mut TcpStream, events: &[String]) -> io::Result<()> {
    let mut bytes = Vec::new();
    put_chunks(&mut bytes, events);
    socket.write_all(&bytes)
}

fn begin(socket: &mut TcpStream) -> io::Result<()> {
    socket.write_all(HEAD)?;
    send(socket, &[recorded::start(), recorded::text_start()])
}

fn finish(socket: &mut TcpStream) -> io::Result<()> {
    send(socket, &[recorded::stop(0)])?;
    send(socket, &recorded::end("end_turn"))?;
    socket.write_all(END)
}

fn drip(socket: &mut TcpStream, count: usize, size: usize, micros: usize) -> io::Result<()> {
    begin(socket)?;
    let step = Duration::from_micros(micros as u64);
    let start = clock::now();
    for (index, event) in recorded::text(count, size).iter().skip(2).take(count).enumerate() {
        let at = start + clock::nanos(step) * (index as u64 + 1);
        let left = Duration::from_nanos(at.saturating_sub(clock::now()));
        if left > BUSY * 2 {
            pause(left.saturating_sub(BUSY));
        }
        while clock::now() < at {
            hint::spin_loop();
        }
        send(socket, std::slice::from_ref(event))?;
    }
    finish(socket)
}

fn gaps(socket: &mut TcpStream, millis: usize, count: usize) -> io::Result<()> {
    begin(socket)?;
    for _ in 0..count {
        pause(Duration::from_millis(millis as u64));
        let event = recorded::text_delta(&format!("T{:020};", clock::now()));
        send(socket, &[event])?;
    }
    finish(socket)
}

fn hang(socket: &mut TcpStream, millis: usize) -> io::Result<()> {
    begin(socket)?;
    send(socket, &[recorded::text_delta("first")])?;
    socket.set_read_timeout(Some(Duration::from_millis(millis as u64)))?;
    // Nothing comes but the end of the connection.
    match socket.peek(&mut [0]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => finish(socket),
        _ => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
