//! Tools for files: read, write, edit, list, search.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use steerage::{AbortSignal, Tool, ToolContext, ToolError, ToolHints};

use crate::root::{Root, resource};

/// Larger files are neither read nor searched.
const LARGEST_FILE: u64 = 1 << 20;
/// How many files are listed and how many places are found.
const MOST_LINES: usize = 500;

type Outcome = Result<String, ToolError>;

#[derive(Deserialize, JsonSchema)]
struct ReadFile {
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct WriteFile {
    path: String,
    /// All that stands in the file then.
    content: String,
}

#[derive(Deserialize, JsonSchema)]
struct EditFile {
    path: String,
    /// A text that stands in the file just once.
    old: String,
    /// What takes its place.
    new: String,
}

#[derive(Deserialize, JsonSchema)]
struct ListFiles {
    /// Default: the whole folder.
    #[serde(default)]
    folder: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct SearchFiles {
    /// A text, taken as it is.
    text: String,
    /// Default: the whole folder.
    #[serde(default)]
    folder: Option<String>,
}

pub(crate) fn tools(root: &Root) -> Vec<Tool> {
    let reads =
        ToolHints { read_only: Some(true), open_world: Some(false), ..ToolHints::default() };
    let (reading, writing, editing) = (root.clone(), root.clone(), root.clone());
    let (listing, searching) = (root.clone(), root.clone());
    vec![
        Tool::new("read_file", "Reads a text file", move |it: ReadFile, _| {
            read(&reading, &it.path)
        })
        .hints(reads)
        .resources(touched),
        Tool::new(
            "write_file",
            "Writes a file, with the folders on the way",
            move |it: WriteFile, _| write(&writing, &it),
        )
        .resources(touched),
        Tool::new("edit_file", "Replaces one place in a file", move |it: EditFile, _| {
            edit(&editing, &it)
        })
        .resources(touched),
        Tool::new("list_files", "Lists the files below a folder", move |it: ListFiles, context| {
            list(&listing, it.folder.as_deref().unwrap_or("."), context)
        })
        .hints(reads),
        Tool::new(
            "search_files",
            "Finds the lines that hold a text",
            move |it: SearchFiles, context| search(&searching, &it, context),
        )
        .hints(reads),
    ]
}

/// A read and a write of the same file wait for each other; everything else runs at the same time.
fn touched(arguments: &Map<String, Value>) -> Vec<String> {
    arguments.get("path").and_then(Value::as_str).map(resource).into_iter().collect()
}

fn read(root: &Root, path: &str) -> Outcome {
    let file = root.existing(path)?;
    let length = fs::metadata(&file)?.len();
    if length > LARGEST_FILE {
        return Err(format!("{path} has {length} bytes, more than {LARGEST_FILE}").into());
    }
    fs::read_to_string(file).map_err(|error| format!("{path}: {error}").into())
}

fn write(root: &Root, it: &WriteFile) -> Outcome {
    fs::write(root.writable(&it.path)?, &it.content)?;
    Ok(format!("wrote {} bytes to {}", it.content.len(), it.path))
}

fn edit(root: &Root, it: &EditFile) -> Outcome {
    let text = read(root, &it.path)?;
    match text.matches(&it.old).count() {
        1 if !it.old.is_empty() => (),
        0 => return Err(format!("{} does not hold that text", it.path).into()),
        count => {
            return Err(
                format!("{} holds that text {count} times: give more of it", it.path).into()
            );
        }
    }
    fs::write(root.existing(&it.path)?, text.replacen(&it.old, &it.new, 1))?;
    Ok(format!("edited {}", it.path))
}

fn list(root: &Root, folder: &str, context: &ToolContext) -> Outcome {
    let mut names = Vec::new();
    walk(&root.existing(folder)?, context.signal(), &mut |file| {
        names.push(root.shown(file));
        names.len() < MOST_LINES
    })?;
    Ok(if names.is_empty() { "no files".to_owned() } else { names.join("\n") })
}

fn search(root: &Root, it: &SearchFiles, context: &ToolContext) -> Outcome {
    let (mut found, mut count) = (String::new(), 0);
    walk(&root.existing(it.folder.as_deref().unwrap_or("."))?, context.signal(), &mut |file| {
        let is_small = fs::metadata(file).is_ok_and(|it| it.len() <= LARGEST_FILE);
        let text = is_small.then(|| fs::read_to_string(file).ok()).flatten().unwrap_or_default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| line.contains(&it.text)) {
            // Writing to a text does not fail.
            let _ = writeln!(found, "{}:{}: {}", root.shown(file), number + 1, line.trim());
            count += 1;
        }
        count < MOST_LINES
    })?;
    Ok(if found.is_empty() { "not found".to_owned() } else { found })
}

/// Visits the files below a folder in the order of their names until `visit` has enough. Links are not followed, and what
/// version control keeps is left out.
fn walk(
    folder: &Path,
    signal: &AbortSignal,
    visit: &mut dyn FnMut(&Path) -> bool,
) -> Result<bool, ToolError> {
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        entries.push(entry?.path());
    }
    entries.sort();
    for path in entries {
        if signal.is_aborted() {
            return Err("interrupted".into());
        }
        let kind = fs::symlink_metadata(&path)?.file_type();
        let goes_on = if kind.is_dir() {
            path.ends_with(".git") || walk(&path, signal, visit)?
        } else {
            !kind.is_file() || visit(&path)
        };
        if !goes_on {
            return Ok(false);
        }
    }
    Ok(true)
}
