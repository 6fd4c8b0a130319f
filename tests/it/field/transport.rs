//! A: what happens to an event stream on its way.

use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::json;
use steerage::{
    provider::{HttpClient, HttpOptions, ProviderOptions},
    testing::server::{Chunk, End, Response},
};

use super::vendor::{Api, Asking, answer, anthropic_end, ask, chunk, described, finish, frames};

/// What a chat response gives whose body comes in these pieces.
#[track_caller]
fn check(pieces: &[&[u8]], expected: Expect) {
    expected.assert_eq(&described(&answer(Api::Chat, pieces.iter().copied())));
}

/// A1, A2, A3, A4: bytes that were cut anywhere, and all kinds of line ends.
#[test]
fn an_event_is_whole_however_it_was_cut() {
    let end = finish("stop");
    let end = end.as_bytes();
    check(
        &[b"data: {\"choices\":[{\"delta\":{\"con", b"tent\":\"hi\"}}]}\n\n", end],
        expect![[r#""hi" | Stop"#]],
    );
    let bytes = "data: {\"choices\":[{\"delta\":{\"content\":\"你\"}}]}\n\n".as_bytes();
    let cut = bytes.iter().position(|byte| *byte == 0xE4).unwrap() + 2;
    check(&[&bytes[..cut], &bytes[cut..], end], expect![[r#""你" | Stop"#]]);
    check(
        &[
            b"data: {\"choices\":[{\"delta\":\r",
            b"\ndata: {\"content\":\"two lines\"}}]}\r\n\r\n",
            end,
        ],
        expect![[r#""two lines" | Stop"#]],
    );
    let crlf = finish("stop").replace('\n', "\r\n");
    check(
        &[b"data: {\"choices\":[{\"delta\":{\"content\":\"crlf\"}}]}\r\n\r\n", crlf.as_bytes()],
        expect![[r#""crlf" | Stop"#]],
    );
}

/// A2: bytes that are no text.
#[test]
fn bytes_that_are_no_utf8_harm_their_line_only() {
    check(
        &[
            b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xFFb\"}}]}\n\n",
            chunk(json!({"content": "c"})).as_bytes(),
            finish("stop").as_bytes(),
        ],
        expect![[r#""a�bc" | Stop"#]],
    );
}

/// A6, A7: lines that keep a connection alive, and lines without a space.
#[test]
fn empty_data_means_nothing_and_a_space_after_the_colon_is_not_needed() {
    check(
        &[
            b"data:\n\ndata: \n\n: ping\n\ndata\n\n",
            b"data:{\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n",
            b"data:{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata:[DONE]\n\n",
        ],
        expect![[r#""hi" | Stop"#]],
    );
}

/// A7: a line without an end.
#[test]
fn a_line_that_never_ends_is_a_limit() {
    let provider = ProviderOptions { max_event_bytes: 1000, ..ProviderOptions::default() };
    let line = Response::events([format!("data: {}", "x".repeat(2000))]).end(End::Hang);
    let message = ask(Api::Chat, [line], Asking { provider, ..Asking::default() }).message;
    expect!["Limit: a line of the event stream is longer than 1000 bytes: raise max_bytes if the server is right"].assert_eq(&described(&message));
}

fn pings(count: usize, delay: Duration) -> Vec<Chunk> {
    (0..count).map(|_| Chunk { delay, ..Chunk::new(": ping\n\n") }).collect()
}

/// A9: a model that thinks for longer than the connection may be silent.
#[test]
fn comments_keep_a_connection_alive_beyond_its_idle_limit() {
    for api in [Api::Chat, Api::Anthropic] {
        let client = HttpClient::new(HttpOptions {
            idle_timeout: Some(Duration::from_millis(1500)),
            ..HttpOptions::default()
        })
        .unwrap();
        let mut response = Response::events([": ping\n\n"]);
        response.chunks.extend(pings(17, Duration::from_millis(100)));
        response.chunks.push(Chunk::new(api.text("at last")));
        let provider = ProviderOptions { client, ..ProviderOptions::default() };
        let message = ask(api, [response], Asking { provider, ..Asking::default() }).message;
        assert_eq!(described(&message), "\"at last\" | Stop");
    }
}

/// A10: a stream that says no more than that it lives.
#[test]
fn comments_do_not_hide_a_stream_that_stands_still() {
    for api in [Api::Chat, Api::Anthropic] {
        let mut response = Response::events([api.half("I will")]).end(End::Hang);
        response.chunks.extend(pings(300, Duration::from_millis(2)));
        let provider = ProviderOptions {
            event_timeout: Some(Duration::from_millis(300)),
            ..ProviderOptions::default()
        };
        let message = ask(api, [response], Asking { provider, ..Asking::default() }).message;
        let said = described(&message);
        assert!(said.starts_with("\"I will\" | Network, retryable: "), "{said}");
        assert!(said.contains("sent no event within 0.3 s"), "{said}");
    }
}

/// A11: a failure whose connection stays open.
#[test]
fn an_error_in_a_stream_does_not_wait_for_its_end() {
    for (api, frame) in [
        (Api::Chat, "data: {\"error\":{\"message\":\"x\",\"code\":\"server_error\"}}\n\n"),
        (
            Api::Anthropic,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"x\"}}\n\n",
        ),
    ] {
        let response = Response::events([api.half("so"), frame.to_owned()]).end(End::Hang);
        let message = ask(api, [response], Asking::default()).message;
        let failure = message.failure.as_ref().unwrap();
        assert_eq!(failure.kind, steerage::ErrorKind::Overloaded, "{}", described(&message));
    }
}

/// A12, D3, B28: an answer that breaks off in one way or another.
#[test]
fn an_answer_that_broke_off_says_so_may_be_retried_and_names_its_request() {
    for api in [Api::Chat, Api::Anthropic] {
        for end in [End::Normal, End::Destroy, End::Reset] {
            let response =
                Response::events([api.half("so")]).header("x-request-id", "req_7").end(end);
            let message = ask(api, [response], Asking::default()).message;
            let failure = message.failure.clone().unwrap();
            assert!(failure.retryable, "{api:?} {end:?} {}", described(&message));
            assert_eq!(failure.request_id.as_deref(), Some("req_7"), "{api:?} {end:?}");
            assert_eq!(message.texts().collect::<String>(), "so");
        }
    }
}

/// The end of a response that is complete is no failure, whatever the connection does then.
#[test]
fn a_connection_that_closes_after_the_last_event_is_an_end() {
    let call = chunk(
        json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}),
    );
    let whole = call + &finish("tool_calls") + "data: [DONE]\n\n";
    let message =
        ask(Api::Chat, [Response::events([whole]).end(End::Destroy)], Asking::default()).message;
    assert_eq!(described(&message), "c: f{} | ToolUse");
    let whole = frames(&[
        json!({"type": "message_start", "message": {"id": "msg_1"}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c", "name": "f", "input": {}}}),
        json!({"type": "content_block_stop", "index": 0}),
    ]) + &anthropic_end("tool_use");
    let message =
        ask(Api::Anthropic, [Response::events([whole]).end(End::Hang)], Asking::default()).message;
    assert_eq!(described(&message), "c: f{} | ToolUse");
}
