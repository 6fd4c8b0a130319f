//! A JavaScript engine for one script at a time: limits, and the side that waits for the result.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, bounded, never, select, unbounded};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    abort::{AbortController, AbortSignal},
    codemode::{
        calls::{Crew, Settled},
        execution::{Execution, ScriptError, ScriptErrorKind},
        ledger::Ledger,
        limits::Limits,
        source::SourceOptions,
        vm,
    },
    thread::timer,
    tool::ToolError,
};

/// Runs scripts, each in an engine of its own on a thread of its own. Clones share the count of threads that got stuck.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use serde_json::{Value, json};
/// use steerage::{AbortSignal, ToolError, codemode::{Sandbox, ScriptCall, ScriptHost, ScriptTool}};
///
/// struct Doubling;
///
/// impl ScriptHost for Doubling {
///     fn tools(&self) -> Vec<ScriptTool> {
///         vec![ScriptTool::new("double", "Doubles a number")]
///     }
///     fn call(&self, call: &ScriptCall, _: &AbortSignal) -> Result<Value, ToolError> {
///         Ok(json!(call.arguments["n"].as_i64().unwrap_or_default() * 2))
///     }
/// }
///
/// let script = "const all = await Promise.all([1, 2].map(n => tools.double({n}))); return all";
/// let execution = Sandbox::default().execute(script, Arc::new(Doubling), &AbortSignal::never());
/// assert_eq!(execution.result.unwrap(), Some(json!([2, 4])));
/// ```
#[derive(Clone, Default)]
pub struct Sandbox {
    limits: Limits,
    left: Arc<Left>,
    kept: Option<Arc<dyn Kept>>,
}

/// What a script can call.
pub trait ScriptHost: Send + Sync {
    /// The tools of this execution; asked once, before the script starts.
    fn tools(&self) -> Vec<ScriptTool>;

    /// Runs one call, blocking until it is done. Called on threads of the execution, several at once. The text of an error
    /// is what the script catches. The signal fires when the script has ended; the result is dropped then.
    fn call(&self, call: &ScriptCall, signal: &AbortSignal) -> Result<Value, ToolError>;
}

/// Values that outlive an execution.
pub(super) trait Kept: Send + Sync {
    /// The JSON text under a key.
    fn load(&self, key: &str) -> Option<String>;
    /// Characters of all keys and values.
    fn size(&self) -> usize;
}

/// A tool as scripts see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptTool {
    /// Its name; scripts reach it as `tools["name"]`, and as `tools.name` with every other character made `_`.
    pub name: String,
    /// What `ALL_TOOLS` says of it.
    pub description: String,
}

/// A call that a script made.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptCall {
    /// Counts from 0 within the execution.
    pub number: usize,
    /// The name of the tool as it was given.
    pub tool: String,
    /// The argument, an empty object if there was none.
    pub arguments: Value,
}

/// What the VM's thread and whoever waits for it both hold.
pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) ledger: Ledger,
    pub(super) kept: Option<Arc<dyn Kept>>,
    /// Asks the engine to stop at its next poll.
    pub(super) stop: AtomicBool,
    /// Bytes of arguments and results that are outside the engine, where its own limit does not count them.
    outside: AtomicUsize,
    left: Arc<Left>,
    /// Whether the thread is through with the script, and when its result was returned without it.
    phase: Mutex<Phase>,
}

/// When threads were left behind that have not ended since.
type Left = Mutex<Vec<Instant>>;

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Running,
    Ended,
    Left(Instant),
}

/// A thread that was left behind gets so long to notice before it counts as stuck.
const NOTICE: Duration = Duration::from_secs(1);

/// What the VM's thread owns.
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) script: String,
    pub(super) tools: Vec<ScriptTool>,
    pub(super) crew: Crew,
    pub(super) inbox: Receiver<Letter>,
    pub(super) finished: Sender<Finish>,
}

/// What the VM's thread waits for.
pub(super) enum Letter {
    Settled(Settled),
    /// Nobody waits for the script any more.
    Stop,
}

/// How a script ended by itself: the JSON text that it returned, or its error.
pub(super) type Finish = Result<Option<String>, ScriptError>;

impl Sandbox {
    /// Makes a sandbox with limits.
    pub fn new(limits: Limits) -> Sandbox {
        Sandbox { limits, ..Sandbox::default() }
    }

    pub(super) fn keeping(mut self, kept: Arc<dyn Kept>) -> Sandbox {
        self.kept = Some(kept);
        self
    }

    /// How many threads are stuck in earlier scripts: more than a second ago their result was returned without them.
    pub fn stuck_threads(&self) -> usize {
        let now = Instant::now();
        self.left.lock().iter().filter(|left| now.duration_since(**left) >= NOTICE).count()
    }

    /// Runs a script, the body of an asynchronous function, and blocks until it ends, fails, takes too long or the signal
    /// fires. At the end every call that is still open is cancelled.
    ///
    /// A first line `// @options: {"timeout_ms": 1000}` may shorten its time.
    pub fn execute(
        &self,
        script: &str,
        host: Arc<dyn ScriptHost>,
        signal: &AbortSignal,
    ) -> Execution {
        match SourceOptions::split(script) {
            Ok((options, script)) => self.execute_split(script, &options, host, signal),
            Err(message) => Execution::failed(ScriptError::plain(ScriptErrorKind::Script, message)),
        }
    }

