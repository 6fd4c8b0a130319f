//! Schemas and values made to hurt: depth, cycles, patterns, sheer size.

use serde_json::{Map, Value, json};
use steerage::{ErrorKind, schema::Schema};

use crate::schema::{object, schema};

#[track_caller]
fn unusable(json: Value, reason: &str) {
    let error = Schema::new(json).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.message().contains(reason), "{error}");
}

fn nested(depth: usize, leaf: Value) -> Value {
    (0..depth).fold(leaf, |inner, _| json!({"a": inner}))
}

/// Drops a deep value without a deep stack.
fn dismantle(value: Value) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(fields) => rest.extend(fields.into_iter().map(|(_, value)| value)),
            _ => (),
        }
    }
}

#[test]
fn values_up_to_128_levels_are_checked_and_deeper_ones_refused() {
    let schema = schema(json!({"type": "object"}));
    assert!(schema.check("tool", &object(nested(128, json!(1)))).is_ok());
    let refusal = schema.check("tool", &object(nested(129, json!(1)))).unwrap_err();
    assert!(refusal.contains("root: nested more than 128 levels deep"), "{refusal}");
}

#[test]
fn a_bottomless_value_is_refused_without_a_deep_stack() {
    let deep = (0..200_000).fold(json!([]), |inner, _| Value::Array(vec![inner]));
    let mut arguments = Map::from_iter([("a".to_owned(), deep)]);
    let refusal = schema(json!({})).check("tool", &arguments).unwrap_err();
    assert!(refusal.contains("nested more than"), "{refusal}");
    dismantle(arguments.remove("a").unwrap());
}

#[test]
fn text_that_parses_too_deep_stays_text() {
    let list = json!({"type": "array", "items": {}});
    let schema = schema(json!({"properties": {"a": list}}));
    let text = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let checked = schema.check("tool", &object(json!({"a": text(127)}))).unwrap();
    assert!(checked["a"][0].is_array());
    // Beyond that a text is a lone value like another.
    for depth in [128, 129, 100_000] {
        let checked = schema.check("tool", &object(json!({"a": text(depth)}))).unwrap();
        assert!(checked["a"][0].is_string(), "{depth}");
    }
}

#[test]
fn recursive_schemas_take_values_as_deep_as_any() {
    let node = |leaf: Value| {
        schema(json!({
            "type": "object",
            "properties": {"a": {"anyOf": [{"$ref": "#"}, {"allOf": [{"$ref": "#/$defs/leaf"}]}]}},
            "$defs": {"leaf": leaf},
        }))
    };
    let given = object(nested(128, json!("5")));
    assert!(node(json!({"type": "string"})).check("tool", &given).is_ok());
    let checked = node(json!({"type": "integer"})).check("tool", &given).unwrap();
    assert_eq!(json!(checked), nested(128, json!(5)));
    let refusal = node(json!({"type": "boolean"})).check("tool", &given).unwrap_err();
    assert!(refusal.contains("expected"), "{refusal}");
}

#[test]
fn the_longest_chain_of_schemas_and_the_deepest_value_fit_the_stack() {
    for length in [2, 6, 20, 60] {
        let mut definitions = Map::new();
        for index in 1..length {
            let next = json!({"allOf": [{"$ref": format!("#/$defs/{}", index + 1)}]});
            definitions.insert(index.to_string(), next);
        }
        let end = json!({
            "type": "object",
            "properties": {"a": {"anyOf": [{"$ref": "#/$defs/1"}, {"type": "integer"}]}},
        });
        definitions.insert(length.to_string(), end);
        let schema = Schema::new(json!({"$ref": "#/$defs/1", "$defs": definitions}));
        let Ok(schema) = schema else {
            assert!(2 * length + 2 > 64, "a chain of {length} is fine");
            continue;
        };
        for depth in [1, 7, 8, 16, 24, 25, 48, 64, 78, 102, 128] {
            for leaf in [json!(5), json!("5"), json!("x")] {
                let given = object(nested(depth, leaf.clone()));
                let checked = schema.check("tool", &given);
                assert!(
                    checked.is_ok() == (leaf != "x")
                        || checked.unwrap_err().contains("nested more")
                );
            }
        }
    }
}

