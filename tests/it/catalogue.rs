//! The catalogue: what is in it, and how it is made.
//!
//! The data of the crate is made of a JSON object, provider to list of models:
//!
//! ```text
//! STEERAGE_CATALOGUE=models.json STEERAGE_CATALOGUE_WRITE=1 cargo test --test it catalogue
//! ```
//!
//! and the facts below with `UPDATE_EXPECT=1`. Without the second variable the data is compared with the JSON.
#![cfg(feature = "providers")]

use std::{collections::BTreeMap, env, fmt::Write as _, fs, io::Write as _, path::Path};

use expect_test::{Expect, expect, expect_file};
use flate2::{Compression, write::DeflateEncoder};
use serde_json::{Map, Value};
use steerage::{Model, catalogue};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/catalogue/models.bin");

/// The largest size of the data in the repository.
const LARGEST: u64 = 60_000;

fn pack(catalogue: &Map<String, Value>) -> Vec<u8> {
    let mut index = String::new();
    let mut members = Vec::new();
    for (provider, models) in catalogue {
        let models = models.as_array().unwrap();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        let lines: Vec<_> = models.iter().map(Value::to_string).collect();
        encoder.write_all(lines.join("\n").as_bytes()).unwrap();
        let packed = encoder.finish().unwrap();
        writeln!(index, "{provider} {} {}", models.len(), packed.len()).unwrap();
        members.extend(packed);
    }
    [index.as_bytes(), b"\n", &members].concat()
}

/// The JSON that the environment names, for whoever has it.
fn source() -> Option<Map<String, Value>> {
    let path = env::var_os("STEERAGE_CATALOGUE")?;
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_data_is_what_the_json_says() {
    let Some(source) = source() else { return };
    if env::var_os("STEERAGE_CATALOGUE_WRITE").is_some() {
        fs::write(DATA, pack(&source)).unwrap();
        return;
    }
    let providers: Vec<_> = catalogue::providers().map(|(provider, _)| provider).collect();
    assert!(source.keys().map(String::as_str).eq(providers.iter().copied()), "{providers:?}");
    for (provider, models) in &source {
        // As text, since the order of the keys counts.
        let lines: Vec<_> = models.as_array().unwrap().iter().map(Value::to_string).collect();
        assert_eq!(catalogue::json_lines(provider).unwrap(), lines.join("\n"), "{provider}");
    }
}

#[test]
fn the_data_is_small() {
    assert!(fs::metadata(Path::new(DATA)).unwrap().len() < LARGEST);
}

#[test]
fn a_model_has_every_field_of_its_json() {
    for (provider, count) in catalogue::providers() {
        let text = catalogue::json_lines(provider).unwrap();
        let models = catalogue::models(provider);
        assert_eq!((models.len(), text.lines().count()), (count, count), "{provider}");
        for (model, line) in models.iter().zip(text.lines()) {
            assert_eq!(model.provider, provider);
            assert!(model.extra.is_empty(), "{provider} {}: {:?}", model.id, model.extra);
            let mut written = serde_json::to_value(model).unwrap();
            written.as_object_mut().unwrap().shift_remove("provider");
            let mut stored: Value = serde_json::from_str(line).unwrap();
            unify_numbers(&mut written);
            unify_numbers(&mut stored);
            assert_eq!(written, stored, "{provider} {}", model.id);
        }
    }
}

/// Prices are numbers with a fraction in the program, whatever the JSON writes.
fn unify_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *value = number.as_f64().into(),
        Value::Array(items) => items.iter_mut().for_each(unify_numbers),
        Value::Object(fields) => fields.values_mut().for_each(unify_numbers),
        _ => (),
    }
}

#[test]
fn every_provider_has_its_models() {
    let mut facts = String::new();
    for (provider, count) in catalogue::providers() {
        let mut apis = BTreeMap::<String, usize>::new();
        for model in catalogue::models(provider) {
            *apis.entry(model.api).or_default() += 1;
        }
        let apis: Vec<_> = apis.iter().map(|(api, count)| format!("{api} {count}")).collect();
        writeln!(facts, "{provider} {count}: {}", apis.join(", ")).unwrap();
    }
    let total: usize = catalogue::providers().map(|(_, count)| count).sum();
    writeln!(facts, "all {total}").unwrap();
    expect_file!["../data/catalogue/counts.txt"].assert_eq(&facts);
}

