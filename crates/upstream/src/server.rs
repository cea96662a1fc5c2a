//! One server: its address, its load, its health.
//!
//! Shared by all threads. Its numbers are read without a lock; the history of its failures has one, taken only when a request fails or
//! succeeds again.

use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tutti_config::model::{HealthCheckOptions, UpstreamAddress};
use tutti_dialer::Address;
use tutti_tls::ClientTls;

use crate::checks::{CheckStatus, Checks, ServerHealth};
use crate::contention::Contention;
use crate::queue::Queue;
use crate::status_address;
use crate::target::ResolvedTarget;
use crate::{Millis, micros, millis};

/// The next server id; never reused.
static NEXT: AtomicU64 = AtomicU64::new(1);

const UNLIMITED: u32 = u32::MAX;

/// A server of an upstream.
#[derive(Debug)]
pub struct GroupServer {
    /// Its unique id.
    id: u64,
    /// Its address as configured.
    name: Box<str>,
    address: UpstreamAddress,
    /// The name that resolved to it.
    host: Option<Box<str>>,
    /// The TLS parameters, and the name in its certificate.
    tls: Option<(Arc<ClientTls>, ServerName<'static>)>,
    /// Open requests.
    active: AtomicU32,
    /// Their largest number by the configuration in force, for requests of former ones, too; [`UNLIMITED`]: any.
    limit: AtomicU32,
    requests: AtomicU64,
    failures: AtomicU64,
    /// It gets no requests before this time; 0: it does. The first request after this time is a trial.
    down_until: AtomicU64,
    /// When it worked again after a failure; 0: it never failed.
    recovered: AtomicU64,
    /// Failures in the current window.
    recent: AtomicU32,
    window: Mutex<Window>,
    checks: Checks,
    /// Detects, where it has one worker per connection, whether those are enough.
    contention: Contention,
    /// The queues of requests that wait for capacity: of its group, and of the same group before a change of the configuration.
    queues: Mutex<Vec<Weak<Queue>>>,
    /// There are such queues.
    is_bounded: AtomicBool,
}

/// When a server that fails gets no requests for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestRule {
    /// So many failures within the time; 0: never.
    pub(crate) max_fails: u32,
    pub(crate) fail_timeout: Duration,
}

/// The state of a server for one request, by the requests before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It gets requests.
    Regular,
    /// It has rested, and this request shows if it works again.
    Trial,
    /// It rests, or a trial is under way.
    Rest,
}

#[derive(Debug, Default)]
struct Window {
    began: Millis,
}

/// A server in `/status`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerStatus {
    /// Its address as configured.
    pub name: String,
    /// Open requests.
    pub active: u32,
    /// All requests.
    pub requests: u64,
    /// Failed requests.
    pub failures: u64,
    /// It gets requests.
    pub is_up: bool,
    /// It is a name without an address.
    pub is_unresolved: bool,
    /// Its health checks, if configured.
    pub checks: Option<CheckStatus>,
    /// Its DNS record, if its name has such.
    pub target: Option<ResolvedTarget>,
}

impl GroupServer {
    /// With `tls`, it is reached by TLS.
    ///
    /// `host` is the name that resolved to the address, if that was not configured itself.
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
            limit: AtomicU32::new(UNLIMITED),
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

    /// Registers a queue whose requests are woken when there may be capacity.
    ///
    /// Queues of former configurations are included: a request that was claimed before a change frees capacity for those that wait since.
    pub(crate) fn notify_of_room(&self, queue: &Arc<Queue>) {
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

    /// Its unique id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its address as configured.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The TLS parameters, if it speaks TLS.
    pub(crate) fn tls(&self) -> Option<&(Arc<ClientTls>, ServerName<'static>)> {
        self.tls.as_ref()
    }

    /// True if it has this address and these TLS parameters.
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

    /// The name that resolved to its address, if that was not configured itself.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Its address.
    pub fn address(&self) -> &UpstreamAddress {
        &self.address
    }

    /// Number of open requests.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// Notes that a connection is opened for a request to a server with one worker per connection.
    pub fn opened(self: &Arc<Self>) -> Fresh {
        self.contention.opened(micros());
        Fresh {
            server: Arc::clone(self),
            took: None,
        }
    }

    /// Notes the duration of a request to such a server on a kept connection.
    pub fn note_kept(&self, took: Duration) {
        self.contention.note_kept(took);
    }

    pub(crate) fn contention(&self) -> &Contention {
        &self.contention
    }

    /// Sets the largest number of open requests; `None`: any. Requests that wait are woken, because there may be capacity.
    pub(crate) fn limit_to(&self, most: Option<u32>) {
        let limit = most.unwrap_or(UNLIMITED);
        if self.limit.swap(limit, Ordering::AcqRel) != limit {
            self.wake_queues();
        }
    }

    /// True if one more request may be open.
    pub(crate) fn has_capacity(&self) -> bool {
        self.active() < self.limit.load(Ordering::Acquire)
    }

    /// Reserves capacity for a request until its [`end`](Self::end); false if there is none.
    pub(crate) fn reserve(&self) -> bool {
        match self.limit.load(Ordering::Acquire) {
            UNLIMITED => {
                self.active.fetch_add(1, Ordering::Relaxed);
                true
            }
            most => {
                let more = |active| (active < most).then_some(active + 1);
                self.active
                    .fetch_update(Ordering::AcqRel, Ordering::Relaxed, more)
                    .is_ok()
            }
        }
    }

    /// Decides if a request may have it. A trial begins another rest for all others, which its outcome ends or renews.
    pub(crate) fn turn(&self, rest: RestRule, now: Millis) -> Turn {
        if self.down_until.load(Ordering::Relaxed) == 0 {
            return Turn::Regular;
        }
        let next = now.saturating_add(millis(rest.fail_timeout)).max(1);
        let trial = |until| (until != 0 && until <= now).then_some(next);
        match self
            .down_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, trial)
        {
            Ok(_) => Turn::Trial,
            Err(0) => Turn::Regular,
            Err(_) => Turn::Rest,
        }
    }

