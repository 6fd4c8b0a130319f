//! What the model can do with tools, and how it finds the tool for it.

use serde_json::{Map, Value};

use crate::{
    builtin::{
        parameters::{Kind, Parameter, fill, parameters},
        request::{Request, Sum},
        script,
    },
    message::{ToolCall, ToolDeclaration},
};

/// Something that requests ask for and tools do.
pub(super) struct Skill {
    /// What it is, as the end of "I have no tool that can ...".
    pub(super) what: &'static str,
    /// A request that asks for it.
    pub(super) example: &'static str,
    /// What requests say that ask for it.
    asks: &'static [&'static str],
    /// How words in names and descriptions of fitting tools begin.
    tools: &'static [&'static str],
    about: About,
}

/// What each call of a skill is about.
#[derive(Clone, Copy)]
enum About {
    Sum,
    File,
    Folder,
    Nothing,
}

/// What becomes of a request.
#[derive(Default)]
pub(super) struct Plan {
    /// Calls without ids, to be made at the same time.
    pub(super) calls: Vec<ToolCall>,
    /// What was asked for and no tool can do.
    pub(super) missing: Vec<&'static str>,
}

/// What requests say that ask for the files of a folder.
const LISTING: &[&str] =
    &["list", "ls", "which files", "what files", "the files", "folder", "directory"];

/// The place of reading files among the skills.
const READING: usize = 2;

pub(super) const SKILLS: &[Skill] = &[
    Skill {
        what: "work out sums",
        example: "What is 17 * 23, and what is 2 + 2?",
        asks: &[],
        tools: &["calc", "arithm", "math", "expression", "evaluat", "comput"],
        about: About::Sum,
    },
    Skill {
        what: "list files",
        example: "List the files in src.",
        asks: LISTING,
        tools: &["list", "ls", "dir", "folder", "glob"],
        about: About::Folder,
    },
    Skill {
        what: "read files",
        example: "Read Cargo.toml and README.md.",
        asks: &["read", "show", "open", "cat", "print", "summarize", "what is in", "contents"],
        tools: &["read", "open", "cat", "file"],
        about: About::File,
    },
    Skill {
        what: "tell the time",
        example: "What time is it?",
        asks: &["the time", "time is it", "what time", "the date", "what day", "today", "clock"],
        tools: &["time", "clock", "date", "now"],
        about: About::Nothing,
    },
    Skill {
        what: "do a long task",
        example: "Run two long tasks, then tell me the time.",
        asks: &["task", "tasks", "job", "jobs", "long", "slow", "progress", "count to", "work"],
        tools: &["task", "job", "long", "slow", "progress", "count", "work", "wait", "sleep"],
        about: About::Nothing,
    },
];

/// What an operator is called in names of tools and of their choices.
const OPERATIONS: &[(char, &[&str])] = &[
    ('+', &["add", "plus", "sum", "+"]),
    ('-', &["sub", "minus", "differ", "-"]),
    ('*', &["mul", "times", "product", "*"]),
    ('/', &["div", "quot", "/"]),
    ('%', &["mod", "rem", "%"]),
    ('^', &["pow", "exp", "^"]),
];

/// Words in names of tools that say nothing of what they are about.
const VERBS: &[&str] =
    &["get", "fetch", "run", "do", "show", "tell", "my", "the", "current", "tool", "make", "a"];

/// The calls that a request asks for.
pub(super) fn plan(request: &Request, tools: &[ToolDeclaration]) -> Plan {
    if let Some(runner) = tools.iter().find(|tool| script::runs_scripts(tool)) {
        return plan_with_scripts(request, tools, runner);
    }
    let mut plan = Plan::default();
    for skill in SKILLS {
        match skill.about {
            About::Sum => plan.work_out(request, tools),
            about => {
                let subjects = skill.subjects(about, request);
                match best(tools, skill.tools) {
                    Some(tool) => plan
                        .calls
                        .extend(subjects.into_iter().map(|it| call(tool, fill(tool, it, request)))),
                    None if subjects.is_empty() => {}
                    None => plan.missing.push(skill.what),
                }
            }
        }
    }
    let named = tools.iter().filter(|tool| is_named(tool, request));
    for tool in named {
        if plan.calls.iter().all(|call| call.name != tool.name) {
            plan.calls.push(named_call(tool, request));
        }
    }
    plan
}

/// What a script does better than single calls goes into one; the rest is called as ever.
fn plan_with_scripts(
    request: &Request,
    tools: &[ToolDeclaration],
    runner: &ToolDeclaration,
) -> Plan {
    let direct: Vec<ToolDeclaration> =
        tools.iter().filter(|tool| !script::runs_scripts(tool)).cloned().collect();
    let mut plan = plan(request, &direct);
    let reading = &SKILLS[READING];
    let inner = script::inner_tools(runner);
    if let Some(reader) = best(&inner, reading.tools)
        && !reading.subjects(About::File, request).is_empty()
        && (request.asks_for_total() || best(&direct, reading.tools).is_none())
        && let Some(call) = script::reading(runner, reader, request)
    {
        plan.calls = vec![call];
        plan.missing.clear();
    }
    plan
}

/// A call of a tool that was asked for by its name.
pub(super) fn named_call(tool: &ToolDeclaration, request: &Request) -> ToolCall {
    let arguments = request.object().unwrap_or_else(|| fill(tool, None, request));
    call(tool, arguments)
}

impl Plan {
    fn work_out(&mut self, request: &Request, tools: &[ToolDeclaration]) {
        for sum in request.sums() {
            let found = tools.iter().find_map(|tool| by_expression(tool, &sum));
            match found.or_else(|| tools.iter().find_map(|tool| by_numbers(tool, &sum))) {
                Some(call) => self.calls.push(call),
                None => self.missing.push(SKILLS[0].what),
            }
        }
    }
}

