//! When a run asks the model again after a response that failed.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    clock::{Clock, SystemClock},
    error::Failure,
    message::AssistantMessage,
};

/// What a shortened pause is shortened by at most: a quarter, so that many agents do not come back at the same time.
const JITTER: f64 = 0.25;

/// How often and how patiently a run asks again when a response failed before anything of it was told.
///
/// This is on top of what the providers do for a single request
/// ([`StreamOptions::max_retries`](crate::StreamOptions::max_retries)): it also covers answers that begin well and fail
/// before their first content, and listeners see it ([`AgentEvent::RetryScheduled`](crate::AgentEvent::RetryScheduled)). A
/// response of which something was told is never asked for again, nor is one that would fail the same way
/// ([`AssistantMessage::is_retryable`]). The hooks of a request run anew for each attempt. All of it happens on the thread of
/// the run.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use steerage::{AgentOptions, RetryOptions};
///
/// let retry = RetryOptions {
///     max_retries: 3,
///     max_asked_delay: Duration::from_secs(20),
///     ..RetryOptions::default()
/// };
/// let options = AgentOptions { retry, ..AgentOptions::default() };
/// ```
#[derive(Clone)]
pub struct RetryOptions {
    /// How many times a response is asked for again. Default: 0.
    pub max_retries: u32,
    /// The pause before the second attempt where the server names none; it doubles with each further one, and up to a quarter
    /// of it is taken off by chance. Default: 2 seconds.
    pub first_delay: Duration,
    /// The longest pause where the server names none. Default: 60 seconds.
    pub max_delay: Duration,
    /// The longest pause that a server may ask for; if it asks for a longer one the response fails at once, and its error
    /// names both. Zero: no limit. Default: 60 seconds.
    pub max_asked_delay: Duration,
    /// The clock that pauses go by, and their chance. An abort ends a pause at once. Default: that of the system.
    pub clock: Arc<dyn Clock>,
}

/// What follows on a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It stands.
    Keep,
    /// The model is asked again after this pause.
    Again(Duration),
    /// It stands, as the server asks for too long a pause.
    TooLong(Duration),
}

impl RetryOptions {
    /// Decides about a response of which nothing was told, after so many attempts before it.
    pub(super) fn decide(&self, response: &AssistantMessage, before: u32) -> Verdict {
        if before >= self.max_retries || !response.content.is_empty() || !response.is_retryable() {
            return Verdict::Keep;
        }
        let asked = response.failure.as_ref().and_then(Failure::retry_after);
        match asked {
            Some(asked) if !self.max_asked_delay.is_zero() && asked > self.max_asked_delay => {
                Verdict::TooLong(asked)
            }
            Some(asked) => Verdict::Again(asked),
            None => {
                let doubled = self.first_delay.saturating_mul(2_u32.saturating_pow(before));
                let share = 1.0 - JITTER * self.clock.jitter().clamp(0.0, 1.0);
                Verdict::Again(doubled.min(self.max_delay).mul_f64(share))
            }
        }
    }

    /// The text of an error whose server asks for too long a pause.
    pub(super) fn too_long(&self, asked: Duration, error: &str) -> String {
        const TOO_LONG: &str = "the server asks to wait";
        if error.starts_with(TOO_LONG) {
            return error.to_owned();
        }
        let [asked, limit] = [asked, self.max_asked_delay].map(|it| it.as_secs_f64());
        format!("{TOO_LONG} {asked} s, more than the {limit} s that are allowed: {error}")
    }
}

impl Default for RetryOptions {
    fn default() -> RetryOptions {
        RetryOptions {
            max_retries: 0,
            first_delay: Duration::from_secs(2),
            max_delay: Duration::from_mins(1),
            max_asked_delay: Duration::from_mins(1),
            clock: Arc::new(SystemClock),
        }
    }
}

impl fmt::Debug for RetryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryOptions")
            .field("max_retries", &self.max_retries)
            .field("first_delay", &self.first_delay)
            .field("max_delay", &self.max_delay)
            .field("max_asked_delay", &self.max_asked_delay)
            .finish_non_exhaustive()
    }
}
