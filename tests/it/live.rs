//! Turns with real models: a text, a tool, an image. They cost a little money, so they run only when they are asked for:
//!
//! ```text
//! STEERAGE_LIVE=1 ANTHROPIC_API_KEY=… OPENAI_API_KEY=… LLAMA_SERVER=http://… OLLAMA_HOST=… cargo test --test it live
//! ```
//!
//! What has no key or address is skipped, and says so.
#![cfg(feature = "providers")]

use std::{
    env,
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use flate2::{Compression, Crc, write::ZlibEncoder};
use schemars::JsonSchema;
use serde::Deserialize;
use steerage::{
    AbortSignal, Agent, AgentOptions, Model, Models, Tool, message::ImageContent, models::Provider,
};

/// How long a turn may take; a model of one's own may have to be loaded first.
const LIMIT: Duration = Duration::from_mins(5);

/// Says what is skipped, past the capture of the test runner.
fn skip(what: &str, why: &str) {
    let _ = writeln!(io::stderr(), "live: {what} skipped: {why}");
}

/// The value of a variable, if live tests are asked for and it is set.
fn wanted(what: &str, variable: &str) -> Option<String> {
    if env::var("STEERAGE_LIVE").as_deref() != Ok("1") {
        skip(what, "STEERAGE_LIVE is not 1");
        return None;
    }
    let value = env::var(variable).ok().filter(|value| !value.trim().is_empty());
    if value.is_none() {
        skip(what, &format!("{variable} is not set"));
    }
    value
}

fn agent(models: &Models, model: &Arc<Model>, tools: Vec<Tool>) -> Agent {
    let options = AgentOptions {
        stream: Some(models.clone().into()),
        system_prompt: "Answer in as few words as you can.".to_owned(),
        tools,
        deadline: Some(LIMIT),
        max_requests: Some(4),
        ..AgentOptions::default()
    };
    Agent::new(model.clone(), options).unwrap()
}

#[derive(Deserialize, JsonSchema)]
struct Lookup {
    /// The name of the ship.
    ship: String,
}

/// A text turn, a tool turn and, if the model takes images, an image turn.
#[track_caller]
fn check(models: &Models, model: &Arc<Model>) {
    let name = format!("{} {} by {}", model.provider, model.id, model.api);
    let text = agent(models, model, Vec::new())
        .prompt("Say the word harbour and nothing else.")
        .and_then(|run| run.wait())
        .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    assert!(text.text.to_lowercase().contains("harbour"), "{name}: {}", text.text);
    assert!(text.usage.input + text.usage.cache_read + text.usage.cache_write > 0, "{name}");

    let lookup = Tool::new("look_up_captain", "Tells who commands a ship", |args: Lookup, _| {
        Ok(if args.ship.contains("Meridian") { "Captain Oduya" } else { "nobody knows" }.to_owned())
    });
    let called = agent(models, model, vec![lookup])
        .prompt("Who commands the ship Meridian? Look it up.")
        .and_then(|run| run.wait())
        .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    assert!(called.text.contains("Oduya"), "{name}: {}", called.text);
    assert!(called.messages.iter().any(|it| it.as_tool_result().is_some()), "{name}");

    if !model.takes_images() {
        skip(&name, "the model takes no images");
        return;
    }
    let image = ImageContent::from_bytes(red_square()).unwrap();
    let seen = agent(models, model, Vec::new())
        .prompt(("Which colour is this square?", vec![image]))
        .and_then(|run| run.wait())
        .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    assert!(seen.text.to_lowercase().contains("red"), "{name}: {}", seen.text);
}

/// A PNG of 64 by 64 red pixels.
fn red_square() -> Vec<u8> {
    let line = [vec![0], [220, 20, 20].repeat(64)].concat();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&line.repeat(64)).unwrap();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let header = [&64_u32.to_be_bytes()[..], &64_u32.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    for (kind, data) in
        [(b"IHDR", header), (b"IDAT", encoder.finish().unwrap()), (b"IEND", Vec::new())]
    {
        png.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        let chunk = [&kind[..], &data].concat();
        let mut sum = Crc::new();
        sum.update(&chunk);
        png.extend(&chunk);
        png.extend(sum.sum().to_be_bytes());
    }
    png
}

/// The models that the server has loaded or could load; the first that chats is asked.
#[track_caller]
fn check_server(provider: Provider) {
    let models = Models::from_env();
    let id = provider.id.clone();
    models.add(provider);
    let listed = models.refresh(&id, &AbortSignal::never()).unwrap();
    match listed.first() {
        Some(model) => check(&models, model),
        None => skip(&id, "the server has no model"),
    }
}

#[test]
fn anthropic_answers() {
    if wanted("anthropic", "ANTHROPIC_API_KEY").is_some() {
        let models = Models::from_env();
        check(&models, &models.get("anthropic", "claude-haiku-4-5").unwrap());
    }
}

#[test]
fn openai_answers() {
    if wanted("openai", "OPENAI_API_KEY").is_some() {
        let models = Models::from_env();
        let model = models.get("openai", "gpt-5-mini").unwrap();
        if models.apis().contains(&model.api) {
            check(&models, &model);
        } else {
            skip("openai", &format!("there is no wire API {}", model.api));
        }
    }
}

#[test]
fn openai_answers_by_chat_completions() {
    if wanted("openai by chat completions", "OPENAI_API_KEY").is_some() {
        let models = Models::from_env();
        let mut model = (*models.get("openai", "gpt-5-mini").unwrap()).clone();
        model.api = "openai-completions".to_owned();
        model.compat.clear();
        check(&models, &Arc::new(model));
    }
}

#[test]
fn a_server_of_llama_cpp_answers() {
    if let Some(url) = wanted("llama.cpp", "LLAMA_SERVER") {
        check_server(Provider::llama_cpp(&url));
    }
}

#[test]
fn a_server_of_ollama_answers() {
    if let Some(host) = wanted("ollama", "OLLAMA_HOST") {
        check_server(Provider::ollama(&host));
    }
}

#[test]
fn the_picture_of_these_tests_is_one() {
    let image = ImageContent::from_bytes(red_square()).unwrap();
    assert_eq!((image.mime_type.as_str(), image.size()), ("image/png", Some((64, 64))));
}
