//! The table of conversions, row by row: a schema for the argument `x`, what it is given, and what comes of it.

use serde_json::{Map, Value, json};

use crate::schema::{object, schema};

const FEWEST_ENTRIES: usize = 150;

fn table() -> Map<String, Value> {
    let text = include_str!("../../data/schema/coercion.json");
    object(serde_json::from_str(text).unwrap())
}

/// Runs the entries of one row, with `x` optional or required.
#[track_caller]
fn check(row: &str, is_required: bool) {
    let table = table();
    let entries = table.get(row).and_then(Value::as_array).expect("a row of the table");
    let faults: Vec<_> = entries.iter().filter_map(|entry| fault(entry, is_required)).collect();
    assert!(faults.is_empty(), "{row}: {faults:#?}");
}

fn fault(entry: &Value, is_required: bool) -> Option<String> {
    let (wanted, given, outcome) = (&entry[0], &entry[1], &entry[2]);
    if cfg!(not(feature = "validate")) && needs_validation(wanted) {
        return None;
    }
    let required = if is_required { json!(["x"]) } else { json!([]) };
    let schema = schema(json!({"properties": {"x": wanted}, "required": required}));
    let checked = schema.check("tool", &object(json!({"x": given})));
    let expected = match outcome {
        Value::String(word) if word == "stays" => Some(json!({"x": given})),
        Value::String(word) if word == "absent" => Some(json!({})),
        Value::String(word) if word == "refused" => None,
        other => Some(json!({"x": other["to"]})),
    };
    // As text: 3 and 3.0 differ, and so do other orders of fields.
    let came = checked.clone().ok().map(|it| json!(it).to_string());
    if came != expected.map(|it| it.to_string()) {
        return Some(format!("{entry}: {checked:?}"));
    }
    // What came of it is what is wanted, and stays.
    let again = checked.ok().map(|it| (schema.check("tool", &it), it));
    again.filter(|(again, it)| again.as_ref() != Ok(it)).map(|again| format!("{entry}: {again:?}"))
}

/// Whether an entry is about keywords that a build without full validation does not check.
fn needs_validation(wanted: &Value) -> bool {
    let keywords = [
        "minimum",
        "multipleOf",
        "pattern",
        "minLength",
        "minItems",
        "maxItems",
        "patternProperties",
    ];
    keywords.iter().any(|keyword| wanted.to_string().contains(&format!("\"{keyword}\"")))
}

#[test]
fn null_for_an_optional_property() {
    check("an optional property that admits no null, given null", false);
}

#[test]
fn a_number() {
    check("a number, given text", true);
}

#[test]
fn an_integer() {
    check("an integer, given text or a zero fraction", true);
}

#[test]
fn a_boolean() {
    check("a boolean, given text or a bit", true);
}

#[test]
fn a_string() {
    check("a string, given a number or a boolean", true);
}

#[test]
fn the_text_of_an_array() {
    check("an array, given its text", true);
}

#[test]
fn a_lone_value_for_an_array() {
    check("an array, given a lone value", true);
}

#[test]
fn the_text_of_an_object() {
    check("an object, given its text", true);
}

#[test]
fn a_constant_or_a_member() {
    check("a constant or a list, given what becomes one member", true);
}

#[test]
fn a_union_or_a_list_of_types() {
    check(
        "a union, kept if a branch takes it, else the first branch whose conversion is valid",
        true,
    );
}

#[test]
fn null_for_a_required_property() {
    check("anything required, given null", true);
}

#[test]
fn items_and_properties() {
    check("items and properties, the same way", true);
}

#[test]
fn the_table_is_as_large_as_it_should_be_and_each_row_has_a_test() {
    let table = table();
    let n_entries: usize = table.values().map(|row| row.as_array().unwrap().len()).sum();
    assert!(n_entries >= FEWEST_ENTRIES, "{n_entries}");
    let tests = include_str!("table.rs");
    for row in table.keys() {
        assert!(tests.contains(&format!("\"{row}\"")), "{row}");
    }
}
