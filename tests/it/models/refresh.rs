//! Servers that list their models.

use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{
    AbortController, AbortSignal, ErrorKind, Models,
    models::{Environment, KeySource, Listing, ModelsOptions, Provider},
    provider::HttpClient,
    testing::server::{Request, Response, Server},
};

const LIMIT: Duration = Duration::from_secs(30);

/// A server that answers each path, and a registry that reaches it in place of every host.
fn world(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> (Server, Models) {
    let server = Server::answering(answer).unwrap();
    let to = server.url();
    let client = HttpClient::shared().rewriting(move |url| {
        let (_, rest) = url.split_once("://").unwrap();
        format!("{to}/{}", rest.split_once('/').unwrap().1)
    });
    let environment = Environment::of(
        ["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY"]
            .map(|name| (name, "key-of-the-test")),
    );
    let options = ModelsOptions { client, environment, ..ModelsOptions::default() };
    (server, Models::with_options(options))
}

fn json_at(pages: Vec<(&'static str, Value)>) -> impl Fn(&Request) -> Response {
    move |request| {
        let mut path = request.path.clone();
        if request.method == "POST" {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            path = format!("{path} {}", body["model"].as_str().unwrap());
        }
        match pages.iter().find(|(it, _)| *it == path) {
            Some((_, page)) => Response::json(200, page.to_string()),
            None => Response::json(404, json!({"error": {"message": path}}).to_string()),
        }
    }
}

/// Refreshes a provider and shows what the server was asked and what is known afterwards.
#[track_caller]
fn check(provider: &Provider, pages: Vec<(&'static str, Value)>, expected: Expect) {
    let (server, models) = world(json_at(pages));
    models.add(provider.clone());
    let listed = models.refresh(&provider.id, &AbortSignal::never()).unwrap();
    let mut lines = Vec::new();
    for request in server.requests() {
        let keys = request.headers.iter().filter(|(_, value)| value.contains("key-of-the-test"));
        let keys: Vec<_> = keys.map(|(name, value)| format!(" {name}: {value}")).collect();
        lines.push(format!("{} {}{}", request.method, request.path, keys.concat()));
    }
    for model in listed {
        let images = if model.takes_images() { " images" } else { "" };
        let thinks = if model.reasoning { " thinks" } else { "" };
        lines.push(format!(
            "{} \"{}\" {} {} {}/{}{images}{thinks} ${}/${}",
            model.id,
            model.name,
            model.api,
            model.base_url,
            model.context_window,
            model.max_tokens,
            model.cost.input,
            model.cost.output
        ));
    }
    expected.assert_eq(&lines.join("\n"));
}

fn catalogued(id: &str) -> Provider {
    Models::new().provider(id).unwrap()
}

#[test]
fn a_server_like_openais_gives_ids_and_perhaps_more() {
    let desk = Provider {
        key: KeySource::Value("key-of-the-test".into()),
        ..Provider::new("desk", "http://desk.test/v1")
    };
    let list = json!({"object": "list", "data": [
        {"id": "plain", "object": "model", "created": 1, "owned_by": "me"},
        {"id": "vllm", "max_model_len": 32768},
        {"id": "groq", "context_window": 131_072, "max_completion_tokens": 8192},
        {"id": "mistral", "name": "Mistral", "max_context_length": 1000,
            "capabilities": {"completion_chat": true, "vision": true}},
        {"id": "embed", "capabilities": {"completion_chat": false}},
        {"id": "pictures", "type": "image"},
        {"no": "id"}, 7
    ]});
    check(
        &desk,
        vec![("/v1/models", list)],
        expect![[r#"
        GET /v1/models authorization: Bearer key-of-the-test
        plain "plain" openai-completions http://desk.test/v1 0/0 images $0/$0
        vllm "vllm" openai-completions http://desk.test/v1 32768/0 images $0/$0
        groq "groq" openai-completions http://desk.test/v1 131072/8192 images $0/$0
        mistral "Mistral" openai-completions http://desk.test/v1 1000/0 images $0/$0"#]],
    );
    // Together's is no object.
    let list = json!([{"id": "a", "type": "chat", "context_length": 100, "display_name": "A"}]);
    check(
        &Provider::new("desk", "http://desk.test"),
        vec![("/v1/models", list)],
        expect![[r#"
        GET /v1/models
        a "A" openai-completions http://desk.test 100/0 images $0/$0"#]],
    );
}

#[test]
fn a_vendor_that_gives_ids_keeps_what_the_catalogue_knows() {
    let known = Models::new().models("groq")[0].clone();
    let list = json!({"data": [{"id": known.id}, {"id": "brand-new"}]});
    check(
        &catalogued("groq"),
        vec![("/openai/v1/models", list)],
        expect![[r#"
        GET /openai/v1/models authorization: Bearer key-of-the-test
        llama-3.1-8b-instant "Llama 3.1 8B" openai-completions https://api.groq.com/openai/v1 131072/131072 $0.05/$0.08
        brand-new "brand-new" openai-completions https://api.groq.com/openai/v1 0/0 images $0/$0"#]],
    );
}

#[test]
fn openrouter_gives_prices_and_limits_without_a_key() {
    let list = json!({"data": [{
        "id": "anthropic/claude-sonnet-4.6", "name": "Claude",
        "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
        "pricing": {"prompt": "0.0000031", "completion": "0.000015", "input_cache_read": "0.0000003"},
        "context_length": 1000, "top_provider": {"context_length": 900, "max_completion_tokens": 64},
        "supported_parameters": ["tools", "reasoning"]
    }, {
        "id": "new/model", "name": "New", "context_length": 10, "pricing": {"prompt": "-1", "completion": "-1"},
        "architecture": {"input_modalities": ["text"]}, "supported_parameters": []
    }, {
        "id": "new/painter", "architecture": {"input_modalities": ["text"], "output_modalities": ["image"]}
    }]});
    check(
        &catalogued("openrouter"),
        vec![("/api/v1/models", list)],
        expect![[r#"
        GET /api/v1/models
        anthropic/claude-sonnet-4.6 "Claude" anthropic-messages https://openrouter.ai/api 900/64 images thinks $3.1/$15
        new/model "New" openai-completions https://openrouter.ai/api/v1 10/0 $0/$0"#]],
    );
}

#[test]
fn ollama_tells_more_of_each_model() {
    let tags = json!({"models": [{"name": "qwen3:4b", "model": "qwen3:4b"}, {"name": "own:latest"},
        {"name": "embed:latest", "model": "embed:latest"}, {"name": "broken:1"}]});
    let info =
        |length: u64| json!({"general.architecture": "qwen3", "qwen3.context_length": length});
    let pages = vec![
        ("/api/tags", tags),
        (
            "/api/show qwen3:4b",
            json!({"capabilities": ["completion", "tools", "thinking"], "model_info": info(40_960)}),
        ),
        (
            "/api/show own:latest",
            json!({"capabilities": ["completion", "vision"], "model_info": info(9),
            "parameters": "stop \"x\"\nnum_ctx                        8192\n"}),
        ),
        ("/api/show embed:latest", json!({"capabilities": ["embedding"]})),
    ];
    check(
        &Provider::ollama("0.0.0.0:11434"),
        pages,
        expect![[r#"
        GET /api/tags
        POST /api/show
        POST /api/show
        POST /api/show
        POST /api/show
        qwen3:4b "qwen3:4b" openai-completions http://127.0.0.1:11434/v1 40960/0 thinks $0/$0
        own:latest "own:latest" openai-completions http://127.0.0.1:11434/v1 8192/0 images $0/$0
        broken:1 "broken:1" openai-completions http://127.0.0.1:11434/v1 0/0 images $0/$0"#]],
    );
}

#[test]
fn llama_cpp_tells_its_context_window_aside() {
    let list = json!({"data": [{"id": "gemma.gguf", "meta": {"n_ctx_train": 131_072}}]});
    let props =
        json!({"default_generation_settings": {"n_ctx": 4096}, "modalities": {"vision": false}});
    let server = Provider::llama_cpp("http://box.test/v1/");
    check(
        &server,
        vec![("/v1/models", list.clone()), ("/props", props)],
        expect![[r#"
        GET /v1/models
        GET /props
        gemma.gguf "gemma.gguf" openai-completions http://box.test/v1 4096/0 $0/$0"#]],
    );
    check(
        &server,
        vec![("/v1/models", list)],
        expect![[r#"
        GET /v1/models
        GET /props
        gemma.gguf "gemma.gguf" openai-completions http://box.test/v1 131072/0 images $0/$0"#]],
    );
}

#[test]
fn anthropic_gives_its_list_in_pages() {
    let first = json!({"data": [{"type": "model", "id": "claude-sonnet-4-6", "display_name": "Claude Sonnet 4.6"}],
        "has_more": true, "last_id": "claude sonnet"});
    let second = json!({"data": [{"id": "claude-next", "display_name": "Claude Next", "max_input_tokens": 500,
        "max_tokens": 50, "capabilities": {"image_input": {"supported": true}, "thinking": {"supported": true}}}],
        "has_more": false, "last_id": "claude-next"});
    let pages = vec![
        ("/v1/models?limit=1000", first),
        ("/v1/models?limit=1000&after_id=claude%20sonnet", second),
    ];
    check(
        &catalogued("anthropic"),
        pages,
        expect![[r#"
        GET /v1/models?limit=1000 x-api-key: key-of-the-test
        GET /v1/models?limit=1000&after_id=claude%20sonnet x-api-key: key-of-the-test
        claude-sonnet-4-6 "Claude Sonnet 4.6" anthropic-messages https://api.anthropic.com 1000000/128000 images thinks $3/$15
        claude-next "Claude Next" anthropic-messages https://api.anthropic.com 500/50 images thinks $0/$0"#]],
    );
}

#[test]
fn gemini_lists_what_generates_content() {
    let first = json!({"models": [{"name": "models/gemini-next", "displayName": "Gemini Next", "inputTokenLimit": 100,
        "outputTokenLimit": 10, "supportedGenerationMethods": ["generateContent"], "thinking": true},
        {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]}], "nextPageToken": "a+b"});
    let pages = vec![
        ("/v1beta/models?pageSize=1000", first),
        ("/v1beta/models?pageSize=1000&pageToken=a%2Bb", json!({"models": []})),
    ];
    check(
        &catalogued("google"),
        pages,
        expect![[r#"
        GET /v1beta/models?pageSize=1000 x-goog-api-key: key-of-the-test
        GET /v1beta/models?pageSize=1000&pageToken=a%2Bb x-goog-api-key: key-of-the-test
        gemini-next "Gemini Next" google-generative-ai https://generativelanguage.googleapis.com/v1beta 100/10 images thinks $0/$0"#]],
    );
}

#[test]
fn a_later_list_takes_the_place_of_the_one_before() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let (_server, models) = world(move |_| {
        let before = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Response::json(200, json!({"data": [{"id": format!("m{before}")}]}).to_string())
    });
    models.add(Provider::new("desk", "http://desk.test/v1"));
    let ids = || models.models("desk").iter().map(|it| it.id.clone()).collect::<Vec<_>>();
    models.refresh("desk", &AbortSignal::never()).unwrap();
    assert_eq!(ids(), ["m0"]);
    assert!(models.get("desk", "m1").is_err());
    models.refresh("desk", &AbortSignal::never()).unwrap();
    assert_eq!(ids(), ["m1"]);
    // The list stays when the provider is changed.
    models.add(Provider { name: "Desk".to_owned(), ..models.provider("desk").unwrap() });
    assert_eq!(ids(), ["m1"]);
}

#[track_caller]
fn check_failure(provider: Provider, answer: Response, kind: ErrorKind, expected: Expect) {
    let (server, models) = world(move |_| answer.clone());
    let id = provider.id.clone();
    models.add(provider);
    let before = models.models(&id);
    let error = models.refresh(&id, &AbortSignal::never()).unwrap_err();
    assert_eq!(error.kind(), kind);
    assert_eq!(models.models(&id), before);
    let shown = error.to_string().replace(&server.address().to_string(), "SERVER");
    expected.assert_eq(&shown);
}

#[test]
fn what_is_no_list_is_an_error_and_changes_nothing() {
    let desk = || Provider::new("desk", "http://desk.test/v1");
    let text = Response::new(200).text("<html>");
    check_failure(
        desk(),
        text,
        ErrorKind::Protocol,
        expect![
            "what http://desk.test/v1/models gave is no JSON: expected value at line 1 column 1"
        ],
    );
    let other = Response::json(200, r#"{"status": "fine"}"#);
    check_failure(
        desk(),
        other,
        ErrorKind::Protocol,
        expect![
            "the server of `desk` gave no list of models at http://desk.test/v1/models: set Provider::listing to the form that it has"
        ],
    );
    let refused = Response::json(
        401,
        r#"{"error": {"message": "no such key", "type": "invalid_request_error"}}"#,
    );
    check_failure(
        desk(),
        refused.clone(),
        ErrorKind::Auth,
        expect![[
            r#"SERVER answered 401 (no key was sent: set one for `desk`): no such key {"type":"invalid_request_error"}"#
        ]],
    );
    check_failure(
        catalogued("openai"),
        refused.clone(),
        ErrorKind::Auth,
        expect![
            "there is no key for the provider `openai`: set OPENAI_API_KEY, or StreamOptions::api_key"
        ],
    );
    check_failure(
        catalogued("azure"),
        refused,
        ErrorKind::Configuration,
        expect!["the provider `azure` does not list its models"],
    );
}

#[test]
fn a_server_without_models_has_none() {
    let (_server, models) = world(|_| Response::json(200, r#"{"data": []}"#));
    models.add(Provider::new("desk", "http://desk.test/v1"));
    assert!(models.refresh("desk", &AbortSignal::never()).unwrap().is_empty());
}

#[test]
fn an_abort_ends_the_wait_for_a_list() {
    let (server, models) = world(|_| Response::hang());
    models
        .add(Provider { listing: Listing::Ollama, ..Provider::new("desk", "http://desk.test/v1") });
    let controller = AbortController::new();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| models.refresh("desk", &controller.signal()));
        assert!(server.wait_for_requests(1, LIMIT));
        controller.abort();
        assert_eq!(asking.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    });
}
