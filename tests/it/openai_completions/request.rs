//! What is sent.

use std::fmt::Write;

use expect_test::{Expect, expect};
use steerage::{
    ErrorKind,
    stream::{CacheRetention, RequestHooks, ToolChoice},
};

use super::*;

fn tool(name: &str, sampling: Value) -> Value {
    json!({
        "name": name, "description": "d", "constrainedSampling": sampling,
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    })
}

fn grammar_tool(variants: Value) -> Value {
    let mut tool = tool("g", json!({"type": "grammar", "variants": variants}));
    tool["parameters"] =
        json!({"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]});
    tool
}

fn system(text: &str, tools: Value) -> Value {
    json!({"role": "system", "content": text, "toolsAdded": tools})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn says(content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "openai-completions", "provider": "custom", "model": "m",
        "stopReason": "stop"
    })
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "f", "arguments": {"z": 1, "a": "x"}})
}

fn result(id: &str, content: Value) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "f", "content": content})
}

fn image(data: &str) -> Value {
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Checks messages and tools that are sent, one on each line.
#[track_caller]
fn check(model: Value, list: Value, options: StreamOptions, expected: Expect) {
    let body = sent(model, messages(list), options);
    let mut text = String::new();
    for field in ["tools", "messages"] {
        for item in body[field].as_array().into_iter().flatten() {
            writeln!(text, "{item}").unwrap();
        }
    }
    expected.assert_eq(&text);
}

#[track_caller]
fn check_refused(model: Value, list: Value, expected: Expect) {
    let outcome = ask([ok()], model, messages(list), StreamOptions::default());
    assert_eq!(outcome.failure().kind, ErrorKind::Configuration);
    assert!(outcome.requests.is_empty());
    expected.assert_eq(outcome.error_text());
}

#[test]
fn strict_mode_is_told_of_each_tool_where_the_server_has_one() {
    let prefer = json!({"type": "json_schema", "strict": "prefer"});
    let mut open = tool("open", prefer.clone());
    open["parameters"]["additionalProperties"] = json!(true);
    let tools = json!([tool("plain", json!(false)), tool("strict", prefer), open]);
    let list = json!([system("", tools), user("Hi")]);
    let options = StreamOptions::default;
    check(
        with_compat(json!({"supportsStrictMode": true})),
        list.clone(),
        options(),
        expect![[r#"
        {"type":"function","function":{"name":"plain","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]},"strict":false}}
        {"type":"function","function":{"name":"strict","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["a","b"],"additionalProperties":false},"strict":true}}
        {"type":"function","function":{"name":"open","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"],"additionalProperties":true},"strict":false}}
        {"role":"user","content":"Hi"}
    "#]],
    );
    check(
        model(json!({})),
        list,
        options(),
        expect![[r#"
        {"type":"function","function":{"name":"plain","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"type":"function","function":{"name":"strict","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"type":"function","function":{"name":"open","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"],"additionalProperties":true}}}
        {"role":"user","content":"Hi"}
    "#]],
    );
}

#[test]
fn strictness_that_is_required_and_impossible_is_refused_before_anything_is_sent() {
    let require = json!({"type": "json_schema", "strict": "require"});
    let list = |tool: Value| json!([system("", json!([tool])), user("Hi")]);
    check_refused(
        model(json!({})),
        list(tool("f", require.clone())),
        expect![
            "tool `f` insists on strict mode, but the model has none: take `require` off or change it"
        ],
    );
    let mut open = tool("f", require);
    open["parameters"]["not"] = json!({});
    check_refused(
        with_compat(json!({"supportsStrictMode": true})),
        list(open),
        expect![
            "tool `f` insists on strict mode, but of its schema, #: not has no strict form: take `require` off or change it"
        ],
    );
}

#[test]
fn a_grammar_goes_to_servers_that_know_grammars() {
    let both = json!({"openai_lark": "start: /a/", "openai_regex": "a"});
    let regex = json!({"openai_lark": " ", "openai_regex": "a"});
    let mut other = grammar_tool(regex);
    other["name"] = json!("h");
    let mut called = call("c1");
    called["name"] = json!("g");
    called["arguments"] = json!({"code": "a\n\"b\""});
    let list = json!([
        system("", json!([grammar_tool(both), other])),
        user("Hi"),
        says(json!([called])),
        result("c1", json!([text("ok")])),
    ]);
    let knows = with_compat(json!({"supportsOpenAIGrammarTools": true}));
    check(
        knows,
        list.clone(),
        StreamOptions::default(),
        expect![[r#"
        {"type":"custom","custom":{"name":"g","description":"d","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: /a/"}}}}
        {"type":"custom","custom":{"name":"h","description":"d","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"a"}}}}
        {"role":"user","content":"Hi"}
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"custom","custom":{"name":"g","input":"a\n\"b\""}}]}
        {"role":"tool","content":"ok","tool_call_id":"c1"}
    "#]],
    );
    check(
        model(json!({})),
        list,
        StreamOptions::default(),
        expect![[r#"
        {"type":"function","function":{"name":"g","description":"d","parameters":{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}}}
        {"type":"function","function":{"name":"h","description":"d","parameters":{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}}}
        {"role":"user","content":"Hi"}
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"g","arguments":"{\"code\":\"a\\n\\\"b\\\"\"}"}}]}
        {"role":"tool","content":"ok","tool_call_id":"c1"}
    "#]],
    );
}

#[test]
fn a_grammar_that_cannot_be_sent_is_refused() {
    let knows = || with_compat(json!({"supportsOpenAIGrammarTools": true}));
    let list = |tool: Value| json!([system("", json!([tool])), user("Hi")]);
    check_refused(
        knows(),
        list(grammar_tool(json!({"openai_lark": " "}))),
        expect!["tool `g` has a grammar without a text: give openai_lark or openai_regex"],
    );
    let mut two = grammar_tool(json!({"openai_lark": "start: /a/"}));
    two["parameters"]["required"] = json!(["code", "code"]);
    check_refused(
        knows(),
        list(two),
        expect![
            "tool `g` has a grammar, so its schema must be an object with exactly one required property of type string"
        ],
    );
}

fn cached(retention: CacheRetention) -> StreamOptions {
    StreamOptions {
        cache_retention: Some(retention),
        session_id: Some("s".repeat(70)),
        ..StreamOptions::default()
    }
}

#[test]
fn cache_marks_stand_on_the_prompt_the_last_tool_and_the_last_text() {
    let tools = json!([tool("f", json!(false)), tool("g", json!(false))]);
    let list = json!([
        system("p", tools),
        json!({"role": "user", "content": [text("a"), text("b"), image("x")]}),
        says(json!([call("c1")])),
    ]);
    let marks = || model(json!({"provider": "openrouter", "id": "anthropic/claude"}));
    check(
        marks(),
        list.clone(),
        cached(CacheRetention::Short),
        expect![[r#"
        {"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"type":"function","function":{"name":"g","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}},"cache_control":{"type":"ephemeral"}}
        {"role":"system","content":[{"type":"text","text":"p","cache_control":{"type":"ephemeral"}}]}
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"data:image/png;base64,x"}}]}
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"x\"}"}}]}
        {"role":"tool","content":[{"type":"text","text":"No result was recorded for this call. It may have run or not.","cache_control":{"type":"ephemeral"}}],"tool_call_id":"c1"}
    "#]],
    );
    check(
        marks(),
        list.clone(),
        cached(CacheRetention::None),
        expect![[r#"
        {"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"type":"function","function":{"name":"g","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"role":"system","content":"p"}
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"data:image/png;base64,x"}}]}
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"x\"}"}}]}
        {"role":"tool","content":"No result was recorded for this call. It may have run or not.","tool_call_id":"c1"}
    "#]],
    );
    let by_flag = with_compat(json!({"cacheControlFormat": "anthropic"}));
    check(
        by_flag,
        json!([user("a"), says(json!([text("b")]))]),
        cached(CacheRetention::Long),
        expect![[r#"
            {"role":"user","content":"a"}
            {"role":"assistant","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral","ttl":"1h"}}]}
        "#]],
    );
}

