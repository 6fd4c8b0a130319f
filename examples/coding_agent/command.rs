//! A tool that runs commands, with a time limit; their output is streamed.

use std::{
    io::Read,
    process::{Child, Command, Stdio},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Deserialize;
use steerage::{Tool, ToolContext, ToolError, ToolHints, ToolResult};

use crate::root::Root;

/// How long a command may run, unless it asks for less, and how much of its output is kept.
const LONGEST: u64 = 120;
const MOST_OUTPUT: usize = 1 << 20;

#[derive(Deserialize, JsonSchema)]
struct RunCommand {
    /// A line for the shell.
    command: String,
    /// After how many seconds it is stopped. Default: 120, which is also the most.
    #[serde(default)]
    seconds: Option<u64>,
}

/// What the waiting thread is told.
enum Happening {
    Output(Vec<u8>),
    /// One of the two outputs has ended.
    Closed,
    Aborted,
}

pub(crate) fn tool(root: &Root) -> Tool {
    let root = root.clone();
    let run = move |it: RunCommand, context: &ToolContext| run(&root, &it, context);
    Tool::new("run_command", "Runs a command in the folder and returns its output", run)
        .hints(ToolHints {
            read_only: Some(false),
            destructive: Some(true),
            ..ToolHints::default()
        })
        .sequential()
}

fn run(root: &Root, it: &RunCommand, context: &ToolContext) -> Result<ToolResult, ToolError> {
    let seconds = it.seconds.unwrap_or(LONGEST).clamp(1, LONGEST);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut child = Group(shell(&it.command).current_dir(root.folder()).spawn()?);
    let (sender, happenings) = channel();
    forward(child.0.stdout.take(), sender.clone())?;
    forward(child.0.stderr.take(), sender.clone())?;
    let _on_abort = context.signal().on_abort(move || drop(sender.send(Happening::Aborted)));
    let (mut output, mut open) = (Vec::new(), 2);
    while open > 0 {
        match happenings.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Happening::Output(piece)) => {
                context.update(String::from_utf8_lossy(&piece).into_owned());
                output.extend(piece);
                if output.len() > MOST_OUTPUT {
                    return Ok(ended(&output, "stopped: it wrote too much"));
                }
            }
            Ok(Happening::Closed) => open -= 1,
            Ok(Happening::Aborted) => return Ok(ended(&output, "interrupted")),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Ok(ended(&output, &format!("stopped after {seconds} s")));
            }
        }
    }
    let status = child.0.wait()?;
    Ok(match status.code() {
        Some(0) => ToolResult::text(shown(&output)),
        Some(code) => ended(&output, &format!("failed with code {code}")),
        None => ended(&output, "ended by a signal"),
    })
}

fn ended(output: &[u8], how: &str) -> ToolResult {
    ToolResult::error(format!("{}\n[{how}]", shown(output)))
}

fn shown(output: &[u8]) -> String {
    if output.is_empty() {
        "no output".to_owned()
    } else {
        String::from_utf8_lossy(output).into_owned()
    }
}

/// Sends what a command writes on, from a thread that ends with its output.
fn forward(
    source: Option<impl Read + Send + 'static>,
    sender: Sender<Happening>,
) -> Result<(), ToolError> {
    let mut source = source.ok_or("the output of the command is missing")?;
    let read = move || {
        let mut piece = [0; 8192];
        while let Ok(length @ 1..) = source.read(&mut piece) {
            if sender.send(Happening::Output(piece[..length].to_vec())).is_err() {
                return;
            }
        }
        let _ = sender.send(Happening::Closed);
    };
    thread::Builder::new().name("command-output".to_owned()).spawn(read)?;
    Ok(())
}

/// A command with everything that it starts. Dropping it ends them all.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // One that has ended and was waited for has given its number back, which may be another's by now.
        if matches!(self.0.try_wait(), Ok(None)) {
            end(&self.0);
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

#[cfg(unix)]
fn shell(line: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("sh");
    command.args(["-c", line]).process_group(0);
    piped(command)
}

#[cfg(not(unix))]
fn shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.args(["/C", line]);
    piped(command)
}

fn piped(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ends the whole group. The programs of the system do that without unsafe code here.
fn end(child: &Child) {
    let mut killer = if cfg!(unix) {
        let mut killer = Command::new("kill");
        killer.args(["-KILL", "--", &format!("-{}", child.id())]);
        killer
    } else {
        let mut killer = Command::new("taskkill");
        killer.args(["/T", "/F", "/PID", &child.id().to_string()]);
        killer
    };
    let _ = killer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
