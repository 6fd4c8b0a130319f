//! From `abort()` to an idle agent, for each state that an agent can be blocked in.
//!
//! `cargo bench --bench abort --features mcp` prints the median and the worst of forty trials. The promise: at most
//! 1 ms and 50 ms.

use std::{
    io::Read,
    iter,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use steerage::{
    AbortController, AbortSignal, Agent, AgentEvent, AgentOptions, AssistantStream, ErrorKind,
    Message, Model, Run, StreamEvent, StreamFn, StreamOptions, StreamRequest, Tool, ToolContext,
    mcp::{Config, Servers, ServersOptions},
    provider::openai_completions::OpenAiCompletions,
    provider::{HttpClient, HttpOptions, ProviderOptions, ProxyChoice},
    testing::{
        Answer, Scripted,
        http::Lookup,
        server::{End, Framing, Gate, Response, Server, Stream},
    },
};

#[path = "../support/authority.rs"]
mod authority;

use authority::{Authority, NAME};

const TRIALS: usize = 40;

/// How many streams end by one signal.
const STREAMS: usize = 64;

/// How long a request gets to reach the state in which it blocks, where nothing tells that it has.
const SETTLE: Duration = Duration::from_millis(20);

/// How long an upload gets to fill what lies between the two ends.
const SETTLE_UPLOAD: Duration = Duration::from_millis(50);

/// A chunk of a stream that goes on.
const DELTA: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"so\"}}]}\n\n";
const LAST: &str =
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn main() {
    let authority = Authority::new();
    let options = HttpOptions {
        proxy: ProxyChoice::Direct,
        ca_certificates: Some(authority.pem()),
        ..HttpOptions::default()
    };
    let bench = Bench { authority, options };
    println!("| blocked in | median ms | worst ms |\n|---|---:|---:|");
    bench.name_lookup();
    bench.full_backlog();
    bench.handshake();
    for secure in [false, true] {
        bench.upload(secure);
        bench.answer("wait for headers", secure, Response::hang());
        for framing in [Framing::Chunked, Framing::Length, Framing::Close] {
            let name = format!("silent stream, {}", framing_name(framing));
            bench.answer(&name, secure, silent(framing));
        }
    }
    bench.retry_pause();
    tool();
    mcp_calls();
    observer_queue();
    bench.many_streams();
    bare_sockets();
    bench.one_of_sixteen();
}

struct Bench {
    authority: Authority,
    options: HttpOptions,
}

impl Bench {
    fn client(&self, lookup: &Lookup) -> HttpClient {
        HttpClient::with_lookup(self.options.clone(), lookup).expect("valid options")
    }

    /// Stream functions that find every host at one address.
    fn provider_at(&self, address: SocketAddr) -> OpenAiCompletions {
        let lookup: Lookup = Arc::new(move |_| Ok(vec![address]));
        provider(self.client(&lookup))
    }

    fn server(&self, secure: bool, response: Response) -> Server {
        let answer = move |_: &_| response.clone();
        let accept = self.authority.acceptor(false);
        let server = if secure {
            let wrap = move |socket| Ok(Box::new(accept(socket)?) as Box<dyn Stream>);
            Server::wrapped(wrap, answer)
        } else {
            Server::answering(answer)
        };
        server.expect("a server")
    }

    fn name_lookup(&self) {
        let lookup: Lookup = Arc::new(|_| {
            AbortSignal::never().wait_timeout(Duration::from_secs(3));
            Ok(Vec::new())
        });
        let provider = provider(self.client(&lookup));
        measure("name lookup", || Trial::settling(&provider, false, SETTLE));
    }

    fn full_backlog(&self) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            waiting.push(stream);
        }
        let provider = self.provider_at(address);
        measure("connect, full backlog", || Trial::settling(&provider, false, SETTLE));
    }

    fn handshake(&self) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let provider = self.provider_at(listener.local_addr().expect("an address"));
        measure("TLS handshake never answered", || Trial::settling(&provider, true, SETTLE));
    }

    fn retry_pause(&self) {
        let late = Response::json(429, "{}").header("retry-after", "30");
        let server = self.server(false, late);
        let provider = self.provider_at(server.address());
        measure("retry pause", || Trial::settling(&provider, false, SETTLE));
    }

    /// The server accepts and handshakes, and then never reads.
    fn upload(&self, secure: bool) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let provider = self.provider_at(listener.local_addr().expect("an address"));
        let accept = self.authority.acceptor(false);
        let (accepted, accepts) = mpsc::channel();
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
                    let _ = accepted.send(());
                }
            })
            .expect("a thread");
        let prompt = "long ".repeat(3 << 20);
        measure(&label("blocked upload", secure), || {
            let agent = agent(provider.clone(), secure);
            let run = agent.prompt(prompt.clone()).expect("an idle agent");
            accepts.recv().expect("a connection");
            AbortSignal::never().wait_timeout(SETTLE_UPLOAD);
            Trial { agent, run }
        });
    }

    fn answer(&self, name: &str, secure: bool, response: Response) {
        let server = self.server(secure, response);
        let provider = self.provider_at(server.address());
        measure(&label(name, secure), || Trial::settling(&provider, secure, SETTLE));
    }

    /// Sixty-four streams on threads of their own; the time is until the last one has ended.
    fn many_streams(&self) {
        for secure in [false, true] {
            let server = self.server(secure, silent(Framing::Chunked));
            let provider = self.provider_at(server.address());
            let times = (0..TRIALS).map(|_| {
                let controller = AbortController::new();
                let signal = controller.signal();
                let (started, starts) = mpsc::channel();
                thread::scope(|scope| {
                    let streams: Vec<_> = (0..STREAMS)
                        .map(|_| {
                            let (started, signal) = (started.clone(), signal.clone());
                            let provider = provider.clone();
                            scope.spawn(move || read_all(&provider, secure, &signal, &started))
                        })
                        .collect();
                    starts.iter().take(STREAMS).for_each(drop);
                    let start = Instant::now();
                    controller.abort();
                    let ends = streams.into_iter().map(|it| it.join().expect("no panic"));
                    ends.max().expect("some") - start
                })
            });
            print(&label("64 streams under one signal", secure), times.collect());
        }
    }

    /// Sixteen agents, one of which is aborted; the others get their answers.
    fn one_of_sixteen(&self) {
        const AGENTS: usize = 16;
        let mut finished = 0;
        let times = (0..TRIALS).map(|_| {
            let gate = Gate::new();
            let response = Response::events([DELTA]).chunk_behind(&gate, LAST);
            let server = self.server(false, response);
            let provider = self.provider_at(server.address());
            let mut trials: Vec<_> =
                (0..AGENTS).map(|_| Trial::started(agent(provider.clone(), false))).collect();
            let time = trials.swap_remove(AGENTS / 2).abort();
            gate.open();
            finished += trials.iter().filter(|trial| trial.run.wait().is_ok()).count();
            time
        });
        let times = times.collect();
        print("one of 16 streams", times);
        assert_eq!(finished, TRIALS * (AGENTS - 1), "the others finish");
        println!("\nOf the 16 streams the other 15 finished in each trial.");
    }
}

