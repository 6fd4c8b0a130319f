//! F: histories that were cut, failed or come from elsewhere.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{
    AbortSignal, ErrorKind, Message, StreamFn, StreamOptions, StreamRequest, Transcript,
    provider::{
        ProviderOptions, anthropic::AnthropicMessages, openai_completions::OpenAiCompletions,
    },
    stream::collect,
    testing::server::{Response, Server},
};

use super::*;

/// The messages of the request that a transcript becomes, prompt and tools aside.
#[track_caller]
fn sent(api: &str, provider: &str, transcript: Value) -> Value {
    let server = Server::start([Response::json(400, "{}")]).expect("a server");
    let model = json!({
        "id": "m", "api": api, "provider": provider, "baseUrl": server.url(), "reasoning": true,
        "input": ["text"], "contextWindow": 100_000, "maxTokens": 1000
    });
    let model: Arc<steerage::Model> = Arc::new(serde_json::from_value(model).expect("a model"));
    let messages: Vec<Message> = serde_json::from_value(transcript).expect("messages");
    let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
    let options = StreamOptions { max_retries: Some(0), ..StreamOptions::default() };
    let request =
        StreamRequest { model: model.clone(), transcript: Transcript::new(messages), options };
    let provider: Arc<dyn StreamFn> = match api {
        "anthropic-messages" => Arc::new(AnthropicMessages::new(ProviderOptions::default())),
        _ => Arc::new(OpenAiCompletions::new(ProviderOptions::default())),
    };
    let mut stream = provider.stream(request, &AbortSignal::never()).expect("a stream");
    collect(&model, &mut *stream);
    let requests = server.requests();
    let body: Value = serde_json::from_slice(&requests[0].body).expect("the body is JSON");
    body["messages"].clone()
}

/// One line for each message of a request.
#[track_caller]
fn check(transcript: Value, anthropic: Expect, chat: Expect) {
    for (api, provider, expected) in
        [("anthropic-messages", "anthropic", anthropic), ("openai-completions", "openai", chat)]
    {
        let messages = sent(api, provider, transcript.clone());
        let lines: Vec<String> =
            messages.as_array().unwrap().iter().map(Value::to_string).collect();
        expected.assert_eq(&(lines.join("\n") + "\n"));
    }
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "look", "arguments": {}})
}

fn result(id: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "look", "isError": false,
        "content": [{"type": "text", "text": "seen"}]})
}

fn asks(content: Value) -> Value {
    json!({"role": "assistant", "stopReason": "toolUse", "content": content})
}

