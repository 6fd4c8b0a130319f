//! From `abort()` to the return of the call that it ends, for each state that a request can be blocked in.
//!
//! `cargo bench --bench abort` prints the median and the worst of forty trials. The promise: at most 1 ms and 50 ms.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use steerage::{
    AbortController, AbortSignal, Error, ErrorKind, SystemClock,
    testing::{
        http::{HttpClient, HttpOptions, HttpRequest, Lookup, ProxyChoice, Retries, RetryPolicy},
        server::{End, Framing, Response, Server, Stream},
    },
};

#[path = "../support/authority.rs"]
mod authority;

use authority::{Authority, NAME};

const TRIALS: usize = 40;

/// How long a request gets to reach the state in which it blocks.
const SETTLE: Duration = Duration::from_millis(20);

fn main() {
    let authority = Authority::new();
    let options = HttpOptions {
        proxy: ProxyChoice::Direct,
        ca_certificates: Some(authority.pem()),
        ..HttpOptions::default()
    };
    let bench = Bench { authority, options };
    println!("{:<40} {:>12} {:>12}", "blocked in", "median ms", "worst ms");
    bench.name_lookup();
    bench.full_backlog();
    bench.handshake();
    bench.retry_pause();
    for secure in [false, true] {
        bench.upload(secure);
        bench.answer("the wait for headers", secure, Response::hang());
        for framing in [Framing::Chunked, Framing::Length, Framing::Close] {
            let stalled = Response { extra_length: 100, ..Response::new(200) };
            let stalled = stalled.chunk("first").framing(framing).end(End::Hang);
            let name = format!("a silent body, {}", format!("{framing:?}").to_lowercase());
            bench.answer(&name, secure, stalled);
        }
    }
}

struct Bench {
    authority: Authority,
    options: HttpOptions,
}

impl Bench {
    fn client(&self, lookup: &Lookup) -> HttpClient {
        HttpClient::with_lookup(self.options.clone(), lookup).expect("valid options")
    }

    fn client_at(&self, address: SocketAddr) -> HttpClient {
        let lookup: Lookup = Arc::new(move |_| Ok(vec![address]));
        self.client(&lookup)
    }

    fn name_lookup(&self) {
        let lookup: Lookup = Arc::new(|_| {
            AbortSignal::never().wait_timeout(Duration::from_secs(3));
            Ok(Vec::new())
        });
        let client = self.client(&lookup);
        measure("the name lookup", |signal| get(&client, false, signal));
    }

    fn full_backlog(&self) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            waiting.push(stream);
        }
        let client = self.client_at(address);
        measure("the connect, full backlog", |signal| get(&client, false, signal));
    }

    fn handshake(&self) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let client = self.client_at(listener.local_addr().expect("an address"));
        measure("the TLS handshake", |signal| get(&client, true, signal));
    }

    fn retry_pause(&self) {
        let late = || Response::json(429, "{}").header("retry-after", "30");
        let server = Server::answering(move |_| late()).expect("a server");
        let client = self.client_at(server.address());
        measure("the pause before a retry", |signal| {
            let policy = RetryPolicy::default();
            let retries = Retries { policy: &policy, clock: &SystemClock, hint: None };
            client.send_with_retries(&request(false), &retries, signal).map(drop)
        });
    }

    /// The server accepts and handshakes, and then never reads.
    fn upload(&self, secure: bool) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let client = self.client_at(listener.local_addr().expect("an address"));
        let accept = self.authority.acceptor(false);
        thread::Builder::new()
            .spawn(move || {
                let mut plain = Vec::new();
                let mut wrapped = Vec::new();
                for socket in listener.incoming().flatten() {
                    if secure {
                        wrapped.extend(accept(socket));
                    } else {
                        plain.push(socket);
                    }
                }
            })
            .expect("a thread");
        let body: Arc<[u8]> = vec![7; 16 << 20].into();
        measure(&label("a blocked upload", secure), |signal| {
            let request = HttpRequest::post(request(secure).url, vec![body.clone()]);
            client.send(&request, signal).map(drop)
        });
    }

    fn answer(&self, name: &str, secure: bool, response: Response) {
        let answer = move |_: &_| response.clone();
        let accept = self.authority.acceptor(false);
        let server = if secure {
            let wrap = move |socket| Ok(Box::new(accept(socket)?) as Box<dyn Stream>);
            Server::wrapped(wrap, answer)
        } else {
            Server::answering(answer)
        };
        let server = server.expect("a server");
        let client = self.client_at(server.address());
        measure(&label(name, secure), |signal| get(&client, secure, signal));
    }
}

fn label(name: &str, secure: bool) -> String {
    format!("{name}, {}", if secure { "https" } else { "http" })
}

fn request(secure: bool) -> HttpRequest {
    HttpRequest::get(format!("{}://{NAME}/", if secure { "https" } else { "http" }))
}

fn get(client: &HttpClient, secure: bool, signal: &AbortSignal) -> Result<(), Error> {
    let mut response = client.send(&request(secure), signal)?;
    while !response.fill()?.is_empty() {
        response.consume(usize::MAX);
    }
    Ok(())
}

/// Runs `blocked` on a thread of its own, aborts it, and prints how long it took to return.
fn measure(name: &str, blocked: impl Fn(&AbortSignal) -> Result<(), Error> + Sync) {
    let mut times: Vec<Duration> = (0..TRIALS)
        .map(|_| {
            let controller = AbortController::new();
            let signal = controller.signal();
            thread::scope(|scope| {
                let call = scope.spawn(|| {
                    let result = blocked(&signal);
                    let returned = Instant::now();
                    let kind = result.expect_err("nothing answers").kind();
                    assert_eq!(kind, ErrorKind::Aborted);
                    returned
                });
                AbortSignal::never().wait_timeout(SETTLE);
                let start = Instant::now();
                controller.abort();
                call.join().expect("no panic") - start
            })
        })
        .collect();
    times.sort();
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    println!("{name:<40} {:>12.3} {:>12.3}", millis(times[TRIALS / 2]), millis(times[TRIALS - 1]));
}
