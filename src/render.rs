//! Events and transcripts as plain text, for terminals and logs.
//!
//! Models and tools write to a terminal, but do not command it: control characters are left out.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    event::AgentEvent,
    message::{
        AssistantContent, AssistantMessage, Content, Message, MessageContent, StopReason,
        SystemMessage,
    },
};

/// How it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether the sequences of terminals for colours are written. Default: no.
    pub colours: bool,
    /// How many characters of arguments and results are shown. Default: 120.
    pub most: usize,
}

/// How a line of the host's own looks; without colours all are alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// As the text of the model.
    #[default]
    Plain,
    /// As what goes on beside it.
    Dim,
    /// As a failure.
    Alert,
}

/// Makes text of events and messages, piece by piece. It knows what the last line holds, so whatever comes next begins
/// where it should; all that goes to one output goes through one renderer.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use steerage::{Agent, AgentOptions, Tool, render::Renderer, testing::{Answer, Scripted}};
///
/// let model = Scripted::new([
///     Answer::new().text("I look.").tool_call("look", json!({"at": "door"})),
///     Answer::from("It is open."),
/// ]);
/// let look = Tool::with_schema("look", "Looks", json!({"type": "object"}), |_, _| Ok("an open door"));
/// let options = AgentOptions { stream: Some(model.clone().into()), tools: vec![look], ..AgentOptions::default() };
/// let agent = Agent::new(model.model(), options)?;
/// let events = agent.events();
/// agent.prompt("Look")?.wait()?;
///
/// let mut renderer = Renderer::default();
/// let shown: String = events.drain(100).iter().skip_while(|it| it.text_delta().is_none()).map(|it| renderer.event(it)).collect();
/// assert_eq!(shown, "I look.\n* look {\"at\":\"door\"}\n  look = an open door\nIt is open.\n");
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Renderer {
    options: RenderOptions,
    open: Open,
    /// Whether something of the message that streams was shown.
    has_shown: bool,
}

/// What the last line holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    Prompt,
    Text,
    Thinking,
}

/// A transcript as text, each message on lines of its own.
pub fn transcript<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> String {
    let mut renderer = Renderer::default();
    messages.into_iter().map(|message| renderer.message(message)).collect()
}

impl Renderer {
    /// Makes a renderer whose output is at the start of a line.
    pub fn new(options: RenderOptions) -> Renderer {
        Renderer { options, ..Renderer::default() }
    }

    /// What an event adds; empty for one that shows nothing. Text and thinking are shown as they stream, calls when they
    /// begin, report and end, the other messages when they are complete.
    pub fn event(&mut self, event: &AgentEvent) -> String {
        if let Some(delta) = event.text_delta() {
            return self.piece(Open::Text, delta);
        }
        if let Some(delta) = event.thinking_delta() {
            return self.piece(Open::Thinking, delta);
        }
        match event {
            AgentEvent::ToolExecutionStart { call } => self.call(&call.name, &call.arguments),
            AgentEvent::ToolExecutionUpdate { call, partial_result } => {
                let text = format!("  {}: {}", call.name, self.summary(&partial_result.content));
                self.line(Style::Dim, &text)
            }
            AgentEvent::ToolExecutionEnd { call, result, is_error, .. } => {
                self.result(&call.name, &result.content, *is_error)
            }
            AgentEvent::RetryScheduled { attempt, max_attempts, delay_ms, error_message } => {
                let seconds = f64::from(u32::try_from(*delay_ms).unwrap_or(u32::MAX)) / 1000.0;
                let next = format!("asked again ({attempt} of {max_attempts}) in {seconds} s");
                self.line(Style::Dim, &format!("{next}: {error_message}"))
            }
            AgentEvent::MessageStart { .. } => {
                self.has_shown = false;
                String::new()
            }
            AgentEvent::MessageEnd { message } => match &**message {
                Message::Assistant(assistant) => self.end_message(assistant),
                // The end of the call has shown it.
                Message::ToolResult(_) => String::new(),
                _ => self.message(message),
            },
            _ => String::new(),
        }
    }

    /// A whole message, on lines of its own.
    pub fn message(&mut self, message: &Message) -> String {
        match message {
            Message::System(system) => self.system(system),
            Message::User(user) => {
                let text = blocks(&user.content);
                text.lines().map(|line| self.line(Style::Plain, &format!("> {line}"))).collect()
            }
            Message::Assistant(assistant) => {
                let mut shown = self.texts(assistant);
                for call in assistant.tool_calls() {
                    shown += &self.call(&call.name, &call.arguments);
                }
                shown + &self.failure(assistant)
            }
            Message::ToolResult(result) => {
                self.result(&result.tool_name, &result.content, result.is_error)
            }
            Message::Custom(custom) => {
                let mut fields = custom.fields().clone();
                fields.shift_remove("role");
                let fields = self.one_line(&Value::Object(fields).to_string());
                let text = format!("({}) {fields}", custom.role());
                self.line(Style::Dim, &text)
            }
        }
    }

    /// A line of the host's own, such as a remark.
    pub fn line(&mut self, style: Style, text: &str) -> String {
        self.start(Open::Nothing) + &self.styled(style, text) + "\n"
    }