    /// Counts a request.
    pub(crate) fn note_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request as ended: there is capacity for another.
    pub(crate) fn end(&self) {
        self.active.fetch_sub(1, Ordering::AcqRel);
        self.wake_queues();
    }

    /// Wakes the next request of each queue, because there may be capacity.
    fn wake_queues(&self) {
        // A request first enters a queue and then checks for capacity; here the order is reversed. So one of both sees the other.
        fence(Ordering::SeqCst);
        if self.is_bounded.load(Ordering::Acquire) {
            for queue in self.queues().iter().filter_map(Weak::upgrade) {
                queue.wake_next();
            }
        }
    }

    /// True if the capacity freed by a request of the calling thread goes to another thread, which has no connection.
    pub(crate) fn is_next_elsewhere(&self) -> bool {
        self.is_bounded.load(Ordering::Acquire)
            && self
                .queues()
                .iter()
                .filter_map(Weak::upgrade)
                .any(|queue| queue.is_next_elsewhere())
    }

    /// True if, judging by its past requests, it should get requests.
    pub(crate) fn is_up(&self, now: Millis) -> bool {
        self.down_until.load(Ordering::Relaxed) <= now
    }

    /// When its rest or a trial ends; `None`: there is none.
    pub(crate) fn rests_until(&self, now: Millis) -> Option<Millis> {
        Some(self.down_until.load(Ordering::Relaxed)).filter(|until| *until > now)
    }

    /// Its health according to its checks.
    pub(crate) fn health(&self) -> ServerHealth {
        self.checks.health()
    }

    /// Notes the result of a check. Returns the new health if it changed and should be logged.
    pub fn checked(
        &self,
        outcome: Result<(), String>,
        rules: &HealthCheckOptions,
        now: Millis,
    ) -> Option<ServerHealth> {
        let before = self.health();
        let health = self.checks.note(outcome, rules);
        if health == Some(ServerHealth::Passing) {
            self.recovered.store(now.max(1), Ordering::Relaxed);
        }
        if self.health() != before {
            // When it fails, too: if no server is left that passes, all get requests.
            self.wake_queues();
        }
        health
    }

    /// Discards the results of checks that were configured earlier.
    pub(crate) fn forget_checks(&self) {
        self.checks.forget();
    }

    /// Returns the time since its recovery; `None`: it never failed.
    pub(crate) fn recovered_for(&self, now: Millis) -> Option<Millis> {
        match self.recovered.load(Ordering::Relaxed) {
            0 => None,
            since => Some(now.saturating_sub(since)),
        }
    }

    /// Notes a successful request.
    pub(crate) fn succeeded(&self, now: Millis) {
        if self.recent.load(Ordering::Relaxed) != 0 {
            self.recent.store(0, Ordering::Relaxed);
        }
        self.answered(now);
    }

    /// Notes the head of an answer: the server works again, even if the rest of the answer takes long.
    pub fn answered(&self, now: Millis) {
        if self.down_until.load(Ordering::Relaxed) != 0
            && self.down_until.swap(0, Ordering::Relaxed) != 0
        {
            self.recovered.store(now.max(1), Ordering::Relaxed);
            self.wake_queues();
        }
    }

    /// Notes a failed request. True: it is down from now on, or still after a trial.
    pub(crate) fn failed(&self, rest: RestRule, turn: Turn, now: Millis) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let pause = millis(rest.fail_timeout);
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let mut recent = self.recent.load(Ordering::Relaxed);
        if recent == 0 || now.saturating_sub(window.began) > pause {
            window.began = now;
            // A server that was down gets no second chance when its first request fails.
            if turn != Turn::Trial && self.down_until.load(Ordering::Relaxed) == 0 {
                recent = 0;
            }
        }
        recent = recent.saturating_add(1);
        self.recent.store(recent, Ordering::Relaxed);
        if rest.max_fails == 0 || recent < rest.max_fails {
            if turn == Turn::Trial {
                // It has answered others since, or a change of the configuration has raised the limit.
                self.down_until.store(0, Ordering::Relaxed);
            }
            return false;
        }
        let until = now.saturating_add(pause).max(1);
        self.down_until.swap(until, Ordering::Relaxed) <= now || turn == Turn::Trial
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

    /// Its address for `connect`.
    pub(crate) fn endpoint(&self) -> std::io::Result<Address> {
        Ok(match &self.address {
            UpstreamAddress::Inet(address) => Address::Inet(*address),
            // A name has been replaced by a server for each of its addresses.
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

/// The name that is sent in the handshake, and that its certificate must have.
fn server_name(
    client: &ClientTls,
    address: &UpstreamAddress,
    host: Option<&str>,
) -> ServerName<'static> {
    let written = client.server_name().or(host);
    // The trailing dot of a fully qualified name is not part of it here (RFC 6066 §3).
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
    // The configuration has been checked: without a name, the certificate's name is not compared.
    let name = name.and_then(|name| ServerName::try_from(name).ok());
    name.unwrap_or(ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into()))
}

/// A new connection whose first request has not been answered; dropped when it has been, or was given up.
#[derive(Debug)]
pub struct Fresh {
    server: Arc<GroupServer>,
    took: Option<Duration>,
}

impl Fresh {
    /// Notes that it was answered, after so long.
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
