//! A chat in the terminal. Without a key it talks to the model that is part of the crate:
//!
//! ```text
//! cargo run --example chat
//! cargo run --example chat -- --help
//! ```

use std::{
    env,
    fmt::Display,
    io::{self, BufRead, IsTerminal, Write},
    process::ExitCode,
    sync::mpsc::{Sender, channel},
    thread,
};

use steerage::{Agent, AgentOptions};

use crate::{
    arguments::{Arguments, Wish},
    connection::Connection,
    screen::Screen,
    session::{Input, Session},
};

mod arguments;
mod connection;
mod entry;
mod screen;
mod session;
mod tools;

const PROMPT: &str = "You are a helpful assistant in a terminal. Answer briefly, in plain text.";

fn main() -> ExitCode {
    let words = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let outcome = match arguments::parse(words) {
        Ok(Wish::Help) => {
            return match io::stdout().write_all(arguments::HELP.as_bytes()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => failed(&error),
                _ => ExitCode::SUCCESS,
            };
        }
        Ok(Wish::Chat(arguments)) => chat(&arguments),
        Err(error) => Err(format!("{error} (see --help)").into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn Display) -> ExitCode {
    // There may be nobody who reads that either.
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::from(2)
}

fn chat(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let connection = Connection::new(arguments)?;
    let options = AgentOptions {
        stream: Some(connection.stream()),
        system_prompt: PROMPT.to_owned(),
        tools: tools::all(),
        // A model that calls tools for ever costs money.
        max_requests: Some(50),
        ..AgentOptions::default()
    };
    let agent = Agent::new(connection.first_model(arguments)?, options)?;

    // Everything that happens comes in by one channel, so that one thread decides and writes.
    let (sender, inputs) = channel();
    let wake = sender.clone();
    let events = agent.events().on_wake(move || drop(wake.send(Input::Events)));
    let interrupt = sender.clone();
    ctrlc::set_handler(move || drop(interrupt.send(Input::Interrupt)))?;
    thread::Builder::new().name("stdin".to_owned()).spawn(move || read_lines(&sender))?;

    let is_typed = io::stdin().is_terminal();
    let session = Session::new(agent, events, connection, Screen::new(is_typed));
    match session.run(&inputs) {
        // Whoever read the output has gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// Sends the lines of the standard input, and then its end.
fn read_lines(sender: &Sender<Input>) {
    let mut stdin = io::stdin().lock();
    let mut line = Vec::new();
    while let Ok(1..) = stdin.read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        line.clear();
        if sender.send(Input::Line(text)).is_err() {
            return;
        }
    }
    let _ = sender.send(Input::End);
}
