//! What the user sees.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

use steerage::{
    AgentEvent,
    render::{RenderOptions, Renderer, Style, one_line},
};

/// Writes to the standard output.
pub(crate) struct Screen {
    out: io::Stdout,
    is_typed: bool,
    renderer: Renderer,
}

impl Screen {
    pub(crate) fn new(is_typed: bool) -> Screen {
        let out = io::stdout();
        let colours = out.is_terminal() && env::var_os("NO_COLOR").is_none();
        let renderer = Renderer::new(RenderOptions { colours, ..RenderOptions::default() });
        Screen { out, is_typed, renderer }
    }

    /// Whether the user types, and so sees what was typed.
    pub(crate) fn is_typed(&self) -> bool {
        self.is_typed
    }

    /// Shows that a line may be typed.
    pub(crate) fn ask(&mut self) -> io::Result<()> {
        let prompt = if self.is_typed { self.renderer.prompt("> ") } else { String::new() };
        self.write(&prompt)
    }

    /// Shows a line of input, unless the terminal has done so.
    pub(crate) fn echo(&mut self, line: &str) -> io::Result<()> {
        if self.is_typed {
            self.renderer.line_was_ended();
            return Ok(());
        }
        self.line(Style::Plain, &format!("> {line}"))
    }

    /// A remark of the chat.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.line(Style::Dim, text)
    }

    pub(crate) fn error(&mut self, text: &str) -> io::Result<()> {
        self.line(Style::Alert, &format!("error: {}", one_line(text, 400)))
    }

    /// A text of several lines that the user asked for.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        text.lines().try_for_each(|line| self.line(Style::Plain, line))
    }

    pub(crate) fn event(&mut self, event: &AgentEvent) -> io::Result<()> {
        let shown = match event {
            // How a run ended is said at its end.
            AgentEvent::MessageEnd { message } if message.as_assistant().is_some() => {
                self.renderer.end_line()
            }
            AgentEvent::MessageEnd { .. } => return Ok(()),
            event => self.renderer.event(event),
        };
        self.write(&shown)
    }

    fn line(&mut self, style: Style, text: &str) -> io::Result<()> {
        let line = self.renderer.line(style, text);
        self.write(&line)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}
