//! The chat itself: one thread that takes what happens and decides.

use std::{collections::VecDeque, fs, io, sync::mpsc::Receiver, time::Duration};

use steerage::{
    Agent, AgentEvent, Error, Events, Message, Run, RunEnd, RunOutcome, message::AssistantMessage,
    transcript,
};

use crate::{
    connection::Connection,
    entry::{self, Entry},
    screen::Screen,
};

/// Something that happened.
pub(crate) enum Input {
    Line(String),
    /// The input has ended.
    End,
    /// Ctrl-C.
    Interrupt,
    /// The agent has news.
    Events,
}

pub(crate) struct Session {
    agent: Agent,
    events: Events,
    connection: Connection,
    screen: Screen,
    run: Option<Run>,
    /// Whether the next user message of the run is on the screen already.
    is_prompt_shown: bool,
    /// Lines that nobody has looked at.
    lines: VecDeque<String>,
    has_input_ended: bool,
    /// How often Ctrl-C was pressed since something was asked.
    interrupts: u32,
    shall_quit: bool,
}

impl Session {
    pub(crate) fn new(
        agent: Agent,
        events: Events,
        connection: Connection,
        screen: Screen,
    ) -> Session {
        Session {
            agent,
            events,
            connection,
            screen,
            run: None,
            is_prompt_shown: false,
            lines: VecDeque::new(),
            has_input_ended: false,
            interrupts: 0,
            shall_quit: false,
        }
    }

    /// Chats until the user quits.
    pub(crate) fn run(mut self, inputs: &Receiver<Input>) -> io::Result<()> {
        self.screen
            .note(&format!("You talk to {}. /help says what you can do.", self.address()))?;
        loop {
            self.take_lines()?;
            let is_done = self.has_input_ended && self.lines.is_empty() && self.run.is_none();
            if is_done || self.shall_quit {
                break;
            }
            match self.next(inputs)? {
                Input::Line(line) => self.lines.push_back(line),
                Input::Interrupt => self.interrupt()?,
                Input::Events => self.show_events()?,
                Input::End => self.has_input_ended = true,
            }
        }
        if let Some(run) = &self.run {
            run.abort();
            let _ = run.wait_timeout(Duration::from_secs(3));
        }
        Ok(())
    }

    /// Waits for what happens next, and shows that a line may be typed if there is nothing else to show.
    fn next(&mut self, inputs: &Receiver<Input>) -> io::Result<Input> {
        if let Ok(input) = inputs.try_recv() {
            return Ok(input);
        }
        if self.run.is_none() {
            self.screen.ask()?;
        }
        Ok(inputs.recv().unwrap_or(Input::End))
    }

    /// Does what the lines say. In a script most lines wait until the model is done.
    fn take_lines(&mut self) -> io::Result<()> {
        while let Some(line) = self.lines.front() {
            let entry = Entry::parse(line);
            let is_busy = self.run.is_some() && !self.screen.is_typed();
            if self.shall_quit || (is_busy && entry.waits()) {
                break;
            }
            if let Some(line) = self.lines.pop_front() {
                self.screen.echo(&line)?;
            }
            self.interrupts = 0;
            self.obey(entry)?;
        }
        Ok(())
    }

    fn obey(&mut self, entry: Entry) -> io::Result<()> {
        match entry {
            Entry::Nothing => Ok(()),
            Entry::Say(text) if self.run.is_none() => self.ask(text),
            Entry::Steer(text) | Entry::FollowUp(text) if self.run.is_none() => self.ask(text),
            Entry::Say(text) | Entry::Steer(text) => {
                self.agent.steer(Message::user(text));
                self.screen.note("(the model gets that after its present step)")
            }
            Entry::FollowUp(text) => {
                self.agent.follow_up(Message::user(text));
                self.screen.note("(the model gets that when it is done)")
            }
            Entry::Abort => self.abort(),
            Entry::Retry => self.retry(),
            Entry::Model(id) => self.choose_model(id.as_deref()),
            Entry::Models(provider) => match self.connection.list(provider.as_deref()) {
                Ok(list) => self.screen.text(&list),
                Err(error) => self.screen.error(error.message()),
            },
            Entry::Think(level) => self.choose_thinking(level.as_deref()),
            Entry::Save(file) => self.save(&file),
            Entry::Load(file) => self.load(&file),
            Entry::Help => self.screen.text(entry::HELP),
            Entry::Quit => {
                self.shall_quit = true;
                Ok(())
            }
            Entry::Unclear(what) => self.screen.error(&what),
        }
    }

    fn ask(&mut self, text: String) -> io::Result<()> {
        self.is_prompt_shown = true;
        // Some servers take messages of plain text only, which this is, and not those of a list of blocks.
        let run = self.agent.prompt(Message::user(text));
        self.started(run)
    }

    fn started(&mut self, run: Result<Run, Error>) -> io::Result<()> {
        match run {
            Ok(run) => {
                self.interrupts = 0;
                self.run = Some(run);
                Ok(())
            }
            Err(error) => self.screen.error(error.message()),
        }
    }

    fn show_events(&mut self) -> io::Result<()> {
        while let Some(event) = self.events.try_next() {
            match &event {
                AgentEvent::MessageEnd { message } if message.role() == "user" => {
                    if !std::mem::take(&mut self.is_prompt_shown) {
                        self.screen.note(&format!(">> {}", message.text()))?;
                    }
                }
                AgentEvent::AgentEnd { .. } => self.end_run()?,
                event => self.screen.event(event)?,
            }
        }
        Ok(())
    }

