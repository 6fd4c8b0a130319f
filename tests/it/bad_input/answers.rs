//! Every malformed frame, header and status, on every API: the error names the provider, the status and what to do.

use std::fmt::Write as _;

use expect_test::expect_file;
use steerage::testing::server::End;

use super::*;

/// The error of the first prompt, with hosts and ports hidden; the agent goes on after it.
#[track_caller]
fn error_of(api: &str, response: Response) -> steerage::Error {
    let server = Server::start([response]).unwrap();
    let model = Model {
        api: api.to_owned(),
        provider: "vendor".to_owned(),
        ..Model::openai_compatible("m", server.url())
    };
    let options =
        ProviderOptions { api_key: Some("sk-wrong-key".into()), ..ProviderOptions::default() };
    let agent = agent(model, options);
    let error = agent.prompt("first").unwrap().wait().unwrap_err();
    let texts: Vec<_> =
        agent.messages().iter().map(|message| message.text().into_owned()).collect();
    assert_eq!(texts[..2], ["before", "first"], "nothing is lost");
    error
}

/// Answers that are none, and the status of each.
fn answers(api: &str) -> Vec<(&'static str, u16, Response)> {
    let events = |data: &str| Response::events([format!("data: {data}\n\n")]);
    // The beginning of a good answer, without its end.
    let good = apis::hi(api);
    let begin = &good[..good.trim_end().rfind("\n\n").map_or(0, |at| at + 2)];
    let begin = if begin.contains("finish_reason") { "" } else { begin };
    let with = |tail: &str| Response::events([format!("{begin}{tail}")]);
    let error = |status: u16| {
        Response::json(status, json!({"error": {"message": "so it is", "code": 7}}).to_string())
    };
    let mut answers = vec![
        ("no JSON", 200, events("{broken")),
        ("no object", 200, events("[1]")),
        ("a text", 200, events("\"hello\"")),
        ("no JSON after the beginning", 200, with("data: {broken\n\n")),
        ("an error frame", 200, events(r#"{"error":{"message":"so it is"}}"#)),
        (
            "an error event",
            200,
            Response::events(["event: error\ndata: {\"error\":{\"message\":\"so it is\"}}\n\n"]),
        ),
        ("no end", 200, with("")),
        ("nothing", 200, Response::events([""; 0])),
        (
            "a page",
            200,
            Response::new(200).header("content-type", "text/html").text("<p>Hello</p>"),
        ),
        ("another body", 200, Response::json(200, "{}")),
        ("no content", 204, Response::new(204)),
        ("no gzip", 200, events("{}").header("content-encoding", "gzip")),
        ("a cut", 200, with("").end(End::Destroy)),
    ];
    for status in [400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 529] {
        answers.push(("an error", status, error(status)));
    }
    answers.push(("a bare status", 418, Response::new(418)));
    answers.push(("a bare status", 502, Response::new(502)));
    answers
}

#[test]
fn every_answer_that_is_none_names_provider_status_and_what_to_do() {
    let mut shown = String::new();
    for api in apis::with_proxy() {
        writeln!(shown, "{api}").unwrap();
        for (what, status, response) in answers(api) {
            let error = error_of(api, response);
            let said = error.to_string();
            let port = said.split("127.0.0.1:").nth(1).unwrap_or_default();
            let port: String = port.chars().take_while(char::is_ascii_digit).collect();
            let said =
                if port.is_empty() { said } else { said.replace(&port, "PORT") }.replace('\n', " ");
            writeln!(shown, "  {what} ({status}): {:?}: {said}", error.kind()).unwrap();
            // Whoever answered: that is not the vendor behind it.
            let provider = if api == "proxy" { "`proxy`" } else { "`vendor`" };
            let names = [provider, &status.to_string()];
            assert!(names.iter().all(|it| said.contains(it)), "{api}, {what}: {said}");
            let advice = ["check", "ask again", "shorten", "change"];
            assert!(advice.iter().any(|it| said.contains(it)), "{api}, {what}: {said}");
        }
    }
    expect_file!["../../data/answers.txt"].assert_eq(&shown);
}
