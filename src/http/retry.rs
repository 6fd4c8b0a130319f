//! When a request is sent again, and after how long: before an answer has begun, never after.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    abort::AbortSignal,
    clock::Clock,
    error::{Error, Result},
    http::{
        HttpClient,
        failure::seconds,
        request::HttpRequest,
        response::{HttpResponse, find},
    },
};

/// The first pause and the longest one of a server that names none.
const FIRST_PAUSE: f64 = 0.5;
const LONGEST_PAUSE: f64 = 8.0;

/// How often and how patiently a request is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many times a request is sent again. Default: 2.
    pub max_retries: u32,
    /// The longest pause that a server may ask for; a longer one fails at once. Zero: no limit. Default: 60 seconds.
    pub max_retry_delay: Duration,
}

/// Finds a pause in the body of a failed answer.
pub type PauseHint = dyn Fn(&str) -> Option<Duration>;

/// What the retries of one request go by.
#[derive(Clone, Copy)]
pub struct Retries<'a> {
    /// How often and how patiently.
    pub policy: &'a RetryPolicy,
    /// The time and the chance.
    pub clock: &'a dyn Clock,
    /// Finds the pause that a server asks for in the body of a failed answer, where the headers name none.
    pub hint: Option<&'a PauseHint>,
}

/// A server's wish for a longer pause than the policy allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The pause that the server asks for.
    pub asked: Duration,
    /// The longest pause that is allowed.
    pub limit: Duration,
}

/// What to do after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Take the answer or the error as it is.
    Keep,
    /// Send the request again after this pause.
    Again(Duration),
    /// Take the answer as it is, since the server asks for too long a pause.
    Refuse(Refusal),
}

/// A failed attempt, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// How many attempts were made before this one.
    pub before: u32,
    /// The status; none if no answer came.
    pub status: Option<u16>,
    /// The headers of the answer.
    pub headers: &'a [(String, String)],
    /// The pause that the body asks for.
    pub hint: Option<Duration>,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { max_retries: 2, max_retry_delay: Duration::from_mins(1) }
    }
}

impl RetryPolicy {
    /// Decides what follows on `attempt`. `jitter` is a number from 0 up to 1.
    pub fn decide(&self, attempt: &Attempt<'_>, now: SystemTime, jitter: f64) -> Decision {
        if !worth_retrying(attempt) || attempt.before >= self.max_retries {
            return Decision::Keep;
        }
        let Some(asked) = retry_after(attempt.headers, now).or(attempt.hint) else {
            return Decision::Again(pause(attempt.before, jitter));
        };
        if !self.max_retry_delay.is_zero() && asked > self.max_retry_delay {
            return Decision::Refuse(Refusal { asked, limit: self.max_retry_delay });
        }
        Decision::Again(asked)
    }
}

impl HttpClient {
    /// Sends a request, and again as the policy says. The last answer is returned whatever its status; the body of a
    /// failed one (400 and above) is in memory.
    pub fn send_with_retries(
        &self,
        request: &HttpRequest,
        retries: &Retries<'_>,
        signal: &AbortSignal,
    ) -> Result<HttpResponse> {
        let mut before = 0;
        loop {
            let mut outcome = self.send(request, signal);
            let decision = match &mut outcome {
                Ok(response) if response.status() < 400 => Decision::Keep,
                Ok(response) => retries.after_answer(response, before)?,
                Err(error) => retries.after_error(error, before),
            };
            match decision {
                Decision::Keep => return outcome,
                Decision::Refuse(refusal) => {
                    return outcome.map(|mut response| {
                        response.refusal = Some(refusal);
                        response
                    });
                }
                Decision::Again(pause) => {
                    tracing::debug!(attempt = before + 1, ?pause, "the request is sent again");
                    drop(outcome);
                    if retries.clock.sleep(pause, signal) || signal.is_aborted() {
                        return Err(Error::aborted());
                    }
                    before += 1;
                }
            }
        }
    }
}

impl Retries<'_> {
    fn after_answer(&self, response: &mut HttpResponse, before: u32) -> Result<Decision> {
        response.keep_error_body()?;
        let hint = self.hint.and_then(|hint| hint(&response.kept_text()));
        let attempt =
            Attempt { before, status: Some(response.status()), headers: response.headers(), hint };
        Ok(self.decide(&attempt))
    }

    fn after_error(&self, error: &Error, before: u32) -> Decision {
        if !error.is_retryable() {
            return Decision::Keep;
        }
        self.decide(&Attempt { before, status: None, headers: &[], hint: None })
    }

    fn decide(&self, attempt: &Attempt<'_>) -> Decision {
        self.policy.decide(attempt, self.clock.now(), self.clock.jitter())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, limit) = (seconds(self.asked), seconds(self.limit));
        write!(f, "the server asks to wait {asked}, more than the {limit} that are allowed")
    }
}

impl fmt::Debug for Retries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retries")
            .field("policy", self.policy)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Returns how long the headers of an answer ask to wait.
pub fn retry_after(headers: &[(String, String)], now: SystemTime) -> Option<Duration> {
    let number = |value: &str| Duration::try_from_secs_f64(value.trim().parse().ok()?).ok();
    let millis = find(headers, "retry-after-ms").and_then(number).map(|it| it / 1000);
    millis.or_else(|| {
        let value = find(headers, "retry-after")?;
        number(value).or_else(|| {
            let date = read_date(value)?;
            Some(date.duration_since(now).unwrap_or(Duration::ZERO))
        })
    })
}

fn worth_retrying(attempt: &Attempt<'_>) -> bool {
    match find(attempt.headers, "x-should-retry") {
        Some("true") => true,
        Some("false") => false,
        _ => attempt.status.is_none_or(|it| matches!(it, 408 | 409 | 429) || it >= 500),
    }
}

/// Returns the pause before a retry that no server has a wish about: doubled each time, shortened by up to a quarter.
fn pause(before: u32, jitter: f64) -> Duration {
    let doubled = FIRST_PAUSE * 2_f64.powi(i32::try_from(before).unwrap_or(i32::MAX));
    Duration::from_secs_f64(doubled.min(LONGEST_PAUSE) * (1.0 - 0.25 * jitter.clamp(0.0, 1.0)))
}

/// Reads a date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn read_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(',')?.1.split_whitespace();
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|it| it.eq_ignore_ascii_case(month))? as u64;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = words.next()?.splitn(3, ':').map(|it| it.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if words.next() != Some("GMT") || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Counted in years that begin in March, so that the day that may be missing is the last one.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    /// The same count for the first of January 1970.
    const EPOCH: u64 = 719_469;
    let seconds = ((days.checked_sub(EPOCH)? * 24 + hour) * 60 + minute) * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}
