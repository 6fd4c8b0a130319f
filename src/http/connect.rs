//! Connections that an abort can end in every state: dialled on a thread of their own, lent to one request at a time.
//!
//! The transport interface of the client underneath is outside its promise of stability, hence the tight version pin;
//! only this folder uses it.

use std::{
    fmt, io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Weak},
    time::{Duration, Instant, SystemTime},
};

use crossbeam_channel::{Receiver, after, bounded, never, select};
use parking_lot::Mutex;
use ureq::{
    Error, Timeout,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{
            Buffers, ConnectionDetails, Connector, NextTimeout, ShutdownHandle, SocksConnector,
            TcpConnector, Transport, time,
        },
    },
};

use crate::{
    abort::{AbortHook, AbortSignal},
    http::ticket::Ticket,
    thread::{self, Home},
};

/// Finds the addresses of `host:port`; may block.
pub type Lookup = Arc<dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Asks the system.
pub(crate) fn system_lookup() -> Lookup {
    Arc::new(|host| Ok(host.to_socket_addrs()?.collect()))
}

/// Opens connections, directly or through a SOCKS proxy.
///
/// Name lookup and connect run on a thread of their own, which an abort leaves behind: neither can be interrupted.
pub(crate) struct Dial {
    pub(crate) lookup: Lookup,
}

/// Leaves name lookup to [`Dial`]: the client asks before it looks for a connection that is already there.
#[derive(Debug)]
pub(crate) struct Later;

/// Looks names up at once, on the thread that dials.
struct AtOnce(Lookup);

/// A connection that is lent to one request at a time.
struct Lent {
    inner: Box<dyn Transport>,
    socket: Weak<dyn ShutdownHandle>,
    lease: Option<Lease>,
    /// When the connection was taken back, by the time of day.
    parked: Option<SystemTime>,
    /// The process that opened it; one that was forked off has the same socket, but must leave it alone.
    home: Home,
}

/// Lets the abort of a request shut its connection down; dropping it takes the connection back.
struct Lease {
    ticket: Arc<Ticket>,
    /// Empty once the connection is taken back. The lock makes that final: an abort that fires at the same moment
    /// cannot reach the request that gets the connection next.
    socket: Arc<Mutex<Option<Weak<dyn ShutdownHandle>>>>,
    _hook: AbortHook,
}

/// Longer than the pool keeps a connection.
const LONGEST_PARKED: Duration = Duration::from_secs(90);

/// What the thread that dials reports.
type Dialled = Result<Box<dyn Transport>, Error>;

/// Where the thread that dials leaves its socket.
#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Socket(Weak<dyn ShutdownHandle>),
    /// Nobody waits any more.
    Abandoned,
}

impl<In: Transport> Connector<In> for Dial {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(transport) = chained {
            return Ok(Some(Box::new(transport)));
        }
        let ticket = Ticket::current();
        let slot = Arc::new(Mutex::new(Slot::Empty));
        let dialled = self.start(details, &slot)?;
        let signal = ticket.as_ref().map_or_else(AbortSignal::never, |it| it.signal.clone());
        match await_dial(&dialled, &signal, details.timeout) {
            Ok(inner) => {
                let Slot::Socket(socket) = std::mem::take(&mut *slot.lock()) else {
                    return Err(Error::ConnectionFailed);
                };
                let mut lent =
                    Lent { inner, socket, lease: None, parked: None, home: Home::here() };
                lent.lend(ticket);
                Ok(Some(Box::new(lent)))
            }
            Err(error) => {
                if let Slot::Socket(socket) = std::mem::replace(&mut *slot.lock(), Slot::Abandoned)
                {
                    shut_down(&socket);
                }
                Err(error)
            }
        }
    }
}

impl Dial {
    fn start(
        &self,
        details: &ConnectionDetails<'_>,
        slot: &Arc<Mutex<Slot>>,
    ) -> Result<Receiver<Dialled>, Error> {
        let (sender, receiver) = bounded(1);
        let uri = details.uri.clone();
        let config = details.config.clone();
        let resolver = AtOnce(self.lookup.clone());
        let (request_level, timeout) = (details.request_level, details.timeout);
        let current_time = details.current_time.clone();
        let run_connector = details.run_connector.clone();
        let register = details.register_shutdown.clone();
        let slot = slot.clone();
        let body = move || {
            let started = Instant::now();
            let addrs = match addresses(&resolver, &uri, &config, timeout) {
                Ok(addrs) => addrs,
                Err(error) => return drop(sender.send(Err(error))),
            };
            let details = ConnectionDetails {
                uri: &uri,
                addrs,
                config: &config,
                request_level,
                resolver: &resolver,
                now: current_time(),
                timeout: less(timeout, started),
                current_time: current_time.clone(),
                run_connector,
                register_shutdown: Arc::new(move |socket| {
                    register(socket.clone())?;
                    keep(&slot, socket)
                }),
            };
            let _ = sender.send(open(&details));
        };
        thread::spawn("steerage-dial", body)?;
        Ok(receiver)
    }
}

