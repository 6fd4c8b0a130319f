//! The command line.

pub(crate) const HELP: &str = "\
A chat in the terminal.

usage: chat [--provider NAME] [--base-url URL] [--model ID]

  --provider NAME  a vendor: anthropic, openai, openrouter, google, groq, ... or ollama, lmstudio, builtin; its key is
                   taken from the environment: ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY, ...
  --base-url URL   a server that speaks OpenAI's chat completions: llama.cpp, vLLM, Ollama, LM Studio, ...
                   for example http://localhost:11434/v1; it gets OPENAI_API_KEY if that is set and needs no key otherwise;
                   with --provider it is where that vendor is reached
  --model ID       the model, as the provider or the server calls it
  --help           this text

Without options OpenAI is asked if OPENAI_API_KEY is set, else the model that is part of the crate, which needs no network.

Type /help in the chat for what it understands. Lines may be piped in: each waits until the answer before it is complete.
";

/// What the command line asks for.
pub(crate) enum Wish {
    Chat(Arguments),
    Help,
}

#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) provider: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) model: Option<String>,
}

pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut arguments = Arguments::default();
    let mut words = words;
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let mut value = || {
            let value = value.clone().or_else(|| words.next());
            value.filter(|it| !it.is_empty()).ok_or_else(|| format!("{option} needs a value"))
        };
        match option {
            "-h" | "--help" => return Ok(Wish::Help),
            "--provider" => arguments.provider = Some(value()?),
            "--base-url" => arguments.base_url = Some(value()?),
            "--model" => arguments.model = Some(value()?),
            _ => return Err(format!("there is no option `{option}`")),
        }
    }
    Ok(Wish::Chat(arguments))
}
