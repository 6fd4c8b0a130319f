//! Gives out credentials, and renews tokens in time.

use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, bounded, select};
use parking_lot::Mutex;

use crate::{
    abort::{AbortController, AbortSignal},
    auth::{Credential, CredentialStore, Token},
    clock::{Clock, SystemClock},
    error::{Error, ErrorKind, Failure, Result},
    thread,
};

/// A token is renewed when it has no more than this left.
const MARGIN: Duration = Duration::from_mins(5);

/// How long renewing may take.
const LIMIT: Duration = Duration::from_secs(15);

/// Asks for a new token. It runs on a thread of its own, and should return soon after the signal fires, which is after 15
/// seconds.
pub type RenewFn = Arc<dyn Fn(&Token, &AbortSignal) -> Result<Token> + Send + Sync>;

/// Gives out what is in a store, with tokens renewed before they expire.
///
/// Renewing happens once, however many threads wait for it, and while the store lets nobody else change it, since the old
/// refresh token is often worth nothing afterwards. An abort ends the wait of the one who waits, not the renewal. Clones
/// share both.
#[derive(Clone)]
pub struct Credentials {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn CredentialStore>,
    clock: Arc<dyn Clock>,
    renewers: Mutex<Vec<(String, RenewFn)>>,
    flights: Mutex<Vec<(String, Flight)>>,
}

/// A renewal that is under way.
#[derive(Clone)]
struct Flight {
    outcome: Arc<OnceLock<Outcome>>,
    /// Disconnects when it is over.
    over: Receiver<Infallible>,
}

type Outcome = Result<Option<Credential>, (Failure, String)>;

impl Credentials {
    /// Gives out what is in `store`.
    pub fn new(store: impl CredentialStore + 'static) -> Credentials {
        Credentials::with_clock(store, Arc::new(SystemClock))
    }

    /// The same with a clock that says which tokens have expired.
    pub fn with_clock(store: impl CredentialStore + 'static, clock: Arc<dyn Clock>) -> Credentials {
        let (renewers, flights) = (Mutex::default(), Mutex::default());
        Credentials {
            shared: Arc::new(Shared { store: Arc::new(store), clock, renewers, flights }),
        }
    }

    /// Sets how the tokens of a name are renewed.
    pub fn renew_with(
        &self,
        name: impl Into<String>,
        renew: impl Fn(&Token, &AbortSignal) -> Result<Token> + Send + Sync + 'static,
    ) {
        let (name, renew): (_, RenewFn) = (name.into(), Arc::new(renew));
        let mut renewers = self.shared.renewers.lock();
        renewers.retain(|(it, _)| *it != name);
        renewers.push((name, renew));
    }

    /// The store underneath.
    pub fn store(&self) -> &dyn CredentialStore {
        &*self.shared.store
    }

    /// The credential of a name. A token that is about to expire is renewed first, which may block until the signal fires.
    ///
    /// If renewing fails, a token that has some time left is given out all the same; after that it is an error, mostly of
    /// the kind [`ErrorKind::Auth`]: log in again.
    pub fn get(&self, name: &str, signal: &AbortSignal) -> Result<Option<Credential>> {
        let Some(credential) = self.shared.store.read(name)? else { return Ok(None) };
        let Credential::Token(token) = &credential else { return Ok(Some(credential)) };
        let now = self.shared.clock.now();
        if !token.expires_within(MARGIN, now) {
            return Ok(Some(credential));
        }
        match self.renewed(name, signal) {
            Err(error) if error.kind() != ErrorKind::Aborted => {
                if token.expires_within(Duration::ZERO, now) {
                    return Err(error);
                }
                tracing::warn!(name, %error, "a token could not be renewed, and is used as long as it lasts");
                Ok(Some(credential))
            }
            outcome => outcome,
        }
    }

    /// Waits for the renewal that is under way, or starts one.
    fn renewed(&self, name: &str, signal: &AbortSignal) -> Result<Option<Credential>> {
        let flight = self.flight(name)?;
        select! {
            recv(flight.over) -> _ => (),
            recv(signal.channel()) -> _ => return Err(Error::aborted()),
        }
        match flight.outcome.get() {
            Some(Ok(credential)) => Ok(credential.clone()),
            Some(Err((failure, message))) => {
                Err(Error::from_failure(failure.clone(), message.clone()))
            }
            None => Err(Error::new(
                ErrorKind::Callback,
                format!("the token of `{name}` was not renewed"),
            )),
        }
    }

    fn flight(&self, name: &str) -> Result<Flight> {
        let mut flights = self.shared.flights.lock();
        if let Some((_, flight)) = flights.iter().find(|(it, _)| it == name) {
            return Ok(flight.clone());
        }
        let (sender, over) = bounded(0);
        let flight = Flight { outcome: Arc::default(), over };
        let (shared, name, outcome) =
            (self.shared.clone(), name.to_owned(), flight.outcome.clone());
        flights.push((name.clone(), flight.clone()));
        let started = thread::spawn(&format!("auth-{name}"), {
            let name = name.clone();
            move || {
                let result = shared.renew(&name);
                let _ = outcome.set(result.map_err(|it| (it.failure().clone(), it.to_string())));
                shared.flights.lock().retain(|(it, _)| *it != name);
                drop(sender);
            }
        });
        started.map(|_| flight).map_err(|error| {
            flights.retain(|(it, _)| *it != name);
            let message = format!("no thread to renew the token of `{name}`: {error}");
            Error::new(ErrorKind::Callback, message)
        })
    }
}

impl Shared {
    /// Renews the token under the lock of the store, unless someone else has done it meanwhile.
    fn renew(&self, name: &str) -> Result<Option<Credential>> {
        self.store.modify(name, &mut |before| match before {
            Some(Credential::Token(token)) if token.expires_within(MARGIN, self.clock.now()) => {
                Ok(Some(Credential::Token(self.ask(name, &token)?)))
            }
            other => Ok(other),
        })
    }

    fn ask(&self, name: &str, token: &Token) -> Result<Token> {
        let renewers = self.renewers.lock();
        let renew = renewers.iter().find(|(it, _)| it == name).map(|(_, renew)| renew.clone());
        drop(renewers);
        let renew = renew.ok_or_else(|| {
            let message = format!(
                "the token of `{name}` has expired and nobody renews it: log in again, or set Credentials::renew_with"
            );
            Error::new(ErrorKind::Auth, message)
        })?;
        let controller = AbortController::new();
        controller.abort_at(Instant::now() + LIMIT);
        let signal = controller.signal();
        let token = thread::catch(|| renew(token, &signal)).map_err(|panic| {
            let message = format!("renewing the token of `{name}` panicked: {panic}");
            Error::new(ErrorKind::Callback, message)
        })?;
        token.map_err(|error| match error.kind() {
            ErrorKind::Aborted => {
                let message = format!("renewing the token of `{name}` took longer than {LIMIT:?}");
                Error::new(ErrorKind::Network, message)
            }
            _ => error,
        })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renewers = self.shared.renewers.lock();
        let names: Vec<_> = renewers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Credentials").field("renewed", &names).finish_non_exhaustive()
    }
}