#[track_caller]
fn check(provider: &str, id: &str, expected: Expect) {
    let models = catalogue::models(provider);
    let model: &Model = models.iter().find(|model| model.id == id).unwrap();
    expected.assert_eq(&serde_json::to_string(model).unwrap());
}

#[test]
fn some_models_are_known_in_full() {
    check(
        "anthropic",
        "claude-sonnet-4-6",
        expect![[
            r#"{"id":"claude-sonnet-4-6","name":"Claude Sonnet 4.6","api":"anthropic-messages","provider":"anthropic","baseUrl":"https://api.anthropic.com","reasoning":true,"thinkingLevelMap":{"max":"max"},"input":["text","image"],"cost":{"input":3.0,"output":15.0,"cacheRead":0.3,"cacheWrite":3.75},"contextWindow":1000000,"maxTokens":128000,"promptCache":{"short":300,"long":3600},"inputLimits":{"maxRequestBytes":33554432,"images":{"maxPerRequest":600,"resize":{"maxWidth":2000,"maxHeight":2000,"maxBytes":4718592,"jpegQuality":80}}},"compat":{"forceAdaptiveThinking":true,"supportsStrictTools":true}}"#
        ]],
    );
    check(
        "openai",
        "gpt-5",
        expect![[
            r#"{"id":"gpt-5","name":"GPT-5","api":"openai-responses","provider":"openai","baseUrl":"https://api.openai.com/v1","reasoning":true,"thinkingLevelMap":{"off":null,"minimal":"minimal","low":"low","medium":"medium","high":"high","xhigh":null,"max":null},"input":["text","image"],"cost":{"input":1.25,"output":10.0,"cacheRead":0.125,"cacheWrite":0.0},"contextWindow":400000,"maxTokens":128000,"inputLimits":{"maxRequestBytes":536870912,"images":{"maxPerRequest":1500,"resize":{"maxWidth":2000,"maxHeight":2000,"maxBytes":4718592,"jpegQuality":80}}},"compat":{"supportsStrictMode":true,"supportsOpenAIGrammarTools":true}}"#
        ]],
    );
    check(
        "nvidia",
        "nvidia/nemotron-3-ultra-550b-a55b",
        expect![[
            r#"{"id":"nvidia/nemotron-3-ultra-550b-a55b","name":"Nemotron 3 Ultra 550B A55B","api":"openai-completions","provider":"nvidia","baseUrl":"https://integrate.api.nvidia.com/v1","reasoning":true,"input":["text"],"cost":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0},"contextWindow":1000000,"maxTokens":65536,"headers":{"NVCF-POLL-SECONDS":"3600"},"compat":{"supportsStore":false,"supportsReasoningEffort":false,"maxTokensField":"max_tokens","supportsLongCacheRetention":false,"supportsStrictMode":false}}"#
        ]],
    );
    check(
        "google",
        "gemini-2.5-pro",
        expect![[
            r#"{"id":"gemini-2.5-pro","name":"Gemini 2.5 Pro","api":"google-generative-ai","provider":"google","baseUrl":"https://generativelanguage.googleapis.com/v1beta","reasoning":true,"input":["text","image"],"cost":{"input":1.25,"output":10.0,"cacheRead":0.125,"cacheWrite":0.0,"tiers":[{"inputTokensAbove":200000,"input":2.5,"output":15.0,"cacheRead":0.25,"cacheWrite":0.0}]},"contextWindow":1048576,"maxTokens":65536,"inputLimits":{"maxRequestBytes":20971520,"images":{"maxPerRequest":3600,"resize":{"maxWidth":2000,"maxHeight":2000,"maxBytes":4718592,"jpegQuality":80}}}}"#
        ]],
    );
}

#[test]
fn a_provider_that_is_not_known_has_no_models() {
    assert!(catalogue::models("nobody").is_empty());
    assert_eq!(catalogue::json_lines("nobody"), None);
}
