//! Schemas that come from builders and from types, and their strict form.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steerage::schema::{
    self, Schema, array, boolean, for_type, integer, lit, map, null, nullable, number, object,
    one_of, string, string_enum, tuple, union, unknown,
};

use crate::schema::object as fields;

#[track_caller]
fn check(built: impl Into<Value>, expected: &str) {
    let built = built.into();
    assert_eq!(built.to_string(), expected);
}

#[test]
fn builders_write_plain_schemas_with_keys_in_order() {
    check(string(), r#"{"type":"string"}"#);
    check(
        string().min_length(1).max_length(5).pattern("^a").format("uri"),
        r#"{"type":"string","minLength":1,"maxLength":5,"pattern":"^a","format":"uri"}"#,
    );
    check(number().minimum(0).maximum(1.5), r#"{"type":"number","minimum":0,"maximum":1.5}"#);
    check(
        integer().exclusive_minimum(0).exclusive_maximum(10).multiple_of(2),
        r#"{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10,"multipleOf":2}"#,
    );
    check(boolean().default(false), r#"{"type":"boolean","default":false}"#);
    check(null(), r#"{"type":"null"}"#);
    check(unknown(), "{}");
    check(unknown().description("Anything"), r#"{"description":"Anything"}"#);
    check(lit("a"), r#"{"const":"a"}"#);
    check(lit(Value::Null), r#"{"const":null}"#);
    check(one_of([1, 2]), r#"{"enum":[1,2]}"#);
    check(string_enum(["a", "b"]), r#"{"type":"string","enum":["a","b"]}"#);
    check(union([string(), null()]), r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#);
    check(nullable(integer()), r#"{"anyOf":[{"type":"integer"},{"type":"null"}]}"#);
    check(
        array(string()).min_items(1).max_items(3).unique_items(),
        r#"{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3,"uniqueItems":true}"#,
    );
    check(
        tuple([number(), string()]),
        r#"{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}],"items":false,"minItems":2}"#,
    );
    check(map(boolean()), r#"{"type":"object","additionalProperties":{"type":"boolean"}}"#);
    check(
        string().title("T").description("D").examples(["x"]).deprecated().default("x"),
        r#"{"type":"string","title":"T","description":"D","examples":["x"],"deprecated":true,"default":"x"}"#,
    );
    check(number().with("x-unit", "m"), r#"{"type":"number","x-unit":"m"}"#);
    check(array(json!({"$ref": "#"})), r##"{"type":"array","items":{"$ref":"#"}}"##);
}

#[test]
fn objects_are_closed_and_list_what_is_required() {
    check(object(), r#"{"type":"object","properties":{},"additionalProperties":false}"#);
    check(
        object()
            .description("D")
            .required("b", string())
            .optional("a", integer())
            .required("c", null()),
        concat!(
            r#"{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"},"c":{"type":"null"}},"#,
            r#""required":["b","c"],"additionalProperties":false,"description":"D"}"#
        ),
    );
    check(
        object().optional("a", integer()).open(),
        r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#,
    );
    // The last word on a field counts.
    check(
        object().required("a", string()).optional("a", integer()),
        r#"{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}"#,
    );
}

#[test]
fn a_built_schema_checks_at_once() {
    let schema = Schema::new(object().required("n", integer().minimum(1))).unwrap();
    let checked = schema.check("tool", &fields(json!({"n": "5"}))).unwrap();
    assert_eq!(checked["n"], 5);
    assert!(schema.check("tool", &fields(json!({"n": 5, "m": 1}))).is_err());
}

/// How to draw.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Drawing {
    /// Where it
    /// starts.
    start: Point,
    width: Option<u32>,
    style: Style,
    shape: Shape,
    #[serde(default)]
    layers: Vec<Point>,
    extra: Option<HashMap<String, Value>>,
    any: Value,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Point {
    x: f64,
    y: i64,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Style {
    Solid,
    Dashed,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Shape {
    Circle { radius: u8 },
    Label { text: String },
}

#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Tree {
    value: i64,
    children: Vec<Tree>,
}

#[test]
fn a_type_gives_an_inlined_schema_without_titles() {
    let expected = json!({
        "description": "How to draw.",
        "type": "object",
        "properties": {
            "start": {
                "description": "Where it\nstarts.",
                "type": "object",
                "properties": {
                    "x": {"type": "number", "format": "double"},
                    "y": {"type": "integer", "format": "int64"},
                },
                "required": ["x", "y"],
            },
            "width": {"type": ["integer", "null"], "format": "uint32", "minimum": 0},
            "style": {"type": "string", "enum": ["solid", "dashed"]},
            "shape": {"oneOf": [
                {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "const": "circle"},
                        "radius": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255},
                    },
                    "required": ["kind", "radius"],
                },
                {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "const": "label"},
                        "text": {"type": "string"},
                    },
                    "required": ["kind", "text"],
                },
            ]},
            "layers": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "x": {"type": "number", "format": "double"},
                        "y": {"type": "integer", "format": "int64"},
                    },
                    "required": ["x", "y"],
                },
            },
            "extra": {"type": ["object", "null"], "additionalProperties": true},
            "any": {},
        },
        "additionalProperties": false,
        "required": ["start", "style", "shape", "any"],
    });
    assert_eq!(for_type::<Drawing>(), expected);
}

#[test]
fn a_recursive_type_keeps_its_definition() {
    let schema = for_type::<Tree>();
    let text = schema.to_string();
    assert!(!text.contains("$schema") && !text.contains("title"), "{text}");
    let items = &schema["properties"]["children"]["items"];
    assert!(items["$ref"].is_string(), "{text}");
    let schema = Schema::new(schema).unwrap();
    let given = json!({"value": "1", "children": [{"value": "2", "children": []}]});
    let checked = schema.check("tool", &fields(given)).unwrap();
    assert_eq!(json!(checked), json!({"value": 1, "children": [{"value": 2, "children": []}]}));
}

#[test]
fn what_a_model_gets_slightly_wrong_deserialises() {
    let schema = Schema::new(for_type::<Drawing>()).unwrap();
    let given = json!({
        "start": "{\"x\": \"1.5\", \"y\": 2.0}",
        "width": 3.0,
        "style": "solid",
        "shape": {"kind": "circle", "radius": "9"},
        "layers": {"x": 1, "y": "2"},
        "extra": null,
        "any": [1],
    });
    let checked = schema.check("draw", &fields(given)).unwrap();
    let drawing: Drawing = serde_json::from_value(Value::Object(checked)).unwrap();
    let expected = Drawing {
        start: Point { x: 1.5, y: 2 },
        width: Some(3),
        style: Style::Solid,
        shape: Shape::Circle { radius: 9 },
        layers: vec![Point { x: 1.0, y: 2 }],
        extra: None,
        any: json!([1]),
    };
    assert_eq!(drawing, expected);
}

#[track_caller]
fn strict(given: Value, expected: Value) {
    let untouched = given.clone();
    assert_eq!(schema::strict(&given).unwrap().to_string(), expected.to_string());
    assert_eq!(given, untouched);
}

#[track_caller]
fn no_strict(property: Value, reason: &str) {
    let given = json!({"type": "object", "properties": {"a": property}});
    assert_eq!(schema::strict(&given).unwrap_err(), format!("#/properties/a{reason}"));
}

#[test]
fn every_field_of_a_strict_schema_is_required() {
    strict(
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}),
    );
    strict(
        json!({
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "required": ["b"],
        }),
        json!({
            "type": "object",
            "properties": {
                "a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "b": {"type": "integer"},
            },
            "required": ["a", "b"],
            "additionalProperties": false,
        }),
    );
}

#[test]
fn an_optional_field_that_admits_null_is_not_wrapped() {
    let admitting = [
        json!({"type": "null"}),
        json!({"type": ["string", "null"]}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"enum": ["a", null]}),
    ];
    for property in admitting {
        let given = json!({"type": "object", "properties": {"a": property}});
        assert_eq!(schema::strict(&given).unwrap()["properties"]["a"], property);
    }
    for property in
        [json!({"type": "string", "enum": ["a", null]}), json!({"type": ["null"], "enum": ["a"]})]
    {
        let given = json!({"type": "object", "properties": {"a": property}});
        let wrapped = json!({"anyOf": [property, {"type": "null"}]});
        assert_eq!(schema::strict(&given).unwrap()["properties"]["a"], wrapped);
    }
}

#[test]
fn strictness_reaches_nested_objects_and_items() {
    strict(
        json!({
            "type": "object",
            "properties": {"list": {"type": "array", "items": {
                "type": "object",
                "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}},
            }}},
            "required": ["list"],
            "additionalProperties": false,
        }),
        json!({
            "type": "object",
            "properties": {"list": {"type": "array", "items": {
                "type": "object",
                "properties": {"a": {"anyOf": [
                    {
                        "type": "object",
                        "properties": {"b": {"type": "string"}},
                        "required": ["b"],
                        "additionalProperties": false,
                    },
                    {"type": "null"},
                ]}},
                "required": ["a"],
                "additionalProperties": false,
            }}},
            "required": ["list"],
            "additionalProperties": false,
        }),
    );
}

#[test]
fn what_has_no_strict_form_is_named() {
    for keyword in [
        "$ref",
        "$defs",
        "definitions",
        "allOf",
        "oneOf",
        "patternProperties",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
        "unevaluatedProperties",
        "propertyNames",
        "contains",
        "prefixItems",
        "not",
        "if",
        "then",
        "else",
    ] {
        let given = json!({"type": "object", keyword: {}});
        no_strict(given, &format!(": {keyword} has no strict form"));
    }
    no_strict(json!(true), ": expected a schema object, got true");
    no_strict(json!({}), ": there is no type, anyOf or enum");
    no_strict(json!({"const": 1}), ": there is no type, anyOf or enum");
    no_strict(json!({"anyOf": []}), "/anyOf: there must be a list of alternatives");
    no_strict(
        json!({"anyOf": [{"type": "null"}, {"type": "object"}]}),
        "/anyOf/1: an alternative must be no object or array",
    );
    no_strict(
        json!({"anyOf": [{"type": ["array", "null"]}]}),
        "/anyOf/0: an alternative must be no object or array",
    );
    no_strict(
        json!({"type": "array", "items": [{"type": "string"}]}),
        "/items: expected a schema object, got [{\"type\":\"string\"}]",
    );
    no_strict(json!({"type": "array", "items": {"oneOf": []}}), "/items: oneOf has no strict form");
    no_strict(
        json!({"type": "string", "properties": {}}),
        ": there are properties without the type object",
    );
    no_strict(
        json!({"type": "object", "additionalProperties": true}),
        ": additionalProperties must be absent or false",
    );
    no_strict(
        json!({"type": "object", "additionalProperties": {}}),
        ": additionalProperties must be absent or false",
    );
    no_strict(
        json!({"type": "object", "required": ["b"]}),
        "/required: there is no property of each name",
    );
    assert!(schema::strict(&json!({"type": "string"})).is_err());
    assert!(schema::strict(&json!({"anyOf": [{"type": "object"}]})).is_err());
    assert!(schema::strict(&json!(true)).is_err());
}

#[test]
fn nulls_of_the_strict_form_mean_absence_in_the_original() {
    let original = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}},
    });
    assert!(schema::strict(&original).is_ok());
    let schema = Schema::new(original).unwrap();
    let checked = schema.check("tool", &fields(json!({"a": null, "b": null}))).unwrap();
    assert_eq!(json!(checked), json!({"b": null}));
}
