//! Servers that mean ill, or are broken beyond what anyone foresaw: an error soon, never a hang, a panic or all memory.

use steerage::{
    ErrorKind,
    testing::server::{Behavior, End, Framing},
};

use super::*;

/// Asks a server whose answer must fail, with limits that a test can reach.
#[track_caller]
fn check(response: Response, kind: ErrorKind, text: &str) {
    // Short only where it is what the test is about: a busy machine may take its time over everything else.
    let is_silent = kind == ErrorKind::Network;
    let event_timeout = Duration::from_millis(if is_silent { 300 } else { 60_000 });
    let provider = ProviderOptions {
        client: client(HttpOptions { max_body_bytes: 1 << 20, ..HttpOptions::default() }),
        max_event_bytes: 100 << 10,
        event_timeout: Some(event_timeout),
        ..provider_options()
    };
    let options = StreamOptions { max_retries: Some(0), ..StreamOptions::default() };
    let outcome = ask_with(provider, [response], model(json!({})), hello(), options);
    assert_eq!(outcome.failure().kind, kind, "{}", outcome.error_text());
    assert!(outcome.error_text().contains(text), "{}", outcome.error_text());
}

#[test]
fn an_event_without_end() {
    let line = format!("data: {}", "x".repeat(120 << 10));
    check(Response::events([line]), ErrorKind::Limit, "102400 bytes");
}

#[test]
fn an_event_of_lines_without_end() {
    let lines = "data: x\n".repeat(60 << 10);
    check(Response::events([lines]), ErrorKind::Limit, "102400 bytes");
}

#[test]
fn a_body_without_end() {
    let chunk = frame(&delta(json!({"content": "x".repeat(64 << 10)})));
    check(Response::events(vec![chunk; 20]), ErrorKind::Limit, "1048576 bytes");
}

#[test]
fn comments_without_end() {
    let comments = vec![": still here\n\n".to_owned(); 20];
    let mut response = Response::events(comments).end(End::Hang);
    for chunk in &mut response.chunks {
        chunk.delay = Duration::from_millis(50);
    }
    check(response, ErrorKind::Network, "no event within");
}

#[test]
fn a_chunk_as_deep_as_it_is_long() {
    let deep = format!("data: {}\n\n", "[".repeat(50_000));
    check(Response::events([deep]), ErrorKind::Protocol, "cannot be read");
    let deep = format!("data: {{\"choices\":{}\n\n", "[".repeat(50_000));
    check(Response::events([deep]), ErrorKind::Protocol, "cannot be read");
    let deep = format!("data: {{\"usage\":{}\n\n", "{\"a\":".repeat(15_000));
    check(Response::events([deep]), ErrorKind::Protocol, "cannot be read");
}

#[test]
fn calls_without_end() {
    let piece = |index: usize| json!({"index": index, "id": format!("c{index}"), "function": {"name": "f"}});
    let list = (0..1001).map(|index| delta(json!({"tool_calls": [piece(index)]})));
    check(chunks(list.collect::<Vec<_>>()), ErrorKind::Limit, "1000 tool calls");
}

#[test]
fn arguments_as_deep_as_they_are_long() {
    let piece = |text: String| {
        delta(
            json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": text}}]}),
        )
    };
    let list = [piece("{\"a\":".repeat(9000)), finish("tool_calls")];
    let outcome = answer(chunks(list));
    let call = outcome.message.tool_calls().next().expect("a call");
    assert!(call.arguments_error.is_some());
    assert!(call.arguments.is_empty());
}

#[test]
fn numbers_that_no_counter_holds() {
    let usage = json!({"prompt_tokens": 1e300, "completion_tokens": -5, "prompt_tokens_details": {"cached_tokens": u64::MAX}});
    let usage = json!({"choices": [], "usage": usage});
    let index = delta(
        json!({"tool_calls": [{"index": -1, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}),
    );
    let outcome = answer(chunks([index, usage, finish("tool_calls")]));
    assert_eq!(outcome.message.error_message, None);
    assert_eq!(outcome.message.tool_calls().count(), 1);
}

#[test]
fn a_usage_that_adds_up_to_too_much() {
    let usage = json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX, "prompt_tokens_details": {"cache_write_tokens": u64::MAX}});
    let reply = answer(chunks([json!({"choices": [], "usage": usage}), finish("stop")])).message;
    assert_eq!(reply.error_message, None);
    let mut sum = reply.usage.clone();
    sum.add(&reply.usage);
    assert_eq!(sum.total_tokens, u64::MAX);
    // The next request leaves room for what it believes to be there already.
    let transcript =
        Transcript::new(vec![Arc::new(Message::Assistant(reply)), Arc::new(Message::user("And?"))]);
    let next = ask([ok()], model(json!({})), transcript, StreamOptions::default());
    assert_eq!(next.body()["max_completion_tokens"], 1);
}

#[test]
fn a_pause_that_no_clock_holds() {
    for pause in
        ["1e300", "-1", "NaN", "inf", "99999999999999999999", "Fri, 31 Dec 999999 23:59:59 GMT"]
    {
        let response = Response::json(429, "{}").header("retry-after", pause);
        let list = vec![response; 3];
        let outcome = ask(list, model(json!({})), hello(), StreamOptions::default());
        assert_eq!(outcome.failure().kind, ErrorKind::RateLimited, "{pause}");
    }
}

#[test]
fn a_failure_whose_body_never_ends() {
    let response = Response::json(500, "{\"error\":").framing(Framing::Close).end(End::Destroy);
    check(response, ErrorKind::Overloaded, "500");
    let response = Response::json(400, "x".repeat(2 << 20));
    check(response, ErrorKind::InvalidRequest, "400");
}

#[test]
fn half_a_head() {
    let response = Response { behavior: Behavior::CloseBeforeHeaders, ..Response::new(200) };
    check(response, ErrorKind::Network, "without an answer");
}

#[test]
fn bytes_that_are_no_text() {
    let mut bytes = b"data: {\"choices\":[{\"delta\":{\"content\":\"a".to_vec();
    bytes.extend([0xff, 0xc3, 0x28, 0xed, 0xa0, 0x80]);
    bytes.extend(b"z\"}}]}\n\n");
    let end = frame(&finish("stop")) + DONE;
    let outcome = answer(Response::events([bytes, end.into_bytes()]));
    let text = outcome.text();
    assert!(text.starts_with('a') && text.ends_with('z'), "{text}");
}

#[test]
fn a_body_that_is_no_gzip_although_it_says_so() {
    let response = Response::events(["data: {}\n\n"]).header("content-encoding", "gzip");
    check(response, ErrorKind::Protocol, "broke off");
}

#[test]
fn headers_with_line_breaks_are_not_sent() {
    for header in ["x-a\r\nx-b", "x a", ""] {
        let headers = vec![(header.to_owned(), Some("v".to_owned()))];
        let options = StreamOptions { headers, ..StreamOptions::default() };
        let outcome = ask([ok()], model(json!({})), hello(), options);
        assert_eq!(outcome.failure().kind, ErrorKind::Configuration, "{header:?}");
        assert!(outcome.requests.is_empty());
    }
    let options =
        StreamOptions { session_id: Some("a\r\nb: c".to_owned()), ..StreamOptions::default() };
    let affine = with_compat(json!({"sendSessionAffinityHeaders": true}));
    let outcome = ask([ok()], affine, hello(), options);
    assert_eq!(outcome.failure().kind, ErrorKind::Configuration);
}
