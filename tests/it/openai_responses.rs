//! OpenAI's Responses API: what recordings do not touch.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{
    AbortSignal, ErrorKind, Message, Model, StreamOptions, StreamRequest,
    message::AssistantMessage,
    provider::ProviderOptions,
    stream::{ToolChoice, collect},
    testing::server::{Response, Server},
};

use crate::apis;

/// A model of OpenAI with some fields of its own.
fn model(url: &str, own: Value) -> Model {
    let mut model = json!({
        "id": "m", "api": "openai-responses", "provider": "openai", "baseUrl": url,
        "reasoning": true, "input": ["text", "image"]
    });
    for (name, value) in own.as_object().into_iter().flatten() {
        model[name] = value.clone();
    }
    serde_json::from_value(model).unwrap()
}

/// The body that a request has.
#[track_caller]
fn sent(own: Value, messages: Value, options: StreamOptions) -> Value {
    let server = Server::start([Response::json(400, "{}")]).unwrap();
    let model = model(&server.url(), own);
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let mut request = StreamRequest::new(model.clone(), messages);
    request.options = StreamOptions { max_retries: Some(0), ..options };
    let provider = apis::stream_fn(&model.api, ProviderOptions::default());
    collect(&model, &mut *provider.stream(request, &AbortSignal::never()).unwrap());
    serde_json::from_slice(&server.requests()[0].body).unwrap()
}

/// Compares the items of a request, one a line.
#[track_caller]
fn check(own: Value, messages: Value, expected: Expect) {
    let body = sent(own, messages, StreamOptions::default());
    let mut lines: Vec<String> =
        body["input"].as_array().unwrap().iter().map(Value::to_string).collect();
    lines.push(format!("tools: {}", body["tools"]));
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

/// What comes of a response whose events are these.
fn answer(events: &[Value]) -> AssistantMessage {
    let frames: Vec<String> = events.iter().map(|it| format!("data: {it}\n\n")).collect();
    let server = Server::start([Response::events(frames)]).unwrap();
    let model = Arc::new(model(&server.url(), json!({})));
    let request = StreamRequest::new(model.clone(), [Message::user("Hi")]);
    let provider = apis::stream_fn(&model.api, ProviderOptions::default());
    collect(&model, &mut *provider.stream(request, &AbortSignal::never()).unwrap())
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "", "parameters": {"type": "object"}})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn says(model: &str, content: Value) -> Value {
    json!({"role": "assistant", "api": "openai-responses", "provider": "openai", "model": model,
        "content": content, "stopReason": "stop"})
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "look", "arguments": {}})
}

fn result(id: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "look",
        "content": [{"type": "text", "text": "seen"}]})
}

fn reasoning(signature: &str) -> Value {
    json!({"type": "thinking", "thinking": "hm", "thinkingSignature": signature})
}

const ITEM: &str = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"E"}"#;

/// A conversation in which tools come and go.
fn with_changing_tools() -> Value {
    json!([
        {"role": "system", "content": "S", "toolsAdded": [tool("a"), tool("b")]},
        user("one"),
        {"role": "system", "content": "T", "toolsRemoved": [{"name": "a"}]},
        user("two"),
        {"role": "system", "content": "", "toolsAdded": [tool("c")]},
        user("three"),
        {"role": "system", "content": "", "toolsAdded": [tool("a")], "toolsRemoved": [{"name": "a"}]},
    ])
}

