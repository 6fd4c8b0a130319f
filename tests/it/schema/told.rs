//! What a model is told of a schema that vendors do not take as it is.

use serde_json::{Value, json};
use steerage::Tool;

#[track_caller]
fn check(given: Value, told: Value) {
    let tool = Tool::with_schema("t", "For a test", given.clone(), |_, _| Ok(""));
    assert_eq!(tool.declaration().parameters.to_string(), told.to_string());
    assert_eq!(*tool.parameters(), given);
    // What is told is taken as it is.
    let again = Tool::with_schema("t", "For a test", told.clone(), |_, _| Ok(""));
    assert_eq!(again.declaration().parameters, told);
}

#[test]
fn a_union_becomes_an_object_with_what_all_branches_require() {
    let branch = |kind: &str, field: &str, wanted: Value| {
        json!({
            "type": "object",
            "properties": {"kind": {"const": kind}, "size": wanted, field: {"type": "string"}},
            "required": ["kind", field],
            "additionalProperties": false,
        })
    };
    check(
        json!({
            "description": "A shape",
            "oneOf": [
                branch("a", "x", json!({"type": "integer"})),
                branch("b", "y", json!({"type": "string"})),
                {"type": "null"},
            ],
        }),
        json!({
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["a", "b"]},
                "size": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "x": {"type": "string"},
                "y": {"type": "string"},
            },
            "required": ["kind"],
            "additionalProperties": false,
            "description": "A shape",
        }),
    );
    // One open branch opens the whole, and one that says nothing of a field says that it may be anything.
    check(
        json!({"type": "object", "anyOf": [branch("a", "x", json!({})), {"properties": {"x": {"type": "integer"}}}]}),
        json!({
            "type": "object",
            "properties": {
                "kind": {"const": "a"},
                "size": {},
                "x": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            },
        }),
    );
}

#[test]
fn parts_become_one_object_with_what_each_requires() {
    check(
        json!({
            "allOf": [
                {"$ref": "#/$defs/base"},
                {"properties": {"b": {"maximum": 3}, "c": {}}, "required": ["c"]},
            ],
            "properties": {"b": {"type": "integer"}},
            "unevaluatedProperties": false,
            "$defs": {"base": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
        }),
        json!({
            "type": "object",
            "properties": {
                "b": {"allOf": [{"type": "integer"}, {"maximum": 3}]},
                "a": {"type": "string"},
                "c": {},
            },
            "required": ["a", "c"],
            "$defs": {"base": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
        }),
    );
}

#[test]
fn a_pattern_keeps_a_closed_object_open_for_it() {
    let given = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "anyOf": [{"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": false}],
    });
    check(given, json!({"type": "object", "properties": {"a": {"type": "string"}}}));
}

#[test]
fn references_lead_to_definitions_that_are_sent() {
    check(
        json!({
            "anyOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}},
                {"type": "object", "properties": {"next": {"$ref": "#"}, "b": {"$ref": "#/anyOf/0/properties/a"}}},
                {"type": "string"},
            ],
        }),
        json!({
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "next": {"$ref": "#/$defs/root"},
                "b": {"$ref": "#/$defs/a"},
            },
            "$defs": {
                "a": {"type": "string"},
                "root": {"anyOf": [
                    {"type": "object", "properties": {"a": {"type": "string"}}},
                    {"type": "object", "properties": {"next": {"$ref": "#/$defs/root"}, "b": {"$ref": "#/$defs/a"}}},
                    {"type": "string"},
                ]},
            },
        }),
    );
    // A schema with an address of its own has its own definitions.
    check(
        json!({
            "type": "object",
            "properties": {
                "a": {"$id": "https://example.org/a", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "string"}}},
                "b": {"$ref": "#/$defs/n"},
            },
            "$defs": {"n": {"type": "boolean"}},
        }),
        json!({
            "type": "object",
            "properties": {
                "a": {"items": {"$ref": "#/$defs/n_"}, "$defs": {"n": {"type": "string"}}},
                "b": {"$ref": "#/$defs/n"},
            },
            "$defs": {"n": {"type": "boolean"}, "n_": {"type": "string"}},
        }),
    );
    // One that leads nowhere says nothing, and neither does one whose meaning depends on the way to it.
    check(
        json!({"type": "object", "properties": {
            "a": {"$ref": "https://example.org/none"},
            "b": {"$dynamicRef": "#x", "description": "B", "unevaluatedProperties": false},
        }}),
        json!({"type": "object", "properties": {"a": {}, "b": {"description": "B"}}}),
    );
}

#[test]
fn data_that_looks_like_a_schema_stays() {
    let given = json!({
        "type": "object",
        "properties": {
            "$ref": {"type": "string"},
            "a": {"default": {"$ref": "#/none", "type": "array"}, "examples": [{"$ref": "x"}]},
            "b": {"enum": [{"$ref": "#/none"}]},
        },
        "required": ["$ref"],
    });
    check(given.clone(), given);
}

#[test]
fn a_union_in_itself_is_told_in_time() {
    let branch = || json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
    let given =
        json!({"anyOf": [{"$ref": "#"}, branch(), {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}]});
    let tool = Tool::with_schema("t", "For a test", given, |_, _| Ok(""));
    assert_eq!(tool.declaration().parameters["type"], "object");
}
