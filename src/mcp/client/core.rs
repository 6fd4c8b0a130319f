//! Requests and their answers: who waits for what, for how long, and what becomes of them when the connection goes.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, bounded, never, select, unbounded};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::{
    abort::{AbortController, AbortSignal},
    error::{Error, ErrorKind, Failure, Result},
    jsonrpc::{Id, Message, RpcError},
    mcp::{
        client::{
            CONNECTION_LOST, ClientOptions,
            notice::{Notice, Notices},
            serve::Serving,
        },
        definition::ServerInfo,
        transport::{Receive, SESSION_LOST, Transport},
    },
    thread::{self, timer, turn::Turns},
};

/// How long something that nobody waits for may take to be sent.
const COURTESY: Duration = Duration::from_secs(10);

/// How many such messages may wait; more are dropped. A server that asks without end and reads nothing gets no answers.
const UNSENT: usize = 1024;

/// How much progress of one request may wait for a slow listener; more is dropped.
const UNHEARD: usize = 256;

/// How one request is made.
#[derive(Clone, Copy, Default)]
pub struct CallOptions<'a> {
    /// How long it may take without a sign of life. Default: what the client's options say.
    pub timeout: Option<Duration>,
    /// How long it may take in all. Default: what the client's options say.
    pub max_time: Option<Duration>,
    /// Is told of progress, on the thread that waits. Default: progress is not asked for.
    pub on_progress: Option<&'a dyn Fn(&Progress)>,
}

/// How far a request has come.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// How much is done; it grows.
    pub progress: f64,
    /// How much there is to do, if that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// What the one that waits for a request hears.
enum Reply {
    Progress(Progress),
    Done(Result<Value, RpcError>),
    Failed(Error),
}

pub(super) struct Core {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) options: ClientOptions,
    pub(super) server: Mutex<Arc<ServerInfo>>,
    /// Fires when the connection is gone.
    pub(super) closed: AbortController,
    pub(super) serving: Serving,
    requests: Mutex<Requests>,
    post: Sender<Message>,
    notices: Option<Notices>,
    /// Whose turn it is to open a new session, with the number of the present one.
    sessions: Turns<u64>,
}

#[derive(Default)]
struct Requests {
    last: u64,
    session: u64,
    open: HashMap<u64, Sender<Reply>>,
    /// Why there is no connection any more.
    gone: Option<String>,
}

/// Takes a request off the list when nobody waits for it any more, and ends its way through the transport.
struct Waiting<'a> {
    core: &'a Core,
    id: u64,
    settled: AbortController,
}

impl Core {
    pub(super) fn new(transport: Arc<dyn Transport>, options: ClientOptions) -> Result<Arc<Core>> {
        let (post, letters) = bounded(UNSENT);
        start_post(&options.name, &transport, letters)?;
        let notices = match &options.on_notice {
            Some(listener) => {
                Some(Notices::start(&format!("mcp-notices-{}", options.name), listener.clone())?)
            }
            None => None,
        };
        Ok(Arc::new(Core {
            transport,
            options,
            server: Mutex::default(),
            closed: AbortController::new(),
            serving: Serving::default(),
            requests: Mutex::default(),
            post,
            notices,
            sessions: Turns::new(0),
        }))
    }

    /// Sends a request; if the server has lost the session, opens a new one and sends it once more.
    pub(super) fn request(
        &self,
        method: &str,
        params: Option<Value>,
        options: &CallOptions<'_>,
        signal: &AbortSignal,
    ) -> Result<Value> {
        let session = self.requests.lock().session;
        let result = self.once(method, params.clone(), options, signal);
        let is_lost = |error: &Error| error.failure().code.as_deref() == Some(SESSION_LOST);
        if !result.as_ref().is_err_and(is_lost) {
            return result;
        }
        self.renew(session, signal)?;
        self.once(method, params, options, signal)
    }