#[test]
fn changes_of_tools_are_told_where_they_appear() {
    let compat = json!({"supportsMidConvoSystemMessages": true, "supportsAdditionalTools": true});
    check(
        json!({"compat": compat}),
        with_changing_tools(),
        expect![[r#"
        {"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"a","description":"","parameters":{"type":"object"}},{"type":"function","name":"b","description":"","parameters":{"type":"object"}}]}
        {"role":"developer","content":"S"}
        {"role":"user","content":[{"type":"input_text","text":"one"}]}
        {"role":"developer","content":"T\n\nThese tools are no longer available: a."}
        {"role":"user","content":[{"type":"input_text","text":"two"}]}
        {"role":"developer","content":"The tools that follow come on top of those before them; one whose name is known replaces that one. These stay unavailable: a."}
        {"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"c","description":"","parameters":{"type":"object"}}]}
        {"role":"user","content":[{"type":"input_text","text":"three"}]}
        {"role":"developer","content":"The tools that follow come on top of those before them; one whose name is known replaces that one."}
        {"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"a","description":"","parameters":{"type":"object"}}]}
        tools: null
    "#]],
    );
}

#[test]
fn new_tools_are_told_as_what_a_search_found() {
    let compat = json!({"supportsMidConvoSystemMessages": true, "supportsToolSearch": true});
    check(
        json!({"compat": compat}),
        json!([
            {"role": "system", "content": "S", "toolsAdded": [tool("a")]},
            user("one"),
            {"role": "system", "content": "T", "toolsAdded": [tool("b"), tool("c")]},
        ]),
        expect![[r#"
            {"role":"developer","content":"S"}
            {"role":"user","content":[{"type":"input_text","text":"one"}]}
            {"type":"tool_search_call","call_id":"call_search_6d33bf47","execution":"client","status":"completed","arguments":{"query":"b, c"}}
            {"type":"tool_search_output","call_id":"call_search_6d33bf47","execution":"client","status":"completed","tools":[{"type":"function","name":"b","description":"","parameters":{"type":"object"},"defer_loading":true},{"type":"function","name":"c","description":"","parameters":{"type":"object"},"defer_loading":true}]}
            {"role":"developer","content":"T"}
            tools: [{"type":"function","name":"a","description":"","parameters":{"type":"object"}}]
        "#]],
    );
    check(
        json!({"compat": compat}),
        with_changing_tools(),
        expect![[r#"
        {"role":"developer","content":"S"}
        {"role":"user","content":[{"type":"input_text","text":"one"}]}
        {"role":"developer","content":"T"}
        {"role":"user","content":[{"type":"input_text","text":"two"}]}
        {"role":"user","content":[{"type":"input_text","text":"three"}]}
        tools: [{"type":"function","name":"b","description":"","parameters":{"type":"object"}},{"type":"function","name":"c","description":"","parameters":{"type":"object"}},{"type":"function","name":"a","description":"","parameters":{"type":"object"}}]
    "#]],
    );
}

#[test]
fn without_flags_all_system_messages_are_one() {
    check(
        json!({"reasoning": false}),
        with_changing_tools(),
        expect![[r#"
        {"role":"system","content":"S\n\nT"}
        {"role":"user","content":[{"type":"input_text","text":"one"}]}
        {"role":"user","content":[{"type":"input_text","text":"two"}]}
        {"role":"user","content":[{"type":"input_text","text":"three"}]}
        tools: [{"type":"function","name":"b","description":"","parameters":{"type":"object"}},{"type":"function","name":"c","description":"","parameters":{"type":"object"}},{"type":"function","name":"a","description":"","parameters":{"type":"object"}}]
    "#]],
    );
    let compat = json!({"supportsAdditionalTools": true, "supportsToolSearch": true});
    check(
        json!({"compat": compat}),
        with_changing_tools(),
        expect![[r#"
        {"role":"developer","content":"S\n\nT"}
        {"role":"user","content":[{"type":"input_text","text":"one"}]}
        {"role":"user","content":[{"type":"input_text","text":"two"}]}
        {"role":"user","content":[{"type":"input_text","text":"three"}]}
        tools: [{"type":"function","name":"b","description":"","parameters":{"type":"object"}},{"type":"function","name":"c","description":"","parameters":{"type":"object"}},{"type":"function","name":"a","description":"","parameters":{"type":"object"}}]
    "#]],
    );
}

#[test]
fn reasoning_goes_back_with_what_followed_it_or_not_at_all() {
    check(
        json!({}),
        json!([
            user("whole"),
            says("m", json!([reasoning(ITEM), call("c1|fc_1")])),
            result("c1|fc_1"),
            user("unreadable"),
            says(
                "m",
                json!([reasoning("{"), {"type": "text", "text": "A", "textSignature": "{\"v\":1,\"id\":\"msg_9\"}"},
                call("c2|fc_2")])
            ),
            result("c2|fc_2"),
            user("nothing followed"),
            says("m", json!([{"type": "text", "text": "B"}, reasoning(ITEM)])),
            user("of another model"),
            says(
                "n",
                json!([reasoning(ITEM), {"type": "text", "text": "C", "textSignature": "msg_8"}, call("c3|fc_3")])
            ),
        ]),
        expect![[r#"
            {"role":"user","content":[{"type":"input_text","text":"whole"}]}
            {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"E"}
            {"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":"{}"}
            {"type":"function_call_output","call_id":"c1","output":"seen"}
            {"role":"user","content":[{"type":"input_text","text":"unreadable"}]}
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"A","annotations":[]}],"status":"completed","id":"msg_4"}
            {"type":"function_call","call_id":"c2","name":"look","arguments":"{}"}
            {"type":"function_call_output","call_id":"c2","output":"seen"}
            {"role":"user","content":[{"type":"input_text","text":"nothing followed"}]}
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"B","annotations":[]}],"status":"completed","id":"msg_7"}
            {"role":"user","content":[{"type":"input_text","text":"of another model"}]}
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"C","annotations":[]}],"status":"completed","id":"msg_9"}
            {"type":"function_call","call_id":"c3","name":"look","arguments":"{}"}
            {"type":"function_call_output","call_id":"c3","output":"No result was recorded for this call. It may have run or not."}
            tools: null
        "#]],
    );
}

#[test]
fn ids_have_the_form_that_the_provider_takes() {
    let long = format!("{}|item", "x".repeat(80));
    let other = format!("{}|item", "x".repeat(90));
    let history = json!([
        user("one"),
        {"role": "assistant", "api": "a", "provider": "p", "model": "o", "stopReason": "toolUse",
            "content": [call("toolu.1/2|x_"), call(&long), call(&other), call("___"), call("c|a")]},
        result("toolu.1/2|x_"),
        result("___"),
    ]);
    check(
        json!({}),
        history.clone(),
        expect![[r#"
        {"role":"user","content":[{"type":"input_text","text":"one"}]}
        {"type":"function_call","call_id":"toolu_1_2","name":"look","arguments":"{}"}
        {"type":"function_call","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","name":"look","arguments":"{}"}
        {"type":"function_call","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_6f09b944","name":"look","arguments":"{}"}
        {"type":"function_call","call_id":"call_045a3b34","name":"look","arguments":"{}"}
        {"type":"function_call","call_id":"c","name":"look","arguments":"{}"}
        {"type":"function_call_output","call_id":"toolu_1_2","output":"seen"}
        {"type":"function_call_output","call_id":"call_045a3b34","output":"seen"}
        {"type":"function_call_output","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","output":"No result was recorded for this call. It may have run or not."}
        {"type":"function_call_output","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_6f09b944","output":"No result was recorded for this call. It may have run or not."}
        {"type":"function_call_output","call_id":"c","output":"No result was recorded for this call. It may have run or not."}
        tools: null
    "#]],
    );
    check(
        json!({"provider": "custom"}),
        history,
        expect![[r#"
        {"role":"user","content":[{"type":"input_text","text":"one"}]}
        {"type":"function_call","call_id":"toolu_1_2_x","name":"look","arguments":"{}"}
        {"type":"function_call","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","name":"look","arguments":"{}"}
        {"type":"function_call","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_6f09b944","name":"look","arguments":"{}"}
        {"type":"function_call","call_id":"call_045a3b34","name":"look","arguments":"{}"}
        {"type":"function_call","call_id":"c_a","name":"look","arguments":"{}"}
        {"type":"function_call_output","call_id":"toolu_1_2_x","output":"seen"}
        {"type":"function_call_output","call_id":"call_045a3b34","output":"seen"}
        {"type":"function_call_output","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","output":"No result was recorded for this call. It may have run or not."}
        {"type":"function_call_output","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_6f09b944","output":"No result was recorded for this call. It may have run or not."}
        {"type":"function_call_output","call_id":"c_a","output":"No result was recorded for this call. It may have run or not."}
        tools: null
    "#]],
    );
}

#[test]
fn texts_go_back_under_the_ids_that_they_had() {
    check(
        json!({}),
        json!([
            user("one"),
            says(
                "m",
                json!([
                    {"type": "text", "text": "A", "textSignature": "msg_old"},
                    {"type": "text", "text": ""},
                    {"type": "text", "text": "B", "textSignature": format!("{{\"v\":1,\"id\":\"{}\"}}", "y".repeat(80))},
                    {"type": "text", "text": "C"},
                    call("c1"),
                ])
            ),
        ]),
        expect![[r#"
            {"role":"user","content":[{"type":"input_text","text":"one"}]}
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"A","annotations":[]}],"status":"completed","id":"msg_old"}
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"B","annotations":[]}],"status":"completed","id":"msg_68cb9a35"}
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"C","annotations":[]}],"status":"completed","id":"msg_1_2"}
            {"type":"function_call","call_id":"c1","name":"look","arguments":"{}"}
            {"type":"function_call_output","call_id":"c1","output":"No result was recorded for this call. It may have run or not."}
            tools: null
        "#]],
    );
}

#[test]
fn a_tool_can_be_insisted_on() {
    let choice = |compat: Value| {
        let grammar = json!({"name": "patch", "description": "", "parameters":
            {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            "constrainedSampling": {"type": "grammar", "variants": {"openai_regex": "a+"}}});
        let options = StreamOptions {
            tool_choice: Some(ToolChoice::Tool("patch".to_owned())),
            ..StreamOptions::default()
        };
        let messages =
            json!([{"role": "system", "content": "", "toolsAdded": [grammar]}, user("a")]);
        sent(json!({"compat": compat}), messages, options)["tool_choice"].clone()
    };
    assert_eq!(choice(json!({})), json!({"type": "function", "name": "patch"}));
    let custom = json!({"type": "custom", "name": "patch"});
    assert_eq!(choice(json!({"supportsOpenAIGrammarTools": true})), custom);
}

fn begin_call(index: u64, item: Value) -> Value {
    let mut item = item;
    item["type"] = "function_call".into();
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn arguments(index: u64, delta: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta})
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"id": "r", "status": "completed"}})
}

