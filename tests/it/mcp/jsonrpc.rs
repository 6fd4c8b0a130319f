//! Messages as JSON, and streams of bytes as lines.

use expect_test::{Expect, expect};
use steerage::jsonrpc::{Line, LineCutter, Message};

#[track_caller]
fn check(bytes: &str, expected: Expect) {
    let lines: Vec<String> = Message::from_bytes(bytes.as_bytes())
        .into_iter()
        .map(|message| match message {
            Ok(message) => message.to_line(),
            Err(problem) => format!("! {problem}"),
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn messages_survive_the_way_there_and_back() {
    check(
        r#"[{"jsonrpc":"2.0","id":"a","method":"m","params":{"z":1,"a":2}},
            {"method":"n","jsonrpc":"2.0"},
            {"jsonrpc":"2.0","id":1,"result":null},
            {"jsonrpc":"2.0","id":1.5,"error":{"code":-1,"message":"no","data":[1]}}]"#,
        expect![[r#"
            {"jsonrpc":"2.0","id":"a","method":"m","params":{"z":1,"a":2}}
            {"jsonrpc":"2.0","method":"n"}
            {"jsonrpc":"2.0","id":1,"result":null}
            {"jsonrpc":"2.0","id":1.5,"error":{"code":-1,"message":"no","data":[1]}}"#]],
    );
}

#[test]
fn one_faulty_message_does_not_spoil_the_others() {
    check(
        r#"[{"jsonrpc":"1.0","id":1,"result":{}}, 7, {"jsonrpc":"2.0","id":{},"method":"m"},
            {"jsonrpc":"2.0","id":1}, {"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1}},
            {"jsonrpc":"2.0","result":1}, {"jsonrpc":"2.0","error":{"code":-32700,"message":"?"},"id":null},
            {"jsonrpc":"2.0","id":1,"error":"no"}, {"jsonrpc":"2.0","method":"fine"}]"#,
        expect![[r#"
            ! a message does not say `"jsonrpc": "2.0"`
            ! a message is no JSON object
            ! the id of `m` is neither a text nor a number
            ! a message has no method, no result and no error
            ! a response has a result and an error
            ! a response has no id
            {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}
            ! the error of a response is no object
            {"jsonrpc":"2.0","method":"fine"}"#]],
    );
}

#[test]
fn half_characters_do_not_cost_the_message() {
    check(
        r#"{"jsonrpc":"2.0","id":1,"result":{"text":"cut \ud83d"}}"#,
        expect![[r#"{"jsonrpc":"2.0","id":1,"result":{"text":"cut �"}}"#]],
    );
}

#[test]
fn what_is_no_json_is_an_error_without_its_content() {
    check(
        "Server listening!",
        expect!["! a message is no JSON: expected value at line 1 column 1"],
    );
    check("[]", expect!["! a message is no JSON object"]);
}

#[test]
fn lines_are_the_same_however_the_bytes_were_cut() {
    let bytes = b"one\r\n\n  \ntoo long a line\ntwo\nrest";
    for size in 1..=bytes.len() {
        let mut cutter = LineCutter::new(8);
        let mut lines = Vec::new();
        for piece in bytes.chunks(size) {
            cutter.push(piece, |line| match line {
                Line::Whole(line) => lines.push(String::from_utf8_lossy(line).into_owned()),
                Line::TooLong => lines.push("(too long)".to_owned()),
            });
        }
        assert_eq!(lines, ["one", "(too long)", "two"], "cut every {size} bytes");
        assert_eq!(cutter.unfinished(), 4);
    }
}
