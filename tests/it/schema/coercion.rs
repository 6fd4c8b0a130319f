//! What becomes of values that do not quite fit: one row for each case of the table, and a few for each keyword.

use serde_json::{Value, json};

use crate::schema::{object, schema};

/// Checks one required argument `x`; `null` text in `expected` stands for a refusal.
#[track_caller]
fn check(wanted: Value, given: Value, expected: Option<Value>) {
    let schema = schema(json!({
        "type": "object",
        "properties": {"x": wanted},
        "required": ["x"],
    }));
    let checked = schema.check("tool", &object(json!({"x": given})));
    match (checked, expected) {
        (Ok(checked), Some(expected)) => {
            // Compared as text: 3 and 3.0 differ, and so does the order of keys.
            assert_eq!(checked["x"].to_string(), expected.to_string(), "{wanted} <- {given}");
            let again = schema.check("tool", &checked).unwrap();
            assert_eq!(json!(again).to_string(), json!(checked).to_string(), "not idempotent");
        }
        (Err(_), None) => (),
        (checked, expected) => panic!("{wanted} <- {given}: {checked:?}, expected {expected:?}"),
    }
}

#[track_caller]
fn becomes(wanted: Value, given: Value, expected: Value) {
    check(wanted, given, Some(expected));
}

#[track_caller]
fn stays(wanted: Value, given: Value) {
    check(wanted, given.clone(), Some(given));
}

#[track_caller]
fn refused(wanted: Value, given: Value) {
    check(wanted, given, None);
}

/// Checks whole arguments.
#[track_caller]
fn check_all(wanted: Value, given: Value, expected: Value) {
    let checked = schema(wanted).check("tool", &object(given)).unwrap();
    assert_eq!(json!(checked).to_string(), expected.to_string());
}

#[test]
fn a_number_may_be_text() {
    let number = || json!({"type": "number"});
    becomes(number(), json!("5"), json!(5));
    becomes(number(), json!(" 1.5\n"), json!(1.5));
    becomes(number(), json!("-1e3"), json!(-1000.0));
    becomes(number(), json!("9007199254740993"), json!(9_007_199_254_740_993_u64));
    becomes(number(), json!("0.0"), json!(0.0));
    stays(number(), json!(3.0));
    stays(number(), json!(3));
    for text in [
        "", " ", "abc", "0x10", "1e400", "1e-400", "NaN", "null", "true", ".5", "+5", "05", "1 2",
        "5,0",
    ] {
        refused(number(), json!(text));
    }
    // No float holds this integer.
    refused(number(), json!("123456789012345678901234567890"));
    refused(number(), json!(true));
    refused(number(), json!(null));
    refused(number(), json!(["5"]));
}

#[test]
fn an_integer_may_be_text_or_have_a_zero_fraction() {
    let integer = || json!({"type": "integer"});
    becomes(integer(), json!("3"), json!(3));
    becomes(integer(), json!("3.0"), json!(3));
    becomes(integer(), json!("1e3"), json!(1000));
    becomes(integer(), json!("12.50e1"), json!(125));
    becomes(integer(), json!("-0"), json!(0));
    becomes(integer(), json!("0e9"), json!(0));
    becomes(integer(), json!(" 10 "), json!(10));
    becomes(integer(), json!("9007199254740993.0"), json!(9_007_199_254_740_993_u64));
    becomes(integer(), json!("18446744073709551615"), json!(u64::MAX));
    becomes(integer(), json!("-9223372036854775808"), json!(i64::MIN));
    becomes(integer(), json!(3.0), json!(3));
    becomes(integer(), json!(-2.0), json!(-2));
    stays(integer(), json!(1e300));
    for text in ["3.9", "", "abc", "18446744073709551616", "1e30", "1e-2", "0x10", "12n", "three"] {
        refused(integer(), json!(text));
    }
    refused(integer(), json!(3.5));
    refused(integer(), json!(true));
    refused(integer(), json!(null));
}

