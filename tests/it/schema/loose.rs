//! The loose schemas of the real world, and the few that cannot be used.

use serde_json::{Value, json};
use steerage::{ErrorKind, schema::Schema};

use crate::schema::{object, schema};

/// Checks which values of the field `x` a schema takes as they are, and which not.
#[track_caller]
fn check(
    wanted: Value,
    fine: impl IntoIterator<Item = Value>,
    wrong: impl IntoIterator<Item = Value>,
) {
    check_root(json!({"properties": {"x": wanted}}), fine, wrong);
}

#[track_caller]
fn check_root(
    json: Value,
    fine: impl IntoIterator<Item = Value>,
    wrong: impl IntoIterator<Item = Value>,
) {
    let schema = schema(json.clone());
    assert_eq!(*schema.json(), json, "the schema as given");
    for value in fine {
        let checked = schema.check("tool", &object(json!({"x": value})));
        assert_eq!(checked.map(Value::from), Ok(json!({"x": value})), "{json}");
    }
    for value in wrong {
        let checked = schema.check("tool", &object(json!({"x": value})));
        assert!(checked.is_err(), "{json} takes {value}");
    }
}

#[track_caller]
fn unusable(json: Value, reason: &str) {
    let error = Schema::new(json).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert_eq!(error.message(), format!("the schema cannot be used: {reason}"));
}

#[test]
fn keywords_with_a_value_of_the_wrong_type_are_ignored() {
    for keywords in [
        json!({"required": true}),
        json!({"required": "x"}),
        json!({"minLength": "3"}),
        json!({"minLength": -1}),
        json!({"maxItems": 1.5}),
        json!({"properties": []}),
        json!({"items": 5}),
        json!({"items": "string"}),
        json!({"enum": "a"}),
        json!({"enum": {"a": 1}}),
        json!({"anyOf": {}}),
        json!({"anyOf": []}),
        json!({"oneOf": []}),
        json!({"allOf": []}),
        json!({"not": "x"}),
        json!({"additionalProperties": "no"}),
        json!({"minimum": "0"}),
        json!({"multipleOf": 0}),
        json!({"uniqueItems": "true"}),
        json!({"pattern": 5}),
        json!({"format": []}),
        json!({"dependentRequired": []}),
        json!({"$ref": 5}),
        json!({"type": 5}),
        json!({"description": 5, "title": [], "default": {}, "$comment": 1, "$schema": 7, "$id": 7}),
        json!({"$schema": "https://example.org/unknown", "unknown": {"type": 1}}),
    ] {
        check(keywords, [json!("a"), json!(5), json!([1, 1]), json!({"a": 1})], []);
    }
}

#[test]
fn the_rest_of_a_schema_with_a_bad_keyword_holds() {
    check(json!({"type": "string", "minLength": "3", "enum": ["a"]}), [json!("a")], [json!("abc")]);
    check(
        json!({"type": "object", "required": ["a", 5, "a"]}),
        [json!({"a": 1})],
        [json!({"b": 1})],
    );
}

#[test]
fn unknown_types_are_dropped() {
    check(json!({"type": "any"}), [json!("a"), json!(5), json!(null)], []);
    check(json!({"type": "String"}), [json!("a"), json!(5)], []);
    check(json!({"type": ["string", "any"]}), [json!("a"), json!([])], []);
    check(json!({"type": ["string", "file", "string"]}), [json!("a")], [json!([])]);
    check(json!({"type": ["file"]}), [json!("a"), json!([])], []);
    check(json!({"type": []}), [json!("a"), json!([])], []);
}

#[cfg(feature = "validate")]
#[test]
fn bounds_of_draft_4_are_understood() {
    check(
        json!({"type": "number", "minimum": 1, "exclusiveMinimum": true}),
        [json!(1.5)],
        [json!(1)],
    );
    check(
        json!({"type": "number", "minimum": 1, "exclusiveMinimum": false}),
        [json!(1)],
        [json!(0)],
    );
    check(
        json!({"type": "number", "maximum": 1, "exclusiveMaximum": true}),
        [json!(0)],
        [json!(1)],
    );
    check(json!({"type": "number", "exclusiveMaximum": true}), [json!(1e9)], []);
    check(json!({"type": "number", "exclusiveMinimum": 1, "minimum": 0}), [json!(2)], [json!(1)]);
}

#[test]
fn tuples_of_older_drafts_are_understood() {
    let pair = json!([{"type": "integer"}, {"type": "boolean"}]);
    check(json!({"items": pair}), [json!([1, true, "x"]), json!([1])], [json!(["x"])]);
    check(
        json!({"items": pair, "additionalItems": false}),
        [json!([1, true])],
        [json!([1, true, 1])],
    );
    check(
        json!({"items": pair, "additionalItems": {"type": "boolean"}}),
        [json!([1, true, false])],
        [json!([1, true, []])],
    );
    check(json!({"items": {"type": "integer"}, "additionalItems": false}), [json!([1, 2, 3])], []);
    check(json!({"prefixItems": pair, "items": false}), [json!([1, true])], [json!([1, true, 1])]);
}

#[test]
fn dependencies_of_older_drafts_are_understood() {
    check(
        json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
        [json!({"a": 1, "b": 1}), json!({"c": 1, "d": 1}), json!({})],
        [json!({"c": 1})],
    );
}

#[test]
fn a_reference_that_leads_nowhere_only_refuses_its_place() {
    for reference in [
        "#/$defs/missing",
        "#missing",
        "#/type",
        "https://example.org/schema.json",
        "other.json#/a",
        "#/%zz",
        "http://json-schema.org/draft-03/schema#",
    ] {
        check(json!({"$ref": reference}), [], [json!(1), json!({})]);
        let schema = schema(json!({
            "type": "object",
            "properties": {"x": {"$ref": reference}, "y": {"type": "integer"}},
        }));
        assert!(schema.check("tool", &object(json!({"y": 1}))).is_ok(), "{reference}");
    }
}