    /// Opens a new session in place of the one with this number, unless somebody else has done so.
    fn renew(&self, lost: u64, signal: &AbortSignal) -> Result<()> {
        let turn = self.sessions.wait(signal.channel());
        let mut turn = turn.ok_or_else(Error::aborted)?;
        if turn.value == lost {
            tracing::debug!(client = self.options.name, "the MCP server has lost the session");
            self.transport.forget_session();
            self.introduce(signal)?;
            turn.value += 1;
        }
        self.requests.lock().session = turn.value;
        Ok(())
    }

    /// Sends a request and waits for its answer.
    pub(super) fn once(
        &self,
        method: &str,
        params: Option<Value>,
        options: &CallOptions<'_>,
        signal: &AbortSignal,
    ) -> Result<Value> {
        if signal.is_aborted() {
            return Err(Error::aborted());
        }
        let (waiting, replies) = self.open(signal)?;
        let params = with_token(params, options.on_progress.map(|_| waiting.id));
        let request = Message::Request { id: waiting.id.into(), method: method.to_owned(), params };
        let result = self
            .send(method, request, &waiting, options)
            .and_then(|()| self.wait(method, &replies, options, signal));
        let is_unanswered = result
            .as_ref()
            .is_err_and(|it| matches!(it.kind(), ErrorKind::Aborted | ErrorKind::Limit));
        // A transport that fails because of the abort settles the request too: only an answer makes it no longer open.
        let is_open = || {
            if signal.is_aborted() {
                !replies.try_iter().any(|reply| matches!(reply, Reply::Done(_)))
            } else {
                waiting.is_open()
            }
        };
        if is_unanswered && method != "initialize" && is_open() {
            let reason =
                if signal.is_aborted() { "the caller aborted it" } else { "it took too long" };
            let params = json!({"requestId": waiting.id, "reason": reason});
            self.send_aside(Message::notification("notifications/cancelled", Some(params)));
        }
        // An abort goes before whatever it led to.
        if signal.is_aborted() && result.is_err() { Err(Error::aborted()) } else { result }
    }

    /// Hands a request over to the transport, which may have to wait until the server reads.
    fn send(
        &self,
        method: &str,
        request: Message,
        waiting: &Waiting<'_>,
        options: &CallOptions<'_>,
    ) -> Result<()> {
        let limits =
            [options.timeout.or(self.options.timeout), options.max_time.or(self.options.max_time)];
        let limit = limits.into_iter().flatten().min();
        let is_late = Arc::new(AtomicBool::new(false));
        let alarm = limit.and_then(timer::after).map(|deadline| {
            let (settled, is_late) = (waiting.settled.clone(), is_late.clone());
            timer::at(deadline, move || {
                is_late.store(true, Ordering::Release);
                settled.abort();
            })
        });
        let sent = self.transport.send(request, &waiting.settled.signal());
        drop(alarm);
        if is_late.load(Ordering::Acquire) {
            return Err(too_late(method, limit.unwrap_or_default()));
        }
        sent
    }

    fn open(&self, signal: &AbortSignal) -> Result<(Waiting<'_>, Receiver<Reply>)> {
        let (sender, replies) = unbounded();
        let mut requests = self.requests.lock();
        if let Some(why) = &requests.gone {
            return Err(lost(why.clone()));
        }
        requests.last += 1;
        let id = requests.last;
        requests.open.insert(id, sender);
        drop(requests);
        Ok((Waiting { core: self, id, settled: AbortController::child_of(signal) }, replies))
    }

