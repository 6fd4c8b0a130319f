//! When a request is sent again.

use std::time::UNIX_EPOCH;

use super::*;
use crate::{
    AbortController,
    clock::{Clock, SystemClock},
    http::{Attempt, Decision, Refusal, Retries, RetryPolicy, retry_after},
    testing::{clock::RecordingClock, server::End},
};

/// Sunday, the sixth of November 1994, 08:49:37.
const NOW: u64 = 784_111_777;

/// Tells that a pause begins, and waits for an hour.
#[derive(Debug)]
struct Sleeper(crossbeam_channel::Sender<()>);

impl Clock for Sleeper {
    fn sleep(&self, _: Duration, signal: &AbortSignal) -> bool {
        let _ = self.0.send(());
        SystemClock.sleep(Duration::from_hours(1), signal)
    }
}

fn headers(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[track_caller]
fn check(before: u32, status: impl Into<Option<u16>>, list: &[(&str, &str)], expected: &Decision) {
    let policy = RetryPolicy { max_retries: 9, ..RetryPolicy::default() };
    let headers = headers(list);
    let attempt = Attempt { before, status: status.into(), headers: &headers, hint: None };
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    assert_eq!(policy.decide(&attempt, now, 0.5), *expected);
}

/// The first pause, shortened by half of the jitter.
const FIRST: Duration = Duration::from_micros(437_500);

fn again(millis: u64) -> Decision {
    Decision::Again(Duration::from_millis(millis))
}

#[test]
fn the_status_tells_whether_it_is_worth_a_retry() {
    for status in [408, 409, 429, 500, 502, 503, 504, 520, 529, 599] {
        check(0, status, &[], &Decision::Again(FIRST));
    }
    for status in [200, 400, 401, 403, 404, 413, 422] {
        check(0, status, &[], &Decision::Keep);
    }
    check(0, None, &[], &Decision::Again(FIRST));
}

#[test]
fn pauses_double_up_to_eight_seconds() {
    let pauses = [437_500, 875_000, 1_750_000, 3_500_000, 7_000_000, 7_000_000];
    for (before, micros) in (0..).zip(pauses) {
        let expected = Decision::Again(Duration::from_micros(micros));
        let policy = RetryPolicy { max_retries: 9, ..RetryPolicy::default() };
        let attempt = Attempt { before, status: Some(500), headers: &[], hint: None };
        assert_eq!(policy.decide(&attempt, UNIX_EPOCH, 0.5), expected);
    }
}

#[test]
fn the_server_may_overrule_the_status() {
    check(0, 400, &[("x-should-retry", "true")], &Decision::Again(FIRST));
    check(0, 500, &[("x-should-retry", "false")], &Decision::Keep);
}

#[test]
fn retries_end() {
    check(9, 500, &[], &Decision::Keep);
    check(9, 400, &[("x-should-retry", "true")], &Decision::Keep);
}

#[test]
fn the_server_may_name_the_pause() {
    check(
        0,
        429,
        &[("retry-after-ms", "1500.5")],
        &Decision::Again(Duration::from_micros(1_500_500)),
    );
    check(0, 429, &[("retry-after", "3")], &again(3000));
    check(0, 429, &[("retry-after", "0.25")], &again(250));
    check(0, 429, &[("retry-after-ms", "100"), ("retry-after", "9")], &again(100));
    check(0, 429, &[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], &again(30_000));
    check(0, 429, &[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], &again(0));
}

#[test]
fn a_pause_that_cannot_be_read_is_as_good_as_none() {
    for value in ["soon", "-1", "NaN", "inf", "Sun, 99 Nov 1994 08:50:07 GMT", ""] {
        check(0, 429, &[("retry-after", value)], &Decision::Again(FIRST));
    }
}

#[test]
fn a_pause_above_the_limit_is_refused() {
    let refusal = Refusal { asked: Duration::from_hours(1), limit: Duration::from_mins(1) };
    let text = "the server asks to wait 3600 s, more than the 60 s that are allowed";
    assert_eq!(refusal.to_string(), text);
    check(0, 429, &[("retry-after", "3600")], &Decision::Refuse(refusal));
    check(0, 429, &[("retry-after", "60")], &again(60_000));
}

#[test]
fn a_limit_of_zero_is_none() {
    let policy = RetryPolicy { max_retry_delay: Duration::ZERO, ..RetryPolicy::default() };
    let headers = headers(&[("retry-after", "3600")]);
    let attempt = Attempt { before: 0, status: Some(429), headers: &headers, hint: None };
    assert_eq!(policy.decide(&attempt, UNIX_EPOCH, 0.0), again(3_600_000));
}

#[test]
fn dates_are_read_across_leap_years() {
    for (date, seconds) in [
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
        ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
        ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
    ] {
        let headers = headers(&[("retry-after", date)]);
        assert_eq!(retry_after(&headers, UNIX_EPOCH), Some(Duration::from_secs(seconds)));
    }
}

fn retries<'a>(policy: &'a RetryPolicy, clock: &'a RecordingClock) -> Retries<'a> {
    Retries { policy, clock, hint: None }
}

#[track_caller]
fn check_sent(script: Vec<Response>, status: Option<u16>, pauses: &[u64]) -> Server {
    let server = Server::start(script).unwrap();
    let clock = RecordingClock::default();
    let policy = RetryPolicy::default();
    let result = client().send_with_retries(
        &HttpRequest::post(server.url(), "body"),
        &retries(&policy, &clock),
        &AbortSignal::never(),
    );
    assert_eq!(result.ok().map(|it| it.status()), status);
    let expected: Vec<_> = pauses.iter().map(|it| Duration::from_micros(*it)).collect();
    assert_eq!(clock.pauses(), expected);
    assert_eq!(server.unused(), 0);
    server
}

#[test]
fn a_failed_request_is_sent_again_on_the_same_connection() {
    let script = vec![
        Response::json(503, "{}"),
        Response::json(429, "{}").header("retry-after-ms", "20"),
        Response::new(200).text("ok"),
    ];
    let server = check_sent(script, Some(200), &[437_500, 20_000]);
    assert_eq!(server.connections(), 1);
    assert!(server.requests().iter().all(|it| it.text() == "body"));
}

#[test]
fn a_connection_that_fails_is_tried_again_too() {
    let script = vec![Response::close(), Response::close(), Response::new(200).text("ok")];
    check_sent(script, Some(200), &[437_500, 875_000]);
}

#[test]
fn the_last_failure_is_the_answer() {
    let script = vec![Response::json(500, "{}"); 3];
    check_sent(script, Some(500), &[437_500, 875_000]);
    check_sent(
        vec![Response::close(), Response::close(), Response::close()],
        None,
        &[437_500, 875_000],
    );
}

#[test]
fn a_stream_that_has_begun_is_not_sent_again() {
    check_sent(vec![Response::new(200).chunk("half").end(End::Destroy)], Some(200), &[]);
}

#[test]
fn a_mistake_of_the_program_is_not_sent_again() {
    let clock = RecordingClock::default();
    let policy = RetryPolicy::default();
    let result = client().send_with_retries(
        &HttpRequest::get("nonsense"),
        &retries(&policy, &clock),
        &AbortSignal::never(),
    );
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Configuration);
    assert!(clock.pauses().is_empty());
}

