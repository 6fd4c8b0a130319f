//! What a model reads when its arguments do not fit.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::schema::{object, schema};

/// Checks the whole text.
#[track_caller]
fn check_text(wanted: Value, given: Value, expected: Expect) {
    expected.assert_eq(&schema(wanted).check("edit", &object(given)).unwrap_err());
}

/// Checks the lines that say what is wrong with the field `x`.
#[track_caller]
fn check(wanted: Value, given: Value, expected: &[&str]) {
    check_all(json!({"properties": {"x": wanted}}), json!({"x": given}), expected);
}

#[track_caller]
fn check_all(wanted: Value, given: Value, expected: &[&str]) {
    let text = schema(wanted).check("edit", &object(given)).unwrap_err();
    let lines = text.lines().filter_map(|line| line.strip_prefix("- ")).collect::<Vec<_>>();
    assert_eq!(lines, expected);
}

#[test]
fn a_refusal_names_the_tool_each_place_and_the_arguments() {
    check_text(
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "mode": {"enum": ["text", "binary"]},
                "edits": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                    "required": ["old", "new"],
                }},
            },
            "required": ["path", "edits"],
            "additionalProperties": false,
        }),
        json!({"mode": "foo", "edits": [{"old": "a", "new": "b"}, {"old": "a"}, 5], "extra": 1}),
        expect![[r#"
            The arguments do not fit the tool "edit". Correct this and call it again:
            - path: missing, but required
            - mode: expected one of "text", "binary"
            - edits.1.new: missing, but required
            - edits.2: expected object, got integer
            - extra: unknown field; known are path, mode, edits

            Arguments received:
            {
              "mode": "foo",
              "edits": [
                {
                  "old": "a",
                  "new": "b"
                },
                {
                  "old": "a"
                },
                5
              ],
              "extra": 1
            }"#]],
    );
}

#[test]
fn a_missing_field_is_named_alone() {
    check_text(
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
        json!({}),
        expect![[r#"
            The arguments do not fit the tool "edit". Correct this and call it again:
            - path: missing, but required

            Arguments received:
            {}"#]],
    );
}

#[test]
fn a_wrong_type_is_the_only_complaint_about_its_value() {
    check(
        json!({"type": "string", "minLength": 3, "enum": ["abc"]}),
        json!([]),
        &["x: expected string, got array"],
    );
    check(json!({"type": "integer"}), json!("3.9"), &["x: expected integer, got string"]);
    check(json!({"type": "integer"}), json!(3.9), &["x: expected integer, got number"]);
    check(
        json!({"type": ["integer", "null"]}),
        json!("a"),
        &["x: expected integer or null, got string"],
    );
    check_all(
        json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]}),
        json!({"x": null}),
        &["x: expected integer, got null"],
    );
}

