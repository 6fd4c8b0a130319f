//! Where keys come from and how they are sent.

use std::sync::Arc;

use expect_test::{Expect, expect};
use steerage::{
    AbortSignal, Error, ErrorKind, Message, Model, Models, Secret, StreamOptions, StreamRequest,
    auth::{Credential, CredentialStore, Credentials, MemoryStore, Token},
    models::{Environment, KeySource, ModelsOptions, Provider},
    stream::{Identity, UserAgent},
};

use super::{Internet, ask};

const MODEL: (&str, &str) = ("anthropic", "claude-sonnet-4-6");

fn key_of(internet: &Internet, models: &Models, options: StreamOptions) -> Option<String> {
    ask(models, models.get(MODEL.0, MODEL.1).unwrap(), options).unwrap();
    let (_, request) = internet.last();
    let bearer = request.header("authorization").map(str::to_owned);
    request.header("x-api-key").map(str::to_owned).or(bearer)
}

fn with_key(key: &str) -> StreamOptions {
    StreamOptions { api_key: Some(key.into()), ..StreamOptions::default() }
}

#[test]
fn the_request_goes_before_the_callback_and_that_before_the_environment() {
    let internet = Internet::new();
    let environment = Environment::of([("ANTHROPIC_API_KEY", "of-the-env")]);
    let models = internet.models(ModelsOptions {
        key: Some(Arc::new(|provider, _| {
            Ok((provider == "anthropic").then(|| Secret::new("of-the-callback")))
        })),
        environment: environment.clone(),
        ..ModelsOptions::default()
    });
    let key = |models: &Models, options| key_of(&internet, models, options).unwrap();
    assert_eq!(key(&models, with_key("of-the-request")), "of-the-request");
    assert_eq!(key(&models, with_key("")), "of-the-callback");
    let models = internet.models(ModelsOptions {
        key: Some(Arc::new(|_, _| Ok(None))),
        environment,
        ..ModelsOptions::default()
    });
    assert_eq!(key(&models, StreamOptions::default()), "of-the-env");
    let env = vec![("ANTHROPIC_API_KEY".to_owned(), "of-the-request's-env".to_owned())];
    let options = StreamOptions { env, ..StreamOptions::default() };
    assert_eq!(key(&models, options), "of-the-request's-env");
}

#[test]
fn a_token_of_anthropic_is_sent_as_bearer_and_goes_first() {
    let internet = Internet::new();
    let variables = [("ANTHROPIC_API_KEY", "key-1"), ("ANTHROPIC_AUTH_TOKEN", " token-1 ")];
    let models = internet.models_with(&variables);
    ask(&models, models.get(MODEL.0, MODEL.1).unwrap(), StreamOptions::default()).unwrap();
    let (_, request) = internet.last();
    assert_eq!(request.header("authorization"), Some("Bearer token-1"));
    assert_eq!(request.header("x-api-key"), None);
}

#[test]
fn a_blank_variable_is_none() {
    let internet = Internet::new();
    let models =
        internet.models_with(&[("ANTHROPIC_AUTH_TOKEN", "  "), ("ANTHROPIC_API_KEY", "key-1")]);
    assert_eq!(key_of(&internet, &models, StreamOptions::default()).unwrap(), "key-1");
}

#[test]
fn a_header_of_the_request_is_a_key_too() {
    let internet = Internet::new();
    let models = internet.models_with(&[]);
    let headers = vec![("Authorization".to_owned(), Some("Bearer mine".to_owned()))];
    let options = StreamOptions { headers, ..StreamOptions::default() };
    assert_eq!(key_of(&internet, &models, options).unwrap(), "Bearer mine");
}

#[test]
fn a_server_without_keys_is_asked_without_one() {
    let internet = Internet::new();
    let models = internet.models_with(&[]);
    models.add(Provider::new("desk", "http://desk.test/v1"));
    ask(&models, models.get("desk", "qwen").unwrap(), StreamOptions::default()).unwrap();
    let (url, request) = internet.last();
    assert_eq!(url, "http://desk.test/v1/chat/completions");
    assert!(request.headers.iter().all(|(name, _)| !name.to_lowercase().contains("auth")));
}

#[test]
fn a_model_of_an_unknown_provider_is_asked_at_its_own_address() {
    let internet = Internet::new();
    let models = internet.models_with(&[]);
    let model = Model::openai_compatible("m", "http://other.test/v1");
    ask(&models, model, with_key("key-1")).unwrap();
    let (url, request) = internet.last();
    assert_eq!(url, "http://other.test/v1/chat/completions");
    assert_eq!(request.header("authorization"), Some("Bearer key-1"));
}

#[test]
fn headers_of_the_provider_yield_to_those_of_model_and_request() {
    let internet = Internet::new();
    let models = internet.models_with(&[]);
    let owned = |list: &[(&str, Option<&str>)]| {
        list.iter().map(|(n, v)| ((*n).to_owned(), v.map(str::to_owned))).collect::<Vec<_>>()
    };
    models.add(Provider {
        headers: owned(&[("x-1", Some("p")), ("x-2", Some("p")), ("x-3", Some("p"))]),
        key: KeySource::Value("key-1".into()),
        ..Provider::new("desk", "http://desk.test/v1")
    });
    let mut model = (*models.get("desk", "m").unwrap()).clone();
    model.headers.insert("X-2".to_owned(), "m".into());
    let headers = owned(&[("X-3", None), ("x-4", Some("r"))]);
    ask(&models, model, StreamOptions { headers, ..StreamOptions::default() }).unwrap();
    let (_, request) = internet.last();
    let shown: Vec<_> =
        ["x-1", "x-2", "x-3", "x-4"].iter().map(|name| request.header(name)).collect();
    assert_eq!(shown, [Some("p"), Some("m"), None, Some("r")]);
    assert_eq!(request.header("authorization"), Some("Bearer key-1"));
}

