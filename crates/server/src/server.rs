//! The server's interface for the binary: start threads, prepare and commit configurations, count, drain.

mod caches;
mod metrics;
mod shared_limits;
mod thread;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
pub use shared_limits::{SharedLimitStore, StoreStatus};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tutti_cache::DiskHold;
use tutti_config::model::{UdpOptions, UpstreamTls};
use tutti_config::{Config, Diagnostics};
use tutti_conn::clock::now_millis;
use tutti_conn::counters::ConnectionTotals;
use tutti_conn::listener::{Accepted, ListenerHold, Peer, SharedListener};
use tutti_conn::response_buffers::BufferedBytes;
use tutti_files::cache::CacheLimits;
use tutti_pool::{Level, LogSink, ThreadWakers};
use tutti_proxy::{FileWanted, Monitor, Nodes, Report, Resolvers};
use tutti_quic::Ports;
use tutti_request_log::Recent;
use tutti_upstream::{ServerGroup, ServerStatus};

use crate::job_submission::{Desk, Post};
use crate::local::{Command, Shared};
use crate::scraper::{Scrape, Scraper};
use crate::snapshot::{
    Http3Listener, PreparedSnapshot, Snapshot, SnapshotEnvironment, SpoolsNeeded,
};

/// The UDP sockets of a removed listener.
#[derive(Debug)]
pub struct LeavingDatagrams {
    /// The address that they are bound to.
    pub address: SocketAddr,
    users: Users,
}

/// The users of the sockets of a removed listener.
#[derive(Debug)]
enum Users {
    /// The sessions of a stream.
    Sessions(Arc<SharedListener>),
    /// The connections of HTTP/3.
    Connections(Weak<Ports>),
}

impl LeavingDatagrams {
    /// True while any are left.
    pub fn are_open(&self) -> bool {
        match &self.users {
            Users::Sessions(listener) => listener.has_connections(),
            Users::Connections(ports) => ports.strong_count() > 0,
        }
    }
}

/// The parameters of a server.
pub struct StartOptions {
    /// The pool's listen threads: the server runs as many, for its whole life.
    pub threads: Arc<ThreadWakers>,
    /// Receives the server's log lines.
    pub log: Arc<dyn LogSink>,
    /// Receives requests for the metrics.
    pub scrapes: UnboundedSender<Scrape>,
    /// Receives jobs.
    pub posts: UnboundedSender<Post>,
    /// Receives requests for configured files that are needed to find servers of upstreams.
    pub files: UnboundedSender<FileWanted>,
    /// The nodes of the fleet.
    pub nodes: Nodes,
}

/// Listen threads and the live configuration.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    running: watch::Receiver<usize>,
    monitor: Monitor,
    /// Disables responses on disk.
    pub(crate) disk_hold: Arc<DiskHold>,
    pub(crate) files: UnboundedSender<FileWanted>,
}

/// The configuration that a commit has replaced. Dropping thousands of compiled routes takes milliseconds, which a listen thread must not
/// spend.
pub struct Retired(Arc<Snapshot>);

impl Retired {
    /// Waits until no request and no listen thread uses it, and drops it on this thread.
    pub async fn end(self) {
        let mut pause = FIRST_LOOK;
        while Arc::strong_count(&self.0) > 1 {
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_LOOK);
        }
    }
}

/// The listen threads release it at once unless a request holds it; a WebSocket may for days.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

