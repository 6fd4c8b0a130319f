//! Transcripts in files.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{Message, transcript};

#[track_caller]
fn check(text: &str, expected: Expect) {
    let read = match transcript::from_json(text) {
        Ok((messages, skipped)) => {
            let messages = messages.iter().map(|it| format!("{}: {}\n", it.role(), it.text()));
            let skipped = skipped.iter().map(|it| format!("skipped {}: {}\n", it.index, it.reason));
            messages.chain(skipped).collect()
        }
        Err(error) => format!("{:?}: {error}", error.kind()),
    };
    expected.assert_eq(&read);
}

#[test]
fn what_was_saved_is_read_again() {
    let messages = [
        json!({"role": "system", "content": "Be brief.", "timestamp": 1}),
        json!({"role": "user", "content": [{"type": "text", "text": "é\n\"x\""}], "timestamp": 2, "later": [1]}),
        json!({"role": "note", "z": 1, "a": {"b": null}}),
    ];
    let messages: Vec<Message> =
        messages.into_iter().map(|it| serde_json::from_value(it).unwrap()).collect();
    let text = transcript::to_json(&messages).unwrap();
    assert_eq!(text.lines().count(), messages.len() + 2);
    assert_eq!(transcript::from_json(&text).unwrap(), (messages, Vec::new()));
}

#[test]
fn an_empty_transcript_is_a_list_too() {
    let text = transcript::to_json::<Message>(&[]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!([]));
}

#[test]
fn entries_that_are_no_messages_are_skipped_and_named() {
    check(
        r#"[{"role": "user", "content": "a"}, 7, {"role": "user"}, {"content": "b"}, {"role": "user", "content": "c"}]"#,
        expect![[r#"
            user: a
            user: c
            skipped 1: invalid type: integer `7`, expected a map
            skipped 2: user message: missing field `content`
            skipped 3: missing field `role`
        "#]],
    );
}

#[test]
fn an_object_with_messages_is_read() {
    check(
        r#"{"version": 1, "messages": [{"role": "user", "content": "a"}]}"#,
        expect![[r#"
        user: a
    "#]],
    );
}

#[test]
fn a_transcript_that_is_cut_off_is_an_error() {
    let text = transcript::to_json(&[Message::user("one"), Message::user("two")]).unwrap();
    for length in 0..text.len() - "]\n".len() {
        assert!(transcript::from_json(&text[..length]).is_err(), "{:?}", &text[..length]);
    }
    check(
        "[\n{\"role\": \"user\", \"content\": \"on",
        expect![
            "Configuration: the transcript is cut off at line 2 and the rest is missing: take an older copy, or mend it there"
        ],
    );
}

#[test]
fn what_is_no_transcript_is_an_error() {
    check("", expect!["Configuration: the transcript is empty"]);
    check(
        "Dear diary",
        expect!["Configuration: the transcript is no JSON: expected value at line 1 column 1"],
    );
    check(
        r#""text""#,
        expect![
            "Configuration: a transcript is a JSON list of messages, and this is something else"
        ],
    );
    check(
        r#"{"model": "x"}"#,
        expect![
            "Configuration: a transcript is a JSON list of messages, and this is something else"
        ],
    );
}

#[test]
fn a_list_without_any_message_is_no_transcript() {
    check(
        r#"[1, {"role": 5}]"#,
        expect![
            "Configuration: none of the 2 entries of the list is a message; the first: invalid type: integer `1`, expected a map"
        ],
    );
    check("[]", expect![""]);
}

#[test]
fn half_characters_of_other_programs_are_replaced() {
    check(
        r#"[{"role": "user", "content": "a\ud83d b"}]"#,
        expect![[r#"
            user: a� b
        "#]],
    );
}