impl Skill {
    /// What each of the calls is about; no call is asked for if it is empty.
    fn subjects<'a>(&self, about: About, request: &'a Request) -> Vec<Option<&'a str>> {
        if !request.says(self.asks) {
            return Vec::new();
        }
        match about {
            About::Sum => Vec::new(),
            About::File => {
                let listed = request.says(LISTING).then(|| folder(request)).flatten();
                let files = request.paths().into_iter().filter(|path| Some(*path) != listed);
                files.map(Some).collect()
            }
            About::Folder => vec![Some(folder(request).unwrap_or("."))],
            About::Nothing => vec![None; repeats(request)],
        }
    }
}

/// The folder that a request is about.
fn folder(request: &Request) -> Option<&str> {
    const NO_FOLDER: &[&str] = &["this", "current", "here", "folder", "directory", "it", "all"];
    let word = request.word_after(&["in", "of", "under", "inside", "ls"])?;
    // What has an ending is a file, unless it is a path of its own like `./x`.
    let is_file = word.rsplit('/').next().is_some_and(|name| name.trim_matches('.').contains('.'));
    (!is_file && !NO_FOLDER.contains(&word)).then_some(word)
}

/// How often something shall be done.
fn repeats(request: &Request) -> usize {
    const COUNTS: &[(&str, usize)] =
        &[("twice", 2), ("two", 2), ("three", 3), ("four", 4), ("five", 5)];
    let plural = request.says(&["tasks", "jobs", "times", "twice"]);
    let count = request.words().find_map(|word| COUNTS.iter().find(|(name, _)| *name == word));
    count.filter(|_| plural).map_or(1, |(_, count)| *count)
}

/// The tool whose words fit best.
fn best<'a>(tools: &'a [ToolDeclaration], stems: &[&str]) -> Option<&'a ToolDeclaration> {
    /// One word of a description is chance.
    const ENOUGH: usize = 2;
    let mut found: Option<(usize, &ToolDeclaration)> = None;
    for tool in tools {
        let score = 3 * hits(&words(&tool.name), stems) + hits(&words(&tool.description), stems);
        if score >= ENOUGH && found.is_none_or(|(best, _)| score > best) {
            found = Some((score, tool));
        }
    }
    found.map(|(_, tool)| tool)
}

fn hits(words: &[String], stems: &[&str]) -> usize {
    stems.iter().filter(|stem| words.iter().any(|word| word.starts_with(**stem))).count()
}

/// A call of a tool that takes a whole expression.
fn by_expression(tool: &ToolDeclaration, sum: &Sum) -> Option<ToolCall> {
    const NAMES: &[&str] = &["expr", "formula", "equation", "calculation"];
    let parameters = parameters(tool);
    let mut texts = parameters.iter().filter(|parameter| parameter.kind == Kind::Text);
    let first = texts.next()?;
    let says_so = NAMES.iter().any(|name| first.name.starts_with(name));
    let others = parameters.iter().filter(|parameter| parameter.required).count();
    let calculates = best(std::slice::from_ref(tool), SKILLS[0].tools).is_some();
    (says_so || (calculates && others < 2 && texts.next().is_none())).then(|| {
        let value = Value::from(sum.text.as_str());
        call(tool, Map::from_iter([(first.name.to_owned(), value)]))
    })
}

/// A call of a tool that takes two numbers, and maybe what to do with them.
fn by_numbers(tool: &ToolDeclaration, sum: &Sum) -> Option<ToolCall> {
    let (a, sign, b) = sum.simple?;
    let (_, stems) = OPERATIONS.iter().find(|(it, _)| *it == sign)?;
    let parameters = parameters(tool);
    let mut numbers = [a, b].into_iter();
    let mut arguments = Map::new();
    let mut chosen = best(std::slice::from_ref(tool), stems).is_some();
    for Parameter { name, kind, required, .. } in &parameters {
        let value = match kind {
            Kind::Number | Kind::Integer => match numbers.next() {
                Some(number) => crate::builtin::parameters::number(number),
                None if *required => return None,
                None => continue,
            },
            Kind::Choice(choices) => {
                let choice =
                    choices.iter().find(|choice| hits(&[choice.to_lowercase()], stems) > 0);
                chosen |= choice.is_some();
                Value::from(*choice.or(choices.first())?)
            }
            Kind::Text if name.starts_with("op") => {
                chosen = true;
                Value::from(sign.to_string())
            }
            _ if *required => return None,
            _ => continue,
        };
        arguments.insert((*name).to_owned(), value);
    }
    (chosen && numbers.next().is_none()).then(|| call(tool, arguments))
}

/// Whether a request names a tool: all words of its name that mean something.
fn is_named(tool: &ToolDeclaration, request: &Request) -> bool {
    if request.text.contains(&format!("`{}`", tool.name)) {
        return true;
    }
    let said: Vec<&str> = request.words().collect();
    let words = words(&tool.name);
    let mut telling = words.iter().filter(|word| !VERBS.contains(&word.as_str())).peekable();
    telling.peek().is_some() && telling.all(|word| said.contains(&word.as_str()))
}

fn call(tool: &ToolDeclaration, arguments: Map<String, Value>) -> ToolCall {
    ToolCall { name: tool.name.clone(), arguments, ..ToolCall::default() }
}

/// The words of a name or text in lower case; `readFile` and `read_file` are two words each.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for character in text.chars() {
        if !character.is_alphanumeric() || (character.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && character.is_alphanumeric()
        {
            word.extend(character.to_lowercase());
        }
        after_lower = character.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}
