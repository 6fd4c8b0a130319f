//! The tools of a code-mode tool: what the model is told of them, and how scripts look them up.

use serde_json::{Value, json};

use crate::{
    codemode::{
        declarations::{self, Declared},
        sandbox::ScriptTool,
    },
    tool::Tool,
};

/// The tool that looks declarations up, where they are held back.
pub(super) const SEARCH: &str = "search_tools";
/// A search gives so many declarations.
const MOST_FOUND: usize = 8;

pub(super) struct Catalogue {
    tools: Vec<Tool>,
    held_back: bool,
    /// What tools give that declare nothing.
    text: Value,
}

impl Catalogue {
    pub(super) fn new(tools: Vec<Tool>, declare_at_most: usize) -> Catalogue {
        let held_back = tools.len() > declare_at_most;
        Catalogue { tools, held_back, text: json!({"type": "string"}) }
    }

    pub(super) fn is_held_back(&self) -> bool {
        self.held_back
    }

    /// The first tool of a name wins.
    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    pub(super) fn script_tools(&self) -> Vec<ScriptTool> {
        let search = self.held_back.then(|| ScriptTool::new(SEARCH, SEARCH_DESCRIPTION));
        let tools = self.tools.iter().map(|tool| ScriptTool::new(tool.name(), tool.description()));
        search.into_iter().chain(tools).collect()
    }

    /// What the model is told.
    pub(super) fn description(&self) -> String {
        let declared = if self.held_back {
            let input = json!({
                "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"],
            });
            let search = Declared {
                name: SEARCH,
                description: SEARCH_DESCRIPTION,
                input: Some(&input),
                output: Some(&self.text),
            };
            let count = self.tools.len();
            let declared = declarations::declarations(&[search]);
            format!(
                "There are {count} tools. Look up what you need before you call it.\n\n{declared}"
            )
        } else {
            let declared: Vec<Declared<'_>> =
                self.tools.iter().map(|tool| self.declared(tool)).collect();
            declarations::declarations(&declared)
        };
        format!("{INTRODUCTION}\n\n{declared}")
    }

    /// The declarations of the tools that fit a query best.
    pub(super) fn search(&self, query: &str) -> String {
        let words: Vec<String> = words(query).collect();
        let mut found: Vec<(usize, &Tool)> = self
            .tools
            .iter()
            .map(|tool| (score(tool, &words), tool))
            .filter(|(score, _)| *score > 0)
            .collect();
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        if found.is_empty() {
            return "no tool fits these words; ALL_TOOLS lists all of them".to_owned();
        }
        let samples = found
            .iter()
            .take(MOST_FOUND)
            .map(|(_, tool)| declarations::sample(&self.declared(tool)));
        samples.collect::<Vec<_>>().join("\n\n")
    }

    fn declared<'a>(&'a self, tool: &'a Tool) -> Declared<'a> {
        Declared {
            name: tool.name(),
            description: tool.description(),
            input: Some(tool.parameters()),
            output: Some(tool.output().unwrap_or(&self.text)),
        }
    }
}

/// How well a tool fits: a word in its name counts more than one in its description.
fn score(tool: &Tool, words: &[String]) -> usize {
    let (name, description) = (tool.name().to_lowercase(), tool.description().to_lowercase());
    let of = |word: &String| {
        3 * usize::from(name.contains(word.as_str()))
            + usize::from(description.contains(word.as_str()))
    };
    words.iter().map(of).sum()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

const SEARCH_DESCRIPTION: &str =
    "Finds tools by words of their names and descriptions; gives their declarations as text.";

const INTRODUCTION: &str = "\
Runs a JavaScript program that calls tools. Prefer one program over many single calls: loop, filter and add up in it, so \
that only what matters comes back.

The code is the body of an async function: await and return work at its top level. There are no modules, timers, network \
or files, only the language and:
- tools.NAME({...}): calls a tool, gives a promise; a failed call throws. Independent calls go into Promise.all.
- ALL_TOOLS: a list of {name, description}.
- text(value), console.log(...): output that you get to see.
- image(x): shows you an image, a data: URL or an image block. A result with images is a list of blocks, whatever is \
declared: {type: \"text\", text} and {type: \"image\", data, mimeType}.
- return value: you get it as JSON.
- store(key, value), load(key): JSON values that later programs find.
- exit(): ends the program.
The first line may be // @options: {\"timeout_ms\": 30000, \"max_output_tokens\": 2000}";