#[test]
fn references_of_all_kinds_are_followed() {
    let integers = |json: Value| check_root(json, [json!(1)], [json!([]), json!("a")]);
    let with = |reference: &str, rest: Value| {
        let mut json = rest;
        json["properties"] = json!({"x": {"$ref": reference}});
        json
    };
    let integer = || json!({"type": "integer"});
    integers(with("#/$defs/n", json!({"$defs": {"n": integer()}})));
    integers(with("#/definitions/n", json!({"definitions": {"n": integer()}})));
    integers(with("#/components/schemas/n", json!({"components": {"schemas": {"n": integer()}}})));
    integers(with("#/$defs/a~1b~0%20c", json!({"$defs": {"a/b~ c": integer()}})));
    integers(with("#/allOf/0/items", json!({"allOf": [{"items": integer()}]})));
    integers(with("#n", json!({"$defs": {"any": {"$anchor": "n", "type": "integer"}}})));
    integers(with("#n", json!({"$defs": {"any": {"$id": "#n", "type": "integer"}}})));
    integers(with("n", json!({"$defs": {"any": {"$id": "n", "type": "integer"}}})));
    integers(with(
        "n.json",
        json!({
            "$id": "https://example.org/a/root.json",
            "$defs": {"any": {"$id": "https://example.org/a/n.json", "type": "integer"}},
        }),
    ));
    integers(with(
        "https://example.org/n#/$defs/m",
        json!({
            "$id": "https://example.org/root",
            "$defs": {"any": {"$id": "/n", "$defs": {"m": integer()}}},
        }),
    ));
    integers(with(
        "#/$defs/a",
        json!({
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"}, "c": integer()},
        }),
    ));
    // What stands beside a reference holds too.
    check_root(
        json!({
            "properties": {"x": {"$ref": "#/$defs/n", "enum": [5, "5"]}},
            "$defs": {"n": integer()},
        }),
        [json!(5)],
        [json!(4)],
    );
}

#[test]
fn a_schema_of_a_field_called_like_a_keyword_is_a_schema() {
    check_root(
        json!({"properties": {
            "x": {"type": "object", "properties": {
                "$ref": {"type": "integer"}, "type": {"type": "integer"}, "required": {"type": "integer"},
                "$id": {"type": "integer"}, "properties": {"type": "integer"}, "items": {"type": "integer"},
            }},
        }}),
        [json!({"$ref": 1, "type": 1, "required": 1, "$id": 1, "properties": 1, "items": 1})],
        [json!({"properties": "x"})],
    );
}

#[cfg(feature = "validate")]
#[test]
fn a_bad_pattern_is_ignored() {
    check(json!({"type": "string", "pattern": "["}), [json!("a")], [json!([])]);
    check(
        json!({
            "patternProperties": {"[": {"type": "integer"}, "^a": {"type": "integer"}},
            "additionalProperties": false,
        }),
        [json!({"a": 1, "b": "x"})],
        [json!({"a": "x"})],
    );
}

#[cfg(feature = "validate")]
#[test]
fn formats_and_patterns_are_checked() {
    check(
        json!({"type": "string", "format": "date"}),
        [json!("2024-02-29")],
        [json!("2023-02-29")],
    );
    check(json!({"type": "string", "format": "email"}), [json!("a@b.c")], [json!("a")]);
    check(json!({"type": "string", "format": "uint32"}), [json!("a")], []);
    check(json!({"type": "integer", "format": "uint32"}), [json!(-1)], []);
    check(json!({"type": "string", "pattern": "^\\d+$"}), [json!("12")], [json!("1a")]);
    check(json!({"type": "string", "pattern": "b"}), [json!("abc")], [json!("ac")]);
    check(json!({"type": "string", "minLength": 2}), [json!("éé")], [json!("é")]);
    check(json!({"multipleOf": 0.01}), [json!(4.35)], [json!(4.351)]);
    check(json!({"uniqueItems": true}), [json!([1, "1"])], [json!([1, 1.0])]);
    check(
        json!({"properties": {"a": {}}, "unevaluatedProperties": false}),
        [json!({"a": 1})],
        [json!({"b": 1})],
    );
}

#[test]
fn what_is_no_schema_is_an_error_that_says_where() {
    unusable(json!("x"), "#: expected a schema (an object or a boolean), got string");
    unusable(json!(null), "#: expected a schema (an object or a boolean), got null");
    unusable(
        json!({"properties": {"a/b": {"anyOf": [{}, "string"]}}}),
        "#/properties/a~1b/anyOf/1: expected a schema (an object or a boolean), got string",
    );
    unusable(
        json!({"properties": {"a": 5}}),
        "#/properties/a: expected a schema (an object or a boolean), got integer",
    );
}

#[test]
fn a_root_that_admits_no_object_is_an_error() {
    for json in [
        json!({"type": "string"}),
        json!({"type": ["array", "null"]}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}}),
        json!({"const": 5}),
    ] {
        unusable(json, "#: arguments are an object, but no object matches");
    }
    assert!(schema(json!(false)).check("tool", &object(json!({}))).is_err());
    assert!(schema(json!(true)).check("tool", &object(json!({"a": 1}))).is_ok());
}

#[test]
fn a_schema_is_cheap_to_clone_and_crosses_threads() {
    fn is<T: Send + Sync + Clone + 'static>(_: &T) {}
    let schema = schema(json!({"type": "object"}));
    is(&schema);
    assert_eq!(format!("{schema:?}"), "Schema(Object {\"type\": String(\"object\")})");
}
