//! What the model says.

use std::fmt::Write;

use crate::{
    builtin::{
        Decision,
        conversation::{Conversation, Gave},
        parameters::number,
        script,
        skills::{Plan, SKILLS, named_call, plan},
        talk,
    },
    message::{Content, ToolCall},
    model::ThinkingLevel,
    stream::ToolChoice,
};

/// Decides what to say and which tools to call.
pub(super) fn decide(conversation: &Conversation<'_>) -> Decision {
    let mut thoughts = vec![thought_of_request(conversation)];
    let mut text = Vec::new();
    let answers_tools = !conversation.results.is_empty() && !conversation.interrupted;
    if conversation.interrupted {
        text.push("You wrote that while I was working, so it comes first now.".to_owned());
        thoughts.push("It came while tools were at work.".to_owned());
    }
    if !conversation.results.is_empty() && !drops_work(conversation) {
        thoughts.push("There is something to tell from the tools.".to_owned());
        text.push(report(&conversation.results));
        text.extend(total(conversation));
    }
    let mut failure = None;
    if !answers_tools {
        text.extend(images(conversation));
        if let Some(answer) = talk::about_itself(conversation) {
            text.push(answer);
            return Decision { thoughts, text: text.join("\n\n"), calls: Vec::new(), failure };
        }
        if conversation.request.is(&["fail"]) {
            failure = Some("the built-in model was asked to fail".to_owned());
            text.push("This answer will be cut short, as you".to_owned());
        }
    }
    let mut calls = if failure.is_none() { next_calls(conversation) } else { Vec::new() };
    for (place, call) in calls.iter_mut().enumerate() {
        call.id = conversation.call_id(place);
        thoughts.push(format!("`{}` fits.", call.name));
    }
    if !calls.is_empty() {
        text.push(announcement(&calls));
    } else if !answers_tools && failure.is_none() {
        text.extend(own_answer(conversation));
    }
    Decision { thoughts, text: text.join("\n\n"), calls, failure }
}

/// What the model shows of its thinking: the more the harder it shall think.
pub(super) fn think(decision: &Decision, level: ThinkingLevel) -> String {
    let shown = match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal => 1,
        ThinkingLevel::Low => 2,
        _ => usize::MAX,
    };
    let mut thoughts: Vec<&str> = decision.thoughts.iter().map(String::as_str).collect();
    if decision.calls.is_empty() {
        thoughts.push("Now I can answer.");
    }
    thoughts.truncate(shown);
    thoughts.join(" ")
}

fn thought_of_request(conversation: &Conversation<'_>) -> String {
    let tools: Vec<&str> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    let tools = if tools.is_empty() { "no tools".to_owned() } else { tools.join(", ") };
    format!("The user says: {:?}. I have {tools}.", shortened(&conversation.request.text, 80))
}

/// Whether the user called off what was at work.
fn drops_work(conversation: &Conversation<'_>) -> bool {
    const CALLS_OFF: &[&str] = &["stop", "instead", "cancel", "never mind", "forget it", "no"];
    conversation.interrupted && conversation.request.says(CALLS_OFF)
}

/// The calls of the next step that the request asks for.
fn next_calls(conversation: &Conversation<'_>) -> Vec<ToolCall> {
    let tools = &conversation.tools;
    if let Some(ToolChoice::Tool(name)) = conversation.choice
        && let Some(tool) = tools.iter().find(|tool| tool.name == *name)
        && conversation.steps_done == 0
    {
        return vec![named_call(tool, &conversation.request)];
    }
    let steps = conversation.request.steps();
    let plans = steps.iter().map(|step| plan(step, tools).calls);
    plans.filter(|calls| !calls.is_empty()).nth(conversation.steps_done).unwrap_or_default()
}

/// What it says without tools.
fn own_answer(conversation: &Conversation<'_>) -> Option<String> {
    let sums = conversation.request.sums();
    let worked_out: Vec<String> = sums
        .iter()
        .filter_map(|sum| Some(format!("{} = {}", sum.text, number(sum.value()?))))
        .collect();
    if !worked_out.is_empty() {
        return Some(worked_out.join("\n"));
    }
    let Plan { missing, .. } = plan(&conversation.request, &conversation.tools);
    match missing.first() {
        Some(what) => Some(format!("I have no tool that can {what}.")),
        None => {
            let fallback = || conversation.images.is_empty().then(|| fallback(conversation));
            talk::small_talk(conversation).or_else(fallback)
        }
    }
}

fn fallback(conversation: &Conversation<'_>) -> String {
    let text = conversation.request.text.trim();
    if text.is_empty() {
        return "I am listening. Say \"help\" to see what I understand.".to_owned();
    }
    format!(
        "You said: {:?}. I am only the small built-in model; say \"help\" to see what I understand.",
        shortened(text, 200)
    )
}