/// C5: the end of the item is lost.
#[test]
fn a_call_without_its_end_is_made_of_its_fragments() {
    let item = json!({"id": "fc_1", "call_id": "c", "name": "look", "arguments": ""});
    let message =
        answer(&[begin_call(0, item), arguments(0, "{\"a\""), arguments(0, ":1}"), completed()]);
    assert_eq!(message.error_message, None);
    let call = message.tool_calls().next().unwrap();
    assert_eq!((call.id.as_str(), &call.arguments["a"]), ("c|fc_1", &json!(1)));
}

/// C6: the stream ends in the middle of the arguments.
#[test]
fn a_call_whose_arguments_are_cut_does_not_run() {
    let item = json!({"id": "fc_1", "call_id": "c", "name": "look"});
    for deltas in [&["{\"a\""][..], &[]] {
        let mut events = vec![begin_call(0, item.clone())];
        events.extend(deltas.iter().map(|delta| arguments(0, delta)));
        events.push(completed());
        let message = answer(&events);
        assert_eq!(message.failure_kind(), Some(ErrorKind::Protocol));
        assert!(message.is_retryable(), "{message:?}");
    }
    let cut = json!({"type": "response.incomplete", "response":
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}});
    let message = answer(&[begin_call(0, item), arguments(0, "{\"a\""), cut]);
    assert_eq!(message.error_message, None);
    assert!(message.tool_calls().next().unwrap().arguments_error.is_some());
}

