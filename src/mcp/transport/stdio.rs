//! A server that is a child process: one message a line on its standard input and output.

use std::{
    collections::BTreeMap,
    env, fmt, io,
    path::PathBuf,
    process::{Command, ExitStatus, Stdio as Pipe},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crossbeam_channel::{Sender, bounded, select};
use parking_lot::Mutex;

use crate::{
    abort::{AbortController, AbortSignal},
    error::{Error, ErrorKind, Result},
    jsonrpc::Message,
    mcp::transport::{Inbox, MAX_MESSAGE_BYTES, Transport, process::Group},
    secret::{Secret, scrub, sounds_secret},
    thread,
};

mod pipes;

/// What a server gets of the environment of the program, if it does not get all of it.
#[cfg(not(windows))]
const INHERITED: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR"];
#[cfg(windows)]
const INHERITED: &[&str] = &[
    "PATH",
    "PATHEXT",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "COMSPEC",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROCESSOR_ARCHITECTURE",
    "NUMBER_OF_PROCESSORS",
];

/// How many messages may wait for the server to read them.
const UNREAD: usize = 64;

/// How long a server gets to end by itself after its input was closed.
const POLITE: Duration = Duration::from_millis(500);

/// How long what is still in the pipes of an ended process is waited for.
const DRAIN: Duration = Duration::from_millis(200);

/// How a server process is started and ended.
#[derive(Clone)]
pub struct StdioOptions {
    /// The program. It is started directly, without a shell.
    pub command: String,
    /// Its arguments. Default: none.
    pub args: Vec<String>,
    /// Variables that are set for it, on top of those that it inherits. Default: none.
    pub env: BTreeMap<String, String>,
    /// Whether it inherits the whole environment of the program, keys of other services included. Default: only `PATH`,
    /// `HOME`, `USER`, `LOGNAME`, `SHELL`, `LANG`, `TERM`, `TMPDIR` (on Windows what programs there need).
    pub inherit_env: bool,
    /// The folder that it works in. Default: that of the program.
    pub cwd: Option<PathBuf>,
    /// The longest message that is taken, in bytes; a longer one is dropped. Default: 16 MiB.
    pub max_message_bytes: usize,
    /// How many bytes of the end of its standard error are kept, to be shown when it fails. Default: 64 KiB.
    pub max_stderr_bytes: usize,
    /// How long it may take to end when it is asked to, before it is killed with all that it started. Default: 2 seconds.
    pub close_timeout: Duration,
    /// Takes its standard error as it comes, on a thread of its own. Default: nobody.
    pub on_stderr: Option<StderrSink>,
}

/// Takes bytes of a standard error.
pub type StderrSink = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The transport for a child process. It is started when a client connects, in a process group (a job object on Windows)
/// of its own, and ended with everything that it started.
///
/// Ending is polite at first: its input is closed; after half a second it is asked to end (`SIGTERM`), and after
/// [`StdioOptions::close_timeout`] it is killed. A program that ends without waiting for that leaves the rest to the
/// server, which sees its input close.
pub struct Stdio {
    shared: Arc<Shared>,
}

struct Shared {
    options: StdioOptions,
    number: u64,
    state: Mutex<State>,
    /// The process itself has ended.
    ended: AbortController,
    /// The process has ended and so has everything that it started.
    gone: AbortController,
    /// Standard output and standard error have come to their end.
    output_done: AbortController,
    stderr_done: AbortController,
    stderr: Mutex<Vec<u8>>,
}

#[derive(Default)]
struct State {
    group: Option<Arc<Group>>,
    lines: Option<Sender<String>>,
    status: Option<ExitStatus>,
    is_closing: bool,
}

impl StdioOptions {
    /// Makes options for a program with its arguments.
    pub fn new<T: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = T>,
    ) -> StdioOptions {
        StdioOptions {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            inherit_env: false,
            cwd: None,
            max_message_bytes: MAX_MESSAGE_BYTES,
            max_stderr_bytes: 64 << 10,
            close_timeout: Duration::from_secs(2),
            on_stderr: None,
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.args).stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
        if !self.inherit_env {
            command.env_clear();
            let kept = INHERITED.iter().filter_map(|name| Some((name, env::var_os(name)?)));
            command.envs(kept);
        }
        command.envs(&self.env);
        if let Some(folder) = &self.cwd {
            command.current_dir(folder);
        }
        command
    }

    /// What is taken out of texts of the process: variables and arguments whose names sound like a key, `--key x` and
    /// `--key=x`.
    fn secrets(&self) -> Vec<Secret> {
        let env = self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let joined = self.args.iter().filter_map(|argument| argument.split_once('='));
        let pairs = self.args.windows(2).filter(|pair| pair[0].starts_with('-'));
        let apart = pairs.map(|pair| (pair[0].as_str(), pair[1].as_str()));
        let named = env.chain(joined).chain(apart).filter(|(name, _)| sounds_secret(name));
        named.map(|(_, value)| Secret::new(value)).collect()
    }

    /// The program's name, for texts.
    fn program(&self) -> &str {
        self.command.rsplit(['/', '\\']).next().unwrap_or(&self.command)
    }
}

