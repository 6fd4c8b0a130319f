//! What references lead to beyond the schema itself, what `$dynamicRef` means, and the options.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steerage::{
    ErrorKind,
    schema::{Schema, SchemaOptions},
};

use crate::schema::{object, schema};

fn with(documents: Value) -> SchemaOptions {
    let documents: BTreeMap<_, _> = object(documents).into_iter().collect();
    SchemaOptions { documents, ..any() }
}

/// For values of any kind, which stay as they are.
fn any() -> SchemaOptions {
    SchemaOptions { coercion: false, is_for_arguments: false, ..SchemaOptions::default() }
}

#[track_caller]
fn check(wanted: Value, options: &SchemaOptions, good: &[Value], bad: &[Value]) {
    let schema = Schema::with_options(wanted.clone(), options).unwrap();
    for value in good {
        assert_eq!(schema.check_value(value).as_ref(), Ok(value), "{wanted}");
    }
    for value in bad {
        assert!(schema.check_value(value).is_err(), "{wanted} <- {value}");
    }
}

#[test]
fn references_lead_into_documents_that_were_given() {
    let documents = || {
        with(json!({
            "https://example.org/a/one": {"$ref": "two#/$defs/n"},
            "https://example.org/a/two": {"$defs": {"n": {"type": "integer"}}},
            "https://example.org/a/b/up": {"$ref": "../two#/$defs/n"},
            "https://example.org/moved#": {"$id": "https://example.org/there/", "$ref": "./deep/../n"},
            "https://example.org/there/n": {"$defs": {"x": {"$anchor": "x", "type": "integer"}}, "$ref": "#x"},
        }))
    };
    for reference in [
        "https://example.org/a/one",
        "https://example.org/a/one#",
        "https://example.org/a/two#/$defs/n",
        "https://example.org/a/b/up",
        "https://example.org/moved",
        "https://example.org/there/",
        "https://example.org/there/n#x",
    ] {
        check(json!({"$ref": reference}), &documents(), &[json!(1)], &[json!("a")]);
    }
    // From inside a schema with an address of its own.
    let relative = json!({"$id": "https://example.org/x/root", "$ref": "../a/./one"});
    check(relative, &documents(), &[json!(1)], &[json!("a")]);
    // Nothing else is looked for, and a pointer that misses its document is not tried on the schema itself.
    check(json!({"$ref": "https://example.org/none"}), &documents(), &[], &[json!(1)]);
    check(
        json!({"$ref": "https://example.org/a/two#/$defs/m", "$defs": {"m": {}}}),
        &documents(),
        &[],
        &[json!(1)],
    );
    // The schema's own resources come first.
    check(
        json!({
            "$ref": "https://example.org/a/one",
            "$defs": {"own": {"$id": "https://example.org/a/one", "type": "string"}},
        }),
        &documents(),
        &[json!("a")],
        &[json!(1)],
    );
}

#[test]
fn a_document_that_is_too_deep_is_named() {
    let deep = (0..200).fold(json!({}), |inner, _| json!({"not": inner}));
    let options = with(json!({"https://example.org/deep": deep}));
    let error = Schema::with_options(json!({}), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.message().contains("https://example.org/deep: nested"), "{error}");
}

#[cfg(feature = "validate")]
#[test]
fn a_schema_may_be_the_argument() {
    for meta in [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-04/schema#",
    ] {
        let schema = schema(json!({"type": "object", "properties": {"x": {"$ref": meta}}}));
        let check = |x: Value| schema.check("tool", &object(json!({"x": x})));
        let good = json!({"properties": {"a": {"type": "string", "minLength": 3}}});
        assert!(check(good).is_ok(), "{meta}");
        let refusal = check(json!({"properties": {"a": {"type": "string", "minLength": -3}}}));
        assert!(refusal.unwrap_err().contains("x.properties.a.minLength"), "{meta}");
        assert!(check(json!({"items": {"type": "text"}})).is_err(), "{meta}");
    }
}

