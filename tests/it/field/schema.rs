//! J: arguments and schemas as models and libraries really write them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steerage::{ErrorKind, message::SystemMessage, schema::SchemaOptions};

use super::{
    vendor::{self, Api, Asking},
    *,
};

/// The arguments with which a tool runs that is called with `given`; `None` if it is refused.
#[track_caller]
fn ran_with(parameters: &Value, given: Value) -> Option<Value> {
    let ran = Arc::new(Mutex::new(None));
    let seen = ran.clone();
    let look = Tool::with_schema("look", "Looks", parameters.clone(), move |arguments, _| {
        *seen.lock().unwrap() = Some(Value::Object(arguments));
        Ok("seen")
    });
    let call = Answer::new().tool_call_with_id("c", "look", given);
    Stage::new([call, Answer::from("done")], vec![look]).run("go");
    ran.lock().unwrap().take()
}

/// J1, J2: values that models wrap into text, or do not wrap at all.
#[test]
fn arguments_reach_the_tool_in_the_form_its_schema_asks_for() {
    let schema = json!({"type": "object", "properties": {
        "queries": {"type": "array", "items": {"type": "string"}},
        "either": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "point": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "text": {"type": "string"},
        "count": {"type": "number"}
    }});
    for (given, expected) in [
        (json!({"queries": "[\"a\"]"}), Some(json!({"queries": ["a"]}))),
        (json!({"queries": "a"}), Some(json!({"queries": ["a"]}))),
        (json!({"queries": null}), Some(json!({}))),
        (json!({"either": "[\"a\"]"}), Some(json!({"either": ["a"]}))),
        (json!({"point": "{\"a\":1}"}), Some(json!({"point": {"a": 1}}))),
        (json!({"point": "{\"a\":"}), None),
        (json!({"text": "[\"a\"]"}), Some(json!({"text": "[\"a\"]"}))),
        (json!({"text": "5"}), Some(json!({"text": "5"}))),
        (json!({"count": "5"}), Some(json!({"count": 5}))),
        (json!({"count": "five"}), None),
    ] {
        assert_eq!(ran_with(&schema, given.clone()), expected, "{given}");
    }
}

/// J5: a host that wants exact arguments, and one that keeps parts of its schemas elsewhere.
#[test]
fn a_tool_says_how_its_arguments_are_checked() {
    let parameters =
        json!({"type": "object", "properties": {"n": {"$ref": "https://example.org/n"}}});
    let n = json!({"type": "integer", "description": "A number"});
    let documents = || [("https://example.org/n".to_owned(), n.clone())].into();
    let check = |options: SchemaOptions, given: Value, expected: Option<Value>| {
        let ran = Arc::new(Mutex::new(None));
        let seen = ran.clone();
        let look = Tool::with_schema("look", "Looks", parameters.clone(), move |arguments, _| {
            *seen.lock().unwrap() = Some(Value::Object(arguments));
            Ok("seen")
        });
        let look = look.schema_options(options);
        assert_eq!(
            look.declaration().parameters,
            json!({"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": n}}),
        );
        let call = Answer::new().tool_call_with_id("c", "look", given);
        Stage::new([call, Answer::from("done")], vec![look]).run("go");
        assert_eq!(ran.lock().unwrap().take(), expected);
    };
    let lenient = SchemaOptions { documents: documents(), ..SchemaOptions::default() };
    let exact = SchemaOptions { coercion: false, is_for_arguments: false, ..lenient.clone() };
    check(lenient.clone(), json!({"n": "5"}), Some(json!({"n": 5})));
    check(exact.clone(), json!({"n": "5"}), None);
    check(exact, json!({"n": 5}), Some(json!({"n": 5})));
    check(lenient, json!({"n": "five"}), None);
}