#[test]
fn unions_that_contain_themselves_are_explained_in_time() {
    let branch = |tag: Value| {
        json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/e"}, "tag": tag},
            "required": ["a"],
        })
    };
    for tags in [["x", "y", "z"], ["x", "x", "x"]] {
        let branches = tags.map(|tag| branch(json!({"const": tag})));
        let schema = schema(json!({
            "properties": {"a": {"$ref": "#/$defs/e"}},
            "$defs": {"e": {"anyOf": [branches[0], branches[1], branches[2], {"type": "integer"}]}},
        }));
        let refusal = schema.check("tool", &object(nested(100, json!("bad")))).unwrap_err();
        assert!(refusal.contains("expected"), "{refusal}");
    }
}

#[test]
fn references_in_a_circle_end() {
    for json in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}], "properties": {"a": {"type": "integer"}}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"type": "object"}]}),
        json!({"not": {"not": {"$ref": "#"}}}),
        json!({"if": {"$ref": "#"}, "then": {"$ref": "#"}, "else": {"$ref": "#"}}),
    ] {
        assert!(schema(json.clone()).check("tool", &object(json!({"a": "1"}))).is_ok(), "{json}");
        assert!(schema(json.clone()).check("tool", &object(json!({"a": 1.0}))).is_ok(), "{json}");
    }
}

#[test]
fn a_lattice_of_references_ends() {
    // Each level refers twice to the next: 2^40 ways through 40 schemas.
    for keyword in ["anyOf", "allOf", "oneOf"] {
        let mut definitions = Map::new();
        for index in 0..30 {
            let next = json!({"$ref": format!("#/$defs/{}", index + 1)});
            definitions.insert(index.to_string(), json!({keyword: [next, next]}));
        }
        definitions.insert("30".to_owned(), json!({"type": "integer"}));
        let given = json!({"properties": {"x": {"$ref": "#/$defs/0"}}, "$defs": definitions});
        let schema = Schema::new(given).unwrap();
        assert!(schema.check("tool", &object(json!({"x": "a"}))).is_err(), "{keyword}");
        assert_eq!(schema.check("tool", &object(json!({"x": 5}))).is_ok(), keyword != "oneOf");
    }
}

#[test]
fn a_lattice_of_fields_ends() {
    let mut definitions = Map::new();
    for index in 0..40 {
        let branch = json!({"properties": {"a": {"$ref": format!("#/$defs/{}", index + 1)}}});
        definitions.insert(index.to_string(), json!({"anyOf": [branch, branch]}));
    }
    definitions.insert("40".to_owned(), json!({"type": "integer"}));
    let schema = schema(json!({"$ref": "#/$defs/0", "$defs": definitions}));
    assert!(schema.check("tool", &object(nested(40, json!(5)))).is_ok());
    assert!(schema.check("tool", &object(nested(40, json!([])))).is_err());
}

#[test]
fn a_long_row_of_definitions_fits_the_stack() {
    let mut definitions = Map::new();
    for index in 0..5_000 {
        let next = json!({"properties": {"a": {"$ref": format!("#/$defs/{}", index + 1)}}});
        definitions.insert(index.to_string(), next);
    }
    definitions.insert("5000".to_owned(), json!({"type": "integer"}));
    let schema = schema(json!({"$ref": "#/$defs/0", "$defs": definitions}));
    assert!(schema.check("tool", &object(nested(100, json!({})))).is_ok());
}

#[test]
fn a_schema_that_is_too_deep_or_too_large_is_an_error() {
    let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
    unusable(deep, "#: nested more than 128 levels deep");
    let wide = (0..30_000).map(|index| (index.to_string(), json!({})));
    let wide = json!({"properties": wide.collect::<Map<_, _>>()});
    unusable(wide, "more than 20000 schemas in one");
    let chain = (0..100)
        .map(|index| (index.to_string(), json!({"$ref": format!("#/$defs/{}", index + 1)})));
    let mut chain = chain.collect::<Map<_, _>>();
    chain.insert("100".to_owned(), json!({}));
    unusable(
        json!({"$ref": "#/$defs/0", "$defs": chain}),
        "more than 64 schemas apply to one value",
    );
}

