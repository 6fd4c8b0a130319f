//! Code mode: the model writes one program that reads several files and adds them up, instead of calling a tool for each
//! and reading it all. Only the program and its result cost tokens.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Deserialize;
use steerage::{Agent, AgentOptions, Builtin, Tool, ToolContext, Usage, codemode};

const QUESTION: &str =
    "Read january.csv, february.csv, march.csv and april.csv and add up the amounts in them.";

#[derive(Deserialize, JsonSchema)]
struct Read {
    /// Name of the file
    path: String,
}

fn main() -> Result<(), steerage::Error> {
    let (by_calls, single) = ask(vec![read_file()])?;
    let (by_script, script) = ask(vec![codemode::tool([read_file()])])?;
    println!(
        "\nsingle calls: {} tokens\none script:   {} tokens",
        tokens(&single),
        tokens(&script)
    );
    let cents: usize = (0..4).flat_map(|month| (0..150).map(move |it| price(month, it))).sum();
    let total = (cents / 100).to_string();
    assert!(by_calls.contains(&total) && by_script.contains(&total));
    assert!(tokens(&script) < tokens(&single));
    Ok(())
}

/// Asks the question of an agent with these tools and shows what it does.
fn ask(tools: Vec<Tool>) -> Result<(String, Usage), steerage::Error> {
    println!("\n-- with {}", tools[0].name());
    // The built-in model needs no key; with a key this is a vendor's.
    let options =
        AgentOptions { stream: Some(Builtin::unpaced().into()), tools, ..AgentOptions::default() };
    let agent = Agent::new(Builtin::model(), options)?;
    let outcome = agent.prompt(QUESTION)?.wait()?;
    for message in outcome.messages.iter().filter_map(|message| message.as_assistant()) {
        for call in message.tool_calls() {
            let shown = call.arguments.values().filter_map(|argument| argument.as_str());
            println!("{}: {}", call.name, shown.collect::<String>());
        }
    }
    println!("{}", outcome.text.lines().last().unwrap_or_default());
    Ok((outcome.text, outcome.usage))
}

fn tokens(usage: &Usage) -> u64 {
    usage.input + usage.output
}

/// A tool with some files to read: a line for each purchase, its amount last.
fn read_file() -> Tool {
    Tool::new("read_file", "Reads a file", |read: Read, _: &ToolContext| {
        let months = ["january.csv", "february.csv", "march.csv", "april.csv"];
        let month = months.iter().position(|name| *name == read.path);
        let month = month.ok_or_else(|| format!("there is no file {}", read.path))?;
        let mut text = String::from("day,what,amount\n");
        for purchase in 0..150 {
            let cents = price(month, purchase);
            let (day, what) = (1 + purchase / 5, ["bread", "books", "tools"][purchase % 3]);
            let _ = writeln!(text, "{day},{what},{}.{:02}", cents / 100, cents % 100);
        }
        Ok(text)
    })
}

/// An amount in cents.
fn price(month: usize, purchase: usize) -> usize {
    1000 + (month * 150 + purchase) * 37 % 3100
}