#[test]
fn a_boolean_may_be_text_or_a_bit() {
    let boolean = || json!({"type": "boolean"});
    becomes(boolean(), json!("true"), json!(true));
    becomes(boolean(), json!("TRUE"), json!(true));
    becomes(boolean(), json!("False"), json!(false));
    becomes(boolean(), json!("1"), json!(true));
    becomes(boolean(), json!("0"), json!(false));
    becomes(boolean(), json!(1), json!(true));
    becomes(boolean(), json!(0), json!(false));
    becomes(boolean(), json!(1.0), json!(true));
    refused(boolean(), json!(2));
    refused(boolean(), json!(0.5));
    refused(boolean(), json!("yes"));
    refused(boolean(), json!(""));
    refused(boolean(), json!(null));
}

#[test]
fn a_string_may_be_a_number_or_a_boolean_but_is_never_parsed() {
    let string = || json!({"type": "string"});
    becomes(string(), json!(5), json!("5"));
    becomes(string(), json!(3.5), json!("3.5"));
    becomes(string(), json!(3.0), json!("3.0"));
    becomes(string(), json!(9_007_199_254_740_993_u64), json!("9007199254740993"));
    becomes(string(), json!(true), json!("true"));
    for text in ["5", "[\"a\"]", "{\"a\":1}", "true", "null", "", " x "] {
        stays(string(), json!(text));
    }
    refused(string(), json!(null));
    refused(string(), json!([]));
    refused(string(), json!({}));
}

#[test]
fn an_array_may_be_json_text_or_a_lone_value() {
    let strings = || json!({"type": "array", "items": {"type": "string"}});
    let integers = || json!({"type": "array", "items": {"type": "integer"}});
    becomes(strings(), json!("[\"a\"]"), json!(["a"]));
    becomes(strings(), json!(" [\"a\", 5]\n"), json!(["a", "5"]));
    becomes(strings(), json!("a"), json!(["a"]));
    becomes(strings(), json!("[a]"), json!(["[a]"]));
    becomes(strings(), json!(5), json!(["5"]));
    becomes(strings(), json!(""), json!([""]));
    becomes(integers(), json!("[1, \"2\"]"), json!([1, 2]));
    becomes(integers(), json!("7"), json!([7]));
    becomes(json!({"type": "array"}), json!({"a": 1}), json!([{"a": 1}]));
    becomes(
        json!({"type": "array", "items": {"type": "object"}}),
        json!("{\"a\":1}"),
        json!([{"a": 1}]),
    );
    becomes(json!({"type": "array", "items": strings()}), json!("a"), json!([["a"]]));
    becomes(
        json!({"type": "array", "items": strings()}),
        json!("[[\"a\"], \"b\"]"),
        json!([["a"], ["b"]]),
    );
    stays(strings(), json!([]));
    refused(strings(), json!(null));
    refused(integers(), json!("x"));
}

#[test]
fn an_object_may_be_json_text() {
    let point =
        || json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    becomes(point(), json!("{\"a\": 1}"), json!({"a": 1}));
    becomes(point(), json!("{\"a\": \"1\"}"), json!({"a": 1}));
    becomes(json!({"type": "object"}), json!("{}"), json!({}));
    refused(point(), json!("{\"a\": 1"));
    refused(point(), json!("[1]"));
    refused(point(), json!("a"));
    refused(point(), json!([{"a": 1}]));
    refused(point(), json!(null));
}