/// J5: a host that wants no check.
#[test]
fn a_schema_that_asks_for_nothing_checks_nothing() {
    for schema in [json!({}), json!({"type": "object"}), json!(true)] {
        let given = json!({"a": "[1]", "b": null, "c": {"d": "5"}});
        assert_eq!(ran_with(&schema, given.clone()), Some(given), "{schema}");
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Search {
    /// What to look for.
    query: String,
    within: Option<Place>,
    #[serde(default)]
    limits: Vec<Place>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Place {
    name: String,
    parts: Option<Vec<Place>>,
}

/// J3: references, unions with null and all that a derived schema has.
#[test]
fn a_derived_schema_goes_out_whole_and_takes_what_it_describes() {
    let search = Tool::new("search", "Searches", |search: Search, _| {
        let Search { query, within, limits } = search;
        let places: Vec<_> =
            within.into_iter().chain(limits).map(|it| (it.name, it.parts)).collect();
        Ok(format!("{query} in {places:?}"))
    });
    for api in [Api::Chat, Api::Anthropic] {
        let system =
            SystemMessage { tools_added: vec![search.declaration()], ..SystemMessage::default() };
        let messages = [Message::System(system), Message::user("go")];
        let sent =
            vendor::ask_about(api, serde_json::to_value(messages).unwrap(), Asking::default());
        let body: Value = serde_json::from_slice(&sent.requests[0].body).unwrap();
        let schema = match api {
            Api::Chat => &body["tools"][0]["function"]["parameters"],
            Api::Anthropic => &body["tools"][0]["input_schema"],
        };
        let text = schema.to_string();
        for (place, _) in text.match_indices("\"$ref\":\"#/") {
            let path = text[place + 9..].split('"').next().unwrap();
            assert!(schema.pointer(path).is_some(), "{path} leads nowhere: {text}");
        }
        assert!(schema["properties"]["query"].is_object(), "{text}");
    }
    let given = json!({"query": "x", "within": {"name": "a", "parts": [{"name": "b"}]}});
    assert!(ran_with(search.parameters(), given).is_some());
    assert!(
        ran_with(search.parameters(), json!({"query": "x", "within": {"parts": []}})).is_none()
    );
}

/// J3: one bad schema would fail every request.
#[test]
fn a_tool_whose_schema_cannot_be_used_is_refused_before_any_request() {
    let bad = Tool::with_schema("bad", "For a test", json!("none"), |_, _| Ok(""));
    let stage = Stage::new(["hello"], vec![]);
    let error = stage.agent.set_tools(vec![bad]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.message().contains("`bad`"), "{error}");
    assert_eq!(stage.run("go").text, "hello");
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Finding {
    Good { score: u8 },
    Bad { why: String, worse: Option<Box<Finding>> },
}

/// Asks for a `T` and gives `answer`; returns what was read and the schema that went out for it.
#[track_caller]
fn asked<T>(answer: Value) -> (T, Value)
where
    T: serde::de::DeserializeOwned + JsonSchema + 'static,
{
    let stage = Stage::new([Answer::new().tool_call("answer", answer)], vec![]);
    let read = stage.agent.ask("What is it?").unwrap();
    let requests = stage.model.requests();
    let messages = requests[0].transcript.messages().iter().map(|message| &**message);
    (read, steerage::transcript::current_tools(messages)[0].parameters.clone())
}

/// J6: an answer as data goes out as the arguments of a tool, so the rules of tools hold for it and no others: an object
/// at the root, whatever is asked for.
#[test]
fn the_schema_of_an_answer_keeps_the_rules_of_tools() {
    #[track_caller]
    fn check<T>(answer: Value, expected: T)
    where
        T: serde::de::DeserializeOwned + JsonSchema + PartialEq + std::fmt::Debug + 'static,
    {
        let (read, schema) = asked::<T>(answer);
        assert_eq!(read, expected);
        assert_eq!(schema["type"], "object", "{schema}");
        assert!(schema["properties"].is_object(), "{schema}");
        for combination in ["$ref", "anyOf", "oneOf", "allOf", "enum"] {
            assert!(schema.get(combination).is_none(), "{schema}");
        }
        let text = schema.to_string();
        for (place, _) in text.match_indices("\"$ref\":\"#") {
            let path = text[place + 9..].split('"').next().unwrap();
            assert!(schema.pointer(path).is_some(), "{path} leads nowhere: {text}");
        }
    }
    check(json!({"answer": "yes"}), "yes".to_owned());
    check(json!({"answer": [1, "2"]}), vec![1, 2]);
    check(json!({"answer": null}), None::<bool>);
    check(json!({"answer": {"a": 1}}), Some(json!({"a": 1})));
    check(json!({"answer": {"kind": "good", "score": "7"}}), Finding::Good { score: 7 });
    let good = Some(Box::new(Finding::Good { score: 7 }));
    check(
        json!({"answer": {"kind": "bad", "why": "late", "worse": {"kind": "good", "score": 7}}}),
        Finding::Bad { why: "late".to_owned(), worse: good },
    );
}