    fn wait(
        &self,
        method: &str,
        replies: &Receiver<Reply>,
        options: &CallOptions<'_>,
        signal: &AbortSignal,
    ) -> Result<Value> {
        let timeout = options.timeout.or(self.options.timeout);
        let whole = options.max_time.or(self.options.max_time);
        let end = whole.and_then(timer::after);
        loop {
            let quiet = timeout.and_then(timer::after);
            let deadline = match (quiet, end) {
                (Some(quiet), Some(end)) => Some(quiet.min(end)),
                (quiet, end) => quiet.or(end),
            };
            let alarm = deadline.map_or_else(never, crossbeam_channel::at);
            let reply = select! {
                recv(replies) -> reply => reply,
                recv(signal.channel()) -> _ => return Err(Error::aborted()),
                recv(alarm) -> _ => {
                    let is_whole = end.is_some_and(|end| Instant::now() >= end);
                    let limit = if is_whole { whole } else { timeout };
                    return Err(too_late(method, limit.unwrap_or_default()));
                }
            };
            match reply {
                Ok(Reply::Progress(progress)) => {
                    if let Some(listener) = options.on_progress {
                        listener(&progress);
                    }
                }
                Ok(Reply::Done(outcome)) => return outcome.map_err(|error| refused(method, error)),
                Ok(Reply::Failed(error)) => return Err(error),
                Err(_) => return Err(lost("the MCP connection is gone".to_owned())),
            }
        }
    }

    /// Sends a message that nobody waits for, on the thread for that.
    pub(super) fn send_aside(&self, message: Message) {
        if self.post.try_send(message).is_err() {
            tracing::debug!(client = self.options.name, "a message to an MCP server was dropped");
        }
    }

    pub(super) fn refuse_closed(&self) -> Result<()> {
        self.requests.lock().gone.clone().map_or(Ok(()), |why| Err(lost(why)))
    }

    /// Ends everything that waits for this connection; tells whether it was open until now.
    pub(super) fn shut(&self, why: &str) -> bool {
        let open = {
            let mut requests = self.requests.lock();
            if requests.gone.is_some() {
                return false;
            }
            requests.gone = Some(why.to_owned());
            std::mem::take(&mut requests.open)
        };
        for reply in open.into_values() {
            let _ = reply.send(Reply::Failed(lost(why.to_owned())));
        }
        self.closed.abort();
        self.serving.abort_all();
        self.tell(Notice::Closed { text: why.to_owned() });
        true
    }

    /// Closes the transport on a thread of its own: it may take seconds.
    pub(super) fn close_aside(self: &Arc<Core>) {
        let core = self.clone();
        let name = format!("mcp-close-{}", self.options.name);
        if thread::spawn(&name, move || core.transport.close()).is_err() {
            self.transport.close();
        }
    }

    fn tell(&self, notice: Notice) {
        if let Some(notices) = &self.notices {
            notices.tell(notice);
        }
    }

    fn reply(&self, id: u64, reply: Reply) -> bool {
        let mut requests = self.requests.lock();
        let sender = match reply {
            Reply::Progress(_) => {
                requests.open.get(&id).filter(|sender| sender.len() < UNHEARD).cloned()
            }
            Reply::Done(_) | Reply::Failed(_) => requests.open.remove(&id),
        };
        drop(requests);
        sender.is_some_and(|sender| sender.send(reply).is_ok())
    }

    fn notified(&self, method: String, params: Option<Value>) {
        let field = |name: &str| params.as_ref().and_then(|params| params.get(name));
        match method.as_str() {
            "notifications/cancelled" => {
                let id = field("requestId").cloned().and_then(Id::from_value);
                if let Some(id) = id {
                    self.serving.abort(&id);
                }
            }
            "notifications/progress" => {
                let number = |name: &str| field(name).and_then(Value::as_f64);
                let token = field("progressToken").cloned().and_then(Id::from_value);
                if let Some(id) = token.and_then(|token| token.as_u64()) {
                    let message = field("message").and_then(Value::as_str).map(str::to_owned);
                    let progress = number("progress").unwrap_or_default();
                    let progress = Progress { progress, total: number("total"), message };
                    self.reply(id, Reply::Progress(progress));
                }
            }
            _ => self.tell(Notice::from_message(method, params)),
        }
    }
}

