//! What the model says of itself and of the conversation.

use crate::builtin::{conversation::Conversation, reply::help_about_tools};

/// An answer that needs no tool.
struct Answer {
    /// What a request is as a whole, or has among other things.
    whole: &'static [&'static str],
    phrases: &'static [&'static str],
    say: fn(&Conversation<'_>) -> String,
}

/// Asked for in so many words, so that tools are not thought of.
const ABOUT_ITSELF: &[Answer] = &[
    Answer {
        whole: &["help", "help me", "please help"],
        phrases: &["what can you do", "what do you understand"],
        say: help,
    },
    Answer {
        whole: &[],
        phrases: &["did i say first", "my first message", "i said first", "did i ask first"],
        say: |conversation| quote("first", conversation.said().next()),
    },
    Answer {
        whole: &[],
        phrases: &["did i say before", "did i say last", "did i just say", "my last message"],
        say: |conversation| quote("before", conversation.said().rev().nth(1)),
    },
    Answer {
        whole: &[],
        phrases: &["how many messages", "how long is this conversation"],
        say: |conversation| format!("There are {} messages so far.", conversation.length()),
    },
    Answer {
        whole: &[],
        phrases: &["which tools", "what tools", "your tools", "list tools"],
        say: tools,
    },
    Answer {
        whole: &[],
        phrases: &["system prompt", "your instructions"],
        say: |conversation| match conversation.system_prompt() {
            prompt if prompt.is_empty() => "I was given no instructions.".to_owned(),
            prompt => format!("I was told: {prompt:?}"),
        },
    },
    Answer {
        whole: &[],
        phrases: &["what is my", "who is my", "do you know my", "remember my"],
        say: recall,
    },
    Answer {
        whole: &[],
        phrases: &["a story", "long answer", "long text", "a poem"],
        say: |_| STORY.to_owned(),
    },
];

/// Said when there is nothing better to do.
const SMALL_TALK: &[Answer] = &[
    Answer { whole: &[], phrases: &["my"], say: remember },
    Answer {
        whole: &[],
        phrases: &["who are you", "what are you", "your name"],
        say: |_| "I am the built-in model: small, and always here. Say \"help\".".to_owned(),
    },
    Answer {
        whole: &[],
        phrases: &["how are you"],
        say: |_| "Well, thank you. How can I help?".to_owned(),
    },
    Answer {
        whole: &[],
        phrases: &["hello", "hi", "hey", "good morning", "good evening"],
        say: |_| "Hello! How can I help? Say \"help\" to see what I understand.".to_owned(),
    },
    Answer {
        whole: &[],
        phrases: &["thanks", "thank you"],
        say: |_| "You are welcome.".to_owned(),
    },
    Answer { whole: &[], phrases: &["bye", "goodbye"], say: |_| "Goodbye!".to_owned() },
    Answer {
        whole: &["no"],
        phrases: &["stop", "cancel", "never mind", "forget it"],
        say: |_| "All right, I leave it there.".to_owned(),
    },
];

const STORY: &str = "\
Once there was a ship whose helmsman could hear only one word at a time. The captain would call a course, and the \
helmsman would turn the wheel and look neither left nor right until the course was run.

One night there were rocks ahead. The captain called out, but the wheel was turning already and nobody listened. So they \
struck, though not hard, and in the morning they talked about it over coffee.

From then on the helmsman turned the wheel by one spoke and listened, and by one spoke and listened again. The ship was no \
slower for it. And when the captain wanted to change the course, a word was enough; and when there was nothing to be done \
any more, two words were enough, and the helmsman let go of the wheel at once.

They say that this ship has never been late since, and that there is always coffee.";

pub(super) fn about_itself(conversation: &Conversation<'_>) -> Option<String> {
    answer(ABOUT_ITSELF, conversation)
}

pub(super) fn small_talk(conversation: &Conversation<'_>) -> Option<String> {
    answer(SMALL_TALK, conversation)
}

fn answer(answers: &[Answer], conversation: &Conversation<'_>) -> Option<String> {
    let request = &conversation.request;
    let fits = |answer: &&Answer| request.is(answer.whole) || request.says(answer.phrases);
    answers.iter().filter(fits).map(|answer| (answer.say)(conversation)).find(|it| !it.is_empty())
}

fn help(conversation: &Conversation<'_>) -> String {
    let tools = help_about_tools(conversation);
    format!(
        "I am a small model without a network. I understand:{tools}\n\
         - My name is Ada. / What is my name?\n\
         - What did I say first? / How many messages are there?\n\
         - Which tools do you have? / What is your system prompt?\n\
         - Tell me a story.\n\
         - fail (to see an error)\n\
         I use your other tools when you name them, with what follows, or with arguments in JSON."
    )
}

fn tools(conversation: &Conversation<'_>) -> String {
    if conversation.tools.is_empty() {
        return "I have no tools.".to_owned();
    }
    let tools = conversation.tools.iter();
    let lines = tools.map(|tool| format!("\n- `{}`: {}", tool.name, tool.description));
    format!("I have these tools:{}", lines.collect::<String>())
}

fn quote(when: &str, text: Option<String>) -> String {
    match text {
        Some(text) => format!("You said {when}: {text:?}"),
        None => "You said nothing else.".to_owned(),
    }
}

fn recall(conversation: &Conversation<'_>) -> String {
    let Some(name) = asked_fact(&conversation.request.text) else { return String::new() };
    let said = conversation.said().rev().find_map(|text| {
        let (key, value) = fact(&text)?;
        (key == name).then_some(value)
    });
    match said {
        Some(value) => format!("Your {name} is {value}."),
        None => format!("You have not told me your {name}."),
    }
}

fn remember(conversation: &Conversation<'_>) -> String {
    let fact = fact(&conversation.request.text);
    fact.map(|(name, value)| format!("Your {name} is {value}. I will remember that."))
        .unwrap_or_default()
}

/// What a text like `my name is Ada` says.
fn fact(text: &str) -> Option<(String, String)> {
    const LONGEST_NAME: usize = 40;
    let lower = text.to_ascii_lowercase();
    let start = after_my(&lower)?;
    let length = lower[start..].find(" is ").filter(|length| *length < LONGEST_NAME)?;
    let value = &text[start + length + " is ".len()..];
    let end = value.find(['.', ',', ';', '!', '?', '\n']).unwrap_or(value.len());
    let value = value[..end].trim();
    let name = lower[start..start + length].trim().to_owned();
    (!value.is_empty() && !name.is_empty()).then(|| (name, value.to_owned()))
}

/// What a text like `what is my name?` asks for.
fn asked_fact(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let name = &lower[after_my(&lower)?..];
    let end = name.find(['.', ',', ';', '!', '?', '\n']).unwrap_or(name.len());
    Some(name[..end].trim().to_owned()).filter(|name| !name.is_empty())
}

/// Where the word `my` ends.
fn after_my(lower: &str) -> Option<usize> {
    let starts = lower.starts_with("my ").then_some("my ".len());
    starts.or_else(|| Some(lower.find(" my ")? + " my ".len()))
}
