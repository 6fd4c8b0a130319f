//! Argument texts, fed character by character, whole and in two parts.

use std::{env, fs, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};
use steerage::partial_json::{PartialJson, parse_arguments};

#[derive(Deserialize)]
struct Case {
    text: String,
    /// Characters read, and what is shown from then on.
    steps: Vec<(usize, Value)>,
    #[serde(rename = "final")]
    finished: Map<String, Value>,
    #[serde(default)]
    invalid: bool,
}

pub(crate) fn replay() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/conformance/partial-json.json");
    let file = env::var("STEERAGE_CONFORMANCE_JSON").unwrap_or_else(|_| recorded.to_owned());
    let cases = load(Path::new(&file));
    assert!(!cases.is_empty(), "{file} holds no case");
    let mut failed = 0;
    for case in &cases {
        if let Err(difference) = run(case) {
            failed += 1;
            println!("FAILED {:?}\n  {difference}", case.text);
        }
    }
    println!("partial JSON: {} cases ran, {failed} failed", cases.len());
    assert_eq!(failed, 0, "{failed} of {} cases failed", cases.len());
}

fn load(file: &Path) -> Vec<Case> {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&replace_lone_surrogates(&text))
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn run(case: &Case) -> Result<(), String> {
    by_character(case)?;
    whole(case)?;
    for (at, _) in case.text.char_indices().skip(1) {
        in_two_parts(case, at)?;
    }
    Ok(())
}

fn by_character(case: &Case) -> Result<(), String> {
    let mut call = PartialJson::new();
    let mut steps = case.steps.iter().peekable();
    let empty = Value::Object(Map::new());
    let mut expected = &empty;
    for (count, character) in case.text.chars().enumerate() {
        call.push(character.encode_utf8(&mut [0; 4]));
        if let Some((_, shown)) = steps.next_if(|(at, _)| *at == count + 1) {
            expected = shown;
        }
        let shown = Value::Object(call.snapshot());
        if !same(&shown, expected) {
            let read: String = case.text.chars().take(count + 1).collect();
            return Err(format!(
                "after {} characters, {read:?}:\n  shown    {shown}\n  expected {expected}",
                count + 1
            ));
        }
    }
    if let Some((at, _)) = steps.next() {
        return Err(format!("the step at character {at} was not reached"));
    }
    finish(case, &call)
}

fn whole(case: &Case) -> Result<(), String> {
    let mut call = PartialJson::new();
    call.push(&case.text);
    finish(case, &call)
}

fn in_two_parts(case: &Case, at: usize) -> Result<(), String> {
    let mut call = PartialJson::new();
    call.push(&case.text[..at]);
    let read = case.text[..at].chars().count();
    let empty = Value::Object(Map::new());
    let expected = case
        .steps
        .iter()
        .take_while(|(at, _)| *at <= read)
        .last()
        .map_or(&empty, |(_, shown)| shown);
    let shown = Value::Object(call.snapshot());
    if !same(&shown, expected) {
        return Err(format!("after {read} characters at once: shown {shown}, expected {expected}"));
    }
    call.push(&case.text[at..]);
    finish(case, &call).map_err(|difference| format!("split at byte {at}: {difference}"))
}

/// Checks the last preview and the finished arguments.
fn finish(case: &Case, call: &PartialJson) -> Result<(), String> {
    let shown = Value::Object(call.snapshot());
    let expected =
        case.steps.last().map_or_else(|| Value::Object(Map::new()), |(_, shown)| shown.clone());
    if !same(&shown, &expected) {
        return Err(format!("last shown {shown}, expected {expected}"));
    }
    let expected = Value::Object(case.finished.clone());
    match (call.finish(), case.invalid) {
        (Err(error), false) => Err(format!("refused: {error}")),
        (Ok(finished), true) => Err(format!("accepted as {}", Value::Object(finished))),
        (Err(_), true) => Ok(()),
        (Ok(finished), false) => {
            let finished = Value::Object(finished);
            let parsed = parse_arguments(&case.text).map(Value::Object);
            if parsed.as_ref() != Ok(&finished) {
                Err(format!("finished as {finished}, parsed alone as {parsed:?}"))
            } else if same(&finished, &expected) {
                Ok(())
            } else {
                Err(format!("finished as {finished}, expected {expected}"))
            }
        }
    }
}

/// Whether what is shown is what was recorded: numbers by value, members in any order.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || left.as_f64() == right.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|it| same(value, it)))
        }
        // A half of a surrogate pair is recorded as soon as it is there, but never shown.
        (Value::String(left), Value::String(right)) => {
            left == right || right.strip_suffix('\u{fffd}').is_some_and(|right| left == right)
        }
        _ => left == right,
    }
}

/// Replaces escapes of halves of surrogate pairs, which no Rust string can hold, by U+FFFD.
fn replace_lone_surrogates(text: &str) -> String {
    let unit = |rest: &str| {
        let digits = rest.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        replaced.push_str(&rest[..at]);
        rest = &rest[at..];
        let (length, escape) = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, &rest[..12]),
            (Some(0xd800..=0xdfff), _) => (6, "\\ufffd"),
            _ => (2, &rest[..2]),
        };
        replaced.push_str(escape);
        rest = &rest[length..];
    }
    replaced + rest
}
