//! One server: where it is, what it has to do, whether it works.
//!
//! Shared by all threads. Its numbers are read without a lock; the history of its failures has one, taken only when something fails
//! or works again.

use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tutti_config::model::{HealthCheckOptions, UpstreamAddress, UpstreamOptions};
use tutti_dialer::Address;
use tutti_tls::ClientTls;

use crate::checks::{CheckStatus, Checks, ServerHealth};
use crate::contention::Contention;
use crate::queue::Queue;
use crate::status_address;
use crate::target::ResolvedTarget;
use crate::{Millis, micros, millis};

/// Numbers for servers, never reused.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A server of an upstream.
#[derive(Debug)]
pub struct GroupServer {
    /// Tells it from any other server there has been.
    id: u64,
    /// Its address as written.
    name: Box<str>,
    address: UpstreamAddress,
    /// The name that led there.
    host: Option<Box<str>>,
    /// How TLS is spoken with it, and the name in its certificate.
    tls: Option<(Arc<ClientTls>, ServerName<'static>)>,
    /// Requests it has now.
    active: AtomicU32,
    requests: AtomicU64,
    failures: AtomicU64,
    /// It gets no requests before this; 0: it does.
    down_until: AtomicU64,
    /// Since when it works again after a failure; 0: it always has.
    recovered: AtomicU64,
    /// Failures in the current window.
    recent: AtomicU32,
    window: Mutex<Window>,
    checks: Checks,
    /// Tells, where it has a worker for each connection, if those are enough.
    contention: Contention,
    /// Where requests wait for room: of its group, and of what that was before a change of the configuration.
    queues: Mutex<Vec<Weak<Queue>>>,
    /// There are some.
    is_bounded: AtomicBool,
}

#[derive(Debug, Default)]
struct Window {
    began: Millis,
}

/// The part of `/status` that tells of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerStatus {
    /// Its address as written.
    pub name: String,
    /// Requests it has now.
    pub active: u32,
    /// Requests it was given.
    pub requests: u64,
    /// Those it did not answer as it should.
    pub failures: u64,
    /// It gets requests.
    pub is_up: bool,
    /// It is a name without an address.
    pub is_unresolved: bool,
    /// Its health checks, if there are to be any.
    pub checks: Option<CheckStatus>,
    /// The record that led to it, if its name has such.
    pub target: Option<ResolvedTarget>,
}

impl GroupServer {
    /// With `tls`, TLS is spoken with it.
    ///
    /// `host` is the name that led to the address, if it was not written itself.
    pub(crate) fn new(
        name: &str,
        address: &UpstreamAddress,
        host: Option<&str>,
        tls: Option<&Arc<ClientTls>>,
    ) -> GroupServer {
        GroupServer {
            host: host.map(Into::into),
            tls: tls.map(|client| (Arc::clone(client), server_name(client, address, host))),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            address: address.clone(),
            active: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            down_until: AtomicU64::new(0),
            recovered: AtomicU64::new(0),
            recent: AtomicU32::new(0),
            window: Mutex::default(),
            checks: Checks::default(),
            contention: Contention::default(),
            queues: Mutex::default(),
            is_bounded: AtomicBool::new(false),
        }
    }

