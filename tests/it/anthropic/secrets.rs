//! Keys: where they go, and where they never show up.

use steerage::{
    StreamOptions,
    testing::server::{End, Response},
};

use super::*;

const KEY: &str = "sk-ant-marked-0123456789";

/// Asks with the key in both places that may hold it, and looks for it in everything that comes out.
#[track_caller]
fn check(response: Response) {
    let own_header = ("authorization".to_owned(), Some(format!("Bearer {KEY}")));
    for options in [
        StreamOptions { api_key: Some(KEY.into()), ..StreamOptions::default() },
        StreamOptions { headers: vec![own_header], ..StreamOptions::default() },
    ] {
        let options = StreamOptions { max_retries: Some(0), ..options };
        let outcome = ask([response.clone()], model(), hello(), options);
        let sent = format!("{:?}", outcome.requests);
        assert!(sent.contains(KEY), "the key was sent");
        assert_eq!(outcome.message.stop_reason, StopReason::Error);
        let shown = format!("{:?} {:?}", outcome.events, outcome.message);
        assert!(!shown.contains(KEY), "{shown}");
        let stored = serde_json::to_string(&outcome.message).unwrap();
        assert!(!stored.contains(KEY), "{stored}");
    }
}

#[test]
fn a_key_that_the_server_repeats_is_taken_out() {
    let echo = format!("the key {KEY} (Bearer {KEY}) is not known");
    check(Response::json(401, error("authentication_error", &echo)));
    check(Response::json(500, error("api_error", &echo)));
    check(Response::new(403).header("content-type", "text/html").text(format!("<p>{echo}</p>")));
    check(Response::new(400).text(echo.clone()));
    check(Response::json(200, json!({"error": {"message": echo}}).to_string()));
    check(Response::new(200).header("content-type", "text/plain").text(echo.clone()));
    check(Response::events([format!("event: error\ndata: {}\n\n", error("api_error", &echo))]));
    check(Response::events([format!("event: error\ndata: {echo}\n\n")]));
    check(Response::events([format!("event: message_start\ndata: {echo}\n\n")]));
    check(Response::new(302).header("location", format!("http://elsewhere.example/{KEY}")));
    let mut list = text_events("x");
    list[4] = message_delta("refusal");
    list[4]["delta"]["stop_details"] = json!({"explanation": echo});
    check(events(list));
}

#[test]
fn a_broken_connection_does_not_show_the_key() {
    check(Response::close());
    check(events([message_start()]).end(End::Destroy));
    check(events([message_start()]).end(End::Reset));
}

#[test]
fn a_key_that_is_no_header_value_is_not_shown() {
    let key = format!("{KEY}\n");
    let options = StreamOptions { api_key: Some(key.into()), ..StreamOptions::default() };
    let outcome = ask([ok()], model(), hello(), options);
    let shown = format!("{:?} {:?}", outcome.events, outcome.message);
    assert!(!shown.contains(KEY), "{shown}");
    assert!(!outcome.error_text().is_empty());
}

#[test]
fn a_provider_and_its_requests_do_not_show_the_key() {
    let options = ProviderOptions { api_key: Some(KEY.into()), ..ProviderOptions::default() };
    let provider = AnthropicMessages::new(options);
    assert!(!format!("{provider:?}").contains(KEY));
    let options = StreamOptions { api_key: Some(KEY.into()), ..StreamOptions::default() };
    let model: Model = serde_json::from_value(model()).unwrap();
    let request = StreamRequest { model: Arc::new(model), transcript: hello(), options };
    assert!(!format!("{request:?}").contains(KEY));
}

#[test]
fn the_key_of_the_request_wins_over_the_provider_s() {
    let options = ProviderOptions { api_key: Some(KEY.into()), ..ProviderOptions::default() };
    let provider = AnthropicMessages::new(options);
    let key = |api_key: Option<&str>| {
        let options =
            StreamOptions { api_key: api_key.map(Into::into), ..StreamOptions::default() };
        let outcome = ask_with(&provider, [ok()], model(), hello(), options);
        outcome.requests[0].header("x-api-key").map(str::to_owned)
    };
    assert_eq!(key(None).as_deref(), Some(KEY));
    assert_eq!(key(Some("sk-of-the-request")).as_deref(), Some("sk-of-the-request"));
}

#[test]
fn a_server_without_keys_gets_none() {
    let outcome = answer(ok());
    assert_eq!(outcome.requests[0].header("x-api-key"), None);
    assert_eq!(outcome.requests[0].header("authorization"), None);
    assert_eq!(only_text(&outcome.message), "ok");
}
