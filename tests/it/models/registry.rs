//! What the registry knows.

use expect_test::{Expect, expect};
use steerage::{
    AbortController, AbortSignal, Error, ErrorKind, Message, Model, Models, StreamFn,
    StreamRequest,
    models::{ModelsOptions, Provider},
    stream::collect,
    testing::Scripted,
};

#[track_caller]
fn check_unknown(provider: &str, id: &str, expected: Expect) {
    let error = Models::new().get(provider, id).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    expected.assert_eq(&error.to_string());
}

#[test]
fn a_name_that_is_not_known_gets_those_that_are_like_it() {
    check_unknown(
        "antropic",
        "claude-sonnet-4-6",
        expect![
            "there is no provider `antropic` (did you mean `anthropic`?); add one with Models::add"
        ],
    );
    check_unknown(
        "nobody-at-all",
        "x",
        expect!["there is no provider `nobody-at-all`; add one with Models::add"],
    );
    check_unknown(
        "anthropic",
        "claude-sonnet-4.6",
        expect![
            "the provider `anthropic` has no model `claude-sonnet-4.6` (did you mean `claude-sonnet-4-6`, `claude-sonnet-4-5` or `claude-sonnet-5`?); add one that is missing with Models::add_model"
        ],
    );
    check_unknown(
        "anthropic",
        "haiku",
        expect![
            "the provider `anthropic` has no model `haiku` (did you mean `claude-haiku-4-5`, `claude-haiku-5-5` or `claude-haiku-4-5-20251001`?); add one that is missing with Models::add_model"
        ],
    );
    check_unknown(
        "anthropic",
        "gpt-5",
        expect![
            "the provider `anthropic` has no model `gpt-5` (but `azure`, `cloudflare-ai-gateway`, `openai` have); add one that is missing with Models::add_model"
        ],
    );
    check_unknown(
        "anthropic",
        "zzz",
        expect![
            "the provider `anthropic` has no model `zzz`; add one that is missing with Models::add_model"
        ],
    );
}

#[test]
fn models_are_found_by_provider_and_id() {
    let models = Models::new();
    let model = models.get("anthropic", "claude-sonnet-4-6").unwrap();
    assert_eq!((&*model.provider, &*model.api), ("anthropic", "anthropic-messages"));
    assert!(models.models("openrouter").len() > 100);
    assert!(models.models("nobody").is_empty());
    assert!(models.providers().iter().any(|id| id == "openai"));
    assert!(
        Models::with_options(ModelsOptions { catalogue: false, ..ModelsOptions::default() })
            .providers()
            .is_empty()
    );
}