impl Server {
    /// Starts the threads, without any listener.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(options: StartOptions) -> io::Result<Self> {
        let count = options.threads.count() as usize;
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..count).map(|_| unbounded_channel()).unzip();
        let cache_limits = cache_limits(count);
        let StartOptions {
            threads,
            log,
            scrapes,
            posts,
            files,
            nodes,
        } = options;
        let (scraper, desk) = (Scraper(scrapes), Desk::new(posts));
        let shared = Shared::new(threads, log, senders, cache_limits, scraper, desk)?;
        let shared = Arc::new(shared);
        let (alive, running) = watch::channel(count);
        let alive = Arc::new(alive);
        let mut threads = Vec::with_capacity(count);
        for (index, inbox) in receivers.into_iter().enumerate() {
            threads.push(thread::start(
                index as u32,
                Arc::clone(&shared),
                inbox,
                Arc::clone(&alive),
            )?);
        }
        Ok(Self {
            shared,
            threads,
            running,
            monitor: Monitor::new(files.clone(), nodes),
            files,
            disk_hold: Arc::default(),
        })
    }

    /// Prepares a configuration: binds and compiles what is new. Changes nothing that is in force.
    ///
    /// # Errors
    /// All faults, each at its place in the configuration.
    pub fn prepare(
        &self,
        config: &Config,
        around: &mut dyn SnapshotEnvironment,
    ) -> Result<PreparedSnapshot, Diagnostics> {
        let live = self.shared.live.load();
        let mut prepared = Snapshot::prepare(config, &live, &self.shared.http3, around)?;
        let log = Arc::clone(&self.shared.log);
        tutti_cache::disk::open(
            &prepared.snapshot.caches,
            &live.caches,
            |store| around.cache_file(store).map(Into::into),
            &move |line: &str| log.log(Level::Warn, line),
        );
        for store in &prepared.snapshot.caches {
            store.heed(&self.disk_hold);
        }
        if let Err(error) = prepared.snapshot.open_store(config, &live, around) {
            let text = format!(
                "cannot make the file for answers to slow clients (`response_buffering`): {error}; applications and servers wait \
                 for such clients"
            );
            self.shared.log.log(Level::Warn, &text);
        }
        Ok(prepared)
    }

    /// Gives exactly these answers to authorities from now on.
    pub fn set_challenges(&self, challenges: tutti_tls::AuthorityAnswers) {
        self.shared.challenges.store(Arc::new(challenges));
    }

    /// The spools that [`prepare`](Self::prepare) will request, so that they can be opened before.
    pub fn spools_needed(&self, config: &Config) -> SpoolsNeeded {
        self.shared.live.load().spools_needed(config)
    }

    /// Commits a prepared configuration: new listeners accept, removed ones stop and their connections end with their current request. Call
    /// it from one caller at a time, with the last prepared configuration. Returns the former one, for [`Retired::end`].
    pub fn commit(&self, prepared: PreparedSnapshot) -> Retired {
        let PreparedSnapshot {
            snapshot,
            added,
            http3,
        } = prepared;
        let kept: Vec<u64> = snapshot
            .entrances()
            .map(|entry| entry.listener.id)
            .collect();
        let previous = self.shared.live.load_full();
        let removed = previous
            .entrances()
            .map(|entry| &entry.listener)
            .filter(|listener| !kept.contains(&listener.id));
        let removed: Vec<&Arc<SharedListener>> = removed.collect();
        for listener in &removed {
            self.shared
                .retired()
                .insert(listener.id, Arc::clone(&previous));
        }
        self.warn_of_unverified(&snapshot, &previous);
        tutti_cache::disk::rest_replaced(&previous.caches, &snapshot.caches);
        self.shared.live.store(Arc::new(snapshot));
        for listener in removed {
            listener.close();
            self.send_all(|| Command::Unlisten(ListenerHold::new(listener)));
            if previous.stream_of(listener.id).is_some() {
                self.shared.leaving().push(Arc::clone(listener));
            }
        }
        for entry in &self.shared.live.load().listeners {
            let before = previous
                .listeners
                .iter()
                .find(|before| before.listener.id == entry.listener.id);
            if before.is_some_and(|before| before.options.backlog != entry.options.backlog) {
                entry.listener.set_backlog(entry.options.backlog.0);
            }
            let options = &entry.options;
            let each = options.max_connections_per_client.0;
            let most = match entry.listener.receives_datagrams() {
                true => Some(most_sessions(options.udp.unwrap_or_default())),
                false => options.max_connections.0,
            };
            entry.listener.bounds.set(most, each);
        }
        let live = self.shared.live.load();
        let log = Arc::clone(&self.shared.log);
        let report: Report = Arc::new(move |level, line| log.log(level, line));
        let resolvers = Resolvers {
            resolver: live.resolver.clone(),
            kubernetes: live.kubernetes.clone(),
        };
        live.upstreams.iter().for_each(|group| group.take_effect());
        self.monitor.watch(&live.upstreams, resolvers, &report);
        self.begin_limit_stores();
        // Threads without traffic must release the former configuration, too.
        self.send_all(|| Command::Refresh);
        for listener in &added {
            if let Some(socket) = listener.socket() {
                self.send_all(|| Command::Listen(Arc::clone(listener), Arc::clone(&socket)));
            } else if let Some(sockets) = listener.datagrams() {
                self.send_all(|| {
                    Command::PassDatagrams(Arc::clone(listener), Arc::clone(&sockets))
                });
            }
        }
        self.change_datagrams(http3);
        Retired(previous)
    }

    /// Has the listen threads receive the datagrams of these listeners with HTTP/3, and refuse new connections on former ones.
    fn change_datagrams(&self, listeners: Vec<Http3Listener>) {
        let changes = self.shared.http3.commit(listeners);
        for (_, ports) in changes.left {
            self.send_all(|| Command::LeaveDatagrams(Arc::clone(&ports)));
        }
        for (listener, ports) in changes.taken {
            self.send_all(|| Command::TakeDatagrams(Arc::clone(&listener), Arc::clone(&ports)));
        }
    }

    /// Warns of new upstreams whose servers' certificates are not verified.
    fn warn_of_unverified(&self, snapshot: &Snapshot, previous: &Snapshot) {
        for upstream in &snapshot.upstreams {
            let is_unverified = |tls: &Arc<UpstreamTls>| !tls.options.verify;
            let is_known = |known: &Arc<ServerGroup>| Arc::ptr_eq(known, upstream);
            if upstream.model().tls.as_ref().is_some_and(is_unverified)
                && !previous.upstreams.iter().any(is_known)
            {
                let text = format!(
                    "upstream \"{}\": certificates of its servers are not verified (`verify` is off): an attacker on the path can \
                     read and change everything",
                    upstream.name()
                );
                self.shared.log.log(Level::Warn, &text);
            }
        }
    }

    /// Opens a connection of the server to itself for the jobs of this spooler, and returns the client's end. The listen thread with the
    /// fewest connections serves the other end.
    ///
    /// # Errors
    /// There is no such spooler, or no free descriptor.
    pub fn connect(&self, spooler: &str) -> io::Result<OwnedFd> {
        let live = self.shared.live.load();
        let entry = live.entrance_of(spooler).ok_or(io::ErrorKind::NotFound)?;
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        let threads = self.shared.counters.iter().zip(&self.shared.inboxes);
        let least = threads.min_by_key(|(thread, _)| thread.open.load(Ordering::Relaxed));
        let (thread, inbox) = least.ok_or(io::ErrorKind::NotConnected)?;
        let accepted = Accepted {
            socket: theirs,
            peer: Peer::Unix,
            listener: ListenerHold::new(&entry.listener),
        };
        thread.open.fetch_add(1, Ordering::Relaxed);
        if inbox.send(Command::Serve(accepted)).is_err() {
            thread.open.fetch_sub(1, Ordering::Relaxed);
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(ours)
    }

    /// Uses another descriptor for the logs with this path (after log rotation); does nothing if there is none.
    pub fn replace_log(&self, path: &Path, descriptor: &OwnedFd) -> io::Result<()> {
        for log in self.shared.live.load().logs.at(path) {
            log.replace(descriptor.try_clone()?);
        }
        Ok(())
    }

    /// The files for access control in the configuration in force.
    pub fn guard_files(&self) -> Vec<PathBuf> {
        let live = self.shared.live.load();
        let mut files: Vec<PathBuf> = live.guards.files().map(Path::to_owned).collect();
        files.sort();
        files.dedup();
        files
    }

    /// Replaces the content of such a file. Returns the numbers of its lines with a weak hash, or its faults: then the former content
    /// stays.
    pub fn replace_guard_file(
        &self,
        path: &Path,
        content: &[u8],
    ) -> Vec<Result<Vec<usize>, String>> {
        let live = self.shared.live.load();
        live.guards.replace_file(path, content)
    }

    /// The listeners of the configuration in force.
    pub fn listeners(&self) -> Vec<Arc<SharedListener>> {
        self.shared
            .live
            .load()
            .listeners
            .iter()
            .map(|entry| Arc::clone(&entry.listener))
            .collect()
    }

    /// The listeners whose connections are not all read as HTTP.
    pub fn streams(&self) -> Vec<Arc<SharedListener>> {
        let live = self.shared.live.load();
        let streams = live.listeners.iter();
        let streams = streams.filter(|entry| entry.stream.is_some());
        streams.map(|entry| Arc::clone(&entry.listener)).collect()
    }

    /// Removed listeners of which connections are still passed on.
    pub fn leaving(&self) -> Vec<Arc<SharedListener>> {
        self.shared.leaving().clone()
    }

    /// UDP sockets of removed listeners, on which connections or sessions are open.
    pub fn leaving_datagrams(&self) -> Vec<LeavingDatagrams> {
        let streams = self.leaving().into_iter();
        let streams = streams.filter(|listener| listener.receives_datagrams());
        let streams = streams
            .filter_map(|listener| Some((listener.bound_address()?, Users::Sessions(listener))));
        let http3 = self.shared.http3.leaving().into_iter();
        let http3 = http3.map(|(address, ports)| (address, Users::Connections(ports)));
        streams
            .chain(http3)
            .map(|(address, users)| LeavingDatagrams { address, users })
            .collect()
    }

    pub(crate) fn log(&self) -> &Arc<dyn LogSink> {
        &self.shared.log
    }

    /// The configuration in force.
    pub(crate) fn live(&self) -> Arc<Snapshot> {
        self.shared.live.load_full()
    }

    /// Returns the counts so far.
    pub fn totals(&self) -> ConnectionTotals {
        ConnectionTotals::sum(self.shared.counters.iter().map(Arc::as_ref))
    }

    /// Returns the amounts that currently wait for clients.
    pub fn held(&self) -> BufferedBytes {
        self.shared.holdings.held()
    }

    /// The latest failed and slow requests.
    pub fn recent(&self) -> &Recent {
        &self.shared.recent
    }

    /// The upstreams of the configuration in force, including those of `proxy`, with the state of their servers.
    pub fn upstreams(&self) -> Vec<(String, Vec<ServerStatus>)> {
        let now = now_millis();
        let live = self.shared.live.load();
        let one = |(name, upstreams): (&str, Vec<&Arc<ServerGroup>>)| {
            let servers = upstreams.iter().flat_map(|one| one.status(now));
            (name.to_owned(), servers.collect())
        };
        live.upstreams_by_name().into_iter().map(one).collect()
    }

    /// Open connections of each thread.
    pub fn connections_per_thread(&self) -> Vec<u64> {
        self.shared
            .counters
            .iter()
            .map(|thread| thread.open.load(Ordering::Relaxed))
            .collect()
    }

    /// Begins to end gracefully: accepts no new connections, closes idle ones unless a request arrives within half a second, and ends each
    /// of the others with its current request.
    pub fn drain(&self) {
        self.shared.drains_gently.store(false, Ordering::Relaxed);
        self.close_listeners();
    }

    /// The same, but an idle connection may send one more request within ten seconds, which is answered with `Connection: close`. For an
    /// upgrade, after which another process accepts: a client with a kept connection never finds it closed while it sends. WebSocket
    /// connections continue until their application ends.
    pub fn drain_gently(&self) {
        self.shared.drains_gently.store(true, Ordering::Relaxed);
        self.close_listeners();
    }

    /// True after [`drain`](Self::drain) or [`drain_gently`](Self::drain_gently).
    pub fn is_draining(&self) -> bool {
        self.shared.is_draining.load(Ordering::Relaxed)
    }

    /// Ends a [gentle](Self::drain_gently) drain: WebSocket connections are closed with 1012. Others end with the process.
    pub fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::Relaxed);
        // As in `close_listeners`.
        fence(Ordering::Release);
        self.send_all(|| Command::Drain);
    }

    /// Completes when the close frames of WebSocket connections have been passed to the kernel, except to clients that do not read.
    pub async fn farewells_said(&self) {
        self.threads_answer().await;
        // By then, a stream of HTTP/2 or HTTP/3 has only passed its frame to the task of its connection.
        self.threads_answer().await;
    }

    fn close_listeners(&self) {
        self.shared.is_draining.store(true, Ordering::Relaxed);
        // A thread that sees a listener closed must see this, too: its connections check the one, then the other.
        fence(Ordering::Release);
        for entry in self.shared.live.load().entrances() {
            entry.listener.close();
        }
        self.send_all(|| Command::Drain);
    }

    /// Completes when every running thread has carried out its commands: then none of them hangs, and after [`Server::commit`] later
    /// requests are not answered by the former configuration.
    pub fn threads_answer(&self) -> impl Future<Output = ()> + Send + use<> {
        let answers: Vec<_> = self
            .shared
            .inboxes
            .iter()
            .map(|inbox| {
                let (sender, receiver) = oneshot::channel();
                let _ = inbox.send(Command::Answer(sender));
                receiver
            })
            .collect();
        async move {
            for answer in answers {
                // Dropped by the thread, or with the inbox of one that has ended.
                let _ = answer.await;
            }
        }
    }

    /// Completes when every thread has ended, after [`Server::drain`] or [`Server::quit`].
    pub async fn ended(&self) {
        let mut running = self.running.clone();
        // The threads hold the sender.
        let _ = running.wait_for(|running| *running == 0).await;
        // Nothing else would notice that the last connection of a removed listener has ended.
        self.shared.retired().clear();
    }

    /// Ends all threads now; connections are closed in any state.
    pub fn quit(mut self) {
        self.send_all(|| Command::Quit);
        for thread in self.threads.drain(..) {
            // A panic in a thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }

    fn send_all(&self, command: impl Fn() -> Command) {
        for inbox in &self.shared.inboxes {
            // A thread that has ended (drained) needs no commands.
            let _ = inbox.send(command());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.send_all(|| Command::Quit);
    }
}

/// Descriptors kept by file caches: an eighth of the process's limit, shared by the threads.
fn cache_limits(threads: usize) -> CacheLimits {
    let defaults = CacheLimits::default();
    let share = usize::try_from(open_files() / 8).unwrap_or(usize::MAX) / threads;
    CacheLimits {
        descriptors: defaults.descriptors.min(share.max(4)),
        ..defaults
    }
}

/// Sessions of a UDP listener: a flood of forged addresses must leave descriptors for connections.
fn most_sessions(options: UdpOptions) -> u32 {
    let share = u32::try_from(open_files() / 4).unwrap_or(u32::MAX);
    options.max_sessions.min(share.max(1))
}

/// The process's limit of open files.
fn open_files() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
}
