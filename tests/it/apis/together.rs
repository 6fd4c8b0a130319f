//! An answer that came whole is there whole: every event of it, its end too, can be had without waiting.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use steerage::{
    AbortSignal, AssistantStream, Message, Model, StreamRequest, provider::ProviderOptions,
};

use crate::apis;

/// Answers one request in a single write, so that it arrives at once.
fn answer(stream: TcpStream, head: &str, body: &str) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{head}\r\n\r\n");
    reader.get_mut().write_all((head + body).as_bytes()).unwrap();
}

/// How often the stream said that the next event takes waiting, after the first.
fn waits(api: &str, head: &str, body: &str) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| answer(listener.accept().unwrap().0, head, body));
        let options = ProviderOptions { api_key: Some("k".into()), ..ProviderOptions::default() };
        let model = Model {
            id: "m".to_owned(),
            api: api.to_owned(),
            provider: "p".to_owned(),
            base_url: url,
            ..Model::default()
        };
        let request = StreamRequest::new(model, [Message::user("Hello")]);
        let mut stream: Box<dyn AssistantStream> =
            apis::stream_fn(api, options).stream(request, &AbortSignal::never()).unwrap();
        let mut waits = 0;
        while let Some(event) = stream.next() {
            if event.is_terminal() {
                assert!(matches!(event, steerage::StreamEvent::Done { .. }), "{api}: {event:?}");
                break;
            }
            waits += usize::from(!stream.more_is_ready());
        }
        waits
    })
}

#[test]
fn the_end_of_an_answer_that_came_whole_takes_no_waiting() {
    for api in apis::with_proxy() {
        let body = apis::hi(api);
        let length = format!("content-length: {}", body.len());
        assert_eq!(waits(api, &length, body), 0, "{api}, of known length");
        let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        assert_eq!(waits(api, "transfer-encoding: chunked", &chunks), 0, "{api}, in chunks");
    }
}
