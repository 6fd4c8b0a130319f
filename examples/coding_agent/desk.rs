//! Where the person sits: tasks and answers come in by lines, events and questions go out as text.

use std::{
    error::Error,
    io::{self, BufRead, IsTerminal, Write},
    thread,
};

use crossbeam_channel::{Receiver, bounded, select, unbounded};
use steerage::{
    Agent, AgentEvent, Events, Message,
    approval::{Ask, Scope},
    hosted::Queue,
    render::{Renderer, Style},
};

pub(crate) struct Desk {
    events: Events,
    /// Has something when there are events.
    woken: Receiver<()>,
    asks: Queue<Ask>,
    lines: Receiver<String>,
    renderer: Renderer,
    /// Whether the end of the run was shown.
    has_ended: bool,
}

impl Desk {
    pub(crate) fn new(agent: &Agent, asks: Queue<Ask>) -> io::Result<Desk> {
        let (wake, woken) = bounded(1);
        let events = agent.events().on_wake(move || {
            // One that was not taken yet says the same.
            let _ = wake.try_send(());
        });
        let (lines, renderer) = (typed_lines()?, Renderer::default());
        Ok(Desk { events, woken, asks, lines, renderer, has_ended: false })
    }

    /// Does the tasks of the input, one after another.
    pub(crate) fn work(&mut self, agent: &Agent) -> Result<(), Box<dyn Error>> {
        while let Ok(line) = self.lines.recv() {
            if line.trim().is_empty() {
                continue;
            }
            let run = agent.prompt(line.trim())?;
            self.attend()?;
            if let Err(error) = run.wait() {
                let text = self.renderer.line(Style::Alert, &format!("! {error}"));
                write(&text)?;
            }
        }
        Ok(())
    }

    /// Shows what happens and asks what is to be asked, until the run has ended.
    fn attend(&mut self) -> io::Result<()> {
        self.has_ended = false;
        loop {
            self.show()?;
            if self.has_ended {
                return Ok(());
            }
            select! {
                recv(self.woken) -> _ => (),
                recv(self.asks.receiver()) -> ask => {
                    if let Ok(ask) = ask {
                        self.ask(ask)?;
                    }
                }
            }
        }
    }

    /// Shows what has happened.
    fn show(&mut self) -> io::Result<()> {
        while let Some(event) = self.events.try_next() {
            self.has_ended |= matches!(event, AgentEvent::AgentEnd { .. });
            // The person has typed the task and need not read it again.
            let is_task = matches!(&event, AgentEvent::MessageEnd { message } if matches!(**message, Message::User(_)));
            if !is_task {
                write(&self.renderer.event(&event))?;
            }
        }
        Ok(())
    }

    /// Asks whether a call may run. An abort ends the question.
    fn ask(&mut self, ask: Ask) -> io::Result<()> {
        self.show()?;
        let arguments = serde_json::to_string(ask.arguments())?;
        let arguments = self.renderer.one_line(&arguments);
        let question = format!("? {} {arguments} [y]es, [a]lways, or why not: ", ask.tool_name());
        write(&self.renderer.prompt(&question))?;
        while ask.is_wanted() {
            select! {
                recv(self.lines) -> line => {
                    if io::stdin().is_terminal() {
                        self.renderer.line_was_ended();
                    }
                    write(&self.renderer.end_line())?;
                    if let Ok(line) = line {
                        answer(ask, line.trim());
                    }
                    return Ok(());
                }
                recv(self.woken) -> _ => { self.show()?; }
            }
        }
        Ok(())
    }
}

fn answer(ask: Ask, answer: &str) {
    match answer {
        "y" | "yes" => ask.allow(),
        "a" | "always" => ask.allow_always(Scope::Tool),
        "" | "n" | "no" => ask.deny("the user said no"),
        reason => ask.deny(format!("the user said no: {reason}")),
    };
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The lines of the input, from a thread that ends with it.
fn typed_lines() -> io::Result<Receiver<String>> {
    let (sender, lines) = unbounded();
    let read = move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("input".to_owned()).spawn(read)?;
    Ok(lines)
}