/// C2, B29: results name their call by its id.
#[test]
fn every_call_has_an_id_of_its_own() {
    let done = |index: u64, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    let item = |id: Option<&str>, call_id: Option<&str>| {
        let mut item = json!({"type": "function_call", "name": "look", "arguments": "{}"});
        item["id"] = id.into();
        item["call_id"] = call_id.into();
        item
    };
    let created = json!({"type": "response.created", "response": {"id": "r"}});
    let message = answer(&[
        created,
        done(0, item(None, Some("c"))),
        done(1, item(Some("fc_1"), Some("c1"))),
        done(2, item(Some("fc_1"), Some("c1"))),
        done(3, item(None, None)),
        completed(),
    ]);
    let ids: Vec<_> = message.tool_calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["c", "c1|fc_1", "c1_2|fc_1", "call_r_3"]);
}

#[test]
fn half_characters_are_never_seen() {
    let added = "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\"}}\n\n";
    let delta = |text: &str| {
        format!(
            "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"{text}\"}}\n\n"
        )
    };
    let end = format!("data: {}\n\n", completed());
    let frames = [added.to_owned(), delta("a\\ud83d"), delta("\\ude48b"), delta("c\\ud83d"), end];
    let server = Server::start([Response::events(frames)]).unwrap();
    let model = model(&server.url(), json!({}));
    let request = StreamRequest::new(model.clone(), [Message::user("Hi")]);
    let provider = apis::stream_fn(&model.api, ProviderOptions::default());
    let message = collect(&model, &mut *provider.stream(request, &AbortSignal::never()).unwrap());
    assert_eq!(message.texts().collect::<String>(), "a🙈bc");
}

