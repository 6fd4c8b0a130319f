//! Previews of unfinished arguments, repairs of finished ones, and texts that mean harm.

use serde_json::{Value, json};
use steerage::partial_json::{PartialJson, parse_arguments};

#[test]
fn an_unfinished_text_shows_what_is_there() {
    check(r#"{"a"#, r"{}");
    check(r#"{"a""#, r"{}");
    check(r#"{"a":"#, r"{}");
    check(r#"{"a":"x "#, r#"{"a":"x "}"#);
    check(r#"{"a":[1,{"b":"c"#, r#"{"a":[1,{"b":"c"}]}"#);
    check("  \n{", "{}");
    check("[{\"a\":1}]", "{}");
}

#[test]
fn an_unfinished_literal_counts_as_the_whole() {
    check(r#"{"a":t"#, r#"{"a":true}"#);
    check(r#"{"a":fals"#, r#"{"a":false}"#);
    check(r#"{"a":nul"#, r#"{"a":null}"#);
    check(r#"{"a":nul,"#, r"{}");
    check(r#"{"a":truex"#, r"{}");
}

#[test]
fn an_unfinished_number_counts_as_far_as_it_is_one() {
    check(r#"{"a":12"#, r#"{"a":12}"#);
    check(r#"{"a":-"#, r"{}");
    check(r#"{"a":12."#, r"{}");
    check(r#"{"a":1e"#, r#"{"a":1}"#);
    check(r#"{"a":1.5E-"#, r#"{"a":1.5}"#);
    check(r#"{"a":1.e"#, r"{}");
    check(r#"{"a":1e5"#, r#"{"a":1e5}"#);
    check(r#"{"a":1e-,"#, r"{}");
    let digits = "1".repeat(65);
    check(&format!("{{\"a\":{digits}"), "{}");
    check(&format!("{{\"a\":{digits} "), &format!("{{\"a\":{digits}}}"));
}

#[test]
fn half_of_a_character_is_never_shown() {
    check(r#"{"a":"x\"#, r#"{"a":"x"}"#);
    check(r#"{"a":"x\u00"#, r#"{"a":"x"}"#);
    check(r#"{"a":"x\u00e9"#, r#"{"a":"xé"}"#);
    check(r#"{"a":"x\ud83d"#, r#"{"a":"x"}"#);
    check(r#"{"a":"x\ud83d\ude"#, r#"{"a":"x"}"#);
    check(r#"{"a":"x\ud83d\ude42"#, r#"{"a":"x🙂"}"#);
}

#[test]
fn half_of_a_pair_is_replaced() {
    check(r#"{"a":"\ud83dx"#, r#"{"a":"\ufffdx"}"#);
    check(r#"{"a":"\ud83d\n"#, r#"{"a":"\ufffd\n"}"#);
    check(r#"{"a":"\ud83d""#, r#"{"a":"\ufffd"}"#);
    check(r#"{"a":"\ud83d\ud83d\ude42"#, r#"{"a":"\ufffd🙂"}"#);
    check(r#"{"a":"\ude42"#, r#"{"a":"\ufffd"}"#);
    check(r#"{"\ud83d":1"#, r#"{"\ufffd":1}"#);
}

#[test]
fn an_escape_that_is_none_stands_for_itself() {
    check(r#"{"a":"C:\dir"#, r#"{"a":"C:\\dir"}"#);
    check(r#"{"a":"\u12"}"#, r#"{"a":"\\u12"}"#);
    check(r#"{"a":"\u12\n"#, r#"{"a":"\\u12\n"}"#);
    check(r#"{"a":"\uZZ"#, r#"{"a":"\\uZZ"}"#);
    check(r#"{"a":"\é"#, r#"{"a":"\\é"}"#);
    check("{\"a\":\"\\\n\"", r#"{"a":"\\\n"}"#);
}

#[test]
fn missing_commas_and_colons_do_not_matter() {
    check(r#"{"a" 1 "b":[1 2"3"{}]}"#, r#"{"a":1,"b":[1,2,"3",{}]}"#);
    check(r#"{,"a"::1,,"b":2"#, r#"{"a":1,"b":2}"#);
}

#[test]
fn a_word_that_is_no_json_takes_its_member_with_it() {
    check(r#"{"a":NaN,"b":[undefined,1,01,-x"y"],"#, r#"{"b":[1,"y"]}"#);
    check(r#"{x"a":1"#, r#"{"a":1}"#);
    check(r#"{"a"x:{"y":[1]},"b":2"#, r#"{"b":2}"#);
    check(r#"{"a",:{"y":[1]},"b":2"#, r#"{"b":2}"#);
}

#[test]
fn the_last_of_equal_keys_wins() {
    check(r#"{"a":1,"b":2,"a":"#, r#"{"a":1,"b":2}"#);
    check(r#"{"a":1,"b":2,"a":-"#, r#"{"a":1,"b":2}"#);
    check(r#"{"a":1,"b":2,"a":-3"#, r#"{"a":-3,"b":2}"#);
    check(r#"{"a":1,"b":2,"a":-3."#, r#"{"a":1,"b":2}"#);
    check(r#"{"a":1,"b":2,"a":{"c":[4"#, r#"{"a":{"c":[4]},"b":2}"#);
    check(r#"{"a":{"c":1},"b":2,"a":{"c":"x","c":"yz"#, r#"{"a":{"c":"yz"},"b":2}"#);
}

#[test]
fn a_bracket_that_does_not_fit_ends_the_preview() {
    check(r#"{"a":[1},"b":2}"#, r#"{"a":[1]}"#);
    check(r#"{"a":{"b":1],"c":2}"#, r#"{"a":{"b":1}}"#);
}

#[test]
fn a_finished_text_is_strict() {
    check_finish("", Ok("{}"));
    check_finish(" \r\n\t", Ok("{}"));
    check_finish(r#" {"a":1} "#, Ok(r#"{"a":1}"#));
    check_finish("[1,2]", Err("the arguments are an array, not a JSON object; received: [1,2]"));
    check_finish("null", Err("the arguments are null, not a JSON object; received: null"));
    check_finish("\"a\"", Err("the arguments are a string, not a JSON object; received: \"a\""));
    check_finish(
        r#"{"a" 1}"#,
        Err(
            "the arguments are not valid JSON: expected `:` at line 1 column 6; received: {\"a\" 1}",
        ),
    );
    check_finish(
        r#"{"a":"b"#,
        Err(
            "the arguments are not valid JSON: EOF while parsing a string at line 1 column 7; received: {\"a\":\"b",
        ),
    );
}

#[test]
fn strings_of_a_finished_text_are_repaired() {
    check_finish("{\"a\":\"x\ny\tz\u{1}\"}", Ok(r#"{"a":"x\ny\tz\u0001"}"#));
    check_finish(r#"{"a":"C:\dir\q\\n"}"#, Ok(r#"{"a":"C:\\dir\\q\\n"}"#));
    check_finish(r#"{"a":"\uZZZZ \u12"}"#, Ok(r#"{"a":"\\uZZZZ \\u12"}"#));
    check_finish(r#"{"a":"\U0001F600"}"#, Ok(r#"{"a":"\\U0001F600"}"#));
    check_finish(
        r#"{"a":"\ud83d\ude42\ud83d \ude42\ud83d"}"#,
        Ok(r#"{"a":"🙂\ufffd \ufffd\ufffd"}"#),
    );
    check_finish("{\"a\":\"\\\n\",\"é\\é\":1}", Ok(r#"{"a":"\\\n","é\\é":1}"#));
}

#[test]
fn repair_stays_inside_strings() {
    check_finish("{\n\t\"a\":\"x\ny\"\r\n}", Ok(r#"{"a":"x\ny"}"#));
    for text in ["{\u{1}\"a\":\"x\ny\"}", "{\"a\":\\\"x\ny\"}", "{\"a\":\"x\ny"] {
        assert!(parse_arguments(text).is_err(), "{text:?}");
    }
}

#[test]
fn the_preview_of_a_repaired_text_is_what_it_is_finished_as() {
    for text in [
        "{\"a\":\"x\ny\tz\u{1}\"}",
        r#"{"a":"C:\dir\q\\n\ud83d \u12\u123"}"#,
        r#"{"a":"\ud83d\ude42\ud83d\ud83d"}"#,
        "{\"a\\q\":\"\\\n\"}",
    ] {
        assert_eq!(Ok(preview(text)), parse_arguments(text).map(Value::Object), "{text:?}");
    }
}

#[test]
fn an_error_shows_a_long_text_without_its_middle() {
    let text = format!("{{\"a\":\"{}", "é".repeat(5_000));
    let error = parse_arguments(&text).unwrap_err();
    assert!(error.text().starts_with("{\"a\":\"éé"), "{error}");
    assert!(error.text().ends_with("éé"), "{error}");
    assert!(error.text().contains("bytes left out"), "{error}");
    assert!(error.to_string().len() < 2_300, "{error}");
}

#[test]
fn the_complete_text_gives_the_missing_rest() {
    let mut call = PartialJson::new();
    assert_eq!(call.replace(r#"{"a":"#), Some(r#"{"a":"#));
    assert_eq!(call.replace(r#"{"a":"b"}"#), Some(r#""b"}"#));
    assert_eq!(call.replace(r#"{"a":"b"}"#), None);
    assert_eq!(Value::Object(call.snapshot()), json!({ "a": "b" }));
}

#[test]
fn another_complete_text_begins_anew() {
    let mut call = PartialJson::new();
    call.push(r#"{"a":[1,"#);
    assert_eq!(call.replace(r#"{"b":2}"#), None);
    assert_eq!(call.text(), r#"{"b":2}"#);
    assert_eq!(Value::Object(call.snapshot()), json!({ "b": 2 }));
    assert_eq!(call.finish().map(Value::Object), Ok(json!({ "b": 2 })));
}

#[test]
fn a_text_beyond_the_limit_is_refused() {
    let mut call = PartialJson::with_limit(10);
    call.push(r#"{"a":"b""#);
    call.push("   ");
    call.push("}");
    assert_eq!(call.text(), r#"{"a":"b""#);
    assert_eq!(call.finish().unwrap_err().reason(), "the arguments are longer than 10 bytes");
    assert_eq!(call.replace(r#"{"a":"b"}  "#), None);
    assert!(call.finish().is_err());
    assert_eq!(call.replace(r#"{"c":1}"#), None);
    assert_eq!(call.finish().map(Value::Object), Ok(json!({ "c": 1 })));
}

#[test]
fn looking_costs_nothing() {
    let mut call = PartialJson::new();
    call.push(r#"{"text":""#);
    let arguments: *const _ = call.arguments();
    for _ in 0..80_000 {
        call.push("sixteen bytes ..");
        assert!(std::ptr::eq(arguments, call.arguments()), "the arguments were copied");
    }
    assert_eq!(call.arguments()["text"].as_str().map(str::len), Some(1_280_000));
}

#[test]
fn deep_nesting_is_read_but_not_shown() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let text = format!("{{\"a\":{}1{},\"b\":2}}", open.repeat(100_000), close.repeat(100_000));
        let mut call = PartialJson::new();
        for piece in text.as_bytes().chunks(16) {
            call.push(str::from_utf8(piece).unwrap());
        }
        assert_eq!(depth(&call.arguments()["a"]), 127);
        assert_eq!(call.arguments()["b"], 2);
        assert!(call.finish().is_err());
    }
}

#[test]
fn all_that_is_finished_was_shown() {
    let text = format!("{{\"a\":{}1{}}}", "[".repeat(126), "]".repeat(126));
    assert_eq!(parse_arguments(&text).map(Value::Object), Ok(preview(&text)));
}

#[test]
fn hostile_texts_do_no_harm() {
    let texts = [
        format!("{{\"a\":{}", "9".repeat(1_000_000)),
        format!("{{\"a\":{},", "9".repeat(1_000_000)),
        format!("{{\"a\":1e{}}}", "9".repeat(1_000)),
        format!("{{\"a\":{}", "x".repeat(1_000_000)),
        format!("{{{}", "\"a\":1,".repeat(100_000)),
        format!("{{{}", "\"a\":{\"b\":[".repeat(100_000)),
        format!("{{\"a\":[{}", "[],".repeat(200_000)),
        format!("{{\"{}", "\\ud83d".repeat(100_000)),
        format!("{{\"a\":\"{}", "\\u12".repeat(100_000)),
        format!("{{\"a\":[{}", "-1.5e,".repeat(100_000)),
        "}]".repeat(100_000),
        "\0\u{7f}\u{feff}{\"a\":1}".to_owned(),
    ];
    for text in texts {
        let mut call = PartialJson::new();
        for piece in text.as_bytes().chunks(7) {
            call.push(&String::from_utf8_lossy(piece));
        }
        let _ = call.finish();
        let _ = call.snapshot();
    }
}

#[track_caller]
fn check(text: &str, shown: &str) {
    let shown: Value = serde_json::from_str(shown).unwrap();
    assert_eq!(preview(text), shown, "{text:?} whole");
    let mut call = PartialJson::new();
    for character in text.chars() {
        call.push(character.encode_utf8(&mut [0; 4]));
    }
    assert_eq!(Value::Object(call.snapshot()), shown, "{text:?} by character");
}

#[track_caller]
fn check_finish(text: &str, expected: Result<&str, &str>) {
    let expected =
        expected.map(|it| serde_json::from_str::<Value>(it).unwrap()).map_err(str::to_owned);
    let finished = parse_arguments(text).map(Value::Object).map_err(|error| error.to_string());
    assert_eq!(finished, expected, "{text:?}");
}

fn preview(text: &str) -> Value {
    let mut call = PartialJson::new();
    call.push(text);
    Value::Object(call.snapshot())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.first().map_or(0, depth),
        Value::Object(members) => 1 + members.values().next().map_or(0, depth),
        _ => 0,
    }
}