    pub(super) fn execute_split(
        &self,
        script: String,
        options: &SourceOptions,
        host: Arc<dyn ScriptHost>,
        signal: &AbortSignal,
    ) -> Execution {
        let stuck = self.stuck_threads();
        if stuck >= self.limits.stuck_threads.max(1) {
            let message = format!(
                "{stuck} earlier scripts still run in functions that cannot be interrupted: no new script is started"
            );
            return Execution::failed(ScriptError::plain(ScriptErrorKind::Sandbox, message));
        }
        let time = options.time().into_iter().chain(self.limits.time).min();
        let deadline = time.and_then(timer::after);
        let controller = AbortController::child_of(signal);
        let shared = Arc::new(Shared {
            limits: self.limits.clone(),
            ledger: Ledger::new(),
            kept: self.kept.clone(),
            stop: AtomicBool::new(false),
            outside: AtomicUsize::new(0),
            left: self.left.clone(),
            phase: Mutex::new(Phase::Running),
        });
        let (letters, inbox) = unbounded();
        let (finished, finish) = bounded(1);
        let tools = host.tools();
        let crew = Crew::new(host, &shared, letters.clone(), controller.signal());
        let task = Task { shared: shared.clone(), script, tools, crew, inbox, finished };
        let ended = match vm::start(task) {
            Ok(()) => wait(&finish, signal, deadline, time),
            Err(error) => {
                let message = format!("no thread for the script could be started: {error}");
                Err(ScriptError::plain(ScriptErrorKind::Sandbox, message))
            }
        };
        let execution = settle(&shared, ended);
        shared.stop.store(true, Ordering::Release);
        let _ = letters.send(Letter::Stop);
        controller.abort();
        shared.leave();
        execution
    }
}

fn wait(
    finish: &Receiver<Finish>,
    signal: &AbortSignal,
    deadline: Option<Instant>,
    time: Option<Duration>,
) -> Finish {
    let late = deadline.map_or_else(never, crossbeam_channel::at);
    select! {
        recv(finish) -> ended => ended.unwrap_or_else(|_| {
            let message = "the engine broke off without a result";
            Err(ScriptError::plain(ScriptErrorKind::Sandbox, message))
        }),
        recv(signal.channel()) -> _ => {
            Err(ScriptError::plain(ScriptErrorKind::Aborted, "the script was aborted"))
        }
        recv(late) -> _ => {
            let limit = time.unwrap_or_default().as_millis();
            let message = format!("the script took longer than {limit} ms");
            Err(ScriptError::plain(ScriptErrorKind::Timeout, message))
        }
    }
}

fn settle(shared: &Shared, ended: Finish) -> Execution {
    let closed = shared.ledger.close();
    let result = match (ended, closed.overflow) {
        (Ok(_), Some(message)) => {
            let error = ScriptError::plain(ScriptErrorKind::Script, message);
            Err(ScriptError { name: "RangeError".to_owned(), ..error })
        }
        (Ok(None), None) => Ok(None),
        (Ok(Some(text)), None) => match serde_json::from_str(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let message = format!("what the script returned cannot be read as JSON: {error}");
                Err(ScriptError::plain(ScriptErrorKind::Script, message))
            }
        },
        (Err(error), _) => Err(error),
    };
    let writes = if result.is_ok() { closed.writes } else { HashMap::new() };
    Execution { result, output: closed.output, calls: closed.calls, writes }
}

impl Shared {
    /// Whoever waited goes on without the thread.
    fn leave(&self) {
        let mut phase = self.phase.lock();
        if *phase == Phase::Running {
            let now = Instant::now();
            *phase = Phase::Left(now);
            self.left.lock().push(now);
        }
    }

    /// The thread is through with the script.
    pub(super) fn end(&self) {
        let mut phase = self.phase.lock();
        if let Phase::Left(since) = *phase {
            let mut left = self.left.lock();
            if let Some(place) = left.iter().position(|at| *at == since) {
                left.swap_remove(place);
            }
        }
        *phase = Phase::Ended;
    }

    /// Counts bytes that are outside the engine from now on; false, and not counted, if they are too many: the memory of
    /// the script counts there too.
    pub(super) fn put_outside(&self, bytes: usize) -> bool {
        let most = self.limits.memory;
        let add = |outside: usize| outside.checked_add(bytes).filter(|sum| *sum <= most);
        self.outside.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Counts a few bytes that must not be refused.
    pub(super) fn put_outside_anyway(&self, bytes: usize) {
        self.outside.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Counts them no more.
    pub(super) fn take_back(&self, bytes: usize) {
        self.outside.fetch_sub(bytes, Ordering::AcqRel);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

impl ScriptTool {
    /// Makes one of a name and a description.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> ScriptTool {
        ScriptTool { name: name.into(), description: description.into() }
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("limits", &self.limits)
            .field("stuck_threads", &self.stuck_threads())
            .finish_non_exhaustive()
    }
}
