//! Each way to tell a server how hard to think, and each flag that follows from an address.

use std::fmt::Write;

use expect_test::{Expect, expect};
use steerage::ThinkingLevel;

use super::*;

/// Fields that have nothing to do with thinking, those first that are the same for all servers.
const OTHERS: [&str; 7] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "store",
    "max_tokens",
    "max_completion_tokens",
];

/// The fields of a request that have to do with thinking, for no thinking, a low and the highest level.
fn thinking(fields: &Value) -> String {
    let mut text = String::new();
    for level in [None, Some(ThinkingLevel::Low), Some(ThinkingLevel::High)] {
        let options = StreamOptions { reasoning: level, ..StreamOptions::default() };
        let mut body = sent(model(fields.clone()), hello(), options);
        let body = body.as_object_mut().unwrap();
        body.retain(|name, _| !OTHERS.contains(&name.as_str()));
        let level = level.map_or("-", ThinkingLevel::as_str);
        writeln!(text, "  {level:5} {}", Value::Object(body.clone())).unwrap();
    }
    text
}

#[track_caller]
fn check(formats: &[&str], extra: Value, expected: Expect) {
    let mut text = String::new();
    for format in formats {
        let mut fields = extra.clone();
        fields["compat"]["thinkingFormat"] = json!(format);
        write!(text, "{format}\n{}", thinking(&fields)).unwrap();
    }
    expected.assert_eq(&text);
}

const ALL: [&str; 11] = [
    "openai",
    "openrouter",
    "deepseek",
    "zai",
    "qwen",
    "qwen-chat-template",
    "chat-template",
    "baseten",
    "together",
    "string-thinking",
    "ant-ling",
];

