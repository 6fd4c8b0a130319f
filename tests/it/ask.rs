//! Answers as data.

use std::sync::Arc;

use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steerage::{
    Agent, AgentOptions, AskOptions, Error, ErrorKind, ThinkingLevel, Tool, TurnDecision,
    message::{Content, MessageContent},
    stream::ToolChoice,
    testing::{Answer, Scripted},
};

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct City {
    name: String,
    inhabitants: u64,
    #[serde(default)]
    river: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Tree {
    value: i64,
    #[serde(default)]
    children: Vec<Tree>,
}

fn answer(arguments: Value) -> Answer {
    Answer::new().tool_call("answer", arguments)
}

fn oslo() -> Value {
    json!({"name": "Oslo", "inhabitants": 700_000})
}

fn agent(model: &Scripted, options: AgentOptions) -> Agent {
    let options = AgentOptions { stream: Some(model.clone().into()), ..options };
    Agent::new(model.model(), options).unwrap()
}

fn asked<T>(answers: Vec<Answer>) -> (Result<T, Error>, Scripted, Agent)
where
    T: serde::de::DeserializeOwned + JsonSchema + 'static,
{
    let model = Scripted::new(answers);
    let agent = agent(&model, AgentOptions::default());
    (agent.ask("Where?"), model, agent)
}

fn transcript(agent: &Agent) -> String {
    let line = |message: &Arc<steerage::Message>| {
        let role = serde_json::to_value(&**message).unwrap()["role"].as_str().unwrap().to_owned();
        format!("{role}: {}", message.text())
    };
    agent.messages().iter().map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check<T>(answers: Vec<Answer>, value: T, expected: Expect)
where
    T: serde::de::DeserializeOwned + JsonSchema + PartialEq + std::fmt::Debug + 'static,
{
    let (given, _, agent) = asked::<T>(answers);
    assert_eq!(given.unwrap(), value);
    expected.assert_eq(&transcript(&agent));
}

#[track_caller]
fn check_fails(answers: Vec<Answer>, kind: ErrorKind, expected: Expect) {
    let count = answers.len();
    let (given, model, _) = asked::<City>(answers);
    let error = given.unwrap_err();
    assert_eq!((error.kind(), model.request_count()), (kind, count));
    expected.assert_eq(error.message());
}

fn city() -> City {
    City { name: "Oslo".into(), inhabitants: 700_000, river: None }
}

#[test]
fn an_answer_is_data() {
    check(
        vec![answer(oslo())],
        city(),
        expect![[r#"
        system: 
        user: Where?
        assistant: 
        toolResult: The answer was taken."#]],
    );
}

#[test]
fn an_answer_is_mended_as_arguments_are() {
    let arguments = json!({"name": "Oslo", "inhabitants": "700000", "river": null});
    check(
        vec![answer(arguments)],
        city(),
        expect![[r#"
        system: 
        user: Where?
        assistant: 
        toolResult: The answer was taken."#]],
    );
}

#[test]
fn an_answer_that_does_not_fit_is_asked_for_again() {
    check(
        vec![answer(json!({"name": "Oslo"})), answer(oslo())],
        city(),
        expect![[r#"
        system: 
        user: Where?
        assistant: 
        toolResult: The arguments do not fit the tool "answer". Correct this and call it again:
        - inhabitants: missing, but required

        Arguments received:
        {
          "name": "Oslo"
        }
        assistant: 
        toolResult: The answer was taken."#]],
    );
}

#[test]
fn an_answer_in_words_is_asked_for_again() {
    check(
        vec![Answer::from("In Oslo."), answer(oslo())],
        city(),
        expect![[r#"
        system: 
        user: Where?
        assistant: In Oslo.
        user: You have not called the tool `answer` yet. Call it now with your answer.
        assistant: 
        toolResult: The answer was taken."#]],
    );
}

#[test]
fn answers_that_are_no_objects_stand_in_a_field() {
    let colours = vec!["red".to_owned(), "blue".to_owned()];
    let (given, model, _) = asked::<Vec<String>>(vec![answer(json!({"answer": ["red", "blue"]}))]);
    assert_eq!(given.unwrap(), colours);
    let tools = steerage::transcript::current_tools(
        model.requests()[0].transcript.messages().iter().map(|message| &**message),
    );
    expect![[r#"{"type":"object","properties":{"answer":{"type":"array","items":{"type":"string"}}},"required":["answer"],"additionalProperties":false}"#]].assert_eq(&tools[0].parameters.to_string());
    let (given, ..) = asked::<f64>(vec![answer(json!({"answer": 1.5}))]);
    assert_eq!(given.unwrap().to_string(), "1.5");
}

#[test]
fn types_that_contain_themselves_are_answers() {
    let tree = json!({"value": 1, "children": [{"value": 2, "children": []}]});
    let leaf = |value| Tree { value, children: Vec::new() };
    let expected = Tree { value: 1, children: vec![leaf(2)] };
    let (given, ..) = asked::<Tree>(vec![answer(tree.clone())]);
    assert_eq!(given.unwrap(), expected);
    let (given, ..) = asked::<Vec<Tree>>(vec![answer(json!({"answer": [tree]}))]);
    assert_eq!(given.unwrap(), [expected]);
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
enum Sum {
    Number(f64),
    Add(Vec<Sum>),
    Negative(Box<Sum>),
}

#[test]
fn alternatives_that_contain_themselves_are_answers() {
    let sum = json!({"Add": [{"Number": 1.5}, {"Negative": {"Add": []}}]});
    let expected =
        || Sum::Add(vec![Sum::Number(1.5), Sum::Negative(Box::new(Sum::Add(Vec::new())))]);
    let (given, ..) = asked::<Sum>(vec![answer(json!({"answer": sum}))]);
    assert_eq!(given.unwrap(), expected());
    let (given, ..) = asked::<Vec<Sum>>(vec![answer(json!({"answer": [sum]}))]);
    assert_eq!(given.unwrap(), [expected()]);
    let (given, ..) = asked::<Option<Box<Sum>>>(vec![answer(json!({"answer": sum}))]);
    assert_eq!(given.unwrap(), Some(Box::new(expected())));
    // What is inside is checked as what it is inside of.
    let wrong = json!({"answer": {"Add": [{"answer": {"Add": []}}]}});
    let (given, model, _) = asked::<Sum>(vec![answer(wrong), answer(json!({"answer": sum}))]);
    assert_eq!((given.unwrap(), model.request_count()), (expected(), 2));
}

#[test]
fn tries_are_counted() {
    let wrong = || answer(json!({"name": "Oslo"}));
    check_fails(
        vec![wrong(), wrong(), wrong()],
        ErrorKind::Protocol,
        expect![[r#"
        the model gave no answer that fits, by tool `answer`: The arguments do not fit the tool "answer". Correct this and call it again:
        - inhabitants: missing, but required

        Arguments received:
        {
          "name": "Oslo"
        }"#]],
    );
    let words = || Answer::from("In Oslo.");
    check_fails(
        vec![words(), words(), words()],
        ErrorKind::Protocol,
        expect!["the model gave no answer that fits, by tool `answer`: it did not call the tool"],
    );
    check_fails(
        vec![words(), wrong(), words()],
        ErrorKind::Protocol,
        expect![[r#"
        the model gave no answer that fits, by tool `answer`: The arguments do not fit the tool "answer". Correct this and call it again:
        - inhabitants: missing, but required

        Arguments received:
        {
          "name": "Oslo"
        }"#]],
    );
}

#[test]
fn a_question_may_forbid_repairs() {
    let model = Scripted::new(["In Oslo."]);
    let agent = agent(&model, AgentOptions::default());
    let error = agent.ask_with::<City>("Where?", &AskOptions { repairs: 0 }).unwrap_err();
    assert_eq!((error.kind(), model.request_count()), (ErrorKind::Protocol, 1));
}

#[test]
fn what_ends_the_run_ends_the_question() {
    let fails = Answer::new().fails(ErrorKind::Overloaded, "too many");
    check_fails(vec![fails], ErrorKind::Overloaded, expect!["too many"]);
    let model = Scripted::new([answer(json!({}))]);
    let options = AgentOptions { max_requests: Some(1), ..AgentOptions::default() };
    let error = agent(&model, options).ask::<City>("Where?").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn own_tools_are_called_before_the_answer_and_the_answer_is_gone_after_it() {
    let map = Tool::with_schema("answer", "a map", json!({"type": "object"}), |_, _| Ok("north"));
    let model = Scripted::new([
        Answer::new().tool_call("answer", json!({})),
        Answer::new().tool_call("answer_2", oslo()),
        Answer::from("Hello."),
    ]);
    let agent = agent(&model, AgentOptions { tools: vec![map], ..AgentOptions::default() });
    assert_eq!(agent.ask::<City>("Where?").unwrap(), city());
    agent.prompt("Hello").unwrap().wait().unwrap();
    let told = |index: usize| {
        let requests = model.requests();
        let messages = requests[index].transcript.messages();
        steerage::transcript::current_tools(messages.iter().map(|message| &**message))
            .iter()
            .map(|tool| tool.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (told(0), told(2)),
        (vec!["answer".into(), "answer_2".into()], vec!["answer".into()])
    );
    assert_eq!(model.requests()[0].options.tool_choice, None);
}

#[test]
fn the_call_is_forced_where_it_can_be() {
    for (level, choice) in
        [(ThinkingLevel::Off, Some(ToolChoice::Tool("answer".into()))), (ThinkingLevel::High, None)]
    {
        let model = Scripted::new([answer(oslo())]);
        let options = AgentOptions { thinking_level: level, ..AgentOptions::default() };
        agent(&model, options).ask::<City>("Where?").unwrap();
        assert_eq!(model.requests()[0].options.tool_choice, choice);
    }
}

#[test]
fn the_hook_of_the_host_still_sees_the_turns() {
    let model = Scripted::new([Answer::from("In Oslo."), answer(oslo())]);
    let mut options = AgentOptions::default();
    let turns = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = turns.clone();
    options.hooks.finish_turn = Some(Arc::new(move |_, _| {
        seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(TurnDecision::Proceed)
    }));
    assert_eq!(agent(&model, options).ask::<City>("Where?").unwrap(), city());
    assert_eq!(turns.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[test]
fn the_first_of_two_answers_counts() {
    let two = answer(oslo()).tool_call("answer", json!({"name": "Bergen", "inhabitants": 1}));
    let model = Scripted::new([two]);
    let options = AgentOptions {
        tool_execution: steerage::ExecutionMode::Sequential,
        ..AgentOptions::default()
    };
    assert_eq!(agent(&model, options).ask::<City>("Where?").unwrap(), city());
}

#[test]
fn a_question_may_hold_an_image() {
    let image =
        steerage::message::ImageContent { data: "AA==".into(), mime_type: "image/png".into() };
    let model = Scripted::new([answer(oslo())]);
    let agent = agent(&model, AgentOptions::default());
    agent.ask::<City>(("Where is this?", vec![image])).unwrap();
    let has_image = |message: &Arc<steerage::Message>| match &**message {
        steerage::Message::User(user) => match &user.content {
            MessageContent::Blocks(blocks) => matches!(blocks[1], Content::Image(_)),
            MessageContent::Text(_) => false,
        },
        _ => false,
    };
    assert!(agent.messages().iter().any(has_image));
}