#[test]
fn a_provider_without_a_list_takes_any_id() {
    let models = Models::new();
    models.add(Provider {
        compat: serde_json::from_str(r#"{"maxTokensField": "max_tokens"}"#).unwrap(),
        ..Provider::new("desk", "http://desk.test/v1")
    });
    let model = models.get("desk", "qwen").unwrap();
    let shown = serde_json::to_string(&*model).unwrap();
    expect![[r#"{"id":"qwen","name":"qwen","api":"openai-completions","provider":"desk","baseUrl":"http://desk.test/v1","reasoning":false,"input":["text","image"],"cost":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0},"contextWindow":0,"maxTokens":0,"compat":{"maxTokensField":"max_tokens"}}"#]].assert_eq(&shown);
    assert_eq!(models.providers().last().unwrap(), "desk");
}

#[test]
fn a_model_of_ones_own_stands_in_place_of_the_one_of_its_id() {
    let models = Models::new();
    let before = models.models("anthropic").len();
    let known = models.get("anthropic", "claude-sonnet-4-6").unwrap();
    models.add_model(Model { max_tokens: 5, ..(*known).clone() });
    models.add_model(Model {
        id: "claude-next".to_owned(),
        provider: "anthropic".to_owned(),
        ..Model::default()
    });
    assert_eq!(models.get("anthropic", "claude-sonnet-4-6").unwrap().max_tokens, 5);
    let next = models.get("anthropic", "claude-next").unwrap();
    assert_eq!((&*next.api, &*next.base_url), (&*known.api, &*known.base_url));
    assert_eq!(models.models("anthropic").len(), before + 1);
}

#[test]
fn a_model_of_a_new_provider_makes_that_provider() {
    let models = Models::new();
    models.add_model(Model::openai_compatible("m", "http://desk.test/v1"));
    assert_eq!(models.get("local", "m").unwrap().base_url, "http://desk.test/v1");
    assert!(models.remove("local"));
    assert!(!models.remove("local"));
    assert!(models.get("local", "m").is_err());
}

#[test]
fn a_catalogued_provider_can_be_asked_elsewhere() {
    let models = Models::new();
    let anthropic = models.provider("anthropic").unwrap();
    models.add(Provider { base_url: "http://gateway.test".to_owned(), ..anthropic });
    assert!(models.models("anthropic").len() > 10);
    assert!(models.models("anthropic").iter().all(|it| it.base_url == "http://gateway.test"));
}

#[test]
fn a_provider_may_answer_with_a_stream_function_of_its_own() {
    let models = Models::new();
    let scripted = Scripted::new(["Hello!"]);
    models.add(Provider {
        models: vec![scripted.model()],
        stream: Some(scripted.clone().into()),
        ..Provider::new("scripted", "")
    });
    let model = models.get("scripted", "scripted-1").unwrap();
    let request = StreamRequest::new(model, [Message::user("Hi")]);
    let answer = models.complete(request, &AbortSignal::never()).unwrap();
    assert_eq!(Message::Assistant(answer).text(), "Hello!");
    assert!(models.available().contains(&"scripted".to_owned()));
}

#[test]
fn a_wire_api_of_ones_own_is_used() {
    let models = Models::new();
    let scripted = Scripted::new(["Hello!"]);
    let model = Model { api: "mine".to_owned(), ..Model::openai_compatible("m", "http://x.test") };
    let request = StreamRequest::new(model, [Message::user("Hi")]);
    let error = models.complete(request.clone(), &AbortSignal::never()).unwrap_err();
    expect!["there is no stream function for the wire API `mine`; known are anthropic-messages, azure-openai-responses, google-generative-ai, google-vertex, mistral-conversations, openai-completions, openai-responses, pi-messages; set one with Models::set_api"].assert_eq(&error.to_string());
    models.set_api("mine", scripted);
    models.complete(request, &AbortSignal::never()).unwrap();
}

#[test]
fn an_answer_that_failed_is_an_error_with_its_facts() {
    let models = Models::new();
    let scripted = Scripted::new::<&str>([]);
    models.set_api("scripted", scripted.clone());
    let request = StreamRequest::new(scripted.model(), [Message::user("Hi")]);
    let error: Error = models.complete(request.clone(), &AbortSignal::never()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);

    let controller = AbortController::new();
    controller.abort();
    let error = models.complete(request, &controller.signal()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted);
}

#[test]
fn what_fails_before_the_request_is_an_event() {
    let models = Models::new();
    let model = models.get("anthropic", "claude-sonnet-4-6").unwrap();
    let request = StreamRequest::new(model.clone(), [Message::user("Hi")]);
    let mut stream = models.stream(request, &AbortSignal::never()).unwrap();
    let answer = collect(&model, &mut *stream);
    assert_eq!(answer.failure_kind(), Some(ErrorKind::Auth));
    expect!["there is no key for the provider `anthropic`: set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN), or StreamOptions::api_key"].assert_eq(&answer.error_message.unwrap());
}

#[test]
fn handles_see_what_is_added_later() {
    let models = Models::new();
    let other = models.clone();
    models.add(Provider::new("desk", "http://desk.test"));
    assert!(other.get("desk", "m").is_ok());
}
