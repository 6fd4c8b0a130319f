//! How vendors of OpenAI's kind constrain the arguments of a tool: their strict mode for schemas, and grammars.

use serde_json::Value;

use crate::{
    error::{Error, ErrorKind},
    message::{ConstrainedSampling, SamplingConstraint, Strictness, ToolDeclaration},
    schema,
};

/// The parameters of a tool as a vendor with a strict mode gets them.
#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) schema: Value,
    pub(crate) strict: bool,
}

/// The grammar of a tool that takes one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grammar {
    /// The one parameter.
    pub(crate) property: String,
    /// `lark` or `regex`.
    pub(crate) syntax: &'static str,
    pub(crate) definition: String,
}

/// Decides whether a tool's schema goes out in strict mode. An error if the tool insists on it and it is impossible.
pub(crate) fn parameters(
    tool: &ToolDeclaration,
    supports_strict_mode: bool,
) -> Result<Parameters, Error> {
    let plain = || Parameters { schema: tool.parameters.clone(), strict: false };
    let wanted = match &tool.constrained_sampling {
        Some(ConstrainedSampling::On(SamplingConstraint::JsonSchema { strict })) => *strict,
        _ => return Ok(plain()),
    };
    let refused = |why: &str| {
        let message = format!(
            "tool `{}` insists on strict mode, but {why}: take `require` off or change it",
            tool.name
        );
        Err(Error::new(ErrorKind::Configuration, message))
    };
    if !supports_strict_mode {
        return match wanted {
            Strictness::Prefer => Ok(plain()),
            Strictness::Require => refused("the model has none"),
        };
    }
    match (schema::strict(&tool.parameters), wanted) {
        (Ok(schema), _) => Ok(Parameters { schema, strict: true }),
        (Err(_), Strictness::Prefer) => Ok(plain()),
        (Err(why), Strictness::Require) => refused(&format!("of its schema, {why}")),
    }
}

/// The grammar of a tool, if it has one. An error if no notation is given or the tool takes more than one text.
pub(crate) fn grammar(tool: &ToolDeclaration) -> Result<Option<Grammar>, Error> {
    let Some(ConstrainedSampling::On(SamplingConstraint::Grammar { variants })) =
        &tool.constrained_sampling
    else {
        return Ok(None);
    };
    let filled = |text: &Option<String>| text.clone().filter(|it| !it.trim().is_empty());
    let (syntax, definition) = match (filled(&variants.openai_lark), filled(&variants.openai_regex))
    {
        (Some(lark), _) => ("lark", lark),
        (None, Some(regex)) => ("regex", regex),
        (None, None) => {
            let message = format!(
                "tool `{}` has a grammar without a text: give openai_lark or openai_regex",
                tool.name
            );
            return Err(Error::new(ErrorKind::Configuration, message));
        }
    };
    let Some(property) = only_text(&tool.parameters) else {
        let message = format!(
            "tool `{}` has a grammar, so its schema must be an object with exactly one required property of type string",
            tool.name
        );
        return Err(Error::new(ErrorKind::Configuration, message));
    };
    Ok(Some(Grammar { property: property.to_owned(), syntax, definition }))
}

fn only_text(schema: &Value) -> Option<&str> {
    let [required] = schema.get("required")?.as_array()?.as_slice() else { return None };
    let name = required.as_str()?;
    let is_object = schema.get("type")?.as_str()? == "object";
    let is_text = schema.get("properties")?.get(name)?.get("type")?.as_str()? == "string";
    (is_object && is_text).then_some(name)
}