#[test]
fn the_cache_key_follows_mode_and_retention() {
    let mut shown = String::new();
    for mode in ["auto", "enabled", "disabled"] {
        for retention in [CacheRetention::None, CacheRetention::Short, CacheRetention::Long] {
            for long in [true, false] {
                let compat =
                    json!({"promptCacheKeyMode": mode, "supportsLongCacheRetention": long});
                let body = sent(with_compat(compat), hello(), cached(retention));
                let key = body["prompt_cache_key"].as_str().map(str::len);
                let kept = &body["prompt_cache_retention"];
                writeln!(shown, "{mode} {retention:?} {long}: {key:?} {kept}").unwrap();
            }
        }
    }
    expect![[r#"
        auto None true: None null
        auto None false: None null
        auto Short true: None null
        auto Short false: None null
        auto Long true: Some(64) "24h"
        auto Long false: None null
        enabled None true: None null
        enabled None false: None null
        enabled Short true: Some(64) null
        enabled Short false: Some(64) null
        enabled Long true: Some(64) "24h"
        enabled Long false: Some(64) null
        disabled None true: None null
        disabled None false: None null
        disabled Short true: None null
        disabled Short false: None null
        disabled Long true: None "24h"
        disabled Long false: None null
    "#]]
    .assert_eq(&shown);
}

#[test]
fn images_go_out_as_parts_and_those_of_results_behind_them() {
    let list = json!([
        {"role": "user", "content": [text(""), image("AA"), text("see")]},
        {"role": "user", "content": [text("")]},
        says(json!([call("c1"), call("c2")])),
        result("c1", json!([image("BB")])),
        result("c2", json!([])),
        user("And?"),
    ]);
    check(
        model(json!({})),
        list,
        StreamOptions::default(),
        expect![[r#"
        {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"text","text":"see"}]}
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"x\"}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"x\"}"}}]}
        {"role":"tool","content":"(an image, see the next user message)","tool_call_id":"c1"}
        {"role":"tool","content":"(the tool gave no output)","tool_call_id":"c2"}
        {"role":"user","content":[{"type":"text","text":"Images from the tool results above:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,BB"}}]}
        {"role":"user","content":"And?"}
    "#]],
    );
}

