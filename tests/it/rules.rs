//! One conversation moves through all wire APIs: what each is sent keeps to its rules, whoever said what before.

use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use steerage::{
    AbortSignal, Message, Model, StreamRequest,
    provider::ProviderOptions,
    stream::collect,
    testing::server::{Response, Server},
};

use crate::apis;

mod checker;

use checker::broken;

/// The model of an API; it thinks and sees.
fn model(api: &str, url: &str) -> Arc<Model> {
    let provider = match api {
        "openai-completions" | "openai-responses" => "openai",
        "anthropic-messages" => "anthropic",
        "google-generative-ai" => "google",
        "mistral-conversations" => "mistral",
        "azure-openai-responses" => "azure",
        other => other,
    };
    let model = json!({"id": format!("model-of-{api}"), "api": api, "provider": provider,
        "baseUrl": url, "reasoning": true, "input": ["text", "image"], "contextWindow": 1_000_000,
        "maxTokens": 8192});
    serde_json::from_value(model).unwrap()
}

/// What only this model understands, with its name in it.
fn signature(api: &str, round: usize) -> String {
    let mark = BASE64_STANDARD.encode(format!("signed by {api:<30}"));
    if api.ends_with("-responses") {
        let item = json!({"type": "reasoning", "id": format!("rs_{round}_{api}"), "summary": [],
            "encrypted_content": mark});
        return item.to_string();
    }
    mark
}

/// Ids of calls as the APIs make them, and worse.
fn id(api: &str, index: usize) -> String {
    match api {
        "anthropic-messages" => format!("toolu_01A{index}bcdefghijklmnopqrstuv"),
        "openai-responses" => {
            format!("call_{index}{}|fc_{index}{}", "x".repeat(20), "y".repeat(40))
        }
        "azure-openai-responses" => format!("call_a{index}|fc_a{index}"),
        "google-generative-ai" => format!("function-call-{index}.{}", "7".repeat(60)),
        "google-vertex" => format!("look {index} ä"),
        "mistral-conversations" => format!("aB3dE6g{index:02}"),
        "pi-messages" => format!("tool:{index}/{}", "z".repeat(80)),
        _ => format!("call_{index}"),
    }
}

/// A turn of a model: it thinks, calls two tools, sees one fail and the other show an image, and answers.
fn turn(api: &str, round: usize) -> Vec<Value> {
    let Model { id: name, provider, .. } = &*model(api, "");
    let signature = signature(api, round);
    let says = |content: Value, reason: &str| {
        json!({"role": "assistant", "api": api, "provider": provider, "model": name,
            "content": content, "stopReason": reason, "timestamp": 1,
            "usage": {"input": 1, "output": 1, "totalTokens": 2}})
    };
    let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
    let result = |index: usize, is_error: bool, content: Value| {
        json!({"role": "toolResult", "toolCallId": id(api, index + 2 * round), "toolName": "look",
            "isError": is_error, "content": content})
    };
    let call = |index: usize| {
        json!({"type": "toolCall", "id": id(api, index + 2 * round), "name": "look", "arguments": {"x": index},
            "thoughtSignature": signature})
    };
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "thinkingSignature": signature});
    vec![
        json!({"role": "user", "content": [{"type": "text", "text": "Look"}, image]}),
        says(json!([thinking, {"type": "text", "text": "I look."}, call(0), call(1)]), "toolUse"),
        result(0, true, json!([{"type": "text", "text": "it is dark"}])),
        result(1, false, json!([{"type": "text", "text": "this"}, image])),
        says(json!([{"type": "text", "text": "Seen."}]), "stop"),
    ]
}

fn system(text: &str, tools: &[&str]) -> Value {
    let tool = |name: &&str| {
        json!({"name": name, "description": "looks", "parameters":
            {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}})
    };
    json!({"role": "system", "content": text, "toolsAdded": tools.iter().map(tool).collect::<Vec<_>>()})
}

/// All APIs in turn and back, with a word of the host and another tool on the way.
fn conversation() -> Vec<Value> {
    let mut messages = vec![system("Be brief.", &["look"])];
    for (index, api) in apis::ALL.iter().chain(apis::ALL.iter().rev()).enumerate() {
        // On the way back the ids are others, as they are of real models.
        let mut turn = turn(api, index / apis::ALL.len());
        messages.append(&mut turn);
        if index == 2 {
            messages.push(system("Be brief, please.", &["touch"]));
        }
    }
    messages
}

