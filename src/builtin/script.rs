//! Scripts that the model writes for a tool that runs them.

use serde_json::{Map, Value, json};

use crate::{
    builtin::request::Request,
    message::{ToolCall, ToolDeclaration},
};

/// Where the declarations of the tools begin that a script may call.
const DECLARATIONS: &str = "declare const tools: {";

/// Whether a tool runs scripts that call other tools.
pub(super) fn runs_scripts(tool: &ToolDeclaration) -> bool {
    tool.parameters["properties"]["code"].is_object() && tool.description.contains(DECLARATIONS)
}

/// The tools that scripts of such a tool may call, as far as the model reads their declarations: names, descriptions and
/// parameters that are texts.
pub(super) fn inner_tools(tool: &ToolDeclaration) -> Vec<ToolDeclaration> {
    let declared = tool.description.split_once(DECLARATIONS).map_or("", |(_, declared)| declared);
    let mut tools: Vec<ToolDeclaration> = Vec::new();
    let mut comment = String::new();
    for line in declared.lines() {
        let inner = line.strip_prefix("  ").unwrap_or(line);
        match inner.split_once("(args") {
            Some((name, _)) if !name.starts_with([' ', '"', '/', '*']) => {
                let (name, description) = (name.to_owned(), std::mem::take(&mut comment));
                let parameters = json!({"type": "object", "properties": {}});
                tools.push(ToolDeclaration {
                    name,
                    description,
                    parameters,
                    ..ToolDeclaration::default()
                });
            }
            _ if inner.starts_with("/**") || inner.starts_with(" *") => comment.push_str(inner),
            _ => (),
        }
        if let Some(tool) = tools.last_mut() {
            add_texts(&mut tool.parameters["properties"], inner);
        }
    }
    tools
}

/// Adds the parameters of type `string` that a line declares.
fn add_texts(properties: &mut Value, line: &str) {
    let Some(properties) = properties.as_object_mut() else { return };
    for (place, _) in line.match_indices(": string;") {
        let name = line[..place].trim_end_matches('?');
        let start =
            name.rfind(|it: char| !it.is_alphanumeric() && it != '_').map_or(0, |it| it + 1);
        if start < name.len() {
            properties.insert(name[start..].to_owned(), json!({"type": "string"}));
        }
    }
}

/// A script that reads files, at the same time, and tells what the request wants of them.
pub(super) fn reading(
    tool: &ToolDeclaration,
    reader: &ToolDeclaration,
    request: &Request,
) -> Option<ToolCall> {
    let parameter = reader.parameters["properties"].as_object()?.keys().next()?;
    let files = json!(request.paths());
    let name = &reader.name;
    let rest = if request.asks_for_total() {
        "\
let total = 0;
for (const line of texts.join(\"\\n\").split(\"\\n\")) {
  const number = line.match(/-?\\d+(\\.\\d+)?\\s*$/);
  if (number) total += Number(number[0]);
}
return { files: files.length, total: Math.round(total * 100) / 100 };"
    } else {
        "texts.forEach((content, place) => text(`${files[place]}:\\n${content}`));"
    };
    let code = format!(
        "const files = {files};\n\
         const texts = await Promise.all(files.map((file) => tools.{name}({{ {parameter}: file }})));\n\
         {rest}"
    );
    let arguments = Map::from_iter([("code".to_owned(), Value::from(code))]);
    Some(ToolCall { name: tool.name.clone(), arguments, ..ToolCall::default() })
}

/// What the last numbers of all lines add up to.
pub(super) fn total<'a>(texts: impl Iterator<Item = &'a str>) -> f64 {
    let lines = texts.flat_map(str::lines);
    let numbers = lines.filter_map(|line| {
        let line = line.trim_end();
        let start = line.rfind(|it: char| !it.is_ascii_digit() && it != '.').map_or(0, |it| it + 1);
        let start = if line[..start].ends_with('-') { start - 1 } else { start };
        line[start..].parse::<f64>().ok()
    });
    (numbers.sum::<f64>() * 100.0).round() / 100.0
}