#[test]
fn a_null_for_an_optional_field_means_its_absence() {
    let optional = |wanted: Value| json!({"type": "object", "properties": {"x": wanted, "y": {}}});
    let given = || json!({"x": null, "y": 1});
    let absent = || json!({"y": 1});
    check_all(optional(json!({"type": "string"})), given(), absent());
    check_all(optional(json!({"enum": ["a", "b"]})), given(), absent());
    check_all(
        optional(json!({"anyOf": [{"type": "string"}, {"type": "integer"}]})),
        given(),
        absent(),
    );
    check_all(optional(json!({"type": ["string", "integer"]})), given(), absent());
    check_all(optional(json!({"allOf": [{"type": "string"}]})), given(), absent());
    check_all(
        json!({
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/s"}, "y": {}},
            "$defs": {"s": {"type": "string"}},
        }),
        given(),
        absent(),
    );
    // Where null is welcome it stays.
    check_all(optional(json!({"type": ["string", "null"]})), given(), given());
    check_all(optional(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})), given(), given());
    check_all(optional(json!({"enum": ["a", null]})), given(), given());
    check_all(optional(json!({})), given(), given());
    check_all(optional(json!(true)), given(), given());
}

#[test]
fn only_a_known_field_is_left_out_for_a_null() {
    refused(
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"a": null}),
    );
    refused(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
        json!({"a": null}),
    );
    refused(json!({"type": "array", "items": {"type": "string"}}), json!([null]));
}

#[test]
fn a_value_becomes_the_one_member_it_stands_for() {
    becomes(json!({"enum": [1, 2]}), json!("1"), json!(1));
    becomes(json!({"enum": [1, 2]}), json!(1.0), json!(1));
    becomes(json!({"enum": ["1", "2"]}), json!(2), json!("2"));
    becomes(json!({"enum": ["true", "auto"]}), json!(true), json!("true"));
    becomes(json!({"const": true}), json!("True"), json!(true));
    becomes(json!({"const": true}), json!(1), json!(true));
    becomes(json!({"const": 5}), json!("5.0"), json!(5));
    becomes(json!({"const": "5"}), json!(5), json!("5"));
    becomes(json!({"enum": [[1, 2], [3]]}), json!("[1,2]"), json!([1, 2]));
    becomes(json!({"enum": [{"a": 1}]}), json!("{\"a\": 1}"), json!({"a": 1}));
    becomes(json!({"type": "integer", "enum": [1, 2]}), json!("2"), json!(2));
    becomes(json!({"type": "boolean", "enum": [1, true]}), json!("1"), json!(true));
    stays(json!({"enum": ["1", 1]}), json!("1"));
    stays(json!({"enum": ["a", null]}), json!(null));
    // Two members are meant as well as one.
    refused(json!({"enum": [1, true]}), json!("1"));
    refused(json!({"enum": ["a", "b"]}), json!("A"));
    refused(json!({"enum": [1, 2]}), json!("3"));
    refused(json!({"const": "null"}), json!(null));
}

#[test]
fn a_list_of_types_keeps_what_has_one_of_them() {
    stays(json!({"type": ["number", "string"]}), json!("5"));
    stays(json!({"type": ["string", "array"]}), json!("[1]"));
    stays(json!({"type": ["integer", "null"]}), json!(null));
    stays(json!({"type": ["integer", "number"]}), json!(3.0));
    becomes(json!({"type": ["integer", "null"]}), json!("10"), json!(10));
    becomes(json!({"type": ["integer", "null"]}), json!(3.0), json!(3));
    becomes(json!({"type": ["number", "boolean"]}), json!("true"), json!(true));
    becomes(json!({"type": ["number", "string"]}), json!(true), json!("true"));
    becomes(
        json!({"type": ["array", "null"], "items": {"type": "integer"}}),
        json!("[\"1\"]"),
        json!([1]),
    );
    becomes(
        json!({"type": ["array", "null"], "items": {"type": "integer"}}),
        json!("1"),
        json!([1]),
    );
    becomes(json!({"type": ["object", "null"]}), json!("{}"), json!({}));
    becomes(json!({"type": ["integer", "boolean"], "enum": [2, true]}), json!("true"), json!(true));
    refused(json!({"type": ["integer", "null"]}), json!("3.5"));
    refused(json!({"type": ["integer", "null"]}), json!(""));
}

