//! Questions about how a response ended.

use crate::{
    error::{ErrorKind, wording},
    message::{AssistantMessage, StopReason},
};

impl AssistantMessage {
    /// Whether the transcript was too long for the model: the vendor said so, or took more than fits without a word, or
    /// had no room left to answer. `context_window` is the model's; 0 means unknown.
    pub fn is_context_overflow(&self, context_window: u64) -> bool {
        let prompt = self.usage.input.saturating_add(self.usage.cache_read);
        match self.stop_reason {
            StopReason::Error => match &self.failure {
                Some(failure) => failure.is_overflow(),
                None => self.error_message.as_deref().is_some_and(wording::says_overflow),
            },
            StopReason::Stop => context_window > 0 && prompt > context_window,
            StopReason::Length => {
                let nearly_full = context_window.saturating_mul(99).div_ceil(100);
                context_window > 0 && self.usage.output == 0 && prompt >= nearly_full
            }
            _ => false,
        }
    }

    /// Whether the answer was cut before it reached the length that was meant, so that a shorter transcript would help.
    pub fn is_recoverable_length(&self, desired_max_output: u64) -> bool {
        self.stop_reason == StopReason::Length && self.usage.output < desired_max_output
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        if self.stop_reason != StopReason::Error {
            return false;
        }
        match (&self.failure, &self.error_message) {
            (Some(failure), _) => failure.retryable,
            (None, Some(text)) => {
                wording::failure_in(text).is_some_and(|failure| failure.retryable)
            }
            (None, None) => false,
        }
    }

    /// What a caller can do about a failed response; `None` if it did not fail or nothing is known.
    pub fn failure_kind(&self) -> Option<ErrorKind> {
        match self.stop_reason {
            StopReason::Aborted => Some(ErrorKind::Aborted),
            StopReason::Error => match (&self.failure, &self.error_message) {
                (Some(failure), _) => Some(failure.kind),
                (None, text) => wording::failure_in(text.as_deref()?).map(|failure| failure.kind),
            },
            _ => None,
        }
    }
}
