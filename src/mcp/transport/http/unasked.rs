//! The stream for what a server says unasked.

use std::{sync::Arc, time::Duration};

use crossbeam_channel::{Sender, bounded, select};

use super::{
    Shared, failure,
    resume::{End, Reading},
};
use crate::{
    abort::{AbortController, AbortSignal},
    thread,
};

/// Servers send comments to keep a stream open; one that is silent for so long has gone without a word.
const QUIET: Duration = Duration::from_mins(10);

/// How long the first request waits for the stream. A server that asks something in the middle of a call asks there, and
/// what it says before the stream is open is lost.
const HEAD_START: Duration = Duration::from_secs(1);

impl Shared {
    /// Opens the stream on a thread of its own, which ends with the session, and waits a moment until it is open.
    pub(super) fn open_stream(self: &Arc<Shared>, caller: &AbortSignal) {
        let ending = AbortController::child_of(&self.closing.signal());
        let signal = ending.signal();
        let before = self.session.lock().stream.replace(ending);
        if let Some(before) = before {
            before.abort();
        }
        let shared = self.clone();
        let name = format!("mcp-stream-{}", self.number);
        let (opened, is_open) = bounded(1);
        let started = thread::spawn(&name, move || {
            if let Err(panic) = thread::catch(|| shared.listen(&signal, &opened)) {
                tracing::warn!(panic, "the stream of an MCP server failed inside");
            }
        });
        if let (Err(error), Some(inbox)) = (started, self.inbox()) {
            inbox.fault(format!("no thread for the stream of an MCP server: {error}"));
        }
        select! {
            recv(is_open) -> _ => (),
            recv(caller.channel()) -> _ => (),
            default(HEAD_START) => (),
        }
    }

    fn listen(&self, signal: &AbortSignal, opened: &Sender<()>) {
        let mut reading = Reading::later();
        let mut tries = 0;
        loop {
            let stream = self.get(reading.last_id.as_deref(), signal);
            // Whether it is open or there is none: nobody need wait.
            let _ = opened.try_send(());
            let why = match stream {
                Ok(response) => {
                    reading.reopen(response);
                    let end = self.read(&mut reading, None, Some(QUIET));
                    if reading.is_alive {
                        tries = 0;
                    }
                    match end {
                        End::Broken(error) => error.to_string(),
                        End::Closed | End::Answered => "the server closed it".to_owned(),
                    }
                }
                // The server has no such stream, which it need not have.
                Err(error) if matches!(error.failure().status, Some(404 | 405)) => return,
                Err(error) if signal.is_aborted() || !failure::may_pass(&error) => {
                    if !signal.is_aborted() {
                        self.report(&error.to_string());
                    }
                    return;
                }
                Err(error) => error.to_string(),
            };
            if signal.is_aborted() {
                return;
            }
            if tries >= self.options.reconnect.most_tries {
                self.report(&why);
                return;
            }
            let pause = self.options.reconnect.pause(reading.retry, tries);
            tries += 1;
            if signal.wait_timeout(pause) {
                return;
            }
        }
    }

    fn report(&self, why: &str) {
        if let Some(inbox) = self.inbox() {
            inbox.fault(format!(
                "what the MCP server says unasked is not heard any more, its stream is gone: {why}"
            ));
        }
    }
}