impl Receive for Core {
    fn message(self: Arc<Core>, message: Message) {
        match message {
            Message::Response { id: Some(id), outcome } => {
                let known = id.as_u64().is_some_and(|id| self.reply(id, Reply::Done(outcome)));
                // An answer that comes too late is as good as none: nobody was promised anything.
                if !known {
                    tracing::debug!(%id, "an answer to no open request");
                }
            }
            Message::Response { id: None, outcome } => {
                let said = outcome.err().map(|error| error.message).unwrap_or_default();
                let text = format!("the MCP server could not read a message: {said}");
                self.tell(Notice::Fault { text });
            }
            Message::Notification { method, params } => self.notified(method, params),
            Message::Request { id, method, params } => self.serve(id, method, params),
        }
    }

    fn failed(&self, id: u64, error: Error) {
        self.reply(id, Reply::Failed(error));
    }

    fn fault(&self, text: String) {
        tracing::warn!(client = self.options.name, text, "fault of an MCP server");
        self.tell(Notice::Fault { text });
    }

    fn closed(&self, why: Error) {
        self.shut(why.message());
    }
}

impl Waiting<'_> {
    fn is_open(&self) -> bool {
        self.core.requests.lock().open.contains_key(&self.id)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.core.requests.lock().open.remove(&self.id);
        self.settled.abort();
    }
}

/// Starts the thread that sends what nobody waits for; it ends when the client is dropped.
fn start_post(
    name: &str,
    transport: &Arc<dyn Transport>,
    letters: Receiver<Message>,
) -> Result<()> {
    let transport: Weak<dyn Transport> = Arc::downgrade(transport);
    let run = move || {
        for letter in letters {
            let Some(transport) = transport.upgrade() else { return };
            let limit = AbortController::new();
            if let Some(deadline) = timer::after(COURTESY) {
                limit.abort_at(deadline);
            }
            if let Err(error) = transport.send(letter, &limit.signal()) {
                tracing::debug!(%error, "a message to an MCP server was not sent");
            }
        }
    };
    thread::spawn(&format!("mcp-post-{name}"), run).map(drop).map_err(|error| {
        Error::new(ErrorKind::Configuration, format!("no thread for an MCP client: {error}"))
    })
}

/// Adds the token by which progress is told.
fn with_token(params: Option<Value>, token: Option<u64>) -> Option<Value> {
    let Some(token) = token else { return params };
    let mut params = match params {
        Some(Value::Object(params)) => params,
        None => Map::new(),
        other => return other,
    };
    match params.entry("_meta").or_insert_with(|| json!({})) {
        Value::Object(meta) => drop(meta.insert("progressToken".to_owned(), json!(token))),
        other => *other = json!({"progressToken": token}),
    }
    Some(Value::Object(params))
}

fn lost(why: String) -> Error {
    let mut failure = Failure::new(ErrorKind::Network);
    failure.code = Some(CONNECTION_LOST.to_owned());
    Error::from_failure(failure, why)
}

fn too_late(method: &str, limit: Duration) -> Error {
    let text = format!("the MCP server did not answer `{method}` within {} s", limit.as_secs_f64());
    Error::new(ErrorKind::Limit, text)
}

fn refused(method: &str, error: RpcError) -> Error {
    let mut failure = Failure::new(ErrorKind::InvalidRequest);
    failure.code = Some(error.code.to_string());
    let text =
        format!("the MCP server refused `{method}`: {} (code {})", error.message, error.code);
    Error::from_failure(failure, text).with_source(ServerError(error))
}

/// What the server said, for whoever needs its data.
#[derive(Debug)]
struct ServerError(RpcError);

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.0.message, self.0.code)
    }
}

impl std::error::Error for ServerError {}

impl fmt::Debug for CallOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("timeout", &self.timeout)
            .field("max_time", &self.max_time)
            .field("on_progress", &self.on_progress.is_some())
            .finish()
    }
}
