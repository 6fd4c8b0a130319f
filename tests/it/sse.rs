//! The event stream decoder: texts in, frames out, however the bytes are cut.

use std::{fmt::Write, time::Duration};

use steerage::{
    ErrorKind,
    sse::{DataLines, SseDecoder, SseOptions},
};

/// Texts and their frames, one a line: `name|data`, data with escapes.
const TABLE: &[(&[u8], &str)] = &[
    (b"", ""),
    (b"\n\n\n", ""),
    (b"data: a\n\n", "|a\n"),
    (b"data:a\n\ndata:  b\n\n", "|a\n| b\n"),
    (b"data:[DONE]\n\n", "|[DONE]\n"),
    (b"event: x\ndata: a\n\ndata: b\n\n", "x|a\n|b\n"),
    (b"event:x\nevent: y\ndata: a\n\n", "y|a\n"),
    (b"event: x\nevent\ndata: a\n\n", "|a\n"),
    (b"event: lost\n\ndata: a\n\n", "|a\n"),
    (b"data: a\ndata: b\n\n", "|a\\nb\n"),
    (b"data: a\ndata\ndata:\ndata: b\n\n", "|a\\n\\n\\nb\n"),
    // Events that are not kept apart by a blank line are one.
    (b"event: x\ndata: {}\nevent: y\ndata: []\n", "y|{}\\n[]\n"),
    // Line ends.
    (b"data: {}\r\n\r\n", "|{}\n"),
    (b"data: A\r\ndata: B\r\n\r\n", "|A\\nB\n"),
    (b"event: x\rdata: a\r\rdata: b\r\r", "x|a\n|b\n"),
    (b"data: a\r\n\ndata: b\n\r\ndata: c\r\n\rdata: d\r\r\n", "|a\n|b\n|c\n|d\n"),
    (b"data: a\n\rdata: b\r\n\r\n", "|a\n|b\n"),
    // The end of the stream.
    (b"data: a\n\ndata: b\n", "|a\n|b\n"),
    (b"data: a\n\nevent: x\ndata: b", "|a\nx|b\n"),
    (b"data: a\r\rdata: b\r", "|a\n|b\n"),
    (b"data: a\n\ndata:", "|a\n"),
    // Comments, other fields, blank data.
    (b": ping\n\n:\n\ndata: a\n: in the middle\ndata: b\n\n:", "|a\\nb\n"),
    (b"id: 7\nretry: 30\nnonsense\ndata: a\nother: b\n\n", "|a\n"),
    (b"data:\n\ndata: \n\ndata\n\ndata:  \ndata:\n\ndata: a\n\n", "|a\n"),
    (b"event: ping\ndata:\n\ndata: a\n\n", "|a\n"),
    // The byte order mark counts at the very beginning only.
    (b"\xef\xbb\xbfdata: a\n\n", "|a\n"),
    (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n", "|c\n"),
    (b"\xef\xbb\xbf\n\xef\xbb\xbfdata: a\n\ndata: b\n\n", "|b\n"),
    // UTF-8.
    ("data: \u{4f60}\u{1f642}\n\n".as_bytes(), "|\u{4f60}\u{1f642}\n"),
    ("event: \u{e9}\ndata: a\u{2028}b\u{85}c\n\n".as_bytes(), "\u{e9}|a\u{2028}b\u{85}c\n"),
    (
        b"data: a\xffb\ndata: \xe4\xbd\n\ndata: \xe4\xbd\xa0\n\n",
        "|a\u{fffd}b\\n\u{fffd}\n|\u{4f60}\n",
    ),
    (b"data: a\0b\n\n", "|a\0b\n"),
    // What is no event stream.
    (b"{\"error\":\n{}}", ""),
];

#[test]
fn frames_do_not_depend_on_how_the_bytes_are_cut() {
    for (text, expected) in TABLE {
        check(text, DataLines::Joined, expected);
    }
}

#[test]
fn data_lines_can_be_frames_of_their_own() {
    check(
        b"event: x\ndata: a\ndata:\ndata: b\n\ndata: c\n\n",
        DataLines::Separate,
        "x|a\nx|b\n|c\n",
    );
    check(b"data: a\r\ndata: b", DataLines::Separate, "|a\n|b\n");
}

#[test]
fn a_frame_is_there_with_its_last_line_end() {
    let mut decoder = SseDecoder::default();
    decoder.push(b"data: a\r");
    assert!(decoder.next_frame().is_none());
    decoder.push(b"\r");
    assert_eq!(drain(&mut decoder), "|a\n");
    decoder.push(b"\n");
    assert_eq!(drain(&mut decoder), "");
    decoder.push(b"data: b\n");
    assert_eq!(drain(&mut decoder), "");
    decoder.push(b"\n");
    assert_eq!(drain(&mut decoder), "|b\n");
}

#[test]
fn a_stream_that_broke_off_gives_no_half_frame() {
    let mut decoder = SseDecoder::default();
    decoder.push(b"data: a\n\ndata: b\n");
    assert_eq!(drain(&mut decoder), "|a\n");
}

#[test]
fn comments_are_activity_but_no_frames() {
    let mut decoder = SseDecoder::default();
    decoder.push(b": ping\n\n");
    assert_eq!(drain(&mut decoder), "");
    assert_eq!(decoder.bytes_seen(), 8);
}

#[test]
fn a_line_that_never_ends_is_a_limit() {
    check_limit(b"data: 0123456789");
}

#[test]
fn a_complete_line_beyond_the_limit_is_a_limit() {
    check_limit(b"data: 0123456789\n\n");
}

#[test]
fn a_frame_that_never_ends_is_a_limit() {
    check_limit(b"data: 012345\ndata: 012345\n");
}

#[test]
fn a_comment_that_never_ends_is_a_limit() {
    check_limit(b":0123456789abcdef");
}

#[test]
fn many_comments_are_no_limit() {
    let mut decoder = SseDecoder::new(SseOptions { max_bytes: 12, ..SseOptions::default() });
    decoder.push(b"event: x\n");
    for _ in 0..10_000 {
        decoder.push(b": 0123456\n");
        assert!(decoder.next_frame().is_none());
    }
    decoder.push(b"data: a\n\n");
    assert_eq!(drain(&mut decoder), "x|a\n");
}

#[test]
fn what_is_no_event_stream_is_kept_for_the_error() {
    let mut decoder = SseDecoder::default();
    decoder.push(b"data: a\n\n{\"error\":{\"code\":503,");
    assert_eq!(drain(&mut decoder), "|a\n");
    decoder.push(b"\"message\":\"busy\"}}\n\n<p>x: y</p>");
    decoder.finish();
    assert_eq!(drain(&mut decoder), "");
    assert_eq!(
        decoder.foreign_text(),
        "{\"error\":{\"code\":503,\"message\":\"busy\"}}\n<p>x: y</p>"
    );
}

#[test]
fn little_of_what_is_no_event_stream_is_kept() {
    let mut decoder = SseDecoder::default();
    for _ in 0..10_000 {
        decoder.push("<é><é><é>\n".as_bytes());
        assert!(decoder.next_frame().is_none());
    }
    let kept = decoder.foreign_text().len();
    assert!((10_000..=16_384).contains(&kept), "{kept} bytes were kept");
}

#[test]
fn the_id_of_the_last_complete_frame_is_where_to_go_on() {
    let mut decoder = SseDecoder::default();
    assert_eq!((decoder.last_event_id(), decoder.retry()), (None, None));
    decoder.push(
        b"id: 1\nretry: 500\ndata:\n\nid: 2\ndata: a\n\ndata: b\n\nid: 3\nretry: soon\ndata: c\n",
    );
    assert_eq!(drain(&mut decoder), "|a\n|b\n");
    assert_eq!(decoder.last_event_id(), Some("2"));
    assert_eq!(decoder.retry(), Some(Duration::from_millis(500)));
    decoder.push(b"\nid: a\0b\n\n");
    assert_eq!(drain(&mut decoder), "|c\n");
    assert_eq!(decoder.last_event_id(), Some("3"));
    decoder.push(b"id\n\n");
    assert_eq!(drain(&mut decoder), "");
    assert_eq!(decoder.last_event_id(), None);
}

/// Decodes the text whole, byte by byte and split at every point.
#[track_caller]
fn check(text: &[u8], data_lines: DataLines, expected: &str) {
    let shown = String::from_utf8_lossy(text);
    let decode = |parts: &mut dyn Iterator<Item = &[u8]>| {
        let mut decoder = SseDecoder::new(SseOptions { data_lines, ..SseOptions::default() });
        let mut frames = String::new();
        for part in parts {
            decoder.push(part);
            frames += &drain(&mut decoder);
        }
        decoder.finish();
        frames += &drain(&mut decoder);
        assert_eq!(decoder.bytes_seen(), text.len() as u64);
        frames
    };
    assert_eq!(decode(&mut [text].into_iter()), expected, "{shown:?} whole");
    assert_eq!(decode(&mut text.chunks(1)), expected, "{shown:?} byte by byte");
    for at in 0..=text.len() {
        let (left, right) = text.split_at(at);
        assert_eq!(decode(&mut [left, right].into_iter()), expected, "{shown:?} split at {at}");
    }
}

#[track_caller]
fn check_limit(text: &[u8]) {
    for size in [1, text.len()] {
        let mut decoder = SseDecoder::new(SseOptions { max_bytes: 12, ..SseOptions::default() });
        let mut kinds = Vec::new();
        for part in text.chunks(size) {
            decoder.push(part);
            while let Some(frame) = decoder.next_frame() {
                kinds.push(frame.map(|frame| frame.data.to_owned()).map_err(|error| error.kind()));
            }
        }
        assert_eq!(kinds, [Err(ErrorKind::Limit)], "in pieces of {size}");
    }
}

#[track_caller]
fn drain(decoder: &mut SseDecoder) -> String {
    let mut frames = String::new();
    while let Some(frame) = decoder.next_frame() {
        let frame = frame.unwrap();
        let data = frame.data.replace('\n', "\\n");
        writeln!(frames, "{}|{data}", frame.event.unwrap_or_default()).unwrap();
    }
    frames
}
