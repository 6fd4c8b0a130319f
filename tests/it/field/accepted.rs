//! What vendors accept as the schema of a tool: rules for each form it goes out in, and a table of schemas that break
//! them as they are and keep them as they are sent.
//!
//! The rules are those of the vendors' documentation and of the refusals that users report: one schema that breaks one
//! fails the whole request.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steerage::{
    AbortSignal, Message, Model, StreamOptions, StreamRequest, Tool,
    message::{ConstrainedSampling, SamplingConstraint, Strictness, SystemMessage},
    provider::ProviderOptions,
    stream::collect,
    testing::server::{Response, Server},
};

use super::*;
use crate::apis;

/// A form in which a schema goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Chat,
    Responses,
    Anthropic,
    Gemini,
    Mistral,
    StrictChat,
    StrictResponses,
    StrictAnthropic,
    StrictGemini,
}

const FORMS: [Form; 9] = [
    Form::Chat,
    Form::Responses,
    Form::Anthropic,
    Form::Gemini,
    Form::Mistral,
    Form::StrictChat,
    Form::StrictResponses,
    Form::StrictAnthropic,
    Form::StrictGemini,
];

impl Form {
    fn model(self, url: &str) -> Model {
        let (api, id) = match self {
            Form::Chat | Form::StrictChat => ("openai-completions", "m"),
            Form::Responses | Form::StrictResponses => ("openai-responses", "m"),
            Form::Anthropic | Form::StrictAnthropic => ("anthropic-messages", "m"),
            Form::Gemini => ("google-generative-ai", "gemini-2.5-flash"),
            Form::StrictGemini => ("google-generative-ai", "gemini-3-pro"),
            Form::Mistral => ("mistral-conversations", "m"),
        };
        let compat = match self {
            Form::StrictAnthropic => json!({"supportsStrictTools": true}),
            Form::StrictChat | Form::StrictResponses => json!({"supportsStrictMode": true}),
            _ => json!({}),
        };
        let model = json!({
            "id": id, "api": api, "provider": "p", "baseUrl": url, "input": ["text"],
            "contextWindow": 100_000, "maxTokens": 1000, "compat": compat,
        });
        serde_json::from_value(model).unwrap()
    }

    fn is_strict(self) -> bool {
        matches!(
            self,
            Form::StrictChat | Form::StrictResponses | Form::StrictAnthropic | Form::StrictGemini
        )
    }

    /// The schema of a tool in the body of a request, and whether the vendor is told to hold the model to it.
    fn sent(self, tool: &Tool) -> (Value, bool) {
        let strict = SamplingConstraint::JsonSchema { strict: Strictness::Prefer };
        let mut tool = tool.clone();
        if self.is_strict() {
            tool = tool.constrained_sampling(ConstrainedSampling::On(strict));
        }
        let server = Server::start([Response::json(400, "{}")]).unwrap();
        let model = Arc::new(self.model(&server.url()));
        let system =
            SystemMessage { tools_added: vec![tool.declaration()], ..SystemMessage::default() };
        let messages = vec![Message::System(system), Message::user("Hi")];
        let mut request = StreamRequest::new(model.clone(), messages);
        request.options = StreamOptions { max_retries: Some(0), ..StreamOptions::default() };
        let provider = apis::stream_fn(&model.api, ProviderOptions::default());
        collect(&model, &mut *provider.stream(request, &AbortSignal::never()).unwrap());
        let body: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
        let tool = &body["tools"][0];
        match self {
            Form::Chat | Form::StrictChat | Form::Mistral => {
                let function = &tool["function"];
                (function["parameters"].clone(), function["strict"] == true)
            }
            Form::Responses | Form::StrictResponses => {
                (tool["parameters"].clone(), tool["strict"] == true)
            }
            Form::Anthropic | Form::StrictAnthropic => {
                (tool["input_schema"].clone(), tool["strict"] == true)
            }
            Form::Gemini | Form::StrictGemini => {
                let declared = &tool["functionDeclarations"][0]["parametersJsonSchema"];
                let mode = &body["toolConfig"]["functionCallingConfig"]["mode"];
                (declared.clone(), mode == "VALIDATED")
            }
        }
    }