#[test]
fn each_format_by_default() {
    check(
        &ALL,
        json!({}),
        expect![[r#"
            openai
              -     {}
              low   {"reasoning_effort":"low"}
              high  {"reasoning_effort":"high"}
            openrouter
              -     {"reasoning":{"effort":"none"}}
              low   {"reasoning":{"effort":"low"}}
              high  {"reasoning":{"effort":"high"}}
            deepseek
              -     {"thinking":{"type":"disabled"}}
              low   {"thinking":{"type":"enabled"},"reasoning_effort":"low"}
              high  {"thinking":{"type":"enabled"},"reasoning_effort":"high"}
            zai
              -     {"thinking":{"type":"disabled"}}
              low   {"thinking":{"type":"enabled","clear_thinking":false},"reasoning_effort":"low"}
              high  {"thinking":{"type":"enabled","clear_thinking":false},"reasoning_effort":"high"}
            qwen
              -     {"enable_thinking":false}
              low   {"enable_thinking":true,"reasoning_effort":"low"}
              high  {"enable_thinking":true,"reasoning_effort":"high"}
            qwen-chat-template
              -     {"chat_template_kwargs":{"enable_thinking":false,"preserve_thinking":true}}
              low   {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
              high  {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
            chat-template
              -     {}
              low   {}
              high  {}
            baseten
              -     {}
              low   {"reasoning_effort":"low"}
              high  {"reasoning_effort":"high"}
            together
              -     {"reasoning":{"enabled":false}}
              low   {"reasoning":{"enabled":true},"reasoning_effort":"low"}
              high  {"reasoning":{"enabled":true},"reasoning_effort":"high"}
            string-thinking
              -     {"thinking":"none"}
              low   {"thinking":"low"}
              high  {"thinking":"high"}
            ant-ling
              -     {}
              low   {}
              high  {}
        "#]],
    );
}

#[test]
fn each_format_with_levels_that_have_names_of_the_vendor() {
    let map = json!({"thinkingLevelMap": {"off": "no", "low": "bit", "high": "lot"}});
    check(
        &ALL,
        map,
        expect![[r#"
            openai
              -     {"reasoning_effort":"no"}
              low   {"reasoning_effort":"bit"}
              high  {"reasoning_effort":"lot"}
            openrouter
              -     {"reasoning":{"effort":"no"}}
              low   {"reasoning":{"effort":"bit"}}
              high  {"reasoning":{"effort":"lot"}}
            deepseek
              -     {"thinking":{"type":"disabled"}}
              low   {"thinking":{"type":"enabled"},"reasoning_effort":"bit"}
              high  {"thinking":{"type":"enabled"},"reasoning_effort":"lot"}
            zai
              -     {"thinking":{"type":"disabled"}}
              low   {"thinking":{"type":"enabled","clear_thinking":false},"reasoning_effort":"bit"}
              high  {"thinking":{"type":"enabled","clear_thinking":false},"reasoning_effort":"lot"}
            qwen
              -     {"enable_thinking":false}
              low   {"enable_thinking":true,"reasoning_effort":"bit"}
              high  {"enable_thinking":true,"reasoning_effort":"lot"}
            qwen-chat-template
              -     {"chat_template_kwargs":{"enable_thinking":false,"preserve_thinking":true}}
              low   {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
              high  {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
            chat-template
              -     {}
              low   {}
              high  {}
            baseten
              -     {"reasoning_effort":"no"}
              low   {"reasoning_effort":"bit"}
              high  {"reasoning_effort":"lot"}
            together
              -     {"reasoning":{"enabled":false}}
              low   {"reasoning":{"enabled":true},"reasoning_effort":"bit"}
              high  {"reasoning":{"enabled":true},"reasoning_effort":"lot"}
            string-thinking
              -     {"thinking":"no"}
              low   {"thinking":"bit"}
              high  {"thinking":"lot"}
            ant-ling
              -     {}
              low   {"reasoning":{"effort":"bit"}}
              high  {"reasoning":{"effort":"lot"}}
        "#]],
    );
}

#[test]
fn each_format_for_a_model_that_cannot_be_told_not_to_think() {
    let map = json!({"thinkingLevelMap": {"off": null}});
    check(
        &ALL,
        map,
        expect![[r#"
            openai
              -     {}
              low   {"reasoning_effort":"low"}
              high  {"reasoning_effort":"high"}
            openrouter
              -     {}
              low   {"reasoning":{"effort":"low"}}
              high  {"reasoning":{"effort":"high"}}
            deepseek
              -     {}
              low   {"thinking":{"type":"enabled"},"reasoning_effort":"low"}
              high  {"thinking":{"type":"enabled"},"reasoning_effort":"high"}
            zai
              -     {"thinking":{"type":"disabled"}}
              low   {"thinking":{"type":"enabled","clear_thinking":false},"reasoning_effort":"low"}
              high  {"thinking":{"type":"enabled","clear_thinking":false},"reasoning_effort":"high"}
            qwen
              -     {"enable_thinking":false}
              low   {"enable_thinking":true,"reasoning_effort":"low"}
              high  {"enable_thinking":true,"reasoning_effort":"high"}
            qwen-chat-template
              -     {"chat_template_kwargs":{"enable_thinking":false,"preserve_thinking":true}}
              low   {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
              high  {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
            chat-template
              -     {}
              low   {}
              high  {}
            baseten
              -     {}
              low   {"reasoning_effort":"low"}
              high  {"reasoning_effort":"high"}
            together
              -     {"reasoning":{"enabled":false}}
              low   {"reasoning":{"enabled":true},"reasoning_effort":"low"}
              high  {"reasoning":{"enabled":true},"reasoning_effort":"high"}
            string-thinking
              -     {}
              low   {"thinking":"low"}
              high  {"thinking":"high"}
            ant-ling
              -     {}
              low   {}
              high  {}
        "#]],
    );
}

#[test]
fn each_format_without_efforts() {
    check(
        &ALL,
        json!({"compat": {"supportsReasoningEffort": false}}),
        expect![[r#"
        openai
          -     {}
          low   {}
          high  {}
        openrouter
          -     {"reasoning":{"effort":"none"}}
          low   {"reasoning":{"effort":"low"}}
          high  {"reasoning":{"effort":"high"}}
        deepseek
          -     {"thinking":{"type":"disabled"}}
          low   {"thinking":{"type":"enabled"}}
          high  {"thinking":{"type":"enabled"}}
        zai
          -     {"thinking":{"type":"disabled"}}
          low   {"thinking":{"type":"enabled","clear_thinking":false}}
          high  {"thinking":{"type":"enabled","clear_thinking":false}}
        qwen
          -     {"enable_thinking":false}
          low   {"enable_thinking":true}
          high  {"enable_thinking":true}
        qwen-chat-template
          -     {"chat_template_kwargs":{"enable_thinking":false,"preserve_thinking":true}}
          low   {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
          high  {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
        chat-template
          -     {}
          low   {}
          high  {}
        baseten
          -     {}
          low   {}
          high  {}
        together
          -     {"reasoning":{"enabled":false}}
          low   {"reasoning":{"enabled":true}}
          high  {"reasoning":{"enabled":true}}
        string-thinking
          -     {"thinking":"none"}
          low   {"thinking":"low"}
          high  {"thinking":"high"}
        ant-ling
          -     {}
          low   {}
          high  {}
    "#]],
    );
}

#[test]
fn a_template_is_filled_in() {
    let arguments = json!({
        "literal": 7, "on": {"$var": "thinking.enabled"}, "effort": {"$var": "thinking.effort"},
        "budget": {"$var": "thinking.budget"}, "quiet": {"$var": "thinking.enabled", "omitWhenOff": true},
        "unknown": {"$var": "thinking.future"}, "nested": {"a": [1]},
    });
    let compat = json!({"chatTemplateKwargs": arguments, "chatTemplateArgs": arguments});
    let formats = ["chat-template", "baseten"];
    check(
        &formats,
        json!({"compat": compat}),
        expect![[r#"
            chat-template
              -     {"chat_template_kwargs":{"literal":7,"on":false,"nested":{"a":[1]}}}
              low   {"chat_template_kwargs":{"literal":7,"on":true,"effort":"low","budget":2048,"quiet":true,"nested":{"a":[1]}}}
              high  {"chat_template_kwargs":{"literal":7,"on":true,"effort":"high","budget":8976,"quiet":true,"nested":{"a":[1]}}}
            baseten
              -     {"chat_template_args":{"literal":7,"on":false,"nested":{"a":[1]}}}
              low   {"chat_template_args":{"literal":7,"on":true,"effort":"low","budget":2048,"quiet":true,"nested":{"a":[1]}},"reasoning_effort":"low"}
              high  {"chat_template_args":{"literal":7,"on":true,"effort":"high","budget":8976,"quiet":true,"nested":{"a":[1]}},"reasoning_effort":"high"}
        "#]],
    );
}

#[test]
fn a_budget_has_the_field_that_the_server_knows() {
    for (compat, field) in [
        (json!({"supportsThinkingTokenBudget": true}), "thinking_token_budget"),
        (json!({"thinkingTokenBudgetField": "thinking_budget"}), "thinking_budget"),
        (json!({"thinkingTokenBudgetField": "thinking_budget_tokens"}), "thinking_budget_tokens"),
    ] {
        let budget = |reasoning, max_tokens| {
            let options = StreamOptions { reasoning, max_tokens, ..StreamOptions::default() };
            sent(with_compat(compat.clone()), hello(), options).get(field).cloned()
        };
        assert_eq!(budget(None, None), None);
        assert_eq!(budget(Some(ThinkingLevel::Low), None), Some(json!(2048)));
        assert_eq!(budget(Some(ThinkingLevel::High), None), Some(json!(10_000 - 1024)));
        assert_eq!(budget(Some(ThinkingLevel::High), Some(1024)), None);
    }
}

#[test]
fn a_model_that_does_not_think_is_told_nothing() {
    check(
        &ALL[..2],
        json!({"reasoning": false}),
        expect![[r#"
        openai
          -     {}
          low   {}
          high  {}
        openrouter
          -     {}
          low   {}
          high  {}
    "#]],
    );
}

/// What follows from the provider and the address of a model.
#[track_caller]
fn check_address(cases: &[(&str, &str)], expected: Expect) {
    let mut text = String::new();
    for (provider, url) in cases {
        let fields = json!({"provider": provider, "baseUrl": url});
        let options = StreamOptions {
            reasoning: Some(ThinkingLevel::High),
            session_id: Some("s".to_owned()),
            cache_retention: Some(steerage::stream::CacheRetention::Long),
            ..StreamOptions::default()
        };
        let prompt = json!([{"role": "system", "content": "p"}, {"role": "user", "content": "Hi"}]);
        let outcome = ask([ok()], model(fields), messages(prompt), options);
        let mut body = outcome.body();
        let role = body["messages"][0]["role"].take();
        let body = body.as_object_mut().unwrap();
        body.retain(|name, _| !OTHERS[..4].contains(&name.as_str()));
        let headers = ["session_id", "x-client-request-id", "x-session-affinity", "x-session-id"];
        let headers: Vec<_> =
            headers.iter().filter(|name| outcome.requests[0].header(name).is_some()).collect();
        writeln!(text, "{provider} {url}: {role} {headers:?}").unwrap();
        writeln!(text, "  {}", Value::Object(body.clone())).unwrap();
    }
    expected.assert_eq(&text);
}

#[test]
fn an_address_says_what_its_server_knows() {
    check_address(
        &[
            ("openai", "https://example.test/v1"),
            ("x", "https://api.openai.com/v1"),
            ("x", "https://api.z.ai/api/paas/v4"),
            ("x", "https://open.bigmodel.cn/api"),
            ("x", "https://api.together.ai/v1"),
            ("x", "https://api.moonshot.ai/v1"),
            ("x", "https://openrouter.ai/api/v1"),
            ("x", "https://api.cloudflare.com/client/v4"),
            ("x", "https://gateway.ai.cloudflare.com/v1"),
            ("x", "https://integrate.api.nvidia.com/v1"),
            ("x", "https://api.ant-ling.com/v1"),
            ("x", "https://api.cerebras.ai/v1"),
            ("x", "https://api.deepseek.com"),
            ("x", "https://api.x.ai/v1"),
            ("x", "https://llm.chutes.ai/v1"),
            ("x", "https://opencode.ai/zen/v1"),
            ("x", "https://example.test/v1"),
        ],
        expect![[r#"
            openai https://example.test/v1: "developer" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","store":false,"max_completion_tokens":10000,"reasoning_effort":"high"}
            x https://api.openai.com/v1: "developer" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","store":false,"max_completion_tokens":10000,"reasoning_effort":"high"}
            x https://api.z.ai/api/paas/v4: "system" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","max_tokens":10000,"thinking":{"type":"enabled","clear_thinking":false}}
            x https://open.bigmodel.cn/api: "system" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","max_tokens":10000,"thinking":{"type":"enabled","clear_thinking":false}}
            x https://api.together.ai/v1: "system" []
              {"max_tokens":10000,"reasoning":{"enabled":true}}
            x https://api.moonshot.ai/v1: "system" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","max_tokens":10000}
            x https://openrouter.ai/api/v1: "system" ["x-session-id"]
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","store":false,"max_completion_tokens":10000,"reasoning":{"effort":"high"}}
            x https://api.cloudflare.com/client/v4: "system" []
              {"max_completion_tokens":10000,"reasoning_effort":"high"}
            x https://gateway.ai.cloudflare.com/v1: "system" []
              {"max_tokens":10000}
            x https://integrate.api.nvidia.com/v1: "system" []
              {"max_tokens":10000}
            x https://api.ant-ling.com/v1: "system" []
              {"max_tokens":10000}
            x https://api.cerebras.ai/v1: "system" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","max_completion_tokens":10000,"reasoning_effort":"high"}
            x https://api.deepseek.com: "system" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","max_tokens":10000,"thinking":{"type":"enabled"},"reasoning_effort":"high"}
            x https://api.x.ai/v1: "system" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","max_completion_tokens":10000}
            x https://llm.chutes.ai/v1: "system" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","max_tokens":10000,"reasoning_effort":"high"}
            x https://opencode.ai/zen/v1: "system" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","max_completion_tokens":10000,"reasoning_effort":"high"}
            x https://example.test/v1: "system" []
              {"prompt_cache_key":"s","prompt_cache_retention":"24h","store":false,"max_completion_tokens":10000,"reasoning_effort":"high"}
        "#]],
    );
}

#[test]
fn a_flag_of_the_model_wins_over_its_address() {
    let fields = json!({
        "provider": "deepseek", "baseUrl": "https://api.deepseek.com",
        "compat": {
            "supportsStore": true, "thinkingFormat": "openai", "maxTokensField": "max_completion_tokens",
            "supportsDeveloperRole": true, "requiresReasoningContentOnAssistantMessages": false,
            "unknown": {"a": 1}, "supportsUsageInStreaming": "of the wrong type"
        }
    });
    let prompt = json!([{"role": "system", "content": "p"}, {"role": "user", "content": "Hi"}]);
    let options = StreamOptions { reasoning: Some(ThinkingLevel::Low), ..StreamOptions::default() };
    let body = sent(model(fields), messages(prompt), options);
    assert_eq!(body["store"], json!(false));
    assert_eq!(body["reasoning_effort"], "low");
    assert_eq!(body["max_completion_tokens"], 10_000);
    assert_eq!(body["messages"][0]["role"], "developer");
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert_eq!(body.get("thinking"), None);
}
