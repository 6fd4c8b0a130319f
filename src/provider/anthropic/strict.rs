//! Strict tools that a server finds too much, and what is done about it.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;

use crate::{
    error::Error,
    message::{Diagnostic, now_ms},
    stream::StreamRequest,
};

/// How many sessions are remembered.
const CAPACITY: usize = 10_000;

/// How much of what tools ask for in strictness a request gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strict {
    /// All that the model and the schemas allow.
    Preferred,
    /// Only what is required.
    RequiredOnly,
}

/// The sessions whose tools were too much for strict mode, so that their later requests need no second try.
#[derive(Debug, Default)]
pub(super) struct StrictMemory {
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    known: HashSet<String>,
    /// The oldest first.
    order: VecDeque<String>,
}

impl StrictMemory {
    /// What a request gets.
    pub(super) fn strict_for(&self, request: &StreamRequest) -> Strict {
        let session = session(request);
        let is_known = session.is_some_and(|session| self.sessions.lock().known.contains(&session));
        if is_known { Strict::RequiredOnly } else { Strict::Preferred }
    }

    pub(super) fn remember(&self, request: &StreamRequest) {
        let Some(session) = session(request) else { return };
        let mut sessions = self.sessions.lock();
        if !sessions.known.insert(session.clone()) {
            return;
        }
        sessions.order.push_back(session);
        if sessions.order.len() > CAPACITY
            && let Some(oldest) = sessions.order.pop_front()
        {
            sessions.known.remove(&oldest);
        }
    }
}

/// The session with its model, since models differ in what is too much for them.
fn session(request: &StreamRequest) -> Option<String> {
    let session = request.options.session_id.as_ref()?;
    Some(format!("{session}\n{}", request.model.id))
}

/// Whether the server refused a request because its strict tools are too many or too complex.
///
/// It has no code for that, only words: the compiled grammar is too large, the schemas are too complex, there are too
/// many strict tools, optional parameters or unions.
pub(super) fn is_too_much(error: &Error) -> bool {
    let failure = error.failure();
    let text = error.message().to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    failure.status == Some(400)
        && failure.code.as_deref() == Some("invalid_request_error")
        && says(&["grammar", "strict", "schema"])
        && says(&["too large", "too many", "too complex"])
}

/// The note that a response carries which came of a second try.
pub(super) fn note(error: &Error) -> Diagnostic {
    Diagnostic {
        kind: "anthropic_strict_tools_fallback".to_owned(),
        timestamp: now_ms(),
        error: Some(serde_json::json!({ "message": error.message() })),
        details: None,
    }
}