/// A list whose items depend on who asks for it.
fn list() -> Value {
    json!({
        "$id": "https://example.org/list",
        "type": "array",
        "items": {"$dynamicRef": "#item"},
        "$defs": {"any": {"$dynamicAnchor": "item"}},
    })
}

fn list_of(name: &str, kind: &str) -> Value {
    json!({
        "$id": format!("https://example.org/{name}"),
        "$ref": "list",
        "$defs": {"item": {"$dynamicAnchor": "item", "type": kind}},
    })
}

#[test]
fn one_dynamic_reference_means_what_each_way_to_it_says() {
    check(
        json!({
            "properties": {
                "words": {"$ref": "https://example.org/words"},
                "counts": {"$ref": "https://example.org/counts"},
                "all": {"$ref": "https://example.org/list"},
            },
            "$defs": {
                "list": list(),
                "words": list_of("words", "string"),
                "counts": list_of("counts", "integer"),
            },
        }),
        &any(),
        &[json!({"words": ["a"], "counts": [1], "all": ["a", 1]})],
        &[json!({"words": [1]}), json!({"counts": ["a"]})],
    );
    // The outermost says it, also from other documents and from schemas that stand where they are used.
    let documents = with(json!({
        "https://example.org/list": list(),
        "https://example.org/words": list_of("words", "string"),
        "https://example.org/counts": {
            "$ref": "words",
            "$defs": {"item": {"$dynamicAnchor": "item", "type": "integer"}},
        },
    }));
    check(
        json!({"properties": {"x": {"$ref": "https://example.org/counts"}}}),
        &documents,
        &[json!({"x": [1]})],
        &[json!({"x": ["a"]})],
    );
    check(
        json!({"properties": {"x": {"items": list_of("counts", "integer")}}}),
        &with(json!({"https://example.org/list": list()})),
        &[json!({"x": [[1]]})],
        &[json!({"x": [["a"]]})],
    );
}

/// Of 2019-09, where a schema is extended in all places by itself.
#[test]
fn a_recursive_reference_means_what_extends_its_schema() {
    let extended = |is_anchor: bool| {
        json!({
            "$id": "https://example.org/strict",
            "$recursiveAnchor": true,
            "$ref": "tree",
            "required": ["name"],
            "$defs": {"tree": {
                "$id": "tree",
                "$recursiveAnchor": is_anchor,
                "properties": {"kids": {"items": {"$recursiveRef": "#"}}},
            }},
        })
    };
    let unnamed = json!({"name": "a", "kids": [{"kids": []}]});
    check(
        extended(true),
        &any(),
        &[json!({"name": "a", "kids": [{"name": "b"}]})],
        std::slice::from_ref(&unnamed),
    );
    check(extended(false), &any(), &[unnamed], &[json!({"kids": []})]);
}

#[test]
fn a_dynamic_reference_to_no_dynamic_anchor_is_a_reference() {
    check(
        json!({
            "properties": {"x": {"$dynamicRef": "#n"}, "y": {"$dynamicRef": "#/$defs/n"}},
            "$defs": {"n": {"$anchor": "n", "type": "integer"}},
        }),
        &any(),
        &[json!({"x": 1, "y": 1})],
        &[json!({"x": "a"}), json!({"y": "a"})],
    );
}

/// Each resource doubles the ways to the one below, and each way means something else there.
#[test]
fn dynamic_references_that_mean_too_much_are_an_error_in_time() {
    let mut definitions = serde_json::Map::new();
    for level in 0..40 {
        for side in ["a", "b"] {
            let next = |side| json!({"$ref": format!("https://example.org/{}{side}", level + 1)});
            let name = format!("{side}{level}");
            definitions.insert(
                name.clone(),
                json!({
                    "$id": format!("https://example.org/{level}{side}"),
                    "properties": {"a": next("a"), "b": next("b")},
                    "$defs": {"own": {"$dynamicAnchor": format!("n{level}"), "title": name}},
                }),
            );
        }
    }
    let json = json!({"$ref": "https://example.org/0a", "$defs": definitions});
    let error = Schema::new(json).unwrap_err();
    assert!(error.message().contains("more than 20000 schemas in one"), "{error}");
}