    /// Whoever waits in `queue` is to know when there may be room.
    ///
    /// Not only the group whose claim ends is told: a request that was claimed before a change of the configuration makes room for
    /// those that wait since.
    pub(crate) fn tell_of_room(&self, queue: &Arc<Queue>) {
        let mut queues = self.queues();
        let wanted = Arc::downgrade(queue);
        queues.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&wanted));
        queues.push(wanted);
        self.is_bounded.store(true, Ordering::Release);
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Weak<Queue>>> {
        // Each change is one call on the list.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells it from any other server there has been.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its address as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How TLS is spoken with it, if it is.
    pub(crate) fn tls(&self) -> Option<&(Arc<ClientTls>, ServerName<'static>)> {
        self.tls.as_ref()
    }

    /// It is this one, and TLS is spoken with it in this way.
    pub(crate) fn is(
        &self,
        address: &UpstreamAddress,
        host: Option<&str>,
        tls: Option<&Arc<ClientTls>>,
    ) -> bool {
        let is_same_tls = match (&self.tls, tls) {
            (None, None) => true,
            (Some((one, _)), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        is_same_tls && self.address == *address && self.host.as_deref() == host
    }

    /// The name that led to its address, if it was not written itself.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Where it listens.
    pub fn address(&self) -> &UpstreamAddress {
        &self.address
    }

    /// Requests it has now.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// A connection is opened for a request to a server with a worker for each.
    pub fn opened(self: &Arc<Self>) -> Fresh {
        self.contention.opened(micros());
        Fresh {
            server: Arc::clone(self),
            took: None,
        }
    }

    /// A request to such a server took so long on a connection that had been kept.
    pub fn note_kept(&self, took: Duration) {
        self.contention.note_kept(took);
    }

    pub(crate) fn contention(&self) -> &Contention {
        &self.contention
    }

    /// One more request, if it may have that many.
    pub(crate) fn begin(&self, most: Option<u32>) -> bool {
        match most {
            None => {
                self.active.fetch_add(1, Ordering::Relaxed);
            }
            Some(most) => {
                let more = |active| (active < most).then_some(active + 1);
                let updated = self
                    .active
                    .fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
                if updated.is_err() {
                    return false;
                }
            }
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A request has ended: there is room for another.
    pub(crate) fn end(&self) {
        self.active.fetch_sub(1, Ordering::AcqRel);
        // Whoever enters a queue looks for room afterwards, and here it is the other way round: one of both sees the other.
        fence(Ordering::SeqCst);
        if self.is_bounded.load(Ordering::Acquire) {
            for queue in self.queues().iter().filter_map(Weak::upgrade) {
                queue.wake_next();
            }
        }
    }

    /// True if the room that the request of the calling thread leaves goes to another thread, where it has no connection.
    pub(crate) fn is_next_elsewhere(&self) -> bool {
        self.is_bounded.load(Ordering::Acquire)
            && self
                .queues()
                .iter()
                .filter_map(Weak::upgrade)
                .any(|queue| queue.is_next_elsewhere())
    }

    /// True if it is to get requests, as far as those tell that it got.
    pub(crate) fn is_up(&self, now: Millis) -> bool {
        self.down_until.load(Ordering::Relaxed) <= now
    }

    /// The verdict of its health checks.
    pub(crate) fn health(&self) -> ServerHealth {
        self.checks.health()
    }

    /// It has been checked. What is known of it now, if that is to be told.
    pub fn checked(
        &self,
        outcome: Result<(), String>,
        rules: &HealthCheckOptions,
        now: Millis,
    ) -> Option<ServerHealth> {
        let health = self.checks.note(outcome, rules);
        if health == Some(ServerHealth::Passing) {
            self.recovered.store(now.max(1), Ordering::Relaxed);
        }
        health
    }

    /// For how long it has worked again; `None`: it never failed.
    pub(crate) fn recovered_for(&self, now: Millis) -> Option<Millis> {
        match self.recovered.load(Ordering::Relaxed) {
            0 => None,
            since => Some(now.saturating_sub(since)),
        }
    }

    /// It answered as it should.
    pub(crate) fn succeeded(&self, now: Millis) {
        if self.recent.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.recent.store(0, Ordering::Relaxed);
        if self.down_until.swap(0, Ordering::Relaxed) != 0 {
            self.recovered.store(now.max(1), Ordering::Relaxed);
        }
    }

    /// It did not. True: with this it is down.
    pub(crate) fn failed(&self, options: &UpstreamOptions, now: Millis) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let pause = millis(options.fail_timeout);
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let mut recent = self.recent.load(Ordering::Relaxed);
        if recent == 0 || now.saturating_sub(window.began) > pause {
            window.began = now;
            // One that was down and fails again at its first request has had its chance.
            if self.down_until.load(Ordering::Relaxed) == 0 {
                recent = 0;
            }
        }
        recent = recent.saturating_add(1);
        self.recent.store(recent, Ordering::Relaxed);
        if options.max_fails == 0 || recent < options.max_fails {
            return false;
        }
        let until = now.saturating_add(pause).max(1);
        self.down_until.swap(until, Ordering::Relaxed) <= now
    }

    pub(crate) fn status(&self, now: Millis, is_checked: bool) -> ServerStatus {
        let checks = is_checked.then(|| self.checks.status());
        let is_failing = |checks: &CheckStatus| checks.health == ServerHealth::Failing;
        ServerStatus {
            name: self.name.to_string(),
            active: self.active(),
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            is_up: self.is_up(now) && !checks.as_ref().is_some_and(is_failing),
            is_unresolved: false,
            checks,
            target: None,
        }
    }

    /// Its address as `connect` takes it.
    pub(crate) fn endpoint(&self) -> std::io::Result<Address> {
        Ok(match &self.address {
            UpstreamAddress::Inet(address) => Address::Inet(*address),
            // There is a server for each of its addresses.
            UpstreamAddress::Name { .. }
            | UpstreamAddress::Service { .. }
            | UpstreamAddress::Kubernetes { .. }
            | UpstreamAddress::Fleet { .. } => {
                return Err(std::io::ErrorKind::AddrNotAvailable.into());
            }
            UpstreamAddress::Unix(path) => match status_address::instead_of(&self.address) {
                Some(status) => Address::Unix(status),
                None => Address::Unix(net::SocketAddr::from_pathname(path)?),
            },
            UpstreamAddress::Abstract(name) => match status_address::instead_of(&self.address) {
                Some(status) => Address::Unix(status),
                None => Address::Unix(net::SocketAddr::from_abstract_name(name)?),
            },
        })
    }
}

/// The name that its certificate must have, and that it is asked for.
fn server_name(
    client: &ClientTls,
    address: &UpstreamAddress,
    host: Option<&str>,
) -> ServerName<'static> {
    let written = client.server_name().or(host);
    // The dot of a full name is no part of it here (RFC 6066 §3).
    let written = written.map(|name| name.trim_end_matches('.').to_owned());
    let name = written.or_else(|| match address {
        UpstreamAddress::Inet(address) => Some(address.ip().to_string()),
        UpstreamAddress::Name { .. }
        | UpstreamAddress::Service { .. }
        | UpstreamAddress::Kubernetes { .. }
        | UpstreamAddress::Fleet { .. }
        | UpstreamAddress::Unix(_)
        | UpstreamAddress::Abstract(_) => None,
    });
    // Checked with the configuration: without a name, nothing is compared with it.
    let name = name.and_then(|name| ServerName::try_from(name).ok());
    name.unwrap_or(ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into()))
}

/// A connection whose first request has not been answered; dropped when it has been, or was given up.
#[derive(Debug)]
pub struct Fresh {
    server: Arc<GroupServer>,
    took: Option<Duration>,
}

impl Fresh {
    /// It has been answered, after so long.
    pub fn answered(mut self, took: Duration) {
        self.took = Some(took);
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let contention = &self.server.contention;
        let was_free = contention.answered();
        if let Some(took) = self.took {
            contention.note_opened(was_free, took);
        }
    }
}