/// C5: the arguments come whole, without a delta before.
#[test]
fn arguments_that_come_whole_are_enough() {
    let item = json!({"id": "fc_1", "call_id": "c", "name": "look", "arguments": ""});
    let whole = json!({"type": "response.function_call_arguments.done", "output_index": 0,
        "arguments": "{\"a\":1}"});
    for has_end in [false, true] {
        let mut events = vec![begin_call(0, item.clone()), whole.clone()];
        if has_end {
            let mut item = item.clone();
            (item["type"], item["arguments"]) = ("function_call".into(), "{\"a\":1}".into());
            events.push(
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            );
        }
        let message = answer(&[events, vec![completed()]].concat());
        assert_eq!(message.error_message, None);
        let call = message.tool_calls().next().unwrap();
        assert_eq!((call.id.as_str(), &call.arguments["a"]), ("c|fc_1", &json!(1)), "{has_end}");
    }
}

/// C3: what was streamed stands, whatever the end repeats of it.
#[test]
fn an_end_without_output_takes_nothing_back() {
    let added = json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"type": "message", "id": "msg_1"}});
    let delta = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"});
    for output in [Value::Null, json!([])] {
        let mut end = completed();
        end["response"]["output"] = output;
        end["response"]["usage"] =
            json!({"input_tokens": 3, "output_tokens": 1, "total_tokens": 4});
        let message = answer(&[added.clone(), delta.clone(), end]);
        assert_eq!((message.error_message.as_deref(), message.usage.total_tokens), (None, 4));
        assert_eq!(message.texts().collect::<String>(), "Hi");
    }
}

/// C7: what the vendor says of a failure is told.
#[test]
fn a_failed_response_says_why() {
    let failed = |response: Value| {
        let message = answer(&[json!({"type": "response.failed", "response": response})]);
        let failure = message.failure.clone().unwrap();
        (message.error_message.unwrap(), failure.kind, failure.code)
    };
    let (text, kind, code) = failed(json!({"id": "r", "status": "failed",
        "error": {"code": "rate_limit_exceeded", "message": "Wait for 20 s"}}));
    assert!(text.contains("Wait for 20 s"), "{text}");
    assert_eq!((kind, code.as_deref()), (ErrorKind::RateLimited, Some("rate_limit_exceeded")));
    let (text, kind, _) = failed(json!({"status": "failed",
        "incomplete_details": {"reason": "content_filter"}}));
    assert!(text.contains("content_filter"), "{text} {kind:?}");
}

/// C8: what a tool shows is sent with its result.
#[test]
fn images_of_a_result_go_with_it() {
    let mut shown = result("c|fc_1");
    shown["content"] = json!([{"type": "text", "text": "seen"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"}]);
    let messages = json!([user("Look"), says("m", json!([call("c|fc_1")])), shown]);
    let body = sent(json!({}), messages, StreamOptions::default());
    let output = &body["input"][2];
    assert_eq!(output["type"], "function_call_output");
    assert_eq!(output["output"][0], json!({"type": "input_text", "text": "seen"}));
    assert_eq!(output["output"][1]["type"], "input_image");
    assert_eq!(output["output"][1]["image_url"], "data:image/png;base64,aGk=");
}