/// What 64 streams cannot go below: as many threads that wait for bytes of a socket, all of which are shut down.
fn bare_sockets() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let wait = |mut socket: TcpStream| {
        let _ = socket.read(&mut [0]);
        Instant::now()
    };
    let times = (0..TRIALS).map(|_| {
        thread::scope(|scope| {
            let (sockets, waiting): (Vec<_>, Vec<_>) = (0..STREAMS)
                .map(|_| {
                    let ours = TcpStream::connect(address).expect("a connection");
                    let (theirs, _) = listener.accept().expect("a connection");
                    scope.spawn(move || wait(theirs));
                    let socket = ours.try_clone().expect("a second handle");
                    (socket, scope.spawn(move || wait(ours)))
                })
                .unzip();
            AbortSignal::never().wait_timeout(SETTLE);
            let start = Instant::now();
            for socket in &sockets {
                socket.shutdown(Shutdown::Both).expect("an open socket");
            }
            let ends = waiting.into_iter().map(|it| it.join().expect("no panic"));
            ends.max().expect("some") - start
        })
    });
    print("64 threads that read bare sockets", times.collect());
}

fn tool() {
    measure("tool that waits on its signal", || {
        let (started, starts) = mpsc::channel();
        let tool = Tool::new("wait", "Waits", move |_: serde_json::Value, call: &ToolContext| {
            let _ = started.send(());
            call.signal().wait();
            Ok("aborted")
        });
        let model = Scripted::new([Answer::new().tool_call("wait", json!({}))]);
        let options = AgentOptions {
            stream: Some(model.clone().into()),
            tools: vec![tool],
            ..AgentOptions::default()
        };
        let agent = Agent::new(model.model(), options).expect("valid options");
        let run = agent.prompt("Hello!").expect("an idle agent");
        starts.recv().expect("the tool runs");
        Trial { agent, run }
    });
}

