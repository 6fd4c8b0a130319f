//! What the user sees.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

use steerage::{AgentEvent, ToolResult};

const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "";

/// Writes to the standard output.
pub(crate) struct Screen {
    out: io::Stdout,
    is_typed: bool,
    is_coloured: bool,
    open: Open,
}

/// What the last line holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Prompt,
    Text,
    Thinking,
}

impl Screen {
    pub(crate) fn new(is_typed: bool) -> Screen {
        let out = io::stdout();
        let is_coloured = out.is_terminal() && env::var_os("NO_COLOR").is_none();
        Screen { out, is_typed, is_coloured, open: Open::Nothing }
    }

    /// Whether the user types, and so sees what was typed.
    pub(crate) fn is_typed(&self) -> bool {
        self.is_typed
    }

    /// Shows that a line may be typed.
    pub(crate) fn ask(&mut self) -> io::Result<()> {
        if self.is_typed && self.open != Open::Prompt {
            self.start(Open::Prompt)?;
            write!(self.out, "> ")?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Shows a line of input, unless the terminal has done so.
    pub(crate) fn echo(&mut self, line: &str) -> io::Result<()> {
        if self.is_typed {
            self.open = Open::Nothing;
            return Ok(());
        }
        self.line(PLAIN, &format!("> {line}"))
    }

    /// A remark of the chat.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.line(DIM, text)
    }

    pub(crate) fn error(&mut self, text: &str) -> io::Result<()> {
        self.line(RED, &format!("error: {}", one_line(text, 400)))
    }

    /// A text of several lines that the user asked for.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        text.lines().try_for_each(|line| self.line(PLAIN, line))
    }

    pub(crate) fn event(&mut self, event: &AgentEvent) -> io::Result<()> {
        if let Some(delta) = event.text_delta() {
            return self.piece(Open::Text, PLAIN, delta);
        }
        if let Some(delta) = event.thinking_delta() {
            return self.piece(Open::Thinking, DIM, delta);
        }
        match event {
            AgentEvent::ToolExecutionStart { call } => {
                let arguments = serde_json::Value::Object(call.arguments.clone()).to_string();
                self.line(DIM, &format!("* {} {}", call.name, one_line(&arguments, 120)))
            }
            AgentEvent::ToolExecutionUpdate { call, partial_result } => {
                self.line(DIM, &format!("  {}: {}", call.name, summary(partial_result)))
            }
            AgentEvent::ToolExecutionEnd { call, result, is_error, .. } => {
                let sign = if *is_error { "failed:" } else { "=" };
                let colour = if *is_error { RED } else { DIM };
                self.line(colour, &format!("  {} {sign} {}", call.name, summary(result)))
            }
            AgentEvent::MessageEnd { message } if message.as_assistant().is_some() => {
                self.start(Open::Nothing)
            }
            _ => Ok(()),
        }
    }

    fn piece(&mut self, open: Open, colour: &str, text: &str) -> io::Result<()> {
        if self.open != open {
            self.start(open)?;
            if open == Open::Thinking && !self.is_coloured {
                write!(self.out, "(thinks) ")?;
            }
        }
        self.coloured(colour, &printable(text))?;
        self.out.flush()
    }

    fn line(&mut self, colour: &str, text: &str) -> io::Result<()> {
        self.start(Open::Nothing)?;
        self.coloured(colour, &printable(text))?;
        writeln!(self.out)?;
        self.out.flush()
    }

    /// Ends the line that is open and says what comes next.
    fn start(&mut self, next: Open) -> io::Result<()> {
        if self.open != Open::Nothing {
            writeln!(self.out)?;
        }
        self.open = next;
        Ok(())
    }

    fn coloured(&mut self, colour: &str, text: &str) -> io::Result<()> {
        if self.is_coloured && !colour.is_empty() {
            write!(self.out, "{colour}{text}\x1b[0m")
        } else {
            write!(self.out, "{text}")
        }
    }
}

/// The first line of a result, and how many more there are.
fn summary(result: &ToolResult) -> String {
    let texts: Vec<&str> = result.content.iter().filter_map(|block| block.as_text()).collect();
    let text = texts.join("\n");
    let first = one_line(text.lines().next().unwrap_or("nothing"), 120);
    match text.lines().count() {
        0 | 1 => first,
        lines => format!("{first} (and {} more lines)", lines - 1),
    }
}

fn one_line(text: &str, most: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(most) {
        Some((length, _)) => format!("{}...", &text[..length]),
        None => text,
    }
}

/// Models and tools write to the terminal, but do not command it.
fn printable(text: &str) -> String {
    text.chars().filter(|it| !it.is_control() || matches!(it, '\n' | '\t')).collect()
}
