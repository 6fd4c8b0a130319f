//! I: what is tried again, after how long, and what is not.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use steerage::{
    AbortController, AbortSignal, Clock, ErrorKind, StreamOptions, StreamRequest,
    provider::{HttpClient, HttpOptions, ProviderOptions},
    stream::collect,
    testing::{
        clock::RecordingClock,
        server::{End, Response, Server},
    },
};

use super::{
    vendor::{self, Answered, Api, Asking, ask, described},
    *,
};

const APIS: [Api; 2] = [Api::Chat, Api::Anthropic];

/// Sun, 06 Nov 1994 08:49:37 GMT.
fn sunday() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(784_111_777)
}

/// Asks a server that fails with `failures` and then answers; no wait is real.
#[track_caller]
fn retried(api: Api, failures: Vec<Response>, retries: u32) -> Answered {
    let responses = failures.into_iter().chain([Response::events([api.text("ok")])]);
    let options = StreamOptions { max_retries: Some(retries), ..StreamOptions::default() };
    let clock = RecordingClock::at(sunday());
    ask(api, responses, Asking { options, clock, ..Asking::default() })
}

fn limited() -> Response {
    Response::json(429, json!({"error": {"message": "slow down"}}).to_string())
}

/// The pause before the second try, and that the second try was the answer.
#[track_caller]
fn check_pause(failure: &Response, expected: Duration) {
    for api in APIS {
        let answered = retried(api, vec![failure.clone()], 1);
        assert_eq!(described(&answered.message), "\"ok\" | Stop", "{api:?}");
        assert_eq!(answered.pauses, [expected], "{api:?}");
    }
}

/// I1, I3: the server says how long to wait.
#[test]
fn a_pause_that_the_server_asks_for_is_made() {
    let seconds = Duration::from_secs;
    check_pause(&limited().header("retry-after", "3"), seconds(3));
    check_pause(&limited().header("Retry-After", " 3 "), seconds(3));
    check_pause(&limited().header("retry-after-ms", "1500"), Duration::from_millis(1500));
    check_pause(&limited().header("retry-after", "Sun, 06 Nov 1994 08:49:44 GMT"), seconds(7));
    check_pause(&limited().header("retry-after", "30"), seconds(30));
    check_pause(&limited().header("retry-after", "60"), seconds(60));
    let google = json!({"error": {"code": 429, "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    ]}});
    check_pause(&Response::json(429, google.to_string()), seconds(7));
}

/// D2, I5: an overloaded vendor.
#[test]
fn an_overloaded_vendor_is_asked_again_and_then_told_as_such() {
    for api in APIS {
        for status in [500, 502, 503, 504, 529] {
            let busy =
                Response::json(status, json!({"error": {"message": "Overloaded"}}).to_string());
            let answered = retried(api, vec![busy.clone(), busy.clone()], 2);
            assert_eq!(described(&answered.message), "\"ok\" | Stop");
            assert_eq!(answered.pauses.len(), 2);
            let answered = retried(api, vec![busy.clone(), busy.clone()], 1);
            let failure = answered.message.failure.unwrap();
            assert_eq!((failure.kind, failure.status), (ErrorKind::Overloaded, Some(status)));
            assert!(failure.retryable && !failure.is_overflow());
        }
    }
}

/// I2: a pause of hours.
#[test]
fn a_pause_beyond_the_limit_fails_at_once_and_names_both() {
    for api in APIS {
        let answered = retried(api, vec![limited().header("retry-after", "7200")], 2);
        assert_eq!((answered.requests.len(), answered.pauses.len()), (1, 0));
        let failure = answered.message.failure.clone().unwrap();
        assert_eq!(failure.kind, ErrorKind::RateLimited);
        assert_eq!(failure.retry_after(), Some(Duration::from_hours(2)));
        let text = answered.message.error_message.unwrap();
        assert!(
            text.contains("7200 s") && text.contains("60 s") && text.contains("slow down"),
            "{text}"
        );
    }
}

/// I4, I8: limits of tokens are of two kinds.
#[test]
fn too_many_tokens_in_a_minute_is_no_overflow_and_too_many_in_a_prompt_is() {
    use ErrorKind::{ContextOverflow, RateLimited};
    for (status, text, expected) in [
        (
            429,
            "This request would exceed your organization's rate limit of 30,000 input tokens per minute",
            RateLimited,
        ),
        (
            429,
            "Request too large for m in organization o on tokens per min (TPM): Limit 30000, Requested 41000",
            RateLimited,
        ),
        (429, "Too many tokens, please wait before trying again", RateLimited),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", ContextOverflow),
        (400, "This model's maximum context length is 8192 tokens", ContextOverflow),
        (413, "Request exceeds the maximum size", ContextOverflow),
    ] {
        for api in APIS {
            let response = Response::json(status, json!({"error": {"message": text}}).to_string());
            let answered = retried(api, vec![response], 0);
            assert_eq!(answered.message.failure.unwrap().kind, expected, "{api:?} {text}");
        }
    }
}

/// I8: an overflow that is told as the reason of an end.
#[test]
fn an_overflow_may_come_as_a_finish_reason() {
    let body =
        vendor::chunk(json!({"content": "so"})) + &vendor::finish("model_context_window_exceeded");
    let message = ask(Api::Chat, [Response::events([body])], Asking::default()).message;
    assert!(message.failure.as_ref().unwrap().is_overflow(), "{}", described(&message));
    assert_eq!(message.texts().collect::<String>(), "so");
}

/// I9: an answer that had begun.
#[test]
fn what_has_begun_is_not_asked_for_again() {
    for api in APIS {
        for end in [End::Destroy, End::Reset, End::Hang] {
            let client = HttpClient::new(HttpOptions {
                idle_timeout: Some(Duration::from_millis(500)),
                ..HttpOptions::default()
            })
            .unwrap();
            let options = StreamOptions { max_retries: Some(2), ..StreamOptions::default() };
            let provider = ProviderOptions { client, ..ProviderOptions::default() };
            let half = Response::events([api.half("half")]).end(end);
            let asking = Asking { options, provider, ..Asking::default() };
            let answered = ask(api, [half, Response::events([api.text("ok")])], asking);
            assert_eq!((answered.requests.len(), answered.pauses.len()), (1, 0), "{api:?} {end:?}");
            let failure = answered.message.failure.clone().unwrap();
            assert!(failure.retryable, "{}", described(&answered.message));
            assert_eq!(answered.message.texts().collect::<String>(), "half");
        }
    }
}

/// A clock that fires a signal when it is asked to wait, and then really waits.
#[derive(Debug)]
struct Fires(AbortController);

impl Clock for Fires {
    fn sleep(&self, duration: Duration, signal: &AbortSignal) -> bool {
        self.0.abort();
        steerage::SystemClock.sleep(duration, signal)
    }
}

/// I10: an abort while a pause lasts.
#[test]
fn an_abort_ends_a_pause() {
    for api in APIS {
        let server = Server::start([limited().header("retry-after", "50")]).unwrap();
        let controller = AbortController::new();
        let clock = Arc::new(Fires(controller.clone()));
        let provider = api.provider(ProviderOptions { clock, ..ProviderOptions::default() });
        let model = api.model(&server.url());
        let request = StreamRequest::new(model.clone(), [Message::user("Hi")]);
        let mut stream = provider.stream(request, &controller.signal()).unwrap();
        assert_eq!(collect(&model, &mut *stream).stop_reason, StopReason::Aborted);
        assert_eq!(server.requests().len(), 1);
    }
}