fn images(conversation: &Conversation<'_>) -> Option<String> {
    let images = &conversation.images;
    match images.len() {
        0 => None,
        1 => Some(format!("You sent an image ({}). I cannot see, but I got it.", images[0])),
        count => Some(format!(
            "You sent {count} images ({}). I cannot see, but I got them.",
            images.join(", ")
        )),
    }
}

/// What the numbers in the files add up to, if that was asked and no script has told it.
fn total(conversation: &Conversation<'_>) -> Option<String> {
    let results = &conversation.results;
    let by_script = |gave: &Gave<'_>| {
        let name = &gave.result.tool_name;
        conversation.tools.iter().any(|tool| tool.name == *name && script::runs_scripts(tool))
    };
    let all_read = !results.iter().any(|gave| gave.result.is_error || by_script(gave));
    if !all_read || !conversation.request.asks_for_total() {
        return None;
    }
    let blocks = results.iter().flat_map(|gave| &gave.result.content);
    let total = script::total(blocks.filter_map(Content::as_text));
    Some(format!("The numbers add up to {}.", number(total)))
}

/// Says which tools are called now.
fn announcement(calls: &[ToolCall]) -> String {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for call in calls {
        match names.iter_mut().find(|(name, _)| *name == call.name) {
            Some((_, count)) => *count += 1,
            None => names.push((&call.name, 1)),
        }
    }
    let told = |(name, count): (&str, usize)| match count {
        1 => format!("`{name}`"),
        2 => format!("`{name}` twice"),
        _ => format!("`{name}` {count} times"),
    };
    let names: Vec<String> = names.into_iter().map(told).collect();
    let together = if calls.len() > 1 { ", at the same time" } else { "" };
    let listed = match names.as_slice() {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        names => names.concat(),
    };
    format!("I use {listed}{together}.")
}

/// Says what tools gave.
fn report(results: &[Gave<'_>]) -> String {
    if let [only] = results
        && only.lines() < 2
    {
        let verb = if only.result.is_error { "failed" } else { "says" };
        return format!("`{}` {verb}: {}", only.result.tool_name, only.text());
    }
    let mut text = String::from("That gave:");
    for gave in results {
        let _ = write!(text, "\n- `{}`{}", gave.result.tool_name, gave.arguments());
        if gave.result.is_error {
            text.push_str(" failed");
        }
        let _ = match gave.lines() {
            0 | 1 => write!(text, ": {}", gave.text()),
            lines => write!(text, ", {lines} lines:\n{}", gave.first_lines()),
        };
    }
    text
}

impl Gave<'_> {
    fn text(&self) -> String {
        let parts: Vec<String> = self
            .result
            .content
            .iter()
            .map(|block| match block {
                Content::Text(block) => block.text.trim_end().to_owned(),
                Content::Image(image) => format!("an image ({})", image.mime_type),
            })
            .collect();
        let text = parts.join("\n");
        if text.is_empty() { "nothing".to_owned() } else { shortened(&text, 2000) }
    }

    fn lines(&self) -> usize {
        self.text().lines().count()
    }

    /// The first lines, indented.
    fn first_lines(&self) -> String {
        const SHOWN: usize = 8;
        let text = self.text();
        let shown = text.lines().take(SHOWN).map(|line| format!("    {line}"));
        let mut shown: Vec<String> = shown.collect();
        let more = text.lines().count().saturating_sub(SHOWN);
        if more > 0 {
            shown.push(format!("    ({more} more)"));
        }
        shown.join("\n")
    }

    /// The values of its arguments, to tell calls of one tool apart.
    fn arguments(&self) -> String {
        let Some(call) = self.call else { return String::new() };
        let values = call.arguments.values().map(|value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        });
        let values: Vec<String> = values.collect();
        if values.is_empty() {
            return String::new();
        }
        format!(" ({})", shortened(&values.join(", "), 60))
    }
}

/// The lines of help about tools, with those that can be used now.
pub(super) fn help_about_tools(conversation: &Conversation<'_>) -> String {
    let mut text = String::new();
    for skill in SKILLS {
        let usable = !plan_is_missing(conversation, skill.example);
        let note = if usable { "" } else { " (needs a tool)" };
        let _ = write!(text, "\n- {}{note}", skill.example);
    }
    text
}

fn plan_is_missing(conversation: &Conversation<'_>, example: &str) -> bool {
    let request = crate::builtin::request::Request::new(example);
    !plan(&request, &conversation.tools).missing.is_empty()
}

/// A text of at most so many characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((length, _)) => format!("{}…", &text[..length]),
        None => text.to_owned(),
    }
}
