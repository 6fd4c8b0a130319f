//! Responses as Anthropic's API streams them, one text for each server-sent event.

/// A response of `count` text deltas of `size` bytes.
pub(crate) fn text(count: usize, size: usize) -> Vec<String> {
    let mut events = vec![start(), text_start()];
    events.extend((0..count).map(|index| text_delta(&words(index, size))));
    events.push(stop(0));
    events.extend(end("end_turn"));
    events
}

/// A response with a short text and `count` calls of `echo`, each with its arguments in two deltas.
pub(crate) fn calls(turn: usize, count: usize) -> Vec<String> {
    let mut events =
        vec![start(), text_start(), text_delta("I call the tool for it now."), stop(0)];
    for index in 0..count {
        let last = format!(": {}}}", turn * count + index);
        let pieces = [r#"{\"x\""#, &last].map(str::to_owned);
        events.extend(call(index + 1, &format!("toolu_{turn:06}x{index:03}"), pieces));
    }
    events.extend(end("tool_use"));
    events
}

/// A response with one call of `echo` whose arguments are a number and a text of `count` deltas of 16 bytes.
pub(crate) fn long_arguments(count: usize) -> Vec<String> {
    let first = r#"{\"x\": 1, \"s\": \""#.to_owned();
    let middle = (0..count).map(|index| words(index, 16));
    let pieces = [first].into_iter().chain(middle).chain([r#"\"}"#.to_owned()]);
    let mut events = vec![start()];
    events.extend(call(0, "toolu_000000x000", pieces));
    events.extend(end("tool_use"));
    events
}

pub(crate) fn start() -> String {
    event(
        "message_start",
        r#""message":{"id":"msg_1","type":"message","role":"assistant","model":"mock","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}"#,
    )
}

pub(crate) fn text_start() -> String {
    let block = r#""index":0,"content_block":{"type":"text","text":""}"#;
    event("content_block_start", block)
}

pub(crate) fn text_delta(text: &str) -> String {
    let delta = format!(r#""index":0,"delta":{{"type":"text_delta","text":"{text}"}}"#);
    event("content_block_delta", &delta)
}

pub(crate) fn stop(index: usize) -> String {
    event("content_block_stop", &format!(r#""index":{index}"#))
}

pub(crate) fn end(reason: &str) -> [String; 2] {
    let delta = format!(
        r#""delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":15}}"#
    );
    [
        event("message_delta", &delta),
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n".to_owned(),
    ]
}

/// `pieces` are parts of the arguments' text, escaped as they stand in a JSON string.
fn call(index: usize, id: &str, pieces: impl IntoIterator<Item = String>) -> Vec<String> {
    let block = format!(
        r#""index":{index},"content_block":{{"type":"tool_use","id":"{id}","name":"echo","input":{{}}}}"#
    );
    let mut events = vec![event("content_block_start", &block)];
    events.extend(pieces.into_iter().map(|piece| {
        let delta = format!(
            r#""index":{index},"delta":{{"type":"input_json_delta","partial_json":"{piece}"}}"#
        );
        event("content_block_delta", &delta)
    }));
    events.push(stop(index));
    events
}

fn event(kind: &str, fields: &str) -> String {
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{fields}}}\n\n")
}

/// Words that differ from delta to delta.
fn words(index: usize, size: usize) -> String {
    let mut text = format!("w{index:x} ");
    while text.len() < size {
        text.push_str("lorem ipsum dolor ");
    }
    text.truncate(size);
    text
}