#[test]
fn who_the_program_is_can_be_said_once() {
    let internet = Internet::new();
    let user_agent = Some(UserAgent::Custom("my-game/1".to_owned()));
    let models = internet.models(ModelsOptions {
        identity: Some(Identity { user_agent, attribution: None }),
        environment: Environment::of([("ANTHROPIC_API_KEY", "key-1")]),
        ..ModelsOptions::default()
    });
    key_of(&internet, &models, StreamOptions::default());
    assert_eq!(internet.last().1.header("user-agent"), Some("my-game/1"));
}

#[test]
fn only_providers_with_a_key_are_available() {
    let models = Models::with_options(ModelsOptions {
        environment: Environment::of([("OPENAI_API_KEY", "x"), ("MOONSHOT_API_KEY", "y")]),
        ..ModelsOptions::default()
    });
    models.add(Provider::new("desk", "http://desk.test"));
    models.add(Provider {
        key: KeySource::callback(|_, _| Err(Error::new(ErrorKind::Auth, "locked"))),
        ..Provider::new("locked", "http://locked.test")
    });
    assert_eq!(models.available(), ["moonshotai-cn", "moonshotai", "openai", "desk"]);
}

#[track_caller]
fn check_failure(provider: Provider, kind: ErrorKind, expected: Expect) {
    let models = Models::new();
    let id = provider.id.clone();
    models.add(provider);
    let request = StreamRequest::new(models.get(&id, "m").unwrap(), [Message::user("Hi")]);
    let error = models.complete(request, &AbortSignal::never()).unwrap_err();
    assert_eq!(error.kind(), kind);
    expected.assert_eq(&error.to_string());
}

#[test]
fn a_missing_key_says_where_it_is_looked_for() {
    let desk = || Provider::new("desk", "http://desk.test");
    check_failure(
        Provider { key: KeySource::env("DESK_KEY"), ..desk() },
        ErrorKind::Auth,
        expect!["there is no key for the provider `desk`: set DESK_KEY, or StreamOptions::api_key"],
    );
    let panicking = KeySource::callback(|_, _| panic!("no keyring"));
    check_failure(
        Provider { key: panicking, ..desk() },
        ErrorKind::Callback,
        expect!["the callback for the key of `desk` panicked: no keyring"],
    );
    let empty = KeySource::callback(|_, _| Ok(None));
    check_failure(
        Provider { key: empty, ..desk() },
        ErrorKind::Auth,
        expect![
            "there is no key for the provider `desk`: set StreamOptions::api_key, or Provider::key to where it comes from"
        ],
    );
    check_failure(
        Provider::new("desk", ""),
        ErrorKind::Configuration,
        expect!["the model `m` has no base URL"],
    );
}

#[test]
fn no_key_is_shown() {
    let provider = Provider {
        key: KeySource::Value("sk-12345678".into()),
        headers: vec![("x-api-key".to_owned(), Some("sk-12345678".to_owned()))],
        ..Provider::new("desk", "http://desk.test")
    };
    let models = Models::with_options(ModelsOptions {
        environment: Environment::of([("DESK_KEY", "sk-12345678")]),
        ..ModelsOptions::default()
    });
    let shown = format!("{provider:?} {models:?}");
    models.add(provider);
    let shown = format!("{shown} {:?} {models:?}", models.provider("desk"));
    assert!(!shown.contains("sk-12345678"), "{shown}");
}

#[test]
fn a_stored_credential_is_the_only_one_of_its_provider() {
    let internet = Internet::new();
    let store = MemoryStore::default();
    store.write("anthropic", Credential::key("stored-key")).unwrap();
    let credentials = Credentials::new(store);
    let models = internet.models(ModelsOptions {
        credentials: Some(credentials.clone()),
        environment: Environment::of([("ANTHROPIC_API_KEY", "of-the-env")]),
        ..ModelsOptions::default()
    });
    let key = |options| key_of(&internet, &models, options).unwrap();
    assert_eq!(key(StreamOptions::default()), "stored-key");
    assert_eq!(key(with_key("of-the-request")), "of-the-request");
    let token = Token { access: "token-1".into(), ..Token::default() };
    credentials.store().write("anthropic", Credential::Token(token)).unwrap();
    assert_eq!(key(StreamOptions::default()), "Bearer token-1");
    let over = Token { access: "token-1".into(), expires: Some(1), ..Token::default() };
    credentials.store().write("anthropic", Credential::Token(over)).unwrap();
    let model = models.get(MODEL.0, MODEL.1).unwrap();
    let error = ask(&models, model, StreamOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    credentials.store().delete("anthropic").unwrap();
    assert_eq!(key(StreamOptions::default()), "of-the-env");
}

#[test]
fn the_variables_of_a_stored_key_fill_the_address() {
    let internet = Internet::new();
    let store = MemoryStore::default();
    let env = vec![("CLOUDFLARE_ACCOUNT_ID".to_owned(), "account-7".to_owned())];
    let credential = Credential::Key { key: Some("key-1".into()), env };
    store.write("cloudflare-workers-ai", credential).unwrap();
    let models = internet.models(ModelsOptions {
        credentials: Some(Credentials::new(store)),
        environment: Environment::Empty,
        ..ModelsOptions::default()
    });
    let model = models.models("cloudflare-workers-ai")[0].clone();
    ask(&models, model, StreamOptions::default()).unwrap();
    assert!(internet.last().0.contains("/accounts/account-7/ai/"));
    assert_eq!(models.available(), ["cloudflare-workers-ai"]);
}