    /// A prompt to type at, whose line stays open; empty if one is open already.
    pub fn prompt(&mut self, text: &str) -> String {
        if self.open == Open::Prompt {
            return String::new();
        }
        self.start(Open::Prompt) + &printable(text)
    }

    /// Ends the line that is open, if one is.
    pub fn end_line(&mut self) -> String {
        self.start(Open::Nothing)
    }

    /// Learns that somebody else has ended the line, as a terminal does when its user presses return.
    pub fn line_was_ended(&mut self) {
        self.open = Open::Nothing;
    }

    /// A text in one line of so many characters as the options say.
    pub fn one_line(&self, text: &str) -> String {
        one_line(text, self.options.most)
    }

    fn piece(&mut self, open: Open, text: &str) -> String {
        self.has_shown = true;
        let mut shown = String::new();
        if self.open != open {
            shown = self.start(open);
            if open == Open::Thinking && !self.options.colours {
                shown += "(thinks) ";
            }
        }
        let style = if open == Open::Thinking { Style::Dim } else { Style::Plain };
        shown + &self.styled(style, text)
    }

    /// The end of a message that streamed, or all of it if nothing of it did.
    fn end_message(&mut self, message: &AssistantMessage) -> String {
        let rest = if self.has_shown { self.end_line() } else { self.texts(message) };
        rest + &self.failure(message)
    }

    fn texts(&mut self, message: &AssistantMessage) -> String {
        let mut shown = String::new();
        for block in &message.content {
            let (open, text) = match block {
                AssistantContent::Text(block) => (Open::Text, &block.text),
                AssistantContent::Thinking(block) => (Open::Thinking, &block.thinking),
                AssistantContent::ToolCall(_) => continue,
            };
            if !text.is_empty() {
                shown += &self.piece(open, text);
            }
        }
        shown + &self.end_line()
    }

    fn failure(&mut self, message: &AssistantMessage) -> String {
        let why = message.error_message.as_deref();
        match message.stop_reason {
            StopReason::Aborted => self.line(Style::Dim, "(aborted)"),
            StopReason::Error => {
                let why = self.one_line(why.unwrap_or("the answer failed"));
                self.line(Style::Alert, &format!("error: {why}"))
            }
            _ => String::new(),
        }
    }

    fn system(&mut self, message: &SystemMessage) -> String {
        let text = self.one_line(&blocks(&message.content));
        let sections = message.sections.iter().flatten().map(|(name, _)| format!("#{name}"));
        let added = message.tools_added.iter().map(|tool| format!("+{}", tool.name));
        let removed = message.tools_removed.iter().map(|tool| format!("-{}", tool.name));
        let words: Vec<String> = Some(text)
            .filter(|text| !text.is_empty())
            .into_iter()
            .chain(sections)
            .chain(removed)
            .chain(added)
            .collect();
        self.line(Style::Dim, &format!("(system) {}", words.join(" ")))
    }

    fn call(&mut self, name: &str, arguments: &Map<String, Value>) -> String {
        let arguments = Value::Object(arguments.clone()).to_string();
        self.line(Style::Dim, &format!("* {name} {}", self.one_line(&arguments)))
    }

    fn result(&mut self, name: &str, content: &[Content], is_error: bool) -> String {
        let (style, sign) = if is_error { (Style::Alert, "failed:") } else { (Style::Dim, "=") };
        self.line(style, &format!("  {name} {sign} {}", self.summary(content)))
    }

    /// The first line of a result, and how many more there are.
    fn summary(&self, content: &[Content]) -> String {
        let text = texts_of(content);
        let first = self.one_line(text.lines().next().unwrap_or("nothing"));
        match text.lines().count() {
            0 | 1 => first,
            lines => format!("{first} (and {} more lines)", lines - 1),
        }
    }

    /// Ends the line that is open and says what comes next.
    fn start(&mut self, next: Open) -> String {
        let is_open = self.open != Open::Nothing;
        self.open = next;
        if is_open { "\n".to_owned() } else { String::new() }
    }

    fn styled(&self, style: Style, text: &str) -> String {
        let text = printable(text);
        let code = match style {
            Style::Dim if self.options.colours => "2",
            Style::Alert if self.options.colours => "31",
            _ => return text,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// A text in one line of at most so many characters; what is left out shows as dots.
pub fn one_line(text: &str, most: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(most) {
        Some((length, _)) => format!("{}...", &text[..length]),
        None => text,
    }
}

fn blocks(content: &MessageContent) -> String {
    match content {
        MessageContent::Text(text) => text.clone(),
        MessageContent::Blocks(blocks) => texts_of(blocks),
    }
}

/// The texts, and of images what they are.
fn texts_of(content: &[Content]) -> String {
    let told = content.iter().map(|block| match block {
        Content::Text(block) => block.text.clone(),
        Content::Image(image) => format!("[{}]", image.mime_type),
    });
    told.collect::<Vec<_>>().join("\n")
}

fn printable(text: &str) -> String {
    text.chars().filter(|it| !it.is_control() || matches!(it, '\n' | '\t')).collect()
}

impl Default for RenderOptions {
    fn default() -> RenderOptions {
        RenderOptions { colours: false, most: 120 }
    }
}