#[test]
fn a_line_of_the_assistant_stands_between_images_of_results_and_the_user() {
    let list = json!([
        user("Hi"),
        says(json!([call("c1")])),
        result("c1", json!([image("BB")])),
        user("And?"),
    ]);
    let wants = with_compat(json!({"requiresAssistantAfterToolResult": true}));
    check(
        wants,
        list,
        StreamOptions::default(),
        expect![[r#"
        {"role":"user","content":"Hi"}
        {"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"x\"}"}}]}
        {"role":"tool","content":"(an image, see the next user message)","tool_call_id":"c1"}
        {"role":"assistant","content":"I have read the tool results."}
        {"role":"user","content":[{"type":"text","text":"Images from the tool results above:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,BB"}}]}
        {"role":"user","content":"And?"}
    "#]],
    );
}

#[test]
fn later_system_messages_stay_where_they_are_if_the_server_takes_them() {
    let list = json!([
        system("p", json!([tool("f", json!(false))])),
        user("Hi"),
        says(json!([call("c1")])),
        system("held", json!([tool("g", json!(false))])),
        result("c1", json!([text("ok")])),
        {"role": "system", "content": "", "sections": {"s": "new", "t": null}},
    ]);
    let flags = |additions: bool| {
        with_compat(
            json!({"supportsMidConvoSystemMessages": true, "supportsMidConvoToolAdditions": additions}),
        )
    };
    check(
        flags(true),
        list.clone(),
        StreamOptions::default(),
        expect![[r#"
        {"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"role":"system","content":"p"}
        {"role":"user","content":"Hi"}
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"x\"}"}}]}
        {"role":"tool","content":"ok","tool_call_id":"c1"}
        {"role":"system","tools":[{"type":"function","function":{"name":"g","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}]}
        {"role":"system","content":"held"}
        {"role":"system","content":"From here on, section \"s\" of the instructions reads:\n\nnew\n\nFrom here on, section \"t\" of the instructions does not apply."}
    "#]],
    );
    check(
        flags(false),
        list.clone(),
        StreamOptions::default(),
        expect![[r#"
        {"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"type":"function","function":{"name":"g","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"role":"system","content":"p"}
        {"role":"user","content":"Hi"}
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"x\"}"}}]}
        {"role":"tool","content":"ok","tool_call_id":"c1"}
        {"role":"system","content":"held"}
        {"role":"system","content":"From here on, section \"s\" of the instructions reads:\n\nnew\n\nFrom here on, section \"t\" of the instructions does not apply."}
    "#]],
    );
    check(
        model(json!({})),
        list,
        StreamOptions::default(),
        expect![[r#"
        {"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"type":"function","function":{"name":"g","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}}
        {"role":"system","content":"p\n\nheld\n\nnew"}
        {"role":"user","content":"Hi"}
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"x\"}"}}]}
        {"role":"tool","content":"ok","tool_call_id":"c1"}
    "#]],
    );
}

