//! What a line of input means.

pub(crate) const HELP: &str = "\
text           asks the model; while it works, steers it
+text          is asked when the model is done
!text          steers the model, in a script too
/abort         stops the model, as Ctrl-C does
/retry         asks again after an error or an abort
/model [ID]    shows or changes the model: ID, or PROVIDER/ID
/models [NAME] shows the providers, or the models of one
/think [LEVEL] shows or changes how hard it thinks: off, minimal, low, medium, high, xhigh, max
/save FILE     writes the conversation as JSON
/load FILE     goes on with a conversation from a file
/quit          quits, as the end of input and Ctrl-C twice do";

/// A line of input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    Nothing,
    Say(String),
    FollowUp(String),
    Steer(String),
    Abort,
    Retry,
    Model(Option<String>),
    Models(Option<String>),
    Think(Option<String>),
    Save(String),
    Load(String),
    Help,
    Quit,
    Unclear(String),
}

impl Entry {
    pub(crate) fn parse(line: &str) -> Entry {
        let line = line.trim();
        let marked = |mark| line.strip_prefix(mark).map(|rest: &str| rest.trim_start().to_owned());
        if line.is_empty() || line == "+" || line == "!" {
            return Entry::Nothing;
        }
        if let Some(text) = marked('+') {
            return Entry::FollowUp(text);
        }
        if let Some(text) = marked('!') {
            return Entry::Steer(text);
        }
        if !line.starts_with('/') {
            return Entry::Say(line.to_owned());
        }
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
        match (command, rest) {
            ("/abort", _) => Entry::Abort,
            ("/retry", _) => Entry::Retry,
            ("/model", id) => Entry::Model(id),
            ("/models", provider) => Entry::Models(provider),
            ("/think", level) => Entry::Think(level),
            ("/save", Some(file)) => Entry::Save(file),
            ("/load", Some(file)) => Entry::Load(file),
            ("/save" | "/load", None) => Entry::Unclear(format!("{command} needs a file")),
            ("/help", _) => Entry::Help,
            ("/quit" | "/exit", _) => Entry::Quit,
            _ => Entry::Unclear(format!("there is no command `{command}`: see /help")),
        }
    }

    /// Whether a script's line of this kind waits until the model is done.
    pub(crate) fn waits(&self) -> bool {
        !matches!(self, Entry::FollowUp(_) | Entry::Steer(_) | Entry::Abort | Entry::Nothing)
    }
}
