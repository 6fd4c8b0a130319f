//! What follows from the name of a model: Google's API takes other things from each generation.

/// What a model takes, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Family {
    /// Whether calls and results carry their id.
    pub(crate) has_call_ids: bool,
    /// Whether a result holds its images itself; else they come after it as a message.
    pub(crate) nests_images: bool,
    /// Whether arguments can be held to a strict schema.
    pub(crate) is_strict: bool,
    /// Whether it is told to think by a level; else by a budget of tokens.
    pub(crate) thinks_by_level: bool,
}

impl Family {
    pub(crate) fn of(id: &str) -> Family {
        let id = id.to_ascii_lowercase();
        let name = id.rsplit('/').next().unwrap_or_default();
        let gemini = name.strip_prefix("gemini-");
        let major = gemini.map_or(0, number);
        let is_kind = |kinds: &[&str]| {
            // After the version: `3-pro`, `3.1-flash-lite`.
            let after = gemini.and_then(|rest| rest.split_once('-')).map_or("", |(_, after)| after);
            kinds.iter().any(|kind| after.starts_with(kind))
        };
        let is_latest = matches!(name, "gemini-flash-latest" | "gemini-flash-lite-latest");
        let gemma = name.strip_prefix("gemma-").map_or(0, number);
        Family {
            has_call_ids: name.starts_with("claude-") || name.starts_with("gpt-oss-") || major >= 3,
            nests_images: gemini.is_none() || major >= 3,
            is_strict: major >= 3,
            thinks_by_level: major >= 4
                || (major == 3 && is_kind(&["pro", "flash"]))
                || is_latest
                || gemma == 4,
        }
    }
}

/// The number that a text begins with, or 0.
fn number(text: &str) -> u32 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}
