//! Bytes to frames, frames to events, and arguments that are readable while they arrive.

use std::hint::black_box;

use memchr::memchr_iter;
use serde_json::{Value, json};
use steerage::{
    Message, StreamRequest,
    partial_json::PartialJson,
    sse::{SseDecoder, SseOptions},
    testing::wire,
};

use crate::{
    cost::{cost, head},
    numbers::{exponent, number},
    recorded, sample,
};

/// How bytes arrive.
const PIECE: usize = 16 << 10;

/// How many characters of arguments come at once.
const DELTA: usize = 16;

/// A name, and what makes arguments of a size.
type Shape = (&'static str, fn(usize) -> Value);

pub(crate) fn print() {
    head("Server-sent events, and what they mean", "MB/s", "by hand, MB/s");
    let bodies = |count: usize| {
        [
            ("text", recorded::text(count, 16)),
            ("arguments", recorded::long_arguments(count)),
            ("256 calls a message", recorded::calls(0, 256)),
        ]
        .map(|(name, events)| (name, events.concat().into_bytes()))
    };
    for (name, body) in bodies(50_000) {
        let lines = cost(|| memchr_iter(b'\n', &body).fold(0, |sum, at| sum ^ at));
        speed(
            &format!("{name}: frames; by hand the line ends found"),
            &body,
            cost(|| frames(&body)),
            lines,
        );
        let parsed = cost(|| parse_data(&body));
        let decode = || wire::decode(&request(), body.chunks(PIECE), true).expect("a decoder");
        speed(
            &format!("{name}: events; by hand each JSON looked over"),
            &body,
            cost(decode),
            parsed,
        );
    }
    let growth = [20_000_u32, 80_000, 320_000].map(|count| {
        let body = recorded::text(count as usize, 16).concat().into_bytes();
        (f64::from(count), cost(|| frames(&body)))
    });
    println!(
        "\nThe cost of frames grows with the exponent {:.2} of their number.",
        exponent(&growth)
    );
    arguments();
}

fn arguments() {
    head("Arguments in deltas of 16 characters, looked at after each", "MB/s", "parsed once, MB/s");
    let shapes: [Shape; 3] = [
        ("one long text", |size| json!({"text": "lorem ipsum dolor ".repeat(size / 18)})),
        ("a list of numbers", |size| json!({"list": vec![12345; size / 6]})),
        (
            "objects in objects",
            |size| json!({"list": vec![json!({"name": "x", "at": {"line": 12, "end": [1, 2]}}); size / 44]}),
        ),
    ];
    for (name, shape) in shapes {
        let text = shape(256 << 10).to_string();
        let whole = cost(|| serde_json::from_str::<Value>(&text));
        speed(name, text.as_bytes(), cost(|| read_along(&text)), whole);
        let points = [64_u32 << 10, 256 << 10, 1 << 20].map(|size| {
            let text = shape(size as usize).to_string();
            (f64::from(size), cost(|| read_along(&text)))
        });
        println!("| {name}: exponent of the cost | {:.2} | | |", exponent(&points));
    }
}

/// A line with the speeds at which bytes are read.
fn speed(what: &str, bytes: &[u8], micros: f64, by_hand: f64) {
    let amount = f64::from(u32::try_from(bytes.len()).expect("a few MB"));
    let [ours, floor] = [micros, by_hand].map(|micros| number(Some(amount / micros)));
    println!("| {what} | {ours} | {floor} | {:.2} |", micros / by_hand);
}

fn request() -> StreamRequest {
    StreamRequest::new(sample::model("anthropic-messages"), [Message::user("go")])
}

fn frames(body: &[u8]) -> usize {
    let mut decoder = SseDecoder::new(SseOptions::default());
    let mut count = 0;
    for piece in body.chunks(PIECE) {
        decoder.push(piece);
        while let Some(frame) = decoder.next_frame() {
            count += frame.expect("a short frame").data.len();
        }
    }
    count
}

fn parse_data(body: &[u8]) {
    for line in body.split(|byte| *byte == b'\n') {
        if let Some(data) = line.strip_prefix(b"data: ") {
            black_box(serde_json::from_slice::<serde::de::IgnoredAny>(data).expect("JSON"));
        }
    }
}

fn read_along(text: &str) -> usize {
    let mut arguments = PartialJson::new();
    let mut seen = 0;
    for delta in text.as_bytes().chunks(DELTA) {
        arguments.push(std::str::from_utf8(delta).expect("ASCII"));
        seen += black_box(arguments.arguments()).len();
    }
    seen
}
