//! Either side may be gone at any time.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::Arc,
    thread,
};

use steerage::{
    AbortController, AbortSignal, Error, ErrorKind, LiveMessage, StreamEvent, StreamFn,
    StreamRequest,
    provider::{ProviderOptions, openai_completions::OpenAiCompletions},
    proxy,
    stream::AssistantStream,
    testing::server::{End, Gate, Response, Server as Vendor},
};

use super::{LIMIT, TOKEN, asking_for, client, described, hi, post, serve, server::Server};

/// A vendor that says a piece, then what `rest` holds, then nothing.
fn vendor(rest: Option<(&Gate, &str)>) -> Vendor {
    let piece = |text: &str| {
        format!(
            "data: {{\"id\":\"1\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
        )
    };
    let mut response = Response::events([piece("par")]).end(End::Hang);
    if let Some((gate, text)) = rest {
        response = response.chunk_behind(gate, piece(text));
    }
    Vendor::start([response]).unwrap()
}

fn proxy_of(vendor: &Vendor) -> Server {
    let mut model = (*described()).clone();
    "openai-completions".clone_into(&mut model.api);
    model.base_url = vendor.url();
    serve(OpenAiCompletions::new(ProviderOptions::default()), model)
}

/// Reads until the text is there.
fn read_to(stream: &mut dyn AssistantStream, live: &LiveMessage, text: &str) {
    for mut event in stream {
        live.apply(&mut event).unwrap();
        if live.with_text(0, |it| it == text) == Some(true) {
            return;
        }
    }
    panic!("the text does not come: {:?}", live.snapshot());
}

fn last(stream: &mut dyn AssistantStream, live: &LiveMessage) -> StreamEvent {
    let mut last = None;
    for mut event in stream {
        live.apply(&mut event).unwrap();
        last = Some(event);
    }
    last.unwrap()
}

#[test]
fn an_abort_of_the_program_ends_the_request_to_the_vendor() {
    let vendor = vendor(None);
    let server = proxy_of(&vendor);
    let controller = AbortController::new();
    let mut stream = client(&server).stream(hi(), &controller.signal()).unwrap();
    let live = LiveMessage::of(&described());
    read_to(&mut *stream, &live, "par");
    controller.abort();
    assert_eq!(last(&mut *stream, &live), StreamEvent::aborted());
    assert_eq!(live.snapshot().texts().collect::<String>(), "par");
    assert!(vendor.wait_for_closed(1, LIMIT));
}

#[test]
fn dropping_the_stream_ends_the_request_to_the_vendor() {
    let vendor = vendor(None);
    let server = proxy_of(&vendor);
    let mut stream = client(&server).stream(hi(), &AbortSignal::never()).unwrap();
    read_to(&mut *stream, &LiveMessage::of(&described()), "par");
    drop(stream);
    assert!(vendor.wait_for_closed(1, LIMIT));
}

/// While the vendor has not said anything, too.
#[test]
fn an_abort_before_the_first_word_ends_the_request_to_the_vendor() {
    let vendor = Vendor::start([Response::hang()]).unwrap();
    let server = proxy_of(&vendor);
    let controller = AbortController::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(vendor.wait_for_requests(1, LIMIT));
            controller.abort();
        });
        let mut stream = client(&server).stream(hi(), &controller.signal()).unwrap();
        let live = LiveMessage::of(&described());
        assert_eq!(last(&mut *stream, &live), StreamEvent::aborted());
    });
    assert!(vendor.wait_for_closed(1, LIMIT));
}

#[test]
fn a_server_that_dies_in_the_middle_leaves_what_was_said_and_an_error() {
    let vendor = vendor(None);
    let server = proxy_of(&vendor);
    let mut stream = client(&server).stream(hi(), &AbortSignal::never()).unwrap();
    let live = LiveMessage::of(&described());
    read_to(&mut *stream, &live, "par");
    drop(server);
    let StreamEvent::Error { failure, .. } = last(&mut *stream, &live) else { panic!() };
    assert!(matches!(failure.kind, ErrorKind::Network | ErrorKind::Protocol), "{failure:?}");
    assert_eq!(live.snapshot().texts().collect::<String>(), "par");
    // Nothing of it is left: all of its threads have ended, and so has what they asked.
    assert!(vendor.wait_for_closed(1, LIMIT));
}

/// Each word is passed on when it comes, not when the answer is complete.
#[test]
fn words_are_passed_on_one_by_one() {
    let gate = Gate::new();
    let vendor = vendor(Some((&gate, "tial")));
    let server = proxy_of(&vendor);
    let mut stream = client(&server).stream(hi(), &AbortSignal::never()).unwrap();
    let live = LiveMessage::of(&described());
    read_to(&mut *stream, &live, "par");
    gate.open();
    read_to(&mut *stream, &live, "partial");
}

/// A program whose server ends did not ask for that, and is not told that it did.
#[test]
fn an_abort_on_the_side_of_the_server_is_not_told() {
    let controller = Arc::new(AbortController::new());
    let firing = controller.clone();
    let stream =
        move |_: StreamRequest, _: &AbortSignal| -> Result<Box<dyn AssistantStream>, Error> {
            firing.abort();
            Ok(Box::new(vec![StreamEvent::Start, StreamEvent::aborted()].into_iter()))
        };
    let mut body = Vec::new();
    let result = proxy::serve(&stream, hi(), &controller.signal(), &mut body);
    assert!(result.is_err());
    assert_eq!(String::from_utf8(body).unwrap(), "data: {\"type\":\"start\"}\n\n");
}

/// A client that hears nothing for two minutes gives up, and a model may think for longer, before its first word too.
#[test]
fn a_silent_vendor_is_no_silent_server() {
    let gate = Gate::new();
    let mute = Vendor::start([Response::hang()]).unwrap();
    let slow = vendor(Some((&gate, "tial")));
    let mut lines = [mute, slow].map(|vendor| {
        let server = proxy_of(&vendor);
        let mut socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.write_all(post(TOKEN, &asking_for("small")).as_bytes()).unwrap();
        let mut lines = BufReader::new(socket).lines().map(Result::unwrap);
        let comments = lines.by_ref().filter(|line| line.starts_with(':'));
        assert_eq!(comments.take(3).count(), 3);
        (lines, server, vendor)
    });
    gate.open();
    let said = lines[1].0.find(|line| line.contains("tial")).unwrap();
    assert_eq!(said, r#"data: {"type":"text_delta","contentIndex":0,"delta":"tial"}"#);
}