impl Stdio {
    /// Makes a transport that starts the process when it is connected.
    pub fn new(options: StdioOptions) -> Stdio {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let shared = Shared {
            options,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            state: Mutex::default(),
            ended: AbortController::new(),
            gone: AbortController::new(),
            output_done: AbortController::new(),
            stderr_done: AbortController::new(),
            stderr: Mutex::default(),
        };
        Stdio { shared: Arc::new(shared) }
    }

    /// Returns a handle to read the end of what the process wrote to its standard error, with keys of its environment
    /// taken out. It may be asked at any time, also after the end.
    pub fn stderr_reader(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || shared.stderr_text()
    }
}

impl Transport for Stdio {
    fn start(&self, inbox: Inbox, signal: &AbortSignal) -> Result<()> {
        if signal.is_aborted() {
            return Err(Error::aborted());
        }
        let shared = &self.shared;
        let (group, pipes) = shared.spawn()?;
        let group = Arc::new(group);
        let (lines, queue) = bounded(UNREAD);
        {
            let mut state = shared.state.lock();
            state.group = Some(group.clone());
            state.lines = Some(lines);
        }
        let started = pipes::start(shared, &inbox, pipes, queue).and_then(|()| {
            let (shared, inbox) = (shared.clone(), inbox.clone());
            thread::spawn(&format!("mcp-wait-{}", self.shared.number), move || {
                shared.watch(&group, &inbox);
            })
        });
        started.map(drop).map_err(|error| {
            // Nobody will wait for it, so it cannot be polite.
            if let Some(group) = shared.state.lock().group.take() {
                group.kill();
                group.reap();
            }
            let text =
                format!("no thread for the MCP server {}: {error}", shared.options.program());
            Error::new(ErrorKind::Configuration, text)
        })
    }

    fn send(&self, message: Message, signal: &AbortSignal) -> Result<()> {
        let lines = self.shared.state.lock().lines.clone();
        let Some(lines) = lines else { return Err(self.shared.reason()) };
        select! {
            send(lines, message.to_line()) -> sent => sent.map_err(|_| self.shared.reason()),
            recv(signal.channel()) -> _ => Err(Error::aborted()),
            recv(self.shared.ended.signal().channel()) -> _ => Err(self.shared.reason()),
        }
    }

    fn close(&self) {
        self.shared.close();
    }
}