#[test]
fn names_that_look_like_keywords_hide_nothing_in_them() {
    for name in ["default", "enum", "const", "examples"] {
        for place in ["$defs", "definitions", "properties", "patternProperties"] {
            let wanted = json!({
                "items": {"allOf": [{"$ref": "#n"}, {"$ref": "there"}]},
                place: {name: {"$anchor": "n", "not": {"$id": "there"}, "type": "integer"}},
            });
            check(wanted, &any(), &[], &[json!(["a"])]);
            let wanted = json!({
                "items": {"$ref": "#n"},
                place: {name: {"$anchor": "n", "type": "integer"}},
            });
            check(wanted, &any(), &[json!([1])], &[json!(["a"])]);
        }
        // And what stands in such a keyword is no schema.
        let wanted = json!({"items": {"$ref": "#n"}, name: [{"$anchor": "n"}]});
        let wanted = if name == "const" { json!({"not": wanted}) } else { wanted };
        check(json!({"anyOf": [{"type": "null"}, wanted]}), &any(), &[json!(null)], &[]);
    }
}

#[cfg(feature = "validate")]
#[test]
fn formats_can_be_left_unchecked() {
    let date = json!({"type": "string", "format": "date"});
    let off = SchemaOptions { formats: false, ..any() };
    check(date.clone(), &any(), &[json!("2024-02-29")], &[json!("soon")]);
    check(date, &off, &[json!("2024-02-29"), json!("soon")], &[json!(1)]);
}

#[test]
fn without_coercion_values_match_or_are_refused() {
    let wanted = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
        "required": ["n"],
    });
    let strict = SchemaOptions { coercion: false, ..SchemaOptions::default() };
    let strict = Schema::with_options(wanted.clone(), &strict).unwrap();
    let lenient = schema(wanted);
    for given in [json!({"n": "1"}), json!({"n": 1, "s": null}), json!({"n": 1, "s": 2})] {
        assert!(lenient.check("tool", &object(given.clone())).is_ok(), "{given}");
        let refusal = strict.check("tool", &object(given.clone())).unwrap_err();
        assert!(refusal.contains("expected"), "{refusal}");
    }
    // A whole number is an integer however it is written, and stays as it was written.
    let given = object(json!({"n": 1.0}));
    assert_eq!(json!(strict.check("tool", &given).unwrap()).to_string(), r#"{"n":1.0}"#);
    assert_eq!(json!(lenient.check("tool", &given).unwrap()).to_string(), r#"{"n":1}"#);
}

#[test]
fn any_value_is_checked_and_mended() {
    let options = SchemaOptions { is_for_arguments: false, ..SchemaOptions::default() };
    let numbers = json!({"type": "array", "items": {"type": "integer"}});
    let numbers = Schema::with_options(numbers, &options).unwrap();
    assert_eq!(numbers.check_value(&json!("[1, \"2\", 3.0]")), Ok(json!([1, 2, 3])));
    let refusal = numbers.check_value(&json!([1, "two"])).unwrap_err();
    assert_eq!(
        refusal,
        "The value does not fit its schema. Correct this:\n- 1: expected integer, got string\n\n\
         Value received:\n[\n  1,\n  \"two\"\n]"
    );
    let deep = (0..200).fold(json!([]), |inner, _| json!([inner]));
    let refusal = numbers.check_value(&deep).unwrap_err();
    assert!(refusal.contains("root: nested more than 128 levels deep"), "{refusal}");
    assert!(Schema::new(json!({"type": "array"})).is_err());
}