/// MCP servers that never answer a call.
fn mcp_calls() {
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}});
    let tools = json!({"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]});
    let answer = |id: u8, result| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let (hello, tools) = (answer(1, hello), answer(2, tools));
    let script = format!("read a; echo '{hello}'; read b; read c; echo '{tools}'; cat > /dev/null");
    let stdio = json!({"command": "sh", "args": ["-c", script]});
    let server = Server::answering(move |request| match request.text() {
        text if text.contains("\"initialize\"") => Response::json(200, hello.as_str()),
        text if text.contains("tools/list") => Response::json(200, tools.as_str()),
        text if text.contains("tools/call") => Response::hang(),
        text if text.is_empty() => Response::new(405),
        _ => Response::new(202),
    });
    let server = server.expect("a server");
    for (name, entry) in [("stdio", stdio), ("http", json!({"url": server.url()}))] {
        let config = Config::from_value(&json!({"s": entry})).expect("a configuration");
        let servers = Servers::connect(config, ServersOptions::default(), &AbortSignal::never());
        let servers = servers.expect("nobody aborts");
        measure(&format!("call of an MCP server, {name}"), || {
            let model = Scripted::new([Answer::new().tool_call("mcp__s__wait", json!({}))]);
            let options = AgentOptions {
                stream: Some(model.clone().into()),
                tools: servers.tools(),
                ..AgentOptions::default()
            };
            let agent = Agent::new(model.model(), options).expect("valid options");
            let run = agent.prompt("Hello!").expect("an idle agent");
            AbortSignal::never().wait_timeout(SETTLE);
            Trial { agent, run }
        });
    }
}

/// An observer that nobody reads: its queue holds all that the stream told before it fell silent.
fn observer_queue() {
    const BLOCKS: usize = 10_000;
    measure("silent stream, full observer queue", || {
        let (silent, silence) = mpsc::channel();
        let stream = move |_: StreamRequest, signal: &AbortSignal| {
            let blocks = (0..BLOCKS).flat_map(|content_index| {
                let end =
                    StreamEvent::TextEnd { content_index, content: None, content_signature: None };
                [StreamEvent::TextStart { content_index }, end]
            });
            let (signal, silent) = (signal.clone(), silent.clone());
            let last = iter::once_with(move || {
                let _ = silent.send(());
                signal.wait();
                StreamEvent::aborted()
            });
            let events = iter::once(StreamEvent::Start).chain(blocks).chain(last);
            Ok(Box::new(Told(events)) as Box<dyn AssistantStream>)
        };
        let options = AgentOptions { stream: Some(Arc::new(stream)), ..AgentOptions::default() };
        let agent = Agent::new(Scripted::new([""]).model(), options).expect("valid options");
        let events = agent.events();
        let run = agent.prompt("Hello!").expect("an idle agent");
        silence.recv().expect("the stream is read");
        assert!(!events.is_empty());
        // It shall outlive the trial.
        std::mem::forget(events);
        Trial { agent, run }
    });
}

struct Told<I>(I);

impl<I: Iterator<Item = StreamEvent>> Iterator for Told<I> {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        self.0.next()
    }
}