#[test]
fn a_schema_as_deep_as_allowed_works() {
    let deep = (0..124).fold(json!({"type": "integer"}), |inner, _| json!({"items": inner}));
    let value = |leaf: Value| (0..124).fold(leaf, |inner, _| json!([inner]));
    let schema = schema(json!({"properties": {"a": deep}, "title": "x"}));
    assert!(schema.check("tool", &object(json!({"a": value(json!(1))}))).is_ok());
    let checked = schema.check("tool", &object(json!({"a": value(json!("1"))}))).unwrap();
    assert_eq!(checked["a"], value(json!(1)));
    assert!(schema.check("tool", &object(json!({"a": value(json!("x"))}))).is_err());
}

#[test]
fn large_values_are_mended_whole() {
    let schema = schema(json!({
        "properties": {"a": {"type": "array", "items": {"type": ["integer", "null"]}}},
    }));
    let given = (0..100_000).map(|it| json!(it.to_string())).collect::<Vec<_>>();
    let checked = schema.check("tool", &object(json!({"a": given}))).unwrap();
    assert_eq!(checked["a"][99_999], 99_999);
}

/// Each text is read once, not once for each member.
#[test]
fn many_members_and_many_texts_end() {
    let members = (0..2_000).map(|it| json!(it)).collect::<Vec<_>>();
    let texts = (0..2_000).map(|it| json!(it.to_string())).collect::<Vec<_>>();
    let schema = schema(json!({"properties": {"a": {"items": {"enum": members}}}}));
    let checked = schema.check("tool", &object(json!({"a": texts}))).unwrap();
    assert_eq!(checked["a"][1_999], 1_999);
}

#[cfg(feature = "validate")]
#[test]
fn a_pattern_that_backtracks_for_ever_ends() {
    let text = format!("{}!", "a".repeat(5_000));
    for pattern in
        [r"^(a+)+$", r"^(?=(a+)+$)b", r"^(a+)+\1$", r"^((a|a)*)*\2$", r"^(?=(a*)*\1*!?b)"]
    {
        let schema = schema(json!({"properties": {"x": {"type": "string", "pattern": pattern}}}));
        let refusal = schema.check("tool", &object(json!({"x": text}))).unwrap_err();
        assert!(refusal.contains("- x: "), "{refusal}");
    }
}

#[test]
fn a_pattern_too_large_to_compile_is_ignored() {
    let schema = schema(json!({"properties": {"x": {"pattern": "(a{1000}){1000}"}}}));
    assert!(schema.check("tool", &object(json!({"x": "a"}))).is_ok());
}

#[test]
fn a_thousand_errors_are_counted_and_long_arguments_cut() {
    let schema =
        schema(json!({"properties": {"a": {"type": "array", "items": {"type": "integer"}}}}));
    let given = vec![json!("not a number"); 1000];
    let refusal = schema.check("tool", &object(json!({"a": given}))).unwrap_err();
    assert!(refusal.contains("- a.0: expected integer, got string"), "{refusal}");
    assert!(refusal.contains("- and 960 more"), "{refusal}");
    assert!(refusal.len() < 5_000, "{}", refusal.len());
    let echo = refusal.split("Arguments received:\n").nth(1).unwrap();
    assert!(echo.len() <= 2048 && echo.ends_with("… (cut)"), "{echo}");
}

#[test]
fn long_names_and_values_are_cut_in_messages() {
    let schema = schema(json!({
        "properties": {"mode": {"enum": ["m".repeat(5_000)]}},
        "additionalProperties": false,
    }));
    let name = "é".repeat(50_000);
    let refusal = schema.check("tool", &object(json!({"mode": 1, name: 1}))).unwrap_err();
    assert!(refusal.len() < 3_500, "{}", refusal.len());
}