fn says(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Aborts at the first event that `when` is true for, then prompts again; what the transcript holds.
#[track_caller]
fn check_abort(when: fn(&AgentEvent) -> bool, is_patient: bool, expected: Expect) {
    let began = Latch::default();
    let waits = began.clone();
    let quick = move || {
        waits.wait();
        "quick".to_owned()
    };
    let slow = if is_patient {
        patient("slow", &began)
    } else {
        began.open();
        tool("slow", quick.clone())
    };
    let stage = Stage::new(
        [calls(&["fast", "slow"]), Answer::from("here")],
        vec![tool("fast", quick), slow],
    );
    let aborter = stage.on(move |event, agent| {
        if when(event) {
            agent.abort();
        }
    });
    stage.run("go");
    drop(aborter);
    stage.run("again");
    expected.assert_eq(&stage.transcript());
}

/// F1, H19: an interrupt between calls and results.
#[test]
fn a_run_that_is_aborted_among_its_calls_leaves_each_with_one_result_and_goes_on() {
    check_abort(
        |event| matches!(event, AgentEvent::MessageEnd { message } if message.as_assistant().is_some()),
        true,
        expect![[r#"
            user "go"
            assistant "" calls fast, slow
            error of fast: this call was not run: the run was aborted
            error of slow: this call was not run: the run was aborted
            assistant "" (Aborted)
            user "again"
            assistant "here"
        "#]],
    );
    check_abort(
        |event| matches!(event, AgentEvent::ToolExecutionEnd { call, .. } if call.id == "fast"),
        true,
        expect![[r#"
            user "go"
            assistant "" calls fast, slow
            result of fast: quick
            error of slow: interrupted
            assistant "" (Aborted)
            user "again"
            assistant "here"
        "#]],
    );
    check_abort(
        |event| matches!(event, AgentEvent::TurnEnd { .. }),
        false,
        expect![[r#"
            user "go"
            assistant "" calls fast, slow
            result of fast: quick
            result of slow: quick
            assistant "" (Aborted)
            user "again"
            assistant "here"
        "#]],
    );
}

/// F1: a transcript that was saved in the middle of a turn.
#[test]
fn a_request_gives_each_call_of_a_cut_history_its_one_result() {
    check(
        json!([says("go"), asks(json!([call("a"), call("b")])), result("a"), says("again")]),
        expect![[r#"
            {"role":"user","content":"go"}
            {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{}},{"type":"tool_use","id":"b","name":"look","input":{}}]}
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"seen","is_error":false},{"type":"tool_result","tool_use_id":"b","content":"No result was recorded for this call. It may have run or not.","is_error":true}]}
            {"role":"user","content":[{"type":"text","text":"again","cache_control":{"type":"ephemeral"}}]}
        "#]],
        expect![[r#"
            {"role":"user","content":"go"}
            {"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"look","arguments":"{}"}}]}
            {"role":"tool","content":"seen","tool_call_id":"a"}
            {"role":"tool","content":"No result was recorded for this call. It may have run or not.","tool_call_id":"b"}
            {"role":"user","content":"again"}
        "#]],
    );
}

/// F5, F8: calls of a response that failed, and the response itself.
#[test]
fn a_failed_response_is_not_sent_and_neither_are_results_of_its_calls() {
    let failed = json!({"role": "assistant", "stopReason": "error", "errorMessage": "429 slow down",
        "content": [call("a")]});
    let empty = json!({"role": "assistant", "stopReason": "error", "errorMessage": "500 oops", "content": []});
    check(
        json!([says("go"), failed, result("a"), empty, says("again")]),
        expect![[r#"
            {"role":"user","content":"go"}
            {"role":"user","content":[{"type":"text","text":"again","cache_control":{"type":"ephemeral"}}]}
        "#]],
        expect![[r#"
            {"role":"user","content":"go"}
            {"role":"user","content":"again"}
        "#]],
    );
}

/// F7: thinking that another model did comes back as text, which models imitate.
#[test]
fn thinking_of_another_model_is_not_sent_as_text() {
    let mut other = asks(
        json!([{"type": "thinking", "thinking": "Hmm.", "thinkingSignature": "S"}, {"type": "text", "text": "Four."}]),
    );
    other["model"] = "elsewhere".into();
    other["stopReason"] = "stop".into();
    check(
        json!([says("2+2?"), other, says("and 3+3?")]),
        expect![[r#"
        {"role":"user","content":"2+2?"}
        {"role":"assistant","content":[{"type":"text","text":"Four."}]}
        {"role":"user","content":[{"type":"text","text":"and 3+3?","cache_control":{"type":"ephemeral"}}]}
    "#]],
        expect![[r#"
        {"role":"user","content":"2+2?"}
        {"role":"assistant","content":"Four."}
        {"role":"user","content":"and 3+3?"}
    "#]],
    );
}

/// F4: reasoning has to come back with the calls that it led to, or must not.
#[test]
fn reasoning_comes_back_in_the_field_it_came_in_for_the_model_that_it_came_from() {
    let history = |provider: &str| {
        let thinking =
            json!({"type": "thinking", "thinking": "r", "thinkingSignature": "reasoning_content"});
        let mut answer = asks(json!([thinking, call("c1")]));
        answer["api"] = "openai-completions".into();
        answer["provider"] = provider.into();
        answer["model"] = "m".into();
        json!([says("go"), answer, result("c1")])
    };
    let reasoning = |asked: &str, answered: &str| {
        sent("openai-completions", asked, history(answered))[1].get("reasoning_content").cloned()
    };
    assert_eq!(reasoning("deepseek", "deepseek"), Some("r".into()));
    assert_eq!(reasoning("moonshotai", "moonshotai"), Some("r".into()));
    assert_eq!(reasoning("openai", "deepseek"), None, "another model's");
}

/// F8: a failed response, then a prompt.
#[test]
fn an_agent_goes_on_after_a_failed_response() {
    let failing = || Answer::new().fails(ErrorKind::RateLimited, "slow down");
    let stage = Stage::new([failing(), failing(), Answer::from("here")], vec![]);
    stage.run("one");
    stage.run("two");
    assert_eq!(stage.agent.error_message().as_deref(), Some("slow down"));
    assert_eq!(stage.run("three").text, "here");
    assert_eq!(stage.agent.error_message(), None);
}

/// F9: two runs at once would mix their histories.
#[test]
fn a_second_prompt_is_refused_while_a_run_is_active() {
    let began = Latch::default();
    let stage = Stage::new([calls(&["wait"]), Answer::from("done")], vec![patient("wait", &began)]);
    let run = stage.agent.prompt("one").unwrap();
    began.wait();
    let error = stage.agent.prompt("two").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(
        error.to_string(),
        "a run is active: wait for it, steer it, queue a follow-up or abort it"
    );
    assert_eq!(stage.agent.resume().unwrap_err().kind(), ErrorKind::Busy);
    run.abort();
    finished(&run);
    assert!(!stage.transcript().contains("two"), "{}", stage.transcript());
}