#[test]
fn listed_values_are_shown() {
    check(json!({"const": "a"}), json!("b"), &[r#"x: expected "a""#]);
    check(json!({"enum": ["a", 1, null]}), json!("b"), &[r#"x: expected one of "a", 1, null"#]);
    let many = (0..30).collect::<Vec<_>>();
    let lines = schema(json!({"properties": {"x": {"enum": many}}}));
    let text = lines.check("edit", &object(json!({"x": "b"}))).unwrap_err();
    assert!(
        text.contains("- x: expected one of 0, 1, 2, ") && text.contains("19, … (30 in all)"),
        "{text}"
    );
}

#[test]
fn unknown_fields_are_named_with_the_known_ones() {
    check_all(
        json!({"properties": {"a": {}, "b": {}}, "additionalProperties": false}),
        json!({"c": 1, "a": 1}),
        &["c: unknown field; known are a, b"],
    );
    check(
        json!({"type": "object", "additionalProperties": false}),
        json!({"c": 1}),
        &["x.c: unknown field, none is allowed here"],
    );
}

#[cfg(feature = "validate")]
#[test]
fn each_keyword_has_its_words() {
    check(json!({"minLength": 2}), json!("a"), &["x: expected at least 2 characters"]);
    check(json!({"maxLength": 1}), json!("ab"), &["x: expected at most 1 character"]);
    check(json!({"pattern": "^b"}), json!("a"), &["x: expected text that matches ^b"]);
    check(json!({"format": "date"}), json!("a"), &["x: expected text in the format date"]);
    check(json!({"minimum": 1}), json!(0), &["x: expected a number >= 1"]);
    check(json!({"maximum": 1}), json!(2), &["x: expected a number <= 1"]);
    check(json!({"exclusiveMinimum": 1}), json!(1), &["x: expected a number > 1"]);
    check(json!({"exclusiveMaximum": 1.5}), json!(1.5), &["x: expected a number < 1.5"]);
    check(json!({"multipleOf": 2}), json!(3), &["x: expected a multiple of 2"]);
    check(json!({"minItems": 1}), json!([]), &["x: expected at least 1 item"]);
    check(json!({"maxItems": 1}), json!([1, 2]), &["x: expected at most 1 item"]);
    check(json!({"uniqueItems": true}), json!([1, 1]), &["x: expected items that all differ"]);
    check(json!({"minProperties": 1}), json!({}), &["x: expected at least 1 field"]);
    check(json!({"maxProperties": 0}), json!({"a": 1}), &["x: expected at most 0 fields"]);
    check(
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"a": 1}),
        &["x.b: missing, but required here"],
    );
    check(
        json!({"propertyNames": {"pattern": "^a"}}),
        json!({"b": 1}),
        &["x.b: a field may not have this name"],
    );
    check(
        json!({"minimum": 5, "multipleOf": 2}),
        json!(3),
        &["x: expected a number >= 5", "x: expected a multiple of 2"],
    );
    check(
        json!({"properties": {"a": {}}, "unevaluatedProperties": false}),
        json!({"a": 1, "b": 1}),
        &["x.b: unknown field"],
    );
}

#[cfg(feature = "validate")]
#[test]
fn patterns_of_names_are_told_with_the_known_ones() {
    check(
        json!({
            "properties": {"a": {}},
            "patternProperties": {"^x-": {}},
            "additionalProperties": false,
        }),
        json!({"x-a": 1, "b": 1}),
        &["x.b: unknown field; known are a, names that match ^x-"],
    );
}

#[test]
fn what_nothing_else_speaks_of_is_named() {
    check(
        json!({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": {"type": "integer"}}),
        json!({"a": "x", "b": "y", "c": 1}),
        &["x.b: expected integer, got string"],
    );
    check(
        json!({"prefixItems": [{}], "unevaluatedItems": false}),
        json!([1, 2]),
        &["x.1: one item too many"],
    );
}

#[test]
fn combinations_are_explained_by_their_parts() {
    check(
        json!({"not": {"type": "string"}}),
        json!("a"),
        &["x: matches what the schema excludes (not)"],
    );
    check(json!(false), json!(1), &["x: nothing is allowed here"]);
    check(
        json!({"prefixItems": [{"type": "integer"}], "items": false}),
        json!(["a", 2, 3]),
        &["x: expected at most 1 item, got 3", "x.0: expected integer, got string"],
    );
    check(
        json!({"contains": {"type": "string"}}),
        json!([1]),
        &["x: expected at least 1 item of the kind that contains describes, got 0"],
    );
    check(
        json!({"allOf": [{"required": ["a"]}, {"required": ["a", "b"]}]}),
        json!({}),
        &["x.a: missing, but required", "x.b: missing, but required"],
    );
    check(
        json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
        json!({"a": 1}),
        &["x.b: missing, but required"],
    );
    check(
        json!({"dependentSchemas": {"a": {"required": ["b"]}}}),
        json!({"a": 1}),
        &["x.b: missing, but required"],
    );
}

#[test]
fn a_union_is_explained_by_the_branch_that_was_meant() {
    let shape = |kind: &str, field: &str| {
        json!({
            "type": "object",
            "properties": {"kind": {"const": kind}, field: {"type": "integer"}},
            "required": ["kind", field],
        })
    };
    let shapes = json!({"oneOf": [shape("circle", "radius"), shape("square", "side")]});
    check(shapes.clone(), json!({"kind": "square"}), &["x.side: missing, but required"]);
    check(
        shapes.clone(),
        json!({"kind": "cube"}),
        &[r#"x.kind: expected one of "circle", "square""#],
    );
    check(shapes.clone(), json!({"side": 1}), &["x.kind: missing, but required"]);
    check(shapes.clone(), json!([1]), &["x: expected object, got array"]);
    check(
        shapes,
        json!({"kind": "square", "side": "a"}),
        &["x.side: expected integer, got string"],
    );
    check(
        json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        json!("a"),
        &["x: expected integer or null, got string"],
    );
    check(
        json!({"anyOf": [{"const": "a"}, {"const": "b"}]}),
        json!("c"),
        &[r#"x: expected one of "a", "b""#],
    );
    check(
        json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
        json!(5),
        &["x: matches 2 alternatives, but must match exactly one"],
    );
    check(
        json!({"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "null"}]}),
        json!({"a": []}),
        &["x.a: expected integer, got array"],
    );
}

#[cfg(feature = "validate")]
#[test]
fn alternatives_for_a_text_are_listed() {
    check(
        json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "maxLength": 2}, {"type": "null"}]}),
        json!("abc"),
        &["x: expected text in the format date, or expected at most 2 characters"],
    );
}

#[test]
fn paths_lead_through_parsed_text() {
    check_text(
        json!({"properties": {"x": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}}}),
        json!({"x": "[{\"n\": \"1\"}, {\"n\": \"b\"}]"}),
        expect![[r#"
            The arguments do not fit the tool "edit". Correct this and call it again:
            - x.1.n: expected integer, got string

            Arguments received:
            {
              "x": "[{\"n\": \"1\"}, {\"n\": \"b\"}]"
            }"#]],
    );
}

#[test]
fn the_whole_is_called_root() {
    check_all(
        json!({"minProperties": 1, "not": {}}),
        json!({"a": 1}),
        &["root: matches what the schema excludes (not)"],
    );
    check_all(json!(false), json!({}), &["root: nothing is allowed here"]);
}