#[test]
fn a_refused_pause_comes_with_the_answer_and_its_text() {
    let response = Response::json(429, "slow down").header("retry-after", "120");
    let server = Server::start([response]).unwrap();
    let clock = RecordingClock::default();
    let policy = RetryPolicy::default();
    let mut response = client()
        .send_with_retries(&get(&server, "/"), &retries(&policy, &clock), &AbortSignal::never())
        .unwrap();
    assert_eq!(response.refusal().unwrap().asked, Duration::from_mins(2));
    assert_eq!(response.error_text().unwrap(), "slow down");
}

#[test]
fn the_body_may_hint_at_the_pause() {
    let script = [Response::json(429, "{\"retryDelay\":\"7s\"}"), Response::new(200).text("ok")];
    let server = Server::start(script).unwrap();
    let clock = RecordingClock::default();
    let policy = RetryPolicy::default();
    let hint = |body: &str| body.contains("7s").then(|| Duration::from_secs(7));
    let retries = Retries { policy: &policy, clock: &clock, hint: Some(&hint) };
    let response =
        client().send_with_retries(&get(&server, "/"), &retries, &AbortSignal::never()).unwrap();
    assert_eq!(text(response), "ok");
    assert_eq!(clock.pauses(), [Duration::from_secs(7)]);
}

#[test]
fn an_abort_ends_the_pause() {
    let server = Server::start([Response::json(500, "{}")]).unwrap();
    let controller = AbortController::new();
    let (sleeps, asleep) = unbounded();
    let (sender, ended) = unbounded();
    let (client, request, signal) = (client(), get(&server, "/"), controller.signal());
    let body = move || {
        let (policy, clock) = (RetryPolicy::default(), Sleeper(sleeps));
        let retries = Retries { policy: &policy, clock: &clock, hint: None };
        let result = client.send_with_retries(&request, &retries, &signal);
        let _ = sender.send(result.map(|it| it.status()).map_err(|it| it.kind()));
    };
    crate::thread::spawn("test-request", body).unwrap();
    asleep.recv_timeout(LIMIT).unwrap();
    controller.abort();
    assert_eq!(ended.recv_timeout(LIMIT), Ok(Err(ErrorKind::Aborted)));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn the_jitter_of_the_system_is_a_part_of_one() {
    let drawn: Vec<_> = (0..100).map(|_| SystemClock.jitter()).collect();
    assert!(drawn.iter().all(|it| (0.0..1.0).contains(it)), "{drawn:?}");
    assert!(drawn.iter().any(|it| it.to_bits() != drawn[0].to_bits()), "{drawn:?}");
}
