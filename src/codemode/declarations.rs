//! What a model is told of the tools that a script may call: TypeScript made from their schemas. Pure.

use serde_json::Value;

use crate::codemode::identifier::identifiers;

mod shape;
mod tags;

use shape::{Detail, Shape};

/// A tool that is declared.
#[derive(Debug, Clone, Copy)]
pub struct Declared<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it does.
    pub description: &'a str,
    /// The schema of its argument; `None` is anything.
    pub input: Option<&'a Value>,
    /// The schema of what it gives; `None` is anything.
    pub output: Option<&'a Value>,
}

/// An argument type of more characters is rendered without tags, then not at all.
const LONGEST_INPUT: usize = 16_000;

/// Declares tools as the members of one constant `tools`.
///
/// A name that is no identifier gets `_` for every character that does not fit; if that is taken, it is declared as it is,
/// in quotation marks. Of two tools with one name the first is declared.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use steerage::codemode::{Declared, declarations};
///
/// let input = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
/// let output = json!({"type": "string"});
/// let read = Declared { name: "read-file", description: "Reads a file", input: Some(&input), output: Some(&output) };
/// assert_eq!(declarations(&[read]), "\
/// declare const tools: {
///   /** Reads a file */
///   read_file(args: { path: string; }): Promise<string>;
/// };
/// ");
/// ```
pub fn declarations(tools: &[Declared<'_>]) -> String {
    let mut text = String::from("declare const tools: {\n");
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    for ((place, tool), id) in tools.iter().enumerate().zip(identifiers(&names)) {
        let member = match id {
            Some(id) => id.into_owned(),
            None if names[..place].contains(&tool.name) => continue,
            None => quoted(tool.name),
        };
        text.push_str(&doc_comment(tool.description, "  "));
        text.extend(["  ", &signature(&member, tool, 1), "\n"]);
    }
    text.push_str("};\n");
    text
}

/// The description and the declaration of one tool, for the results of a search.
pub(super) fn sample(tool: &Declared<'_>) -> String {
    let declared = declarations(std::slice::from_ref(tool));
    format!("```ts\n{declared}```")
}

fn signature(member: &str, tool: &Declared<'_>, depth: usize) -> String {
    let input = tool.input.map_or_else(|| "unknown".to_owned(), |schema| input(schema, depth));
    let optional = if tool.input.is_some_and(needs_nothing) { "?" } else { "" };
    let output = tool.output.map_or_else(
        || "unknown".to_owned(),
        |schema| Shape::new(schema, Detail::Full).render(depth),
    );
    format!("{member}(args{optional}: {input}): Promise<{output}>;")
}

fn input(schema: &Value, depth: usize) -> String {
    let details = [Detail::Full, Detail::Plain];
    let mut rendered = details.map(|detail| (Shape::new(schema, detail), depth)).into_iter();
    rendered
        .find_map(|(shape, depth)| Some(shape.render(depth)).filter(|it| it.len() <= LONGEST_INPUT))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Whether a call may leave the argument out.
fn needs_nothing(schema: &Value) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    schema.get("type").is_some_and(|it| it == "object")
        && required.is_none_or(Vec::is_empty)
        && ["$ref", "allOf", "anyOf", "oneOf"].iter().all(|key| schema.get(key).is_none())
}

fn doc_comment(description: &str, indent: &str) -> String {
    let safe = description.trim().replace("*/", "*\\/");
    match safe.lines().collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let body = lines.iter().map(|line| format!("{indent} * {line}").trim_end().to_owned());
            let body = body.collect::<Vec<_>>().join("\n");
            format!("{indent}/**\n{body}\n{indent} */\n")
        }
    }
}

/// A text as a literal; TypeScript reads JSON texts as they are.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