#[test]
fn ids_of_other_models_are_made_to_fit() {
    let mut shown = String::new();
    for (provider, id) in [
        ("custom", "toolu_0123456789012345678901234567890123456789"),
        ("openai", "toolu_0123456789012345678901234567890123456789"),
        ("custom", "call.1|fc_2"),
        ("custom", "call_012345678901234567890123456789|fc_0123456789"),
        ("custom", "call_012345678901234567890123456789|fc_9876543210"),
    ] {
        let mut foreign = says(json!([call(id)]));
        foreign["provider"] = json!("other");
        let list = json!([user("Hi"), foreign, result(id, json!([text("ok")]))]);
        let body =
            sent(model(json!({"provider": provider})), messages(list), StreamOptions::default());
        let sent = body["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
        assert_eq!(body["messages"][2]["tool_call_id"], sent);
        assert!(sent.len() <= 40 || provider == "custom" && !id.contains('|'), "{sent}");
        writeln!(shown, "{provider} {id} -> {sent}").unwrap();
    }
    expect![[r#"
        custom toolu_0123456789012345678901234567890123456789 -> toolu_0123456789012345678901234567890123456789
        openai toolu_0123456789012345678901234567890123456789 -> toolu_0123456789012345678901234567890123
        custom call.1|fc_2 -> call_1_fc_2
        custom call_012345678901234567890123456789|fc_0123456789 -> call_01234567890123456789012345_18247766
        custom call_012345678901234567890123456789|fc_9876543210 -> call_01234567890123456789012345_a729f6c8
    "#]].assert_eq(&shown);
}

#[test]
fn ids_that_only_their_end_tells_apart_stay_apart() {
    let long = |end: u8| format!("{}{end}", "x".repeat(45));
    let mut foreign = says(json!([call(&long(1)), call(&long(2))]));
    foreign["provider"] = json!("other");
    let list = json!([user("Hi"), foreign, result(&long(2), json!([text("two")]))]);
    let openai = model(json!({"provider": "openai"}));
    let body = sent(openai, messages(list), StreamOptions::default());
    let id = |index: usize| &body["messages"][1]["tool_calls"][index]["id"];
    assert_ne!(id(0), id(1));
    assert_eq!(body["messages"][2]["tool_call_id"], *id(1));
}

#[test]
fn a_server_without_keys_gets_none() {
    let outcome = answer(ok());
    assert_eq!(outcome.requests[0].header("authorization"), None);
    assert_eq!(outcome.message.error_message, None);
}

#[test]
fn the_key_of_the_request_wins_and_a_header_wins_over_both() {
    let sent = |api_key: Option<&str>, header: Option<Option<&str>>| {
        let provider =
            ProviderOptions { api_key: Some("of-the-provider".into()), ..provider_options() };
        let headers = header
            .map(|value| ("Authorization".to_owned(), value.map(str::to_owned)))
            .into_iter()
            .collect();
        let options =
            StreamOptions { api_key: api_key.map(Into::into), headers, ..StreamOptions::default() };
        let outcome = ask_with(provider, [ok()], model(json!({})), hello(), options);
        outcome.requests[0].header("authorization").map(str::to_owned)
    };
    assert_eq!(sent(None, None).as_deref(), Some("Bearer of-the-provider"));
    assert_eq!(sent(Some("own"), None).as_deref(), Some("Bearer own"));
    assert_eq!(sent(Some("own"), Some(Some("Basic x"))).as_deref(), Some("Basic x"));
    assert_eq!(sent(Some("own"), Some(None)), None);
}

#[test]
fn every_neutral_tool_choice_has_its_form() {
    for (choice, expected) in [
        (ToolChoice::Auto, json!("auto")),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Any, json!("required")),
        (ToolChoice::Tool("f".to_owned()), json!({"type": "function", "function": {"name": "f"}})),
    ] {
        let options = StreamOptions { tool_choice: Some(choice), ..StreamOptions::default() };
        assert_eq!(sent(model(json!({})), hello(), options)["tool_choice"], expected);
    }
}

#[test]
fn the_fields_of_a_body_stand_in_one_order() {
    let compat = json!({
        "supportsStrictMode": true, "zaiToolStream": true, "vllmPriority": 1, "openRouterRouting": {"order": ["a"]},
        "vercelGatewayRouting": {"only": ["b"]}, "thinkingTokenBudgetField": "thinking_budget",
        "promptCacheKeyMode": "enabled"
    });
    let list = json!([system("p", json!([tool("f", json!(false))])), user("Hi")]);
    let options = StreamOptions {
        reasoning: Some(steerage::ThinkingLevel::Low),
        temperature: Some(0.5),
        tool_choice: Some(ToolChoice::Auto),
        sampling_params: json!({"top_p": 0.1, "temperature": 0.7}).as_object().cloned(),
        ..cached(CacheRetention::Long)
    };
    let body = sent(with_compat(compat), messages(list), options);
    let names: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    expect!["model messages stream prompt_cache_key prompt_cache_retention stream_options store max_completion_tokens temperature tools tool_stream tool_choice priority reasoning_effort thinking_budget provider providerOptions top_p"].assert_eq(&names.join(" "));
    assert_eq!(body["temperature"], 0.7);
}

#[test]
fn a_hook_sees_the_body_and_may_replace_it() {
    let hooks = RequestHooks {
        on_payload: Some(Arc::new(|body: &Value, _: &Model| {
            let mut body = body.clone();
            body["seed"] = json!(7);
            Ok(Some(body))
        })),
        ..RequestHooks::default()
    };
    let body = sent(model(json!({})), hello(), StreamOptions { hooks, ..StreamOptions::default() });
    assert_eq!(body["seed"], 7);
    assert_eq!(body["model"], "m");
}
