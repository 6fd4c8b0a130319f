//! Cuts recorded bodies at every place: what a decoder is shown does not depend on it.

use std::collections::HashSet;

use serde_json::Value;
use steerage::{
    sse::{SseDecoder, SseOptions},
    testing::wire::decode,
};

use super::{Named, parse};

/// The body of a recorded response, and the call that it answers.
pub(super) struct Body {
    name: String,
    model: Value,
    turn: Value,
    is_native: bool,
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Named for Body {
    fn name(&self) -> &str {
        &self.name
    }
}

/// The bodies of all event streams, each once.
pub(super) fn bodies<'a>(cases: impl Iterator<Item = &'a Value>) -> Vec<Body> {
    let mut seen = HashSet::new();
    let mut bodies = Vec::new();
    for case in cases {
        let turns = case["turns"].as_array().cloned().unwrap_or_else(|| vec![case.clone()]);
        for turn in turns.iter().filter(|turn| !turn["context"].to_string().contains("$reply")) {
            let scripts = turn["responses"].as_array().into_iter().flatten();
            for script in scripts.filter(|it| it["headers"]["content-type"] == "text/event-stream")
            {
                let bytes = parse::body(script);
                let mut model = case["model"].clone();
                for (name, value) in turn["model"].as_object().into_iter().flatten() {
                    model[name] = value.clone();
                }
                let compat = model["compat"].to_string();
                if seen.insert((bytes.clone(), compat)) {
                    let name = case["name"].as_str().unwrap().to_owned();
                    let is_native = turn["entry"] == "stream" || case["entry"] == "stream";
                    let is_whole = matches!(script["end"].as_str(), None | Some("normal"));
                    bodies.push(Body {
                        name,
                        model,
                        turn: turn.clone(),
                        is_native,
                        bytes,
                        is_whole,
                    });
                }
            }
        }
    }
    bodies
}

/// Feeds a body byte by byte through the decoder, and its two parts for each cut through the frames that a decoder is
/// shown (it sees nothing else).
pub(super) fn difference(body: &Body) -> Option<String> {
    let request = parse::request(&body.model, &body.turn, body.is_native);
    let events = |pieces: Vec<&[u8]>| decode(&request, pieces, body.is_whole).unwrap();
    let bytes = &body.bytes;
    let whole = events(vec![bytes]);
    let by_byte = events(bytes.chunks(1).collect());
    if whole != by_byte {
        return Some(format!("byte by byte\n  expected {whole:?}\n  got      {by_byte:?}"));
    }
    let expected = frames(bytes);
    for cut in 1..bytes.len() {
        let (first, second) = bytes.split_at(cut);
        if !gives(&expected, &[first, second]) {
            return Some(format!("cut at byte {cut}"));
        }
    }
    None
}

type Frame = (Option<String>, String);

fn frames(body: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    read(&[body], |event, data| {
        frames.push((event.map(str::to_owned), data.to_owned()));
        true
    });
    frames
}

fn gives(expected: &[Frame], pieces: &[&[u8]]) -> bool {
    let mut expected = expected.iter();
    let all_fit = read(pieces, |event, data| {
        expected.next().is_some_and(|it| it.0.as_deref() == event && it.1 == data)
    });
    all_fit && expected.next().is_none()
}

/// Shows each frame to `take` while it says yes; tells whether it always did.
fn read(pieces: &[&[u8]], mut take: impl FnMut(Option<&str>, &str) -> bool) -> bool {
    let mut decoder = SseDecoder::new(SseOptions::default());
    for piece in pieces.iter().map(Some).chain([None]) {
        match piece {
            Some(piece) => decoder.push(piece),
            None => decoder.finish(),
        }
        while let Some(frame) = decoder.next_frame() {
            let frame = frame.unwrap();
            if !take(frame.event, frame.data) {
                return false;
            }
        }
    }
    true
}
