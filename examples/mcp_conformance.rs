//! The client that the official conformance suite for MCP drives.
//!
//! `npx @modelcontextprotocol/conformance client --suite all --command target/debug/examples/mcp_conformance` starts it
//! once for each scenario, with the address of a server as its last argument and the scenario in the environment. It
//! connects, signs in without a browser if it must, lists the tools and calls them all.

use std::{env, error::Error, process::ExitCode, sync::Arc};

use serde_json::{Map, Value, json};
use steerage::{
    AbortSignal, ErrorKind,
    auth::MemoryStore,
    mcp::{
        CallOptions, Client, ClientOptions, ElicitationAnswer, Http, HttpServerOptions, OAuth,
        OAuthOptions, oauth::Browser,
    },
    provider::HttpOptions,
    testing::http::{HttpClient, HttpRequest},
};

fn main() -> ExitCode {
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let Some(url) = env::args().next_back() else { return ExitCode::FAILURE };
    match run(&url, &scenario) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{scenario}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(url: &str, scenario: &str) -> Result<(), Box<dyn Error>> {
    let signal = AbortSignal::never();
    let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let text = |name: &str| context.get(name).and_then(Value::as_str);
    let oauth = OAuth::new(OAuthOptions {
        browser: Some(Arc::new(Headless)),
        client_id: text("client_id").map(str::to_owned),
        client_secret: text("client_secret").map(Into::into),
        client_metadata_url: Some("https://conformance-test.local/client-metadata.json".to_owned()),
        ..OAuthOptions::new(url, MemoryStore::default())
    });
    let server =
        HttpServerOptions { authorization: Some(Arc::new(oauth)), ..HttpServerOptions::new(url) };
    let options = ClientOptions {
        elicitation: Some(Arc::new(|question, _| {
            Ok(ElicitationAnswer::Accept(question.defaults()))
        })),
        ..ClientOptions::default()
    };
    let client = Client::connect(Http::new(server), options, &signal)?;
    for tool in client.list_tools(&signal)?.tools {
        let arguments = match tool.name.as_str() {
            "add_numbers" => Map::from_iter([("a".into(), json!(5)), ("b".into(), json!(3))]),
            _ => Map::new(),
        };
        let result = client.call_tool(&tool.name, &arguments, &CallOptions::default(), &signal);
        match result {
            // What the scenario is about is done then.
            Err(error) if scenario.contains("scope-retry") && error.kind() == ErrorKind::Auth => (),
            result => drop(result?),
        }
    }
    client.close();
    Ok(())
}

/// Signs in by itself: the page leads to the answer at once.
struct Headless;

impl Browser for Headless {
    fn redirect_url(&self) -> steerage::Result<String> {
        Ok("http://localhost/callback".to_owned())
    }

    fn visit(&self, page: &str, signal: &AbortSignal) -> steerage::Result<String> {
        let http = HttpClient::new(HttpOptions { max_redirects: 0, ..HttpOptions::default() })?;
        let response = http.send(&HttpRequest::get(page), signal)?;
        let location = response.header("location").map(str::to_owned);
        location.ok_or_else(|| steerage::Error::new(ErrorKind::Protocol, "the page leads nowhere"))
    }
}
