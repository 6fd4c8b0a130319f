//! One model of each provider of the catalogue and each wire API: address, key and body.

use std::{collections::BTreeSet, fmt::Write as _};

use expect_test::expect_file;
use serde_json::Value;
use steerage::{Models, StreamOptions, models::KeySource};

use super::{Internet, ask};

/// The wire APIs that are there, and what every body of theirs has.
const APIS: [(&str, &[&str]); 8] = [
    ("anthropic-messages", &["model", "messages", "max_tokens", "stream"]),
    ("azure-openai-responses", &["model", "input", "stream", "store"]),
    ("google-generative-ai", &["contents", "generationConfig"]),
    ("google-vertex", &["contents", "generationConfig"]),
    ("mistral-conversations", &["model", "messages", "stream"]),
    ("openai-completions", &["model", "messages", "stream"]),
    ("openai-responses", &["model", "input", "stream", "store"]),
    ("pi-messages", &["model", "context", "options"]),
];

const KEY: &str = "key-of-the-test";

/// Sets what the addresses need, and the last of the variables that may hold the key.
fn variables(models: &Models, provider: &str) -> Vec<(String, String)> {
    let KeySource::Environment(names) = models.provider(provider).unwrap().key else {
        panic!("{provider} takes its key from a variable");
    };
    let mut variables = vec![(names.last().unwrap().clone(), KEY.to_owned())];
    for (name, value) in [
        ("CLOUDFLARE_ACCOUNT_ID", "account"),
        ("CLOUDFLARE_GATEWAY_ID", "gateway"),
        ("AZURE_OPENAI_RESOURCE_NAME", "resource"),
    ] {
        variables.push((name.to_owned(), value.to_owned()));
    }
    variables
}

#[test]
fn each_provider_is_asked_at_its_address_with_its_key() {
    let internet = Internet::new();
    let models = internet.models_with(&[]);
    let mut shown = String::new();
    for provider in models.providers() {
        let mut apis = BTreeSet::new();
        for model in models.models(&provider) {
            let Some((api, fields)) = APIS.iter().find(|(api, _)| *api == model.api) else {
                continue;
            };
            if !apis.insert(*api) {
                continue;
            }
            let env = variables(&models, &provider);
            let variable = env[0].0.clone();
            let options = StreamOptions { env, ..StreamOptions::default() };
            let answer = ask(&models, model.clone(), options).unwrap();
            assert_eq!(answer.texts().collect::<String>(), "Hi");
            let (url, request) = internet.last();
            let keys: Vec<_> = request
                .headers
                .iter()
                .filter(|(_, value)| value.contains(KEY))
                .map(|(name, value)| {
                    format!("{}: {}", name.to_lowercase(), value.replace(KEY, &variable))
                })
                .collect();
            writeln!(shown, "{provider} {api}\n  {url}\n  {}", keys.join("\n  ")).unwrap();
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            if fields.contains(&"model") {
                let named = (&body["model"], &body["stream"]);
                assert_eq!(named, (&model.id.clone().into(), &true.into()));
            }
            assert!(fields.iter().all(|it| body.get(*it).is_some()), "{body}");
        }
    }
    expect_file!["../../data/catalogue/addresses.txt"].assert_eq(&shown);
}

#[test]
fn an_address_without_its_variables_says_which_one_is_missing() {
    let internet = Internet::new();
    let models = internet.models_with(&[("CLOUDFLARE_API_KEY", KEY)]);
    let model = models.models("cloudflare-workers-ai")[0].clone();
    let error = ask(&models, model, StreamOptions::default()).unwrap_err();
    let expected = "the address of `cloudflare-workers-ai` needs the variable CLOUDFLARE_ACCOUNT_ID: set it, or StreamOptions::env";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_model_of_azure_that_speaks_chat_completions_goes_by_the_name_of_its_deployment() {
    let internet = Internet::new();
    let models = internet.models_with(&[]);
    let model = models.get("azure", "deepseek-v4-pro").unwrap();
    let ask = |variables: &[(&str, &str)]| {
        let env = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let options = StreamOptions { env: env.collect(), ..StreamOptions::default() };
        ask(&models, model.clone(), options)
    };
    let key = ("AZURE_OPENAI_API_KEY", KEY);
    let answer = ask(&[
        key,
        ("AZURE_OPENAI_BASE_URL", "https://me.openai.azure.com/openai"),
        ("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "other=x, deepseek-v4-pro=mine"),
    ])
    .unwrap();
    assert_eq!((&*answer.model, &*answer.provider), ("deepseek-v4-pro", "azure"));
    let (url, request) = internet.last();
    assert_eq!(url, "https://me.openai.azure.com/openai/v1/chat/completions");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["model"], "mine");
    assert_eq!(body["messages"].as_array().map(Vec::len), Some(1), "{body}");
    let error = ask(&[key]).unwrap_err();
    assert!(error.to_string().contains("AZURE_OPENAI_BASE_URL"), "{error}");
}