/// Opens the connection; only a SOCKS proxy gets here, an HTTP proxy is a connection of its own further up the chain.
fn open(details: &ConnectionDetails<'_>) -> Result<Box<dyn Transport>, Error> {
    let transport = if details.config.proxy().is_some() {
        SocksConnector::default().connect(details, None::<()>)?
    } else {
        TcpConnector::default().connect(details, None::<()>)?
    };
    transport.map(|it| Box::new(it) as Box<dyn Transport>).ok_or(Error::ConnectionFailed)
}

fn addresses(
    resolver: &AtOnce,
    uri: &Uri,
    config: &Config,
    timeout: NextTimeout,
) -> Result<ResolvedSocketAddrs, Error> {
    // A proxy that resolves names itself is handed the name.
    if config.proxy().is_some_and(|proxy| !proxy.resolve_target()) {
        return Ok(resolver.empty());
    }
    resolver.resolve(uri, config, timeout)
}

fn await_dial(
    dialled: &Receiver<Dialled>,
    signal: &AbortSignal,
    limit: NextTimeout,
) -> Result<Box<dyn Transport>, Error> {
    let too_long = if limit.after.is_not_happening() { never() } else { after(*limit.after) };
    select! {
        recv(dialled) -> transport => transport.unwrap_or(Err(Error::ConnectionFailed)),
        recv(signal.channel()) -> _ => Err(io::Error::other("aborted").into()),
        recv(too_long) -> _ => Err(Error::Timeout(Timeout::Connect)),
    }
}

fn less(timeout: NextTimeout, started: Instant) -> NextTimeout {
    if timeout.after.is_not_happening() {
        return timeout;
    }
    let left = timeout.after.saturating_sub(started.elapsed());
    NextTimeout { after: time::Duration::Exact(left), ..timeout }
}

fn keep(slot: &Mutex<Slot>, socket: Weak<dyn ShutdownHandle>) -> Result<(), Error> {
    let mut slot = slot.lock();
    if matches!(*slot, Slot::Abandoned) {
        return Err(io::Error::other("nobody waits for the connection").into());
    }
    *slot = Slot::Socket(socket);
    Ok(())
}

fn shut_down(socket: &Weak<dyn ShutdownHandle>) {
    if let Some(socket) = socket.upgrade() {
        socket.shutdown();
    }
}

impl Lent {
    fn lend(&mut self, ticket: Option<Arc<Ticket>>) {
        if self.lease.is_some() {
            return;
        }
        self.lease = ticket.map(|ticket| {
            let socket = Arc::new(Mutex::new(Some(self.socket.clone())));
            let (aborted, home) = (socket.clone(), self.home);
            let hook = ticket.signal.on_abort(move || {
                if let Some(socket) = &*aborted.lock()
                    && home.is_here()
                {
                    shut_down(socket);
                }
            });
            Lease { ticket, socket, _hook: hook }
        });
    }
}

impl Transport for Lent {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.lend(Ticket::current());
        let limit = self.lease.as_ref().map_or(timeout, |it| it.ticket.write_limit(timeout));
        self.inner.transmit_output(amount, limit)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let limit = self.lease.as_ref().map_or(Ok(timeout), |it| it.ticket.read_limit(timeout))?;
        match self.inner.await_input(limit) {
            // The client takes these kinds for the end of a body that has no length: a cut would look complete.
            Err(Error::Io(error))
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
                ) =>
            {
                Err(Error::Io(io::Error::other(error)))
            }
            other => other,
        }
    }

    /// Called when a connection goes back to the pool and when it is taken out again: nobody has it then.
    fn is_open(&mut self) -> bool {
        self.lease = None;
        let now = SystemTime::now();
        let parked = self.parked.replace(now);
        self.home.is_here() && !slept(parked, now) && self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// Tells whether the machine seems to have slept since a connection was taken back.
///
/// The pool counts the age of its connections by a clock that stands still meanwhile. Their other ends are gone by then,
/// which would show only when an answer does not come.
fn slept(parked: Option<SystemTime>, now: SystemTime) -> bool {
    parked.is_some_and(|parked| now.duration_since(parked).is_ok_and(|it| it > LONGEST_PARKED))
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.socket.lock().take();
    }
}

impl Resolver for Later {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        Ok(self.empty())
    }
}

impl Resolver for AtOnce {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        /// As many as the list holds.
        const MOST: usize = 16;
        let host = uri.host().ok_or(Error::HostNotFound)?;
        let port = uri.port_u16().unwrap_or(match uri.scheme_str() {
            Some("https") => 443,
            Some("http") | None => 80,
            Some(_) => 1080,
        });
        let mut addrs = self.empty();
        for addr in (self.0)(&format!("{host}:{port}"))?.into_iter().take(MOST) {
            addrs.push(addr);
        }
        if addrs.is_empty() { Err(Error::HostNotFound) } else { Ok(addrs) }
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}

impl fmt::Debug for AtOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtOnce")
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent")
            .field("inner", &self.inner)
            .field("lent", &self.lease.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_was_parked_while_the_machine_slept_is_not_used() {
        let now = SystemTime::now();
        let ago = |seconds| Some(now - Duration::from_secs(seconds));
        assert!(!slept(None, now));
        assert!(!slept(ago(75), now));
        assert!(slept(ago(76 * 60), now));
        // A clock that was set back says nothing.
        assert!(!slept(Some(now + Duration::from_hours(1)), now));
    }
}
