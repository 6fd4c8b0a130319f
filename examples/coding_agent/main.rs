//! An agent that works on the files of a folder: reads, writes, edits, lists and searches them, runs commands and fetches
//! pages. What changes something is asked for first.
//!
//! ```text
//! coding_agent [--root FOLDER] [--model PROVIDER/ID] [--yes] [--tools]
//! ```
//!
//! Each line of the input is a task. Without `--model` the built-in model answers, which needs no key; with `--yes` nothing
//! is asked for; with `--tools` the tools are listed as JSON instead. Ctrl-C aborts what is at work.

use std::{
    env,
    error::Error,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde_json::json;
use steerage::{
    Agent, AgentOptions, Builtin, CallLimits, Model, Models, Tool,
    approval::{self, GateOptions, Rule, Verdict},
};

mod command;
mod desk;
mod files;
mod root;
mod web;

/// No result fills the model's context.
const LONGEST_RESULT: usize = 32 << 10;
/// No task goes on for ever.
const MOST_TURNS: u32 = 50;

struct Arguments {
    root: PathBuf,
    model: Option<String>,
    says_yes: bool,
    lists_tools: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse()?;
    let root = root::Root::new(&arguments.root)?;
    let mut tools = files::tools(&root);
    tools.push(command::tool(&root));
    tools.push(web::tool());
    if arguments.lists_tools {
        return Ok(list(&tools)?);
    }
    let (gate, asks) = approval::gate(GateOptions {
        // Tools that say that they change nothing need no question.
        rules: vec![Rule::allow("*").hints(|hints| hints.read_only == Some(true))],
        otherwise: if arguments.says_yes { Verdict::Allow } else { Verdict::Ask },
        ..GateOptions::default()
    });
    let mut options = AgentOptions {
        system_prompt: format!(
            "You work on the files in {}. Paths are relative to it. Read a file before you change it, and say briefly \
             what you did.",
            root.folder().display()
        ),
        tools,
        max_requests: Some(MOST_TURNS),
        call_limits: CallLimits { result_bytes: Some(LONGEST_RESULT), ..CallLimits::default() },
        tool_grace: Duration::from_millis(500),
        ..AgentOptions::default()
    };
    options.hooks.before_tool_call = Some(gate.hook());
    let model = choose(arguments.model.as_deref(), &mut options)?;
    let agent = Agent::new(model, options)?;
    let of_interrupt = agent.clone();
    ctrlc::set_handler(move || of_interrupt.abort())?;
    desk::Desk::new(&agent, asks)?.work(&agent)
}

fn list(tools: &[Tool]) -> io::Result<()> {
    for tool in tools {
        let (name, description) = (tool.name(), tool.description());
        let listed =
            json!({"name": name, "description": description, "inputSchema": tool.parameters()});
        writeln!(io::stdout(), "{listed}")?;
    }
    Ok(())
}

fn choose(name: Option<&str>, options: &mut AgentOptions) -> Result<Arc<Model>, Box<dyn Error>> {
    let Some(name) = name else {
        options.stream = Some(Builtin::unpaced().into());
        return Ok(Arc::new(Builtin::model()));
    };
    let (provider, id) = name.split_once('/').ok_or("a model is named PROVIDER/ID")?;
    let models = Models::from_env();
    let model = models.get(provider, id)?;
    options.stream = Some(models.into());
    Ok(model)
}

impl Arguments {
    fn parse() -> Result<Arguments, Box<dyn Error>> {
        let root = PathBuf::from(".");
        let mut parsed = Arguments { root, model: None, says_yes: false, lists_tools: false };
        let mut given = env::args().skip(1);
        while let Some(name) = given.next() {
            let mut value = || given.next().ok_or(format!("{name} takes a value"));
            match name.as_str() {
                "--root" => parsed.root = value()?.into(),
                "--model" => parsed.model = Some(value()?),
                "--yes" => parsed.says_yes = true,
                "--tools" => parsed.lists_tools = true,
                other => {
                    let known = "--root, --model, --yes, --tools";
                    return Err(format!("{other} is not known: {known}").into());
                }
            }
        }
        Ok(parsed)
    }
}
