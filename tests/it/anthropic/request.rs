//! What is sent.

use std::collections::HashSet;

use steerage::{
    StreamOptions, ThinkingBudgets, ThinkingLevel,
    stream::{RequestHooks, ToolChoice},
};

use super::*;

fn assistant(content: Value, stop_reason: &str) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "anthropic-messages", "provider": "anthropic",
        "model": "claude-test", "stopReason": stop_reason
    })
}

fn foreign(content: Value) -> Value {
    let mut message = assistant(content, "toolUse");
    message["provider"] = json!("other");
    message
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "edit", "arguments": {}})
}

fn result(id: &str, content: Value, is_error: bool) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "edit", "content": content, "isError": is_error})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn uncached() -> StreamOptions {
    StreamOptions {
        cache_retention: Some(steerage::stream::CacheRetention::None),
        ..StreamOptions::default()
    }
}

/// The messages that are sent for these.
#[track_caller]
fn wire(list: Value) -> Value {
    sent(model(), messages(list), uncached())["messages"].take()
}

#[test]
fn signed_thinking_goes_back_as_it_came_and_where_it_stood() {
    let blocks = json!([
        {"type": "thinking", "thinking": " first\n", "thinkingSignature": "S1=="},
        {"type": "text", "text": "a"},
        {"type": "thinking", "thinking": "", "thinkingSignature": "S2=="},
        call("t1"),
        {"type": "thinking", "thinking": "x", "thinkingSignature": "ENC", "redacted": true},
        call("t2"),
    ]);
    let sent = wire(json!([user("Hi"), assistant(blocks, "toolUse")]));
    assert_eq!(
        sent[1]["content"],
        json!([
            {"type": "thinking", "thinking": " first\n", "signature": "S1=="},
            {"type": "text", "text": "a"},
            {"type": "thinking", "thinking": "", "signature": "S2=="},
            {"type": "tool_use", "id": "t1", "name": "edit", "input": {}},
            {"type": "redacted_thinking", "data": "ENC"},
            {"type": "tool_use", "id": "t2", "name": "edit", "input": {}},
        ])
    );
}

#[test]
fn unsigned_thinking_is_never_wrapped_in_tags() {
    let thinking = json!([{"type": "thinking", "thinking": "hm", "thinkingSignature": ""}]);
    let list = json!([user("Hi"), assistant(thinking, "stop"), user("And?")]);
    assert_eq!(wire(list.clone())[1]["content"], json!([{"type": "text", "text": "hm"}]));
    let lenient = model_with(json!({"compat": {"allowEmptySignature": true}}));
    let body = sent(lenient, messages(list), uncached());
    let expected = json!([{"type": "thinking", "thinking": "hm", "signature": ""}]);
    assert_eq!(body["messages"][1]["content"], expected);
}

#[test]
fn an_interrupted_call_has_a_result_all_the_same() {
    let done = json!([{"type": "text", "text": "done"}]);
    for results in [json!([]), json!([result("t1", done, false)])] {
        let mut list = vec![user("Hi"), assistant(json!([call("t1"), call("t2")]), "toolUse")];
        list.extend(results.as_array().unwrap().clone());
        list.push(user("Go on"));
        let sent = wire(json!(list));
        let answered: HashSet<&str> = sent[2]["content"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|block| block["tool_use_id"].as_str())
            .collect();
        assert_eq!(answered, HashSet::from(["t1", "t2"]));
        assert_eq!(sent[3]["content"], "Go on");
    }
}

#[test]
fn failed_responses_leave_no_trace() {
    let sent = wire(json!([
        user("Hi"),
        assistant(json!([{"type": "text", "text": "half"}, call("t1")]), "error"),
        result("t1", json!([{"type": "text", "text": "late"}]), false),
        user("Again"),
    ]));
    assert_eq!(
        sent,
        json!([{"role": "user", "content": "Hi"}, {"role": "user", "content": "Again"}])
    );
}

#[test]
fn an_error_result_has_a_text_even_if_the_tool_gave_none() {
    let sent = wire(json!([
        user("Hi"),
        assistant(json!([call("t1")]), "toolUse"),
        result("t1", json!([]), true),
    ]));
    let content = sent[2]["content"][0]["content"].as_str().unwrap();
    assert!(!content.trim().is_empty());
}

#[test]
fn ids_that_other_vendors_use_twice_are_told_apart() {
    let long = "x".repeat(70);
    let ids = ["call_0", "call_0_2", "call|0", "call_0", long.as_str(), &format!("{long}y")];
    let mut list = vec![user("Hi")];
    for id in ids {
        list.push(foreign(json!([call(id)])));
        list.push(result(id, json!([{"type": "text", "text": id}]), false));
    }
    let sent = wire(json!(list));
    let mut seen = HashSet::new();
    for (index, id) in ids.iter().enumerate() {
        let used = sent[2 * index + 1]["content"][0]["id"].as_str().unwrap();
        let answered = &sent[2 * index + 2]["content"][0];
        assert_eq!(answered["tool_use_id"], used);
        assert_eq!(answered["content"], *id);
        assert!(used.len() <= 64);
        assert!(seen.insert(used.to_owned()), "{used} is used twice");
    }
}