impl Shared {
    fn spawn(&self) -> Result<(Group, super::process::Pipes)> {
        let options = &self.options;
        let mut result = Group::start(options.command());
        let is_missing = |result: &io::Result<_>| {
            result.as_ref().is_err_and(|error: &io::Error| error.kind() == io::ErrorKind::NotFound)
        };
        if cfg!(windows) && is_missing(&result) {
            // Programs of npm are scripts there, which are not found by their bare name.
            let command = format!("{}.cmd", options.command);
            result = Group::start(StdioOptions { command, ..options.clone() }.command());
        }
        result.map_err(|error| {
            let mut text = format!("cannot start the MCP server `{}`: {error}", options.command);
            if let Some(folder) = options.cwd.as_ref().filter(|folder| !folder.is_dir()) {
                text = format!(
                    "cannot start the MCP server `{}`: its folder {} does not exist",
                    options.command,
                    folder.display()
                );
            }
            Error::new(ErrorKind::Configuration, text).with_source(error)
        })
    }

    /// Waits for the end of the process, reports it, and ends what the process has left behind.
    fn watch(&self, group: &Group, inbox: &Inbox) {
        group.wait();
        // Its last words may still be in the pipes, unless something that it started keeps them open.
        self.output_done.signal().wait_timeout(DRAIN);
        self.stderr_done.signal().wait_timeout(DRAIN);
        group.terminate();
        let status = group.reap();
        {
            let mut state = self.state.lock();
            state.status = status;
            state.lines = None;
        }
        self.ended.abort();
        inbox.closed(self.reason());
        if !wait_for_rest(group) {
            group.kill();
            wait_for_rest(group);
        }
        self.state.lock().group = None;
        self.gone.abort();
    }

    fn close(&self) {
        let group = {
            let mut state = self.state.lock();
            state.is_closing = true;
            state.lines = None;
            state.group.clone()
        };
        let Some(group) = group else { return };
        let gone = self.gone.signal();
        if gone.wait_timeout(POLITE.min(self.options.close_timeout)) {
            return;
        }
        group.terminate();
        if gone.wait_timeout(self.options.close_timeout) {
            return;
        }
        group.kill();
        gone.wait_timeout(POLITE);
    }

    /// Why nothing can be sent to the process any more.
    fn reason(&self) -> Error {
        let program = self.options.program();
        let (status, is_closing) = {
            let state = self.state.lock();
            (state.status, state.is_closing)
        };
        let mut text = match status {
            _ if is_closing => format!("the MCP server {program} was closed"),
            Some(status) => format!("the MCP server {program} has ended ({status})"),
            None => format!("the MCP server {program} no longer talks"),
        };
        let stderr = self.stderr_text();
        if !is_closing && !stderr.is_empty() {
            text.push_str("; the end of its standard error: ");
            text.push_str(last_part(&stderr));
        }
        Error::new(ErrorKind::Network, text)
    }

    fn stderr_text(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr.lock()).into_owned();
        scrub(text.trim(), &self.options.secrets())
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        let is_open = {
            let state = self.shared.state.lock();
            state.group.is_some() && !state.is_closing
        };
        if is_open {
            let shared = self.shared.clone();
            let name = format!("mcp-close-{}", shared.number);
            if thread::spawn(&name, move || shared.close()).is_err()
                && let Some(group) = &self.shared.state.lock().group
            {
                group.kill();
            }
        }
    }
}

/// Waits until nothing of the group is left, but not for long; tells whether it came to that.
fn wait_for_rest(group: &Group) -> bool {
    /// How often those that are left are looked for.
    const LOOK: Duration = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    while group.is_left() && waited < POLITE {
        AbortSignal::never().wait_timeout(LOOK);
        waited += LOOK;
    }
    !group.is_left()
}

/// As much of the end of a text as an error can show.
fn last_part(text: &str) -> &str {
    const MOST: usize = 2_000;
    let start = text.ceil_char_boundary(text.len().saturating_sub(MOST));
    &text[start..]
}

impl fmt::Debug for StdioOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioOptions")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .field("inherit_env", &self.inherit_env)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio").field("options", &self.shared.options).finish_non_exhaustive()
    }
}
