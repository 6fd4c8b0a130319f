//! Events and transcripts as text.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Map, json};
use steerage::{
    Agent, AgentOptions, ErrorKind, Message, Tool,
    message::{CustomMessage, ImageContent},
    render::{self, RenderOptions, Renderer, Style, one_line},
    testing::{Answer, Scripted},
};

/// Runs a prompt and compares what its events show; the transcript, without the message of the prompt's system, shows the
/// same but for what was only reported.
#[track_caller]
fn check(answers: Vec<Answer>, tools: Vec<Tool>, expect: Expect) {
    let scripted = Scripted::new(answers);
    let options =
        AgentOptions { stream: Some(scripted.clone().into()), tools, ..AgentOptions::default() };
    let agent = Agent::new(scripted.model(), options).unwrap();
    let events = agent.events();
    let _ = agent.prompt("Go\non").unwrap().wait();
    let mut renderer = Renderer::default();
    let shown: String = events.drain(10_000).iter().map(|event| renderer.event(event)).collect();
    expect.assert_eq(&shown);
    let messages = agent.messages();
    let told = messages.iter().filter(|message| message.as_system().is_none());
    let lasting: String =
        shown.split_inclusive('\n').filter(|line| !line.starts_with("  report:")).collect();
    assert_eq!(render::transcript(told), lasting);
}

fn tool(name: &str, result: &'static str) -> Tool {
    Tool::with_schema(name, "", json!({"type": "object"}), move |_, call| {
        if call.tool_name() == "report" {
            call.update("half\nway");
        }
        if result.is_empty() { Err("it broke".into()) } else { Ok(result) }
    })
    .sequential()
}

#[test]
fn a_conversation_with_tools() {
    let long = "x".repeat(200);
    check(
        vec![
            Answer::new()
                .thinking("I think.")
                .text("I use tools.")
                .tool_call("report", json!({"n": 1, "long": long})),
            Answer::new().tool_call("broken", json!({})),
            Answer::new().tool_call("broken", json!({"again": true})),
            Answer::from("Two\nlines."),
        ],
        vec![tool("report", "one\ntwo\nthree"), tool("broken", "")],
        expect![[r#"
            > Go
            > on
            (thinks) I think.
            I use tools.
            * report {"n":1,"long":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
              report: half (and 1 more lines)
              report = one (and 2 more lines)
            * broken {}
              broken failed: it broke
            * broken {"again":true}
              broken failed: it broke
            Two
            lines.
        "#]],
    );
}

#[test]
fn an_answer_that_fails() {
    check(
        vec![Answer::new().text("So far").fails(ErrorKind::Overloaded, "too\nmuch")],
        Vec::new(),
        expect![[r#"
            > Go
            > on
            So far
            error: too much
        "#]],
    );
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    check(
        vec![Answer::from("\u{1b}[2Jred\u{7} \u{9b}text\r\n")],
        Vec::new(),
        expect![[r#"
            > Go
            > on
            [2Jred text

        "#]],
    );
}

#[test]
fn the_other_messages_of_a_transcript() {
    let image = ImageContent { data: String::new(), mime_type: "image/png".to_owned() };
    let note = json!({"text": "a\nnote"}).as_object().cloned().unwrap();
    let scripted = Scripted::new(["Hello!"]);
    let options = AgentOptions {
        system_prompt: "Be\nkind.".into(),
        tools: vec![tool("look", "x")],
        stream: Some(scripted.clone().into()),
        ..AgentOptions::default()
    };
    let agent = Agent::new(scripted.model(), options).unwrap();
    let mut messages = agent.messages().to_vec();
    messages.push(Arc::new(Message::user_with_images("See", vec![image])));
    messages.push(Arc::new(Message::Custom(CustomMessage::new("note", note))));
    messages.push(Arc::new(Message::Custom(CustomMessage::new("empty", Map::new()))));
    let shown = render::transcript(&messages);
    assert!(shown.starts_with("(system) Be kind. +look\n> See\n> [image/png]\n(note) "), "{shown}");
    assert_eq!(shown.lines().count(), 5, "{shown}");
}

#[test]
fn lines_of_the_hosts_own_begin_where_they_should() {
    let mut renderer = Renderer::new(RenderOptions { colours: true, most: 5 });
    let shown = [
        renderer.prompt("> "),
        renderer.prompt("> "),
        renderer.line(Style::Dim, "dim"),
        renderer.prompt("> "),
        renderer.end_line(),
        renderer.end_line(),
        renderer.line(Style::Alert, "alert"),
        renderer.line(Style::Plain, &one_line("a long text", 5)),
    ];
    let expected = "> ||\n\u{1b}[2mdim\u{1b}[0m\n|> |\n||\u{1b}[31malert\u{1b}[0m\n|a lon...\n";
    assert_eq!(shown.join("|"), expected);
    let mut typed = Renderer::default();
    assert_eq!(typed.prompt("> "), "> ");
    typed.line_was_ended();
    assert_eq!(typed.line(Style::Plain, "on"), "on\n");
    assert_eq!(one_line("äöü", 2), "äö...");
}
