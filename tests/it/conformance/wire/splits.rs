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

/// The bodies of all answers that are no failure, each once for each request that understands it in its own way.
pub(super) fn bodies<'a>(cases: impl Iterator<Item = &'a Value>) -> Vec<Body> {
    let mut seen = HashSet::new();
    let mut bodies = Vec::new();
    for case in cases {
        let turns = case["turns"].as_array().cloned().unwrap_or_else(|| vec![case.clone()]);
        for mut turn in turns {
            leave_out_replies(&mut turn["context"]);
            let mut model = case["model"].clone();
            for (name, value) in turn["model"].as_object().into_iter().flatten() {
                model[name] = value.clone();
            }
            let scripts = turn["responses"].as_array().into_iter().flatten();
            for script in scripts.filter(|it| it["status"].as_u64().unwrap_or(200) < 300) {
                let bytes = parse::body(script);
                let is_whole = matches!(script["end"].as_str(), None | Some("normal"));
                if !seen.insert((bytes.clone(), understanding(&model, &turn), is_whole)) {
                    continue;
                }
                bodies.push(Body {
                    name: case["name"].as_str().unwrap().to_owned(),
                    model: model.clone(),
                    is_native: turn["entry"] == "stream" || case["entry"] == "stream",
                    turn: turn.clone(),
                    bytes,
                    is_whole,
                });
            }
        }
    }
    bodies
}

/// What the meaning of a body depends on beside its bytes.
fn understanding(model: &Value, turn: &Value) -> String {
    let flags = ["supportsFinishReason", "supportsOpenAIGrammarTools", "allowedFallbackModels"];
    let flags = flags.map(|name| &model["compat"][name]);
    let model = ["api", "provider", "id", "cost"].map(|name| &model[name]);
    format!("{model:?} {flags:?} {}", turn["context"]["tools"])
}

/// What stands for the answer of an earlier turn does not matter to the decoder of a later one.
fn leave_out_replies(context: &mut Value) {
    if let Some(messages) = context["messages"].as_array_mut() {
        messages.retain(|message| message.get("$reply").is_none());
    }
}

/// Feeds a body byte by byte to its decoder, and in two parts for each place to cut it to what makes the frames: the same
/// frames give the same events, since a decoder sees nothing else.
pub(super) fn difference(body: &Body) -> Option<String> {
    let request = parse::request(&body.model, &body.turn, body.is_native);
    let Ok(whole) = decode(&request, [&body.bytes], body.is_whole) else {
        // A request that cannot be made has no answer.
        return None;
    };
    let bytes = &body.bytes;
    let by_byte = decode(&request, bytes.chunks(1), body.is_whole).unwrap();
    if whole != by_byte {
        return Some(format!("byte by byte\n  expected {whole:?}\n  got      {by_byte:?}"));
    }
    let (frames, foreign) = frames(bytes);
    for cut in 1..bytes.len() {
        let (first, second) = bytes.split_at(cut);
        if !gives(&frames, &foreign, &[first, second]) {
            return Some(format!("cut at byte {cut}"));
        }
    }
    None
}

type Frame = (Option<String>, String);

/// The frames of a body, and what in it is no frame.
fn frames(body: &[u8]) -> (Vec<Frame>, String) {
    let mut frames = Vec::new();
    let foreign = read(&[body], |event, data| {
        frames.push((event.map(str::to_owned), data.to_owned()));
    });
    (frames, foreign)
}

fn gives(frames: &[Frame], foreign: &str, pieces: &[&[u8]]) -> bool {
    let mut expected = frames.iter();
    let mut all_fit = true;
    let rest = read(pieces, |event, data| {
        all_fit &= expected.next().is_some_and(|it| it.0.as_deref() == event && it.1 == data);
    });
    all_fit && expected.next().is_none() && rest == foreign
}

/// Shows each frame to `take`; returns the text that is none.
fn read(pieces: &[&[u8]], mut take: impl FnMut(Option<&str>, &str)) -> String {
    let mut decoder = SseDecoder::new(SseOptions::default());
    for piece in pieces.iter().map(Some).chain([None]) {
        match piece {
            Some(piece) => decoder.push(piece),
            None => decoder.finish(),
        }
        while let Some(frame) = decoder.next_frame() {
            let frame = frame.unwrap();
            take(frame.event, frame.data);
        }
    }
    decoder.foreign_text().to_owned()
}
