//! The proxy: a program asks the example server over loopback, and the server asks a model.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use steerage::{
    Error, ErrorKind, Message, Model, Secret, StreamFn, StreamRequest,
    message::AssistantMessage,
    proxy::{StreamProxy, stream_proxy},
};

use self::server::{Server, Setup};

mod abort;
mod answers;
mod refusals;
mod requests;
#[path = "../../examples/proxy_server/server.rs"]
mod server;

const TOKEN: &str = "token-of-the-program";

/// How long a test waits for something that must happen.
const LIMIT: Duration = Duration::from_secs(30);

/// What the program says of the model; the server knows better.
fn described() -> Arc<Model> {
    let model = serde_json::json!({
        "id": "small", "name": "Small", "api": "anthropic-messages", "provider": "mine",
        "baseUrl": "http://127.0.0.1:1/nowhere", "reasoning": true, "input": ["text", "image"],
        "contextWindow": 100_000, "maxTokens": 1000,
    });
    Arc::new(serde_json::from_value(model).unwrap())
}

/// A server that knows the model `small` of `mine`, asked through `stream`.
fn serve(stream: impl StreamFn + 'static, model: impl Into<Arc<Model>>) -> Server {
    let model = model.into();
    let setup = Setup {
        token: Secret::new(TOKEN),
        model: Box::new(move |provider, id| match (provider, id) {
            ("mine", "small") => Ok(model.clone()),
            _ => Err(Error::new(ErrorKind::Configuration, format!("there is no `{id}` here"))),
        }),
        stream: Arc::new(stream),
        keep_alive: Duration::from_millis(5),
    };
    Server::start(("127.0.0.1", 0), setup).unwrap()
}

fn client(server: &Server) -> StreamProxy {
    stream_proxy(format!("http://{}", server.address()), TOKEN)
}

fn hi() -> StreamRequest {
    let mut request = StreamRequest::new(described(), [Message::user("Hi")]);
    request.options.max_retries = Some(0);
    request
}

/// The answer to `request`, without times.
fn answer(stream: &dyn StreamFn, request: StreamRequest) -> AssistantMessage {
    let model = request.model.clone();
    let mut events = stream.stream(request, &steerage::AbortSignal::never()).unwrap();
    let message = steerage::stream::collect(&model, &mut *events);
    AssistantMessage { timestamp: 0, duration_ms: None, ..message }
}

/// All that a server answers to bytes; it closes the connection then.
fn raw(server: &Server, request: &str) -> String {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn post(token: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /api/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// The body of a request for a model of `mine`.
fn asking_for(id: &str) -> String {
    let mut model = serde_json::to_value(&*described()).unwrap();
    model["id"] = id.into();
    let messages = serde_json::to_value([Message::user("Hi")]).unwrap();
    let body: Value =
        serde_json::json!({"model": model, "context": {"messages": messages}, "options": {}});
    body.to_string()
}