    fn end_run(&mut self) -> io::Result<()> {
        let Some(run) = self.run.take() else { return Ok(()) };
        match run.outcome() {
            Ok(outcome) => self.report(&outcome)?,
            Err(error) => self.screen.error(error.message())?,
        }
        if self.agent.has_queued_messages() && self.agent.error_message().is_none() {
            // It was queued when the run had just looked for the last time.
            let run = self.agent.resume();
            return self.started(run);
        }
        match self.agent.queued().len() {
            0 => Ok(()),
            waiting => self.screen.note(&format!("({waiting} queued: the next run takes them)")),
        }
    }

    fn report(&mut self, outcome: &RunOutcome) -> io::Result<()> {
        let why = outcome.error_message.as_deref().unwrap_or("the run failed");
        match outcome.end {
            RunEnd::Aborted => self.screen.note("(aborted; /retry asks again)")?,
            RunEnd::Failed | RunEnd::Broken => {
                self.screen.error(&format!("{why} (nothing is lost: /retry asks again)"))?;
            }
            RunEnd::OutOfRequests => {
                self.screen.note("(it has asked often enough for one run; /retry goes on)")?;
            }
            _ => (),
        }
        if outcome.usage.cost.total > 0.0 {
            self.screen.note(&format!("(${:.4})", outcome.usage.cost.total))?;
        }
        Ok(())
    }

    fn interrupt(&mut self) -> io::Result<()> {
        self.interrupts += 1;
        if self.interrupts > 1 {
            self.shall_quit = true;
            return Ok(());
        }
        match &self.run {
            Some(_) => self.abort(),
            None => self.screen.note("(Ctrl-C again quits)"),
        }
    }

    fn abort(&mut self) -> io::Result<()> {
        match &self.run {
            Some(run) => run.abort(),
            None => self.screen.note("(there is nothing to abort)")?,
        }
        Ok(())
    }

    /// Asks again what failed or was aborted.
    fn retry(&mut self) -> io::Result<()> {
        let mut messages = self.agent.messages().to_vec();
        let is_failed =
            |message: &Message| message.as_assistant().is_some_and(AssistantMessage::is_failed);
        while messages.last().is_some_and(|message| is_failed(message)) {
            messages.pop();
        }
        if self.run.is_none() && messages.len() < self.agent.messages().len() {
            self.agent.set_messages(messages);
        }
        let run = self.agent.resume();
        self.started(run)
    }

    fn choose_model(&mut self, id: Option<&str>) -> io::Result<()> {
        if let Some(id) = id {
            match self.connection.model(id, &self.agent.model().provider) {
                Ok(model) => self.agent.set_model(model),
                Err(error) => return self.screen.error(error.message()),
            }
        }
        self.screen.note(&format!("(the model is {})", self.address()))
    }

    fn choose_thinking(&mut self, level: Option<&str>) -> io::Result<()> {
        if let Some(level) = level {
            match level.parse() {
                Ok(level) => {
                    self.agent.set_model(self.connection.thinking(self.agent.model(), level));
                    self.agent.set_thinking_level(level);
                }
                Err(error) => {
                    let error: Error = error;
                    return self.screen.error(error.message());
                }
            }
        }
        let (wanted, model) = (self.agent.state().thinking_level, self.agent.model());
        match model.clamp_thinking(wanted) {
            level if level == wanted => self.screen.note(&format!("(it thinks: {level})")),
            level => {
                self.screen.note(&format!("(it thinks: {level}, as {} has no {wanted})", model.id))
            }
        }
    }

    fn save(&mut self, file: &str) -> io::Result<()> {
        let messages = self.agent.messages();
        // A file that is there already is replaced at once or not at all.
        let written = transcript::to_json(&messages).map_err(io::Error::other).and_then(|text| {
            let half = format!("{file}.part");
            fs::write(&half, text).and_then(|()| fs::rename(&half, file))
        });
        match written {
            Ok(()) => self.screen.note(&format!("({} messages are in {file})", messages.len())),
            Err(error) => self.screen.error(&format!("{file} was not written: {error}")),
        }
    }

    fn load(&mut self, file: &str) -> io::Result<()> {
        if self.run.is_some() {
            return self.screen.error("the model is at work: abort it or wait, then load");
        }
        let read = fs::read(file).map_err(|error| error.to_string()).and_then(|bytes| {
            transcript::from_json(&String::from_utf8_lossy(&bytes)).map_err(|it| it.to_string())
        });
        let (messages, skipped) = match read {
            Ok(read) => read,
            Err(error) => {
                let kept = "the conversation stays as it is";
                return self.screen.error(&format!("{file} was not loaded: {error}; {kept}"));
            }
        };
        for entry in skipped {
            self.screen
                .note(&format!("(entry {} is no message: {})", entry.index, entry.reason))?;
        }
        let count = messages.len();
        self.agent.set_messages(messages);
        self.screen.note(&format!("({count} messages are loaded from {file})"))
    }

    fn address(&self) -> String {
        let model = self.agent.model();
        match (model.provider.as_str(), model.base_url.as_str()) {
            ("builtin", _) => format!("{}, the model that is part of the crate", model.id),
            ("server", url) => format!("{} at {url}", model.id),
            (provider, url) => format!("{} of {provider} at {url}", model.id),
        }
    }
}
