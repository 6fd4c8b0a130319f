//! What a provider keeps from one request of a conversation to the next never shows in a body.

use std::sync::Arc;

use serde_json::{Value, json};
use steerage::{
    AbortSignal, Message, Model, StreamOptions, StreamRequest, Transcript,
    provider::ProviderOptions,
    stream::{RequestHooks, RequestMemo},
    testing::server::{Response, Server},
};

use crate::apis;

/// A small generator, so that a failing conversation can be made again from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let most = u64::try_from(from.len()).expect("a short list");
        &from[usize::try_from(self.below(most)).expect("a small number")]
    }
}

fn text_block(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn result(id: &str, dice: &mut Dice) -> Value {
    let said = *dice.pick(&["", "fine", "two\nlines"]);
    let mut content = text_block(said);
    if dice.below(4) == 0 {
        let image = json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"});
        content.as_array_mut().expect("a list").push(image);
    }
    json!({"role": "toolResult", "toolCallId": id, "toolName": "echo", "content": content,
        "isError": dice.below(5) == 0})
}

/// A system message in the middle: a text, and at times a change of the tools.
fn note(number: u64, dice: &mut Dice) -> Value {
    let mut note = json!({"role": "system", "content": format!("note {number}")});
    if dice.below(3) == 0 {
        let name = format!("tool{}", dice.below(3));
        note["toolsAdded"] = json!([{"name": name, "parameters": {"type": "object"}}]);
    }
    if dice.below(3) == 0 {
        note["toolsRemoved"] = json!([{"name": format!("tool{}", dice.below(3))}]);
    }
    note
}

/// A response with everything that responses may be: failed, foreign, thinking, with calls that get a result or none.
fn response(number: u64, dice: &mut Dice) -> Vec<Value> {
    let mut content = Vec::new();
    if dice.below(3) == 0 {
        let signature =
            *dice.pick(&["reasoning_content", r#"{"type":"reasoning","id":"rs_1","summary":[]}"#]);
        content.push(json!({"type": "thinking", "thinking": "hm", "thinkingSignature": signature}));
    }
    if dice.below(2) == 0 {
        let said = *dice.pick(&["", "So", "  "]);
        content.push(json!({"type": "text", "text": said}));
    }
    // Some vendors count their calls anew in each response.
    let ids: Vec<String> = (0..dice.below(3))
        .map(|it| if dice.below(2) == 0 { format!("c|{it}") } else { format!("c{number}_{it}") })
        .collect();
    for id in &ids {
        content.push(
            json!({"type": "toolCall", "id": id, "name": "echo", "arguments": {"x": number}}),
        );
    }
    let is_own = dice.below(3) > 0;
    let stop_reason = *dice.pick(&["stop", "toolUse", "toolUse", "error"]);
    let mut messages = vec![json!({
        "role": "assistant", "content": content, "api": "the-api", "provider": "p",
        "model": if is_own { "m" } else { "other" },
        "stopReason": stop_reason, "errorMessage": "x"
    })];
    for id in &ids {
        if dice.below(6) == 0 {
            messages.push(note(number, dice));
        }
        if dice.below(5) > 0 {
            messages.push(result(id, dice));
        }
    }
    messages
}

fn conversation(seed: u64) -> Vec<Vec<Value>> {
    let dice = &mut Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut steps = vec![Vec::new()];
    if dice.below(4) > 0 {
        let prompt = *dice.pick(&["", "Be kind."]);
        steps[0].push(json!({"role": "system", "content": prompt}));
    }
    steps[0].push(json!({"role": "user", "content": "Hi"}));
    for number in 0..6 {
        let mut step = response(number, dice);
        if dice.below(2) == 0 {
            step.push(json!({"role": "user", "content": text_block("More")}));
        }
        steps.push(step);
    }
    steps
}

fn check(api: &str, compat: &Value) {
    let provider = apis::stream_fn(api, ProviderOptions::default());
    for seed in 1..=60 {
        let server = Server::answering(|_| Response::json(400, "{}")).expect("a server");
        let model: Model = serde_json::from_value(json!({
            "id": "m", "api": api, "provider": "p", "baseUrl": server.url(), "reasoning": true,
            "input": ["text", "image"], "contextWindow": 100_000, "maxTokens": 1000, "compat": compat
        }))
        .expect("a model");
        let (model, memo) = (Arc::new(model), RequestMemo::default());
        let mut messages: Vec<Arc<Message>> = Vec::new();
        let mut steps = conversation(seed);
        let turns = steps.len();
        // After the last turn, responses are taken back one by one.
        steps.extend([Vec::new(), Vec::new()]);
        for (turn, step) in steps.into_iter().enumerate() {
            if turn >= turns {
                let last = messages.iter().rposition(|message| message.as_assistant().is_some());
                messages.truncate(last.unwrap_or_default().max(1));
            }
            messages.extend(step.into_iter().map(|mut message| {
                if message["api"] == "the-api" {
                    message["api"] = json!(api);
                }
                Arc::new(serde_json::from_value(message).expect("a message"))
            }));
            let ask = |memo: RequestMemo, hooks: RequestHooks| {
                let transcript = Transcript::new(messages.clone()).with_memo(memo);
                let options =
                    StreamOptions { hooks, max_retries: Some(0), ..StreamOptions::default() };
                let request = StreamRequest { model: model.clone(), transcript, options };
                provider.stream(request, &AbortSignal::never()).expect("a stream").count();
            };
            ask(memo.clone(), RequestHooks::default());
            ask(RequestMemo::default(), RequestHooks::default());
            let looks = RequestHooks {
                on_payload: Some(Arc::new(|_, _| Ok(None))),
                ..RequestHooks::default()
            };
            ask(RequestMemo::default(), looks);
        }
        let bodies: Vec<String> = server
            .requests()
            .into_iter()
            .map(|it| String::from_utf8(it.body).expect("text"))
            .collect();
        assert_eq!(bodies.len(), 27, "each step asks three times");
        for (turn, bodies) in bodies.chunks(3).enumerate() {
            assert_eq!(
                bodies[0], bodies[1],
                "conversation {seed}, turn {turn}: with and without a memo"
            );
            assert_eq!(
                bodies[1], bodies[2],
                "conversation {seed}, turn {turn}: with a hook that looks"
            );
        }
    }
}

#[test]
fn bodies_are_the_same_with_and_without_a_memo() {
    for api in apis::with_proxy() {
        check(api, &json!({}));
    }
}

#[test]
fn bodies_with_system_messages_in_place_are_the_same_with_and_without_a_memo() {
    let compat = json!({"supportsMidConvoSystemMessages": true, "supportsAdditionalTools": true});
    for api in apis::with_proxy() {
        check(api, &compat);
    }
    check(
        "openai-completions",
        &json!({
            "cacheControlFormat": "anthropic", "supportsMidConvoSystemMessages": true,
            "requiresAssistantAfterToolResult": true, "requiresToolResultName": true,
        }),
    );
    check(
        "openai-responses",
        &json!({"supportsMidConvoSystemMessages": true, "supportsToolSearch": true}),
    );
}