/// The body that an API is sent for a transcript.
fn sent(server: &Server, api: &str, messages: &[Value]) -> Value {
    let model = model(api, &server.url());
    let messages: Vec<Message> =
        messages.iter().map(|it| serde_json::from_value(it.clone()).unwrap()).collect();
    let mut request = StreamRequest::new(model.clone(), messages);
    request.options.max_retries = Some(0);
    request.options.reasoning = Some(steerage::ThinkingLevel::Low);
    let options = ProviderOptions { api_key: Some("k".into()), ..ProviderOptions::default() };
    let before = server.requests().len();
    let stream = apis::stream_fn(api, options);
    let message = collect(&model, &mut *stream.stream(request, &AbortSignal::never()).unwrap());
    let requests = server.requests();
    assert_eq!(requests.len(), before + 1, "{api}: {message:?}");
    serde_json::from_slice(&requests[before].body).unwrap()
}

/// The models beside `api` whose signatures are in the body. A server of pi passes them on.
fn foreign_signatures(api: &str, body: &Value) -> Vec<&'static str> {
    let text = body.to_string();
    let others = apis::ALL.into_iter().filter(|it| *it != api && api != "pi-messages");
    others
        .filter(|it| {
            let mark = BASE64_STANDARD.encode(format!("signed by {it:<30}"));
            text.contains(&mark)
        })
        .collect()
}

#[test]
fn a_conversation_keeps_to_the_rules_of_every_api_it_moves_through() {
    let server = Server::answering(|_| Response::json(400, "{}")).unwrap();
    let messages = conversation();
    for api in apis::ALL {
        let mut has_own = false;
        // Each point at which the model may be asked: after a word of the user, and after the last result.
        let roles =
            |index: usize| messages.get(index).map_or("", |it| it["role"].as_str().unwrap());
        for end in (1..=messages.len()).filter(|end| {
            let last = roles(end - 1);
            last == "user" || last == "toolResult" && roles(*end) != "toolResult"
        }) {
            let body = sent(&server, api, &messages[..end]);
            assert_eq!(broken(api, &body), [""; 0], "{api} after {end} messages: {body}");
            assert_eq!(foreign_signatures(api, &body), [""; 0], "{api} after {end}");
            let own = BASE64_STANDARD.encode(format!("signed by {api:<30}"));
            has_own |= body.to_string().contains(&own);
        }
        let keeps = !matches!(api, "openai-completions" | "mistral-conversations");
        assert_eq!(has_own, keeps, "{api}: its own signatures go back to it");
    }
}

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

/// A transcript as badly run programs leave it: results without calls and calls without results, failed and empty
/// responses, odd ids, messages in any order.
fn random_transcript(dice: &mut Dice) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": "Begin"})];
    let mut calls: Vec<String> = Vec::new();
    for _ in 0..4 + dice.below(10) {
        let api = apis::ALL[dice.below(apis::ALL.len())];
        match dice.below(8) {
            0 => {
                let text = ["Go", "", "é\u{1f648}"][dice.below(3)];
                messages.push(json!({"role": "user", "content": text}));
            }
            1 => messages.push(system("More.", [&["touch"][..], &[]][dice.below(2)])),
            2..=4 => {
                let (round, start) = (messages.len(), dice.below(3));
                let mut said = turn(api, round)[1].clone();
                said["stopReason"] =
                    ["toolUse", "stop", "error", "aborted", "length"][dice.below(5)].into();
                let content = said["content"].as_array_mut().unwrap();
                content.drain(..start);
                if dice.below(4) == 0 {
                    content.retain(|block| block["type"] != "text");
                }
                let asks = content.iter().filter(|block| block["type"] == "toolCall");
                calls.extend(asks.map(|call| call["id"].as_str().unwrap().to_owned()));
                messages.push(said);
            }
            _ => {
                let id = match calls.len() {
                    0 => "nobody".to_owned(),
                    count => calls[count - 1 - dice.below(count.min(3))].clone(),
                };
                let mut result = turn(api, 0)[2 + dice.below(2)].clone();
                result["toolCallId"] = id.into();
                messages.push(result);
            }
        }
    }
    messages.push(json!({"role": "user", "content": "Go on"}));
    messages
}

#[test]
fn transcripts_of_any_kind_are_sent_by_the_rules() {
    let mut dice = Dice(1);
    for index in 0..200 {
        let server = Server::answering(|_| Response::json(400, "{}")).unwrap();
        let messages = random_transcript(&mut dice);
        for api in apis::ALL {
            let body = sent(&server, api, &messages);
            let transcript = Value::Array(messages.clone());
            assert_eq!(broken(api, &body), [""; 0], "{api}, {index}: {transcript} gave {body}");
            assert_eq!(foreign_signatures(api, &body), [""; 0], "{api}, {index}: {transcript}");
        }
    }
}

/// For each rule, as an API has it, there is a body that breaks it.
#[test]
fn each_rule_can_be_broken() {
    let table = include_str!("../data/rules.json");
    let table: Vec<(String, String, Value)> = serde_json::from_str(table).unwrap();
    assert!(table.len() > 40);
    for (api, rule, body) in table {
        let broken = broken(&api, &body);
        assert!(broken.contains(&rule), "{api}, {rule}: {broken:?} of {body}");
    }
}