impl<I: Iterator<Item = StreamEvent> + Send> AssistantStream for Told<I> {}

/// A run that is blocked.
struct Trial {
    agent: Agent,
    run: Run,
}

impl Trial {
    fn settling(provider: &OpenAiCompletions, secure: bool, time: Duration) -> Trial {
        let agent = agent(provider.clone(), secure);
        let run = agent.prompt("Hello!").expect("an idle agent");
        AbortSignal::never().wait_timeout(time);
        Trial { agent, run }
    }

    /// A run whose answer has begun.
    fn started(agent: Agent) -> Trial {
        let mut events = agent.events();
        let run = agent.prompt("Hello!").expect("an idle agent");
        let begun = events.any(|event| matches!(event, AgentEvent::MessageUpdate { .. }));
        assert!(begun, "the answer begins");
        Trial { agent, run }
    }

    fn abort(self) -> Duration {
        assert!(!self.run.is_done(), "it is not blocked: {:?}", self.run.wait());
        let start = Instant::now();
        self.agent.abort();
        self.agent.wait_for_idle().expect("this is no thread of the agent");
        let time = start.elapsed();
        let kind = self.run.wait().expect_err("it was aborted").kind();
        assert_eq!(kind, ErrorKind::Aborted);
        time
    }
}

fn provider(client: HttpClient) -> OpenAiCompletions {
    OpenAiCompletions::new(ProviderOptions { client, ..ProviderOptions::default() })
}

fn model(secure: bool) -> Model {
    Model::openai_compatible("m", format!("{}://{NAME}", if secure { "https" } else { "http" }))
}

fn agent(provider: OpenAiCompletions, secure: bool) -> Agent {
    let options = AgentOptions {
        stream: Some(Arc::new(provider)),
        request: StreamOptions { max_retries: Some(2), ..StreamOptions::default() },
        ..AgentOptions::default()
    };
    Agent::new(model(secure), options).expect("valid options")
}

/// Reads a stream until it is aborted, tells of its first delta, and returns when it ended.
fn read_all(
    provider: &OpenAiCompletions,
    secure: bool,
    signal: &AbortSignal,
    started: &mpsc::Sender<()>,
) -> Instant {
    let request = StreamRequest::new(model(secure), [Message::user("Hello!")]);
    let stream = provider.stream(request, signal).expect("failures are events");
    let mut last = None;
    for event in stream {
        if matches!(event, StreamEvent::TextDelta { .. }) {
            let _ = started.send(());
        }
        last = Some(event);
    }
    let end = Instant::now();
    assert_eq!(last, Some(StreamEvent::aborted()));
    end
}

fn silent(framing: Framing) -> Response {
    let response = Response { extra_length: 100, ..Response::events([DELTA]) };
    response.framing(framing).end(End::Hang)
}

fn framing_name(framing: Framing) -> &'static str {
    match framing {
        Framing::Chunked => "chunked",
        Framing::Length => "by length",
        Framing::Close => "close-delimited",
    }
}

fn label(name: &str, secure: bool) -> String {
    format!("{name}, {}", if secure { "https" } else { "http" })
}

/// Aborts what `blocked` prepares, again and again.
fn measure(name: &str, blocked: impl Fn() -> Trial) {
    print(name, (0..TRIALS).map(|_| blocked().abort()).collect());
}

fn print(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let (median, worst) = (millis(times[TRIALS / 2]), millis(times[TRIALS - 1]));
    println!("| {name} | {median:.2} | {worst:.2} |");
}