    /// What of a schema the vendor refuses.
    fn broken_rules(self, schema: &Value, is_strict: bool) -> BTreeSet<&'static str> {
        let mut broken = BTreeSet::new();
        let mut rule = |is_kept: bool, name| {
            if !is_kept {
                broken.insert(name);
            }
        };
        rule(schema["type"] == "object", "the root is an object");
        rule(schema["properties"].is_object(), "the root has properties");
        let combinators = ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"];
        rule(combinators.iter().all(|it| schema.get(it).is_none()), "the root is no combination");
        for_each_schema(schema, &mut |part| {
            self.part_rules(part, schema, is_strict, &mut rule);
        });
        broken
    }

    fn part_rules(
        self,
        part: &Value,
        whole: &Value,
        is_strict: bool,
        rule: &mut impl FnMut(bool, &'static str),
    ) {
        let has = |key: &str| part.get(key).is_some();
        rule(part.is_object(), "a schema is an object");
        let types: Vec<&Value> = match &part["type"] {
            Value::Null => Vec::new(),
            Value::Array(names) => names.iter().collect(),
            only => vec![only],
        };
        let is = |name: &str| types.iter().any(|it| *it == name);
        rule(!is("array") || part["items"].is_object(), "an array has items");
        if let Some(reference) = part["$ref"].as_str() {
            let target = reference.strip_prefix('#').filter(|it| whole.pointer(it).is_some());
            let sent = ["/$defs/", "/definitions/", "/properties/"];
            let is_sent = |it: &str| it.is_empty() || sent.iter().any(|part| it.starts_with(part));
            rule(target.is_some_and(is_sent), "a reference leads somewhere");
            let is_alone = part.as_object().unwrap().keys().all(|key| key.starts_with('$'));
            rule(is_alone, "a reference stands alone");
        }
        if matches!(self, Form::Gemini | Form::StrictGemini) {
            let is_listed = |it: &Value| it.is_string() || it.is_number();
            rule(!part.get("const").is_some_and(is_listed), "there is no const");
        }
        if !is_strict {
            return;
        }
        let formats = ["date-time", "time", "date", "duration", "email", "hostname", "uri"];
        let formats = formats.into_iter().chain(["ipv4", "ipv6", "uuid"]).collect::<Vec<_>>();
        rule(part["format"].as_str().is_none_or(|it| formats.contains(&it)), "formats are known");
        let refused = ["allOf", "oneOf", "not", "if", "patternProperties", "dependentRequired"];
        rule(!refused.iter().any(|it| has(it)), "strict: no other combinations");
        if is("object") {
            let names: BTreeSet<_> = part["properties"].as_object().unwrap().keys().collect();
            let required = part["required"].as_array().into_iter().flatten();
            let required: BTreeSet<_> = required.map(|it| it.as_str().unwrap()).collect();
            let all = names.iter().all(|name| required.contains(name.as_str()));
            rule(all, "strict: all fields are required");
            rule(part["additionalProperties"] == false, "strict: no other fields");
        }
        if self == Form::StrictAnthropic {
            let bounds = ["minimum", "maximum", "multipleOf", "maxItems", "uniqueItems"];
            rule(!bounds.iter().any(|it| has(it)), "strict: no bounds");
        }
    }
}

fn for_each_schema(schema: &Value, visit: &mut impl FnMut(&Value)) {
    visit(schema);
    for (key, value) in schema.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions",
                Value::Object(named),
            ) => {
                for part in named.values() {
                    for_each_schema(part, visit);
                }
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(listed)) => {
                for part in listed {
                    for_each_schema(part, visit);
                }
            }
            ("additionalProperties", Value::Bool(_)) => (),
            ("items" | "additionalProperties" | "not" | "if" | "then" | "else", part) => {
                for_each_schema(part, visit);
            }
            _ => (),
        }
    }
}

/// Every kind of field that a derived schema refers, bounds, tags, flattens or leaves open.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Derived {
    count: u8,
    ratio: Option<f32>,
    anything: serde_json::Value,
    things: Vec<serde_json::Value>,
    pair: (i32, String),
    by_name: std::collections::BTreeMap<String, i64>,
    /// What it is made of.
    parts: Option<Box<Derived>>,
    #[serde(flatten)]
    shape: Shape,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "only its schema is looked at")]
