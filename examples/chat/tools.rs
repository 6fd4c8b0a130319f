//! The tools of the chat.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use schemars::JsonSchema;
use serde::Deserialize;
use steerage::{Tool, ToolContext};

mod arithmetic;
mod calendar;

type Outcome = Result<String, Box<dyn Error + Send + Sync>>;

#[derive(Deserialize, JsonSchema)]
struct Calculate {
    /// For example `2 * (3 + 4)`; the operators are + - * / % ^.
    expression: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct ListFiles {
    /// A folder below the working directory. Default: the working directory itself.
    #[serde(default)]
    folder: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct ReadFile {
    /// A file below the working directory.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct LongTask {
    /// How many steps it has, of a quarter of a second each. Default: 8.
    #[serde(default)]
    steps: Option<u32>,
}

pub(crate) fn all() -> Vec<Tool> {
    vec![
        Tool::new("calculate", "Calculates an arithmetic expression", |args: Calculate, _| {
            Ok(arithmetic::evaluate(&args.expression)?.to_string())
        }),
        Tool::new("current_time", "Tells the current date and time", |_: Nothing, _| time()),
        Tool::new("list_files", "Lists the files of a folder", |args: ListFiles, _| {
            list(args.folder.as_deref().unwrap_or("."))
        }),
        Tool::new("read_file", "Reads a text file", |args: ReadFile, _| read(&args.path)),
        Tool::new("long_task", "Works for a while and reports its progress", long_task),
    ]
}

fn time() -> Outcome {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(calendar::written(seconds))
}

fn list(folder: &str) -> Outcome {
    let mut names = Vec::new();
    for entry in fs::read_dir(inside(folder)?)? {
        let entry = entry?;
        let mark = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!("{}{mark}", entry.file_name().to_string_lossy()));
    }
    names.sort();
    Ok(names.join("\n"))
}

fn read(path: &str) -> Outcome {
    const MOST: u64 = 64 << 10;
    let path = inside(path)?;
    let length = fs::metadata(&path)?.len();
    if length > MOST {
        return Err(format!("the file has {length} bytes, which is more than {MOST}").into());
    }
    Ok(fs::read_to_string(path)?)
}

/// Models get to see nothing outside the working directory.
fn inside(path: &str) -> io::Result<PathBuf> {
    let here = Path::new(".").canonicalize()?;
    let path = here.join(path).canonicalize()?;
    if path.starts_with(here) {
        Ok(path)
    } else {
        Err(io::Error::other("that is outside the working directory"))
    }
}

fn long_task(LongTask { steps }: LongTask, context: &ToolContext) -> Outcome {
    const STEP: Duration = Duration::from_millis(250);
    let steps = steps.unwrap_or(8).clamp(1, 100);
    for step in 1..=steps {
        // Waits for the abort rather than for the time, so that an abort ends the task at once.
        if context.signal().wait_timeout(STEP) {
            return Err(format!("stopped in step {step} of {steps}").into());
        }
        context.update(format!("step {step} of {steps}"));
    }
    Ok(format!("all {steps} steps are done"))
}
