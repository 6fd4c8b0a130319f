//! The script as the model sends it: an options line that may come first, and the source.

use std::time::Duration;

use serde_json::Value;

/// What the first line begins with if it holds options.
const MARK: &str = "// @options:";

/// What a script asks for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SourceOptions {
    pub(super) timeout_ms: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
}

impl SourceOptions {
    /// Takes the options line off; an empty line stays in its place, so that line numbers hold.
    pub(super) fn split(script: &str) -> Result<(SourceOptions, String), String> {
        let script = without_fence(script);
        let (first, rest) = script.split_once('\n').unwrap_or((&script, ""));
        if let Some(place) = rest.lines().position(|line| line.trim_start().starts_with(MARK)) {
            return Err(format!(
                "the options stand on line {}: they must be the first line of the script",
                place + 2
            ));
        }
        let (options, source) = match first.strip_prefix(MARK) {
            Some(options) => (read(options)?, format!("\n{rest}")),
            None => (SourceOptions::default(), script.clone()),
        };
        if source.trim().is_empty() {
            return Err("the script is empty: write the body of an async function".to_owned());
        }
        Ok((options, source))
    }

    pub(super) fn time(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

/// The inside of a Markdown code block, if the script is one.
fn without_fence(script: &str) -> String {
    let trimmed = script.trim();
    let inside = trimmed.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inside = inside.and_then(|inside| inside.split_once('\n'));
    match inside {
        Some((language, source)) if language.trim().chars().all(char::is_alphanumeric) => {
            source.to_owned()
        }
        _ => script.to_owned(),
    }
}

fn read(text: &str) -> Result<SourceOptions, String> {
    let value: Value = serde_json::from_str(text.trim())
        .map_err(|error| format!("the options line holds no JSON object: {error}"))?;
    let Value::Object(fields) = value else {
        return Err("the options line holds no JSON object".to_owned());
    };
    let mut options = SourceOptions::default();
    for (name, value) in fields {
        let number = value.as_u64().or_else(|| whole(&value));
        match (name.as_str(), number) {
            ("timeout_ms", Some(time @ 1..=2_147_483_647)) => options.timeout_ms = Some(time),
            ("timeout_ms", _) => {
                return Err("timeout_ms must be a whole number from 1 to 2147483647".to_owned());
            }
            ("max_output_tokens", Some(most)) => options.max_output_tokens = Some(most),
            ("max_output_tokens", None) => {
                return Err("max_output_tokens must be a whole number from 0 on".to_owned());
            }
            (name, _) => {
                return Err(format!(
                    "there is no option {name:?}: only timeout_ms and max_output_tokens"
                ));
            }
        }
    }
    Ok(options)
}

/// `30.0` is a whole number too.
fn whole(value: &Value) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    value.as_f64().filter(|it| it.fract() == 0.0 && (0.0..9e15).contains(it)).map(|it| it as u64)
}