enum Shape {
    Circle { size: f64 },
    Label { size: String, inner: Option<Box<Shape>> },
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

/// Schemas as users have them, each with a rule that it breaks as it is, and arguments that it takes.
fn table() -> Vec<(Value, String, Value)> {
    let text = include_str!("../../data/schema/refused.json");
    let mut table: Vec<(Value, String, Value)> = serde_json::from_str(text).unwrap();
    let whole = json!({
        "count": 1, "anything": [], "things": [1], "pair": [1, "a"], "by_name": {"a": 1},
        "kind": "Circle", "size": 1.5,
    });
    let derived = steerage::schema::for_type::<Derived>();
    table.push((derived, "the root is no combination".to_owned(), whole));
    let circle = json!({"kind": "Circle", "size": 1.5});
    let shape = steerage::schema::for_type::<Shape>();
    table.push((shape, "the root is an object".to_owned(), circle));
    table
}

/// J3: what libraries generate and servers declare, turned into what each vendor takes.
#[test]
fn every_vendor_accepts_what_is_sent_of_a_schema_that_it_refuses() {
    for (schema, rule, arguments) in table() {
        let broken = Form::Chat.broken_rules(&schema, false);
        assert!(broken.contains(&*rule), "{schema} breaks {broken:?}");
        let tool = Tool::with_schema("t", "For a test", schema.clone(), |_, _| Ok(""));
        for form in FORMS {
            let (sent, is_strict) = form.sent(&tool);
            let broken = form.broken_rules(&sent, is_strict);
            assert!(broken.is_empty(), "{form:?}: {schema}\nis sent as {sent}\nwith {broken:?}");
        }
        // What fits the tool fits what the model was told.
        for schema in [schema.clone(), tool.declaration().parameters] {
            let checked = steerage::schema::Schema::new(schema.clone()).unwrap();
            let given = arguments.as_object().unwrap();
            assert_eq!(checked.check("t", given).as_ref(), Ok(given), "{schema}");
        }
    }
}

/// J3: what all vendors take is sent as it is, and what can be held to is.
#[test]
fn a_schema_that_vendors_accept_is_sent_as_it_is_or_in_its_strict_form() {
    let parameters = json!({
        "type": "object",
        "properties": {
            "text": {"type": ["string", "null"], "description": "What to say"},
            "mode": {"enum": ["loud", "low"]},
            "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "more": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            "list": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["text"],
        "additionalProperties": false,
    });
    let tool = Tool::with_schema("t", "For a test", parameters.clone(), |_, _| Ok(""));
    for form in FORMS {
        let (sent, is_strict) = form.sent(&tool);
        assert_eq!(is_strict, form.is_strict(), "{form:?}");
        assert_eq!(form.broken_rules(&sent, is_strict), BTreeSet::new(), "{form:?}: {sent}");
        if !is_strict {
            assert_eq!(sent.to_string(), parameters.to_string(), "{form:?}");
        }
    }
    let strict = SamplingConstraint::JsonSchema { strict: Strictness::Prefer };
    let nothing = Tool::new("t", "For a test", |_: Nothing, _| Ok(""))
        .constrained_sampling(ConstrainedSampling::On(strict));
    assert!(Form::StrictChat.sent(&nothing).1);
}

/// The rules of each form have something to refuse: else the tests above would show nothing.
#[test]
fn each_rule_refuses_something() {
    let object = |property: Value| json!({"type": "object", "properties": {"a": property}});
    let closed = |property: Value| {
        let mut schema = object(property);
        schema["additionalProperties"] = json!(false);
        schema["required"] = json!(["a"]);
        schema
    };
    for (form, schema, rule) in [
        (Form::Gemini, object(json!({"const": "x"})), "there is no const"),
        (Form::StrictChat, object(json!({"type": "string"})), "strict: all fields are required"),
        (Form::StrictChat, object(json!({"type": "string"})), "strict: no other fields"),
        (Form::StrictResponses, closed(json!({"oneOf": []})), "strict: no other combinations"),
        (
            Form::StrictChat,
            closed(json!({"type": "integer", "format": "uint8"})),
            "formats are known",
        ),
        (
            Form::StrictAnthropic,
            closed(json!({"type": "integer", "minimum": 0})),
            "strict: no bounds",
        ),
    ] {
        let broken = form.broken_rules(&schema, form.is_strict());
        assert!(broken.contains(rule), "{form:?}: {schema} breaks {broken:?}");
    }
}