#[test]
fn temperature_goes_out_only_without_thinking() {
    let temperature = |model: Value, reasoning: Option<ThinkingLevel>| {
        let options =
            StreamOptions { temperature: Some(0.5), reasoning, ..StreamOptions::default() };
        sent(model, hello(), options).get("temperature").cloned()
    };
    assert_eq!(temperature(model(), None), Some(json!(0.5)));
    assert_eq!(temperature(model(), Some(ThinkingLevel::Off)), Some(json!(0.5)));
    assert_eq!(temperature(model(), Some(ThinkingLevel::Low)), None);
    let adaptive = model_with(json!({"compat": {"forceAdaptiveThinking": true}}));
    assert_eq!(temperature(adaptive, Some(ThinkingLevel::Low)), None);
    let without = model_with(json!({"compat": {"supportsTemperature": false}}));
    assert_eq!(temperature(without, None), None);
}

#[test]
fn a_thinking_budget_always_leaves_room_for_the_answer() {
    let server = Server::answering(|_| ok()).expect("a server");
    for cap in [1, 1024, 1025, 2048, 2049, 5000, 64_000] {
        for reasoning in [None, Some(ThinkingLevel::Minimal), Some(ThinkingLevel::High)] {
            for budget in [None, Some(0), Some(100_000)] {
                for max_tokens in [None, Some(1), Some(3000)] {
                    let budgets =
                        ThinkingBudgets { minimal: budget, low: None, medium: None, high: budget };
                    let thinking_budgets = Some(budgets);
                    let options = StreamOptions {
                        reasoning,
                        thinking_budgets,
                        max_tokens,
                        ..StreamOptions::default()
                    };
                    run(
                        &server,
                        &provider(),
                        model_with(json!({"maxTokens": cap})),
                        hello(),
                        options,
                    );
                }
            }
        }
    }
    for request in server.requests() {
        check_budget(&serde_json::from_slice(&request.body).unwrap());
    }
}

#[track_caller]
fn check_budget(body: &Value) {
    let max_tokens = body["max_tokens"].as_u64().unwrap();
    assert!(max_tokens >= 1);
    if body["thinking"]["type"] == "enabled" {
        let budget = body["thinking"]["budget_tokens"].as_u64().unwrap();
        assert!((1024..max_tokens).contains(&budget), "{body}");
    } else {
        assert_eq!(body["thinking"], json!({"type": "disabled"}));
    }
}

#[test]
fn the_answer_is_capped_by_what_the_context_leaves() {
    let small = model_with(json!({"contextWindow": 32_000, "maxTokens": 16_000}));
    let cap = |max_tokens: Option<u64>| {
        let options = StreamOptions { max_tokens, ..StreamOptions::default() };
        sent(small.clone(), hello(), options)["max_tokens"].as_u64().unwrap()
    };
    assert_eq!(cap(None), 16_000);
    assert!((27_000..28_000).contains(&cap(Some(99_999))));
    assert_eq!(cap(Some(10)), 10);
}

#[test]
fn native_options_leave_nothing_to_the_neutral_ones() {
    let native = json!({"toolChoice": {"type": "tool", "name": "edit"}, "temperature": 0.1});
    let options = StreamOptions {
        native: native.as_object().cloned(),
        reasoning: Some(ThinkingLevel::High),
        tool_choice: Some(ToolChoice::None),
        ..StreamOptions::default()
    };
    let body = sent(model(), hello(), options);
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "edit"}));
    assert_eq!(body.get("thinking"), None);
}

#[test]
fn every_neutral_tool_choice_has_its_form() {
    for (choice, expected) in [
        (ToolChoice::Auto, json!({"type": "auto"})),
        (ToolChoice::None, json!({"type": "none"})),
        (ToolChoice::Any, json!({"type": "any"})),
        (ToolChoice::Tool("edit".to_owned()), json!({"type": "tool", "name": "edit"})),
    ] {
        let options = StreamOptions { tool_choice: Some(choice), ..StreamOptions::default() };
        assert_eq!(sent(model(), hello(), options)["tool_choice"], expected);
    }
}