#[test]
fn a_union_keeps_what_a_branch_accepts() {
    let any = |branches: Value| json!({"anyOf": branches});
    let one = |branches: Value| json!({"oneOf": branches});
    let (string, integer, boolean) =
        (json!({"type": "string"}), json!({"type": "integer"}), json!({"type": "boolean"}));
    stays(any(json!([integer, string])), json!("5"));
    stays(any(json!([{"type": "array"}, string])), json!("[1]"));
    stays(any(json!([string, {"type": "null"}])), json!(null));
    becomes(any(json!([integer, {"type": "null"}])), json!("5"), json!(5));
    becomes(any(json!([integer, {"type": "null"}])), json!(5.0), json!(5));
    becomes(any(json!([integer, boolean])), json!("true"), json!(true));
    becomes(any(json!([integer, boolean])), json!("1"), json!(1));
    becomes(
        any(json!([{"type": "array", "items": string}, {"type": "null"}])),
        json!("[\"a\"]"),
        json!(["a"]),
    );
    becomes(
        any(json!([{"type": "array", "items": integer}, {"type": "object"}])),
        json!("{\"a\": 1}"),
        json!({"a": 1}),
    );
    becomes(one(json!([integer, {"type": "null"}])), json!("5"), json!(5));
    // The integer matches both branches.
    becomes(one(json!([integer, {"type": "number"}, boolean])), json!("true"), json!(true));
    refused(one(json!([integer, {"type": "number"}])), json!("5"));
    becomes(one(json!([integer, {"type": "number"}])), json!("5.5"), json!(5.5));
    refused(any(json!([integer, boolean])), json!("x"));
    refused(any(json!([integer, {"type": "null"}])), json!(""));
}

#[test]
fn the_branch_that_a_tag_names_converts() {
    let shapes = json!({"oneOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "circle"}, "size": {"type": "integer"}},
            "required": ["kind", "size"],
            "additionalProperties": false,
        },
        {
            "type": "object",
            "properties": {"kind": {"const": "label"}, "size": {"type": "string"}, "note": {"type": "string"}},
            "required": ["kind", "size"],
            "additionalProperties": false,
        },
    ]});
    becomes(
        shapes.clone(),
        json!({"kind": "circle", "size": "3"}),
        json!({"kind": "circle", "size": 3}),
    );
    becomes(
        shapes.clone(),
        json!({"kind": "label", "size": 3}),
        json!({"kind": "label", "size": "3"}),
    );
    becomes(
        shapes.clone(),
        json!({"kind": "label", "size": "3", "note": null}),
        json!({"kind": "label", "size": "3"}),
    );
    becomes(
        shapes.clone(),
        json!("{\"kind\":\"circle\",\"size\":3}"),
        json!({"kind": "circle", "size": 3}),
    );
    refused(shapes, json!({"kind": "square", "size": 3}));
}

#[test]
fn a_union_and_its_siblings_convert_together() {
    becomes(
        json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        }),
        json!("{\"b\": \"5\"}"),
        json!({"b": 5}),
    );
    becomes(
        json!({"type": "string", "anyOf": [{"minLength": 9}, {"maxLength": 3}]}),
        json!(5),
        json!("5"),
    );
}

#[test]
fn all_parts_of_a_combination_convert() {
    becomes(
        json!({"allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"properties": {"b": {"type": "boolean"}}},
        ]}),
        json!({"a": "1", "b": "true"}),
        json!({"a": 1, "b": true}),
    );
    // The text is parsed by the second part, the field is converted by the first.
    becomes(
        json!({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"type": "object"}]}),
        json!("{\"a\": \"1\"}"),
        json!({"a": 1}),
    );
}

