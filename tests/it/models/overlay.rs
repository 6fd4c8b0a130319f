//! A catalogue of one's own.

use expect_test::{Expect, expect};
use steerage::{ErrorKind, Models, models::KeySource};

#[test]
fn fields_that_are_not_named_stay_as_they_were() {
    let models = Models::new();
    models
        .add_json(
            r#"{"providers": {
                "anthropic": {
                    "baseUrl": "http://gateway.test", "headers": {"x-team": "games", "x-off": null},
                    "models": [{"id": "claude-sonnet-4-6", "maxTokens": 9}, {"id": "claude-next"}]
                }
            }}"#,
        )
        .unwrap();
    let model = models.get("anthropic", "claude-sonnet-4-6").unwrap();
    assert_eq!((model.max_tokens, model.cost.output), (9, 15.0));
    let next = models.get("anthropic", "claude-next").unwrap();
    assert_eq!((&*next.api, &*next.base_url), ("anthropic-messages", "http://gateway.test"));
    assert_eq!(model.base_url, next.base_url);
    let provider = models.provider("anthropic").unwrap();
    assert_eq!(provider.name, "Anthropic");
    let headers = [("x-team", Some("games")), ("x-off", None)]
        .map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
    assert_eq!(provider.headers, headers);
    assert!(models.models("anthropic").len() > 10);
}

#[test]
fn a_provider_of_ones_own_is_made() {
    let models = Models::new();
    let text = r#"{"desk": {"name": "My desk", "baseUrl": "http://desk.test/v1", "apiKeyEnv": ["A", "B"],
        "compat": {"supportsStore": false},
        "models": [{"id": "a"}, {"id": "b", "contextWindow": 100, "api": "anthropic-messages"}]}}"#;
    models.add_json(text).unwrap();
    let listed: Vec<_> = models
        .models("desk")
        .iter()
        .map(|it| format!("{} {} {} {:?}", it.id, it.api, it.base_url, it.compat))
        .collect();
    expect![[r#"
        a openai-completions http://desk.test/v1 {"supportsStore": Bool(false)}
        b anthropic-messages http://desk.test/v1 {"supportsStore": Bool(false)}"#]]
    .assert_eq(&listed.join("\n"));
    let KeySource::Environment(names) = models.provider("desk").unwrap().key else { panic!() };
    assert_eq!(names, ["A", "B"]);
}

#[test]
fn a_list_of_models_that_was_saved_is_read_again() {
    let models = Models::new();
    let list: Vec<_> = models.models("openai").iter().map(|it| (**it).clone()).collect();
    let text = serde_json::json!({"openai": list}).to_string();
    let again = Models::new();
    again.add_json(&text).unwrap();
    assert_eq!(again.models("openai"), models.models("openai"));
}

#[track_caller]
fn check_refused(text: &str, expected: Expect) {
    let models = Models::new();
    let before = models.providers();
    let error = models.add_json(text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert_eq!(models.providers(), before);
    expected.assert_eq(&error.to_string());
}

#[test]
fn what_is_wrong_is_named_and_nothing_of_it_is_taken() {
    check_refused(
        "{",
        expect!["the catalogue is no JSON: EOF while parsing an object at line 1 column 1"],
    );
    check_refused("[]", expect!["the catalogue is no object, by provider"]);
    check_refused(
        r#"{"new": 1}"#,
        expect!["the provider `new` of the catalogue is neither an object nor a list of models"],
    );
    check_refused(
        r#"{"new": {"baseUrl": "http://x", "modles": []}}"#,
        expect!["the provider `new` of the catalogue has a field `modles` that is not known"],
    );
    check_refused(
        r#"{"new": {"baseUrl": 1}}"#,
        expect!["the provider `new` of the catalogue has no text as `baseUrl`"],
    );
    check_refused(
        r#"{"new": {"models": [{"id": "a"}]}}"#,
        expect!["the provider `new` of the catalogue has no `baseUrl`, and neither has `a`"],
    );
    check_refused(
        r#"{"fine": {"baseUrl": "http://x"}, "new": {"baseUrl": "http://x", "models": [{"name": "a"}]}}"#,
        expect!["the provider `new` of the catalogue has a model that is no object with an `id`"],
    );
    check_refused(
        r#"{"openai": [{"id": "gpt-5", "maxTokens": "many"}]}"#,
        expect![[
            r#"the provider `openai` of the catalogue has a model `gpt-5` that cannot be read: invalid type: string "many", expected u64"#
        ]],
    );
    check_refused(
        r#"{"openai": {"models": {}}}"#,
        expect!["the provider `openai` of the catalogue has `models` that are no list"],
    );
    check_refused(
        r#"{"openai": {"headers": {"a": 1}}}"#,
        expect!["the provider `openai` of the catalogue has no text as `a`"],
    );
}
