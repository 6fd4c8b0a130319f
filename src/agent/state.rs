//! What an agent shows of itself and what can be set.

use std::sync::Arc;

use crate::{
    agent::{
        Agent, check_options, check_tools,
        options::{AgentOptions, QueueMode},
    },
    error::Error,
    message::Message,
    model::{Model, ThinkingLevel},
    tool::{ExecutionMode, Tool},
    transcript::{current_system, prompt_text},
};

/// A picture of an agent at one moment. Taking it copies pointers.
#[derive(Debug, Clone)]
pub struct AgentState {
    /// The prompt as it stands after all system messages.
    pub system_prompt: String,
    /// The model that the next run asks.
    pub model: Arc<Model>,
    /// How hard it shall think.
    pub thinking_level: ThinkingLevel,
    /// The tools that can be executed.
    pub tools: Vec<Tool>,
    /// The transcript.
    pub messages: Arc<Vec<Arc<Message>>>,
    /// Whether a run is active.
    pub is_streaming: bool,
    /// The message that is being added.
    pub streaming_message: Option<Arc<Message>>,
    /// The ids of the tool calls at work, sorted.
    pub pending_tool_calls: Vec<String>,
    /// The error of the last turn that failed.
    pub error_message: Option<String>,
}

/// What it shows, and what can be set. Everything may be set while a run is active: a run works with what it started
/// with, new values count from the next one.
impl Agent {
    /// Takes a picture of the agent.
    pub fn state(&self) -> AgentState {
        let (mut picture, streaming) = {
            let state = self.core().state.lock();
            let picture = AgentState {
                system_prompt: String::new(),
                model: state.model.clone(),
                thinking_level: state.options.thinking_level,
                tools: state.options.tools.clone(),
                messages: state.messages.clone(),
                is_streaming: state.active.is_some(),
                streaming_message: None,
                pending_tool_calls: state.pending.iter().cloned().collect(),
                error_message: state.error.clone(),
            };
            (picture, state.streaming.clone())
        };
        picture.system_prompt = replayed_prompt(&picture.messages);
        picture.streaming_message = streaming.map(|streaming| streaming.message());
        picture
    }

    /// The transcript. Taking it copies a pointer.
    pub fn messages(&self) -> Arc<Vec<Arc<Message>>> {
        self.core().state.lock().messages.clone()
    }

    /// The prompt as it stands after all system messages.
    pub fn system_prompt(&self) -> String {
        replayed_prompt(&self.messages())
    }

    /// The model that the next run asks.
    pub fn model(&self) -> Arc<Model> {
        self.core().state.lock().model.clone()
    }

    /// Whether a run is active, its last listeners included.
    pub fn is_streaming(&self) -> bool {
        self.core().state.lock().active.is_some()
    }

    /// The error of the last turn that failed; a new run clears it.
    pub fn error_message(&self) -> Option<String> {
        self.core().state.lock().error.clone()
    }

    /// Sets the model for the next run.
    pub fn set_model(&self, model: impl Into<Arc<Model>>) {
        self.core().state.lock().model = model.into();
    }

    /// Sets how hard the model shall think in the next run.
    pub fn set_thinking_level(&self, level: ThinkingLevel) {
        self.change(|options| options.thinking_level = level);
    }

    /// Sets the tools for the next run, which tells the model of the difference.
    ///
    /// Fails with [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) for a tool whose schema cannot be used; then nothing changes.
    pub fn set_tools(&self, tools: Vec<Tool>) -> Result<(), Error> {
        check_tools(&tools)?;
        self.change(|options| options.tools = tools);
        Ok(())
    }

    /// Sets whether the calls of one message run at the same time, for the next run.
    pub fn set_tool_execution(&self, mode: ExecutionMode) {
        self.change(|options| options.tool_execution = mode);
    }

    /// Sets how many steering messages a poll takes; counts at once.
    pub fn set_steering_mode(&self, mode: QueueMode) {
        self.change(|options| options.steering_mode = mode);
    }

    /// Sets how many follow-up messages a poll takes; counts at once.
    pub fn set_follow_up_mode(&self, mode: QueueMode) {
        self.change(|options| options.follow_up_mode = mode);
    }

    /// Replaces the transcript by messages, or by shared ones such as those of [`messages`](Agent::messages); a run at work
    /// goes on with what it started with.
    pub fn set_messages<M: Into<Arc<Message>>>(&self, messages: impl IntoIterator<Item = M>) {
        let messages = Arc::new(messages.into_iter().map(Into::into).collect());
        self.core().state.lock().messages = messages;
        self.core().memo.clear();
    }

    /// Adds a message to the transcript, for the next run.
    pub fn push_message(&self, message: impl Into<Message>) {
        let message = Arc::new(message.into());
        Arc::make_mut(&mut self.core().state.lock().messages).push(message);
    }

    /// Changes any option, for the next run (queue modes count at once). `system_prompt` and `messages` are not looked at.
    ///
    /// `change` gets a copy and no lock is held while it runs: of two calls at the same time the later to return wins.
    /// Fails with [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) as [`new`](Agent::new) does; then nothing changes.
    pub fn configure(&self, change: impl FnOnce(&mut AgentOptions)) -> Result<(), Error> {
        let core = self.core();
        let mut options = (*core.state.lock().options.clone()).clone();
        change(&mut options);
        check_options(&options)?;
        let before = std::mem::replace(&mut core.state.lock().options, Arc::new(options));
        // What the old options held is the host's: it is dropped after the lock is free.
        drop(before);
        Ok(())
    }

    /// For changes of our own, which need no copy and are short.
    fn change(&self, change: impl FnOnce(&mut AgentOptions)) {
        let mut state = self.core().state.lock();
        let mut options = (*state.options).clone();
        change(&mut options);
        let before = std::mem::replace(&mut state.options, Arc::new(options));
        drop(state);
        // What the old options held is the host's: it is dropped after the lock is free.
        drop(before);
    }
}

fn replayed_prompt(messages: &[Arc<Message>]) -> String {
    current_system(messages.iter().map(|message| &**message))
        .map(|system| prompt_text(&system))
        .unwrap_or_default()
}