#[test]
fn headers_of_the_request_win_over_the_model_s_and_these_over_the_rest() {
    let model = model_with(json!({
        "reasoning": true,
        "headers": {"Anthropic-Beta": "of-the-model", "x-both": "model", "anthropic-version": null}
    }));
    let options = StreamOptions {
        reasoning: Some(ThinkingLevel::Low),
        headers: vec![("X-Both".to_owned(), Some("request".to_owned()))],
        ..StreamOptions::default()
    };
    let outcome = ask([ok()], model.clone(), hello(), options.clone());
    let request = &outcome.requests[0];
    assert_eq!(request.header("anthropic-beta"), Some("of-the-model"));
    assert_eq!(request.header("x-both"), Some("request"));
    assert_eq!(request.header("anthropic-version"), None);
    let headers = vec![("anthropic-beta".to_owned(), None)];
    let outcome = ask([ok()], model, hello(), StreamOptions { headers, ..options });
    assert_eq!(outcome.requests[0].header("anthropic-beta"), None);
}

#[test]
fn a_hook_may_replace_the_body_but_not_the_stream() {
    let seen: Seen<Value> = Seen::default();
    let log = seen.clone();
    let hooks = RequestHooks {
        on_payload: Some(Arc::new(move |body, _| {
            log.lock().unwrap().push(body.clone());
            let mut body = body.clone();
            body["max_tokens"] = json!(5);
            body["stream"] = json!(false);
            Ok(Some(body))
        })),
        ..RequestHooks::default()
    };
    let body = sent(model(), hello(), StreamOptions { hooks, ..StreamOptions::default() });
    assert_eq!((&body["max_tokens"], &body["stream"]), (&json!(5), &json!(true)));
    let unhooked = sent(model(), hello(), StreamOptions::default());
    assert_eq!(seen.lock().unwrap().as_slice(), [unhooked]);
}

#[test]
fn later_system_messages_wait_for_the_next_answer() {
    let mid = model_with(json!({"compat": {"supportsMidConvoSystemMessages": true}}));
    let tool = json!({"name": "edit", "description": "", "parameters": {}});
    let list = json!([
        {"role": "system", "content": "Base.", "sections": {"a": "A"}},
        user("1"),
        {"role": "system", "content": "Update.", "sections": {"a": null, "b": "B"}, "toolsAdded": [tool]},
        user("2"),
        assistant(json!([{"type": "text", "text": "ok"}]), "stop"),
        {"role": "system", "content": "", "toolsRemoved": [{"name": "nothing"}]},
        {"role": "system", "content": "Last."},
        user("3"),
    ]);
    let body = sent(mid, messages(list.clone()), StreamOptions::default());
    assert_eq!(body["system"][0]["text"], "Base.\n\nA");
    assert_eq!(body["tools"][0]["name"], "edit");
    let wire = body["messages"].as_array().unwrap();
    let roles: Vec<_> = wire.iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "user", "system", "assistant", "user", "system"]);
    let update = wire[2]["content"][0]["text"].as_str().unwrap();
    assert!(update.starts_with("Update.") && update.contains('B'), "{update}");
    let marked = json!([{"type": "text", "text": "Last.", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(wire[5]["content"], marked);

    let body = sent(model(), messages(list), StreamOptions::default());
    assert_eq!(body["system"][0]["text"], "Base.\n\nUpdate.\n\nLast.\n\nB");
    let wire = body["messages"].as_array().unwrap();
    let roles: Vec<_> = wire.iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "user", "assistant", "user"]);
}

#[test]
fn a_body_is_the_same_text_each_time() {
    let transcript = messages(json!([
        {"role": "system", "content": "Base.", "toolsAdded": [
            {"name": "edit", "parameters": {"properties": {"z": {"type": "string"}, "a": {"type": "string"}}}}
        ]},
        user("Hi"),
        assistant(json!([{"type": "toolCall", "id": "t", "name": "edit", "arguments": {"z": 1, "a": 2}}]), "toolUse"),
    ]));
    let text = || {
        let outcome = ask([ok()], model(), transcript.clone(), StreamOptions::default());
        outcome.requests[0].text()
    };
    let first = text();
    assert_eq!(first, text());
    assert!(first.contains(r#""input":{"z":1,"a":2}"#), "{first}");
    assert!(
        first.contains(r#""properties":{"z":{"type":"string"},"a":{"type":"string"}}"#),
        "{first}"
    );
}

#[test]
fn the_first_value_of_a_variable_of_the_request_wins() {
    let variable = |value: &str| ("STEERAGE_CACHE_RETENTION".to_owned(), value.to_owned());
    let options = StreamOptions {
        env: vec![variable("long"), variable("short")],
        ..StreamOptions::default()
    };
    let body = sent(model(), messages(json!([user("Hi")])), options);
    let mark = &body["messages"][0]["content"][0]["cache_control"];
    assert_eq!(*mark, json!({"type": "ephemeral", "ttl": "1h"}), "{body}");
}
