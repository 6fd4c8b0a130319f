//! The threads that run the calls of one script, so that neither its own thread nor the pool's are held by them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde_json::Value;

use crate::{
    abort::AbortSignal,
    codemode::{
        execution::CallStatus,
        sandbox::{Letter, ScriptCall, ScriptHost, Shared},
    },
    thread::{self, lineage},
};

/// Starts a thread when a call finds none free, up to the limit. The threads end when the crew is dropped.
pub(super) struct Crew {
    calls: Sender<(ScriptCall, usize)>,
    threads: usize,
    hand: Arc<Hand>,
    waiting: Receiver<(ScriptCall, usize)>,
}

/// What came of a call: a text for the script to parse, to take or to catch.
pub(super) struct Settled {
    pub(super) number: usize,
    pub(super) how: How,
    pub(super) payload: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Json,
    Text,
    Error,
}

/// What each thread needs.
struct Hand {
    host: Arc<dyn ScriptHost>,
    shared: Arc<Shared>,
    letters: Sender<Letter>,
    signal: AbortSignal,
    line: lineage::Line,
    /// Calls that wait or run.
    open: AtomicUsize,
}

impl Crew {
    /// Must be made on the thread that waits for the script: its line of agents is that of the calls.
    pub(super) fn new(
        host: Arc<dyn ScriptHost>,
        shared: &Arc<Shared>,
        letters: Sender<Letter>,
        signal: AbortSignal,
    ) -> Crew {
        let (calls, waiting) = unbounded();
        let (shared, line, open) = (shared.clone(), lineage::current(), AtomicUsize::new(0));
        let hand = Arc::new(Hand { host, shared, letters, signal, line, open });
        Crew { calls, threads: 0, hand, waiting }
    }

    /// Starts a call whose arguments have so many bytes, which are counted as outside the engine.
    pub(super) fn start(&mut self, call: ScriptCall, bytes: usize) {
        let open = self.hand.open.fetch_add(1, Ordering::AcqRel) + 1;
        if open > self.threads && self.threads < self.hand.shared.limits.calls_at_once.max(1) {
            let (hand, waiting) = (self.hand.clone(), self.waiting.clone());
            let name = format!("codemode-call-{}", self.threads);
            match thread::spawn(&name, move || hand.work(&waiting)) {
                Ok(_) => self.threads += 1,
                // Threads that are there already take the call in their turn.
                Err(_) if self.threads > 0 => (),
                Err(error) => {
                    self.hand.open.fetch_sub(1, Ordering::AcqRel);
                    let text = format!("no thread for the call could be started: {error}");
                    self.hand.shared.take_back(bytes);
                    self.hand.deliver(call.number, How::Error, text);
                    return;
                }
            }
        }
        // The crew holds a receiver, so the channel is open.
        let _ = self.calls.send((call, bytes));
    }
}

impl Hand {
    fn work(&self, waiting: &Receiver<(ScriptCall, usize)>) {
        let _entered = lineage::enter(self.line.clone());
        for (call, bytes) in waiting {
            let (how, payload) = if self.signal.is_aborted() {
                (How::Error, "the script has ended".to_owned())
            } else {
                self.run(&call)
            };
            self.open.fetch_sub(1, Ordering::AcqRel);
            let number = call.number;
            drop(call);
            self.shared.take_back(bytes);
            self.deliver(number, how, payload);
        }
    }

    fn run(&self, call: &ScriptCall) -> (How, String) {
        // The text of an error is foreign code too.
        let called =
            thread::catch(|| self.host.call(call, &self.signal).map_err(|error| error.to_string()));
        let most = self.shared.limits.result_bytes;
        let (how, payload) = match called {
            Ok(Ok(Value::String(text))) => (How::Text, text),
            Ok(Ok(value)) => (How::Json, value.to_string()),
            Ok(Err(error)) => return (How::Error, error),
            Err(panic) => return (How::Error, format!("the tool panicked: {panic}")),
        };
        if payload.len() > most {
            let text = format!(
                "the result of {} is too large for a script: {} bytes, at most {most}",
                call.tool,
                payload.len()
            );
            return (How::Error, text);
        }
        (how, payload)
    }

    /// Gives the result to the script, or why it does not get it: a script that is busy does not take results, and what
    /// waits for it is bounded as its own memory is.
    fn deliver(&self, number: usize, mut how: How, mut payload: String) {
        if !self.shared.put_outside(payload.len()) {
            let most = self.shared.limits.memory;
            payload = format!(
                "the result does not fit: results and arguments of open calls have more than {most} bytes together"
            );
            how = How::Error;
            // A few words for each call, of which there is a limited number.
            self.shared.put_outside_anyway(payload.len());
        }
        let status = if how == How::Error { CallStatus::Error } else { CallStatus::Ok };
        self.shared.ledger.end_call(number, status);
        let _ = self.letters.send(Letter::Settled(Settled { number, how, payload }));
    }
}
