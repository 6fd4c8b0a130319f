//! Strict tools, and servers that find them too much.

use steerage::{StreamOptions, testing::server::Response};

use super::*;

fn strict_model() -> Value {
    model_with(json!({"compat": {"supportsStrictTools": true}}))
}

/// A transcript with a tool of these parameters that wants strict mode so much.
fn with_tool(strict: &str, parameters: Value) -> Transcript {
    let sampling = json!({"type": "json_schema", "strict": strict});
    let tool = json!({"name": "edit", "parameters": parameters, "constrainedSampling": sampling});
    messages(json!([
        {"role": "system", "content": "", "toolsAdded": [tool]},
        {"role": "user", "content": "Hi"}
    ]))
}

fn plain() -> Value {
    json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
}

fn too_much() -> Response {
    let words = "The compiled grammar is too large, which would cause performance issues. Simplify your tool schemas or reduce the number of strict tools.";
    Response::json(400, error("invalid_request_error", words))
}

fn is_strict(request: &Request) -> bool {
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    body["tools"][0]["strict"] == true
}

#[test]
fn strict_tools_that_are_too_much_go_out_once_more_without_it() {
    let transcript = with_tool("prefer", plain());
    let outcome = ask([too_much(), ok()], strict_model(), transcript, StreamOptions::default());
    assert_eq!(outcome.requests.iter().map(is_strict).collect::<Vec<_>>(), [true, false]);
    assert_eq!(only_text(&outcome.message), "ok");
    let note = &outcome.message.diagnostics[0];
    assert_eq!(note.kind, "anthropic_strict_tools_fallback");
    assert!(note.error.as_ref().unwrap().to_string().contains("compiled grammar"));
}

#[test]
fn a_session_remembers_that_strict_tools_are_too_much() {
    let provider = provider();
    let run = |script: Vec<Response>, session: &str| {
        let options =
            StreamOptions { session_id: Some(session.into()), ..StreamOptions::default() };
        let transcript = with_tool("prefer", plain());
        let outcome = ask_with(&provider, script, strict_model(), transcript, options);
        outcome.requests.iter().map(is_strict).collect::<Vec<_>>()
    };
    assert_eq!(run(vec![too_much(), ok()], "one"), [true, false]);
    assert_eq!(run(vec![ok()], "one"), [false]);
    assert_eq!(run(vec![ok()], "two"), [true]);
}

#[test]
fn a_second_refusal_is_the_answer() {
    let transcript = with_tool("prefer", plain());
    let script = [too_much(), too_much(), ok()];
    let outcome = ask(script, strict_model(), transcript, StreamOptions::default());
    assert_eq!(outcome.requests.len(), 2);
    assert_eq!(outcome.failure().kind, ErrorKind::InvalidRequest);
    assert_eq!(outcome.message.diagnostics.len(), 1);
}

#[test]
fn another_refusal_is_not_tried_again() {
    for (status, kind, words) in [
        (400, "invalid_request_error", "max_tokens is too large"),
        (400, "invalid_request_error", "prompt is too long: too many tokens"),
        (401, "authentication_error", "too many strict tools"),
    ] {
        let transcript = with_tool("prefer", plain());
        let script = [Response::json(status, error(kind, words)), ok()];
        let outcome = ask(script, strict_model(), transcript, StreamOptions::default());
        assert_eq!(outcome.requests.len(), 1, "{words}");
    }
}

#[test]
fn required_strictness_is_never_given_up() {
    let transcript = with_tool("require", plain());
    let script = [too_much(), ok()];
    let outcome = ask(script, strict_model(), transcript, StreamOptions::default());
    assert_eq!(outcome.requests.iter().map(is_strict).collect::<Vec<_>>(), [true]);
    assert_eq!(outcome.failure().kind, ErrorKind::InvalidRequest);
}

#[test]
fn required_strictness_that_is_impossible_fails_before_anything_is_sent() {
    let bounded = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}});
    for (model, parameters, word) in [
        (model(), plain(), "no strict mode"),
        (strict_model(), bounded, "`minimum`"),
        (
            strict_model(),
            json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}}),
            "strict mode",
        ),
    ] {
        let outcome =
            ask([ok()], model, with_tool("require", parameters), StreamOptions::default());
        assert!(outcome.requests.is_empty());
        assert_eq!(outcome.failure().kind, ErrorKind::Configuration);
        assert!(outcome.error_text().contains("`edit`"), "{}", outcome.error_text());
        assert!(outcome.error_text().contains(word), "{}", outcome.error_text());
    }
}

#[test]
fn schemas_that_strict_mode_does_not_know_go_out_plain() {
    let of = |property: Value| json!({"type": "object", "properties": {"a": property}, "required": ["a"]});
    for (property, expected) in [
        (json!({"type": "string", "format": "uuid"}), true),
        (json!({"type": "string", "format": "regex"}), false),
        (json!({"type": "string", "pattern": "^a"}), true),
        (json!({"type": "number", "maximum": 5}), false),
        (json!({"type": "number", "multipleOf": 2}), false),
        (json!({"type": "array", "items": {"type": "string"}, "minItems": 1}), true),
        (json!({"type": "array", "items": {"type": "string"}, "minItems": 2}), false),
        (json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}), false),
        (json!({"type": "array", "items": {"type": "integer", "exclusiveMinimum": 0}}), false),
        (json!({"type": "object", "properties": {"minimum": {"type": "string"}}}), true),
        (json!({"type": "object", "properties": {}, "minProperties": 1}), false),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), true),
        (json!({"anyOf": [{"type": "string", "format": "color"}, {"type": "null"}]}), false),
    ] {
        let transcript = with_tool("prefer", of(property.clone()));
        let body = sent(strict_model(), transcript, StreamOptions::default());
        assert_eq!(body["tools"][0]["strict"] == true, expected, "{property}");
    }
}