#[test]
fn a_reference_converts_like_its_target() {
    let tree = || {
        json!({
            "type": "object",
            "properties": {"root": {"$ref": "#/definitions/node"}},
            "definitions": {"node": {
                "type": "object",
                "properties": {
                    "value": {"type": "integer"},
                    "children": {"type": "array", "items": {"$ref": "#/definitions/node"}},
                },
            }},
        })
    };
    check_all(
        tree(),
        json!({"root": {"value": "1", "children": [{"value": "2", "children": "[{\"value\":\"3\"}]"}]}}),
        json!({"root": {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}}),
    );
    check_all(
        json!({"properties": {"a": {"type": "integer"}, "next": {"$ref": "#"}}}),
        json!({"a": "1", "next": {"a": "2"}}),
        json!({"a": 1, "next": {"a": 2}}),
    );
}

#[test]
fn fields_convert_by_name_pattern_or_what_is_left() {
    becomes(
        json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "additionalProperties": {"type": "boolean"},
        }),
        json!({"z": "true", "a": "1"}),
        json!({"z": true, "a": 1}),
    );
    becomes(
        json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}),
        json!({"a": "[1]", "b": "2"}),
        json!({"a": [1], "b": [2]}),
    );
}

#[cfg(feature = "validate")]
#[test]
fn fields_that_match_a_pattern_convert() {
    becomes(
        json!({
            "type": "object",
            "patternProperties": {"^n_": {"type": "integer"}, "_b$": {"type": "boolean"}},
            "additionalProperties": {"type": "string"},
        }),
        json!({"n_x": "1", "x_b": "true", "other": 5}),
        json!({"n_x": 1, "x_b": true, "other": "5"}),
    );
}

#[test]
fn items_convert_by_place() {
    becomes(
        json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "boolean"}}),
        json!(["1", 2, "true", 0]),
        json!([1, "2", true, false]),
    );
    becomes(
        json!({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}}),
        json!("[\"1\", 2]"),
        json!([1, "2"]),
    );
    becomes(json!({"type": "array", "prefixItems": [{"type": "integer"}]}), json!("1"), json!([1]));
}

#[test]
fn a_consequence_converts() {
    becomes(
        json!({
            "type": "object",
            "if": {"properties": {"unit": {"const": "px"}}, "required": ["unit"]},
            "then": {"properties": {"size": {"type": "integer"}}},
            "else": {"properties": {"size": {"type": "string"}}},
        }),
        json!({"unit": "px", "size": "4"}),
        json!({"unit": "px", "size": 4}),
    );
}

#[test]
fn a_list_that_contains_itself_does_not_wrap_for_ever() {
    let nest = json!({
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/list"}},
        "$defs": {"list": {"type": "array", "items": {"$ref": "#/$defs/list"}}},
    });
    let refusal = schema(nest.clone()).check("tool", &object(json!({"x": 5}))).unwrap_err();
    assert!(refusal.contains("x.0: expected array, got integer"), "{refusal}");
    check_all(nest, json!({"x": "[[], []]"}), json!({"x": [[], []]}));
}

#[test]
fn valid_arguments_are_returned_as_they_are() {
    let given = json!({"z": "1", "y": [null, {"k": "[1]"}], "a": "true", "n": 1.5});
    check_all(json!({"type": "object"}), given.clone(), given.clone());
    check_all(json!(true), given.clone(), given.clone());
    check_all(json!({}), given.clone(), given);
}

#[test]
fn the_order_of_fields_is_kept() {
    check_all(
        json!({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}, "c": {"type": "string"}}}),
        json!({"c": 1, "a": null, "x": 0, "b": "2"}),
        json!({"c": "1", "x": 0, "b": 2}),
    );
}

#[test]
fn the_arguments_given_stay_untouched() {
    let given = object(json!({"a": "1", "b": null}));
    let schema = schema(json!({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}));
    let checked = schema.check("tool", &given).unwrap();
    assert_eq!(json!(checked), json!({"a": 1}));
    assert_eq!(json!(given), json!({"a": "1", "b": null}));
}
