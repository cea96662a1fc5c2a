//! The state that the connections of one listen thread share without locks, and the state that all threads share.
//!
//! Made by [`thread`](crate::server::thread); borrowed by everything that serves a connection. Cells and `RefCell`s are borrowed within a
//! call only, never across an `await`.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::hash::BuildHasher as _;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tutti_conn::buffers::Buffers;
use tutti_conn::clock::now_millis;
use tutti_conn::connections::Connections;
use tutti_conn::counters::ThreadCounters;
use tutti_conn::listener::{Accepted, DatagramSockets, ListenerHold, SharedListener};
use tutti_conn::response_buffers::ResponseBuffers;
use tutti_files::cache::{CacheLimits, FileCache};
use tutti_http::{FieldLines, RequestHead};
use tutti_log::LineLimit;
use tutti_pool::{Level, LogSink, ThreadWakers};
use tutti_proxy::Resources;
use tutti_quic::Ports;
use tutti_request_log::{LogBuffer, Recent};

use crate::fields::server_date::OwnFields;
use crate::job_submission::Desk;
use crate::scraper::Scraper;
use crate::snapshot::{Http3Sockets, Snapshot, Timeouts};

/// An order to a listen thread.
pub(crate) enum Command {
    /// Serve a connection that another thread accepted.
    Adopt(Accepted),
    /// Serve a connection of the server to itself. It is already counted as open.
    Serve(Accepted),
    /// Accept on this listener. Its socket is included: the listener itself may have released it by then.
    Listen(Arc<SharedListener>, Arc<OwnedFd>),
    /// Receive this thread's share of the datagrams of this listener.
    TakeDatagrams(Arc<SharedListener>, Arc<Ports>),
    /// Receive this thread's share of the datagrams of the stream of this listener.
    PassDatagrams(Arc<SharedListener>, DatagramSockets),
    /// Refuse new connections on these sockets.
    LeaveDatagrams(Arc<Ports>),
    /// Stop accepting on the listener with this id, and close its idle connections.
    Unlisten(ListenerHold),
    /// Another configuration is in force.
    Refresh,
    /// Stop accepting at all, let connections finish their request; the thread ends after the last one, when no other thread can pass it
    /// another.
    Drain,
    /// No thread accepts any more.
    AllDrained,
    /// Drop the sender, when every connection woken by earlier commands has had its turn.
    Answer(oneshot::Sender<()>),
    /// End now.
    Quit,
}

/// The state that all threads share.
pub(crate) struct Shared {
    pub(crate) live: ArcSwap<Snapshot>,
    pub(crate) challenges: ArcSwap<tutti_tls::AuthorityAnswers>,
    pub(crate) log: Arc<dyn LogSink>,
    pub(crate) pool: Arc<ThreadWakers>,
    pub(crate) counters: Vec<Arc<ThreadCounters>>,
    pub(crate) inboxes: Vec<UnboundedSender<Command>>,
    pub(crate) cache_limits: CacheLimits,
    pub(crate) holdings: Arc<ResponseBuffers>,
    /// The latest failed and slow requests of all threads.
    pub(crate) recent: Recent,
    /// Threads that may still accept a connection and pass it to another.
    pub(crate) accepting: AtomicUsize,
    /// Requests the metrics.
    pub(crate) scraper: Scraper,
    /// Accepts jobs.
    pub(crate) desk: Arc<Desk>,
    /// All threads are ending, or will be in a moment: listeners are not removed from the configuration any more.
    pub(crate) is_draining: AtomicBool,
    /// While draining, idle connections get a long time for one more request.
    pub(crate) drains_gently: AtomicBool,
    /// That time is over.
    pub(crate) is_cut: AtomicBool,
    /// For each listener removed recently: the last configuration that had it, for requests that are on their way.
    pub(crate) retired: Mutex<FxHashMap<u64, Arc<Snapshot>>>,
    /// Removed listeners with a stream, some of whose connections may still be open.
    leaving: Mutex<Vec<Arc<SharedListener>>>,
    /// The UDP sockets of listeners with HTTP/3.
    pub(crate) http3: Http3Sockets,
}

impl Shared {
    /// For as many threads as there are `inboxes`, with an empty configuration.
    ///
    /// # Errors
    /// The empty configuration cannot be compiled.
    pub(crate) fn new(
        pool: Arc<ThreadWakers>,
        log: Arc<dyn LogSink>,
        inboxes: Vec<UnboundedSender<Command>>,
        cache_limits: CacheLimits,
        scraper: Scraper,
        desk: Desk,
    ) -> io::Result<Self> {
        let empty = Snapshot::empty(inboxes.len());
        let empty = empty.map_err(|faults| io::Error::other(format!("{faults:?}")))?;
        Ok(Self {
            live: ArcSwap::from_pointee(empty),
            challenges: ArcSwap::default(),
            log,
            pool,
            counters: inboxes.iter().map(|_| Arc::default()).collect(),
            accepting: AtomicUsize::new(inboxes.len()),
            inboxes,
            cache_limits,
            holdings: Arc::default(),
            recent: Recent::default(),
            scraper,
            desk: Arc::new(desk),
            is_draining: AtomicBool::new(false),
            drains_gently: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            retired: Mutex::default(),
            leaving: Mutex::default(),
            http3: Http3Sockets::default(),
        })
    }

    /// Removed listeners of which connections are still passed on.
    pub(crate) fn leaving(&self) -> MutexGuard<'_, Vec<Arc<SharedListener>>> {
        // Entries are added and removed whole.
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|listener| listener.has_connections());
        leaving
    }

    pub(crate) fn retired(&self) -> MutexGuard<'_, FxHashMap<u64, Arc<Snapshot>>> {
        // Entries are added and removed whole.
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State of one thread. Cells and `RefCell`s are borrowed within a call only, never across an `await`.
pub(crate) struct Local {
    pub(crate) thread: u32,
    pub(crate) shared: Arc<Shared>,
    pub(crate) buffers: Rc<Buffers>,
    pub(crate) own_fields: OwnFields,
    pub(crate) files: FileCache,
    pub(crate) connections: Rc<Connections>,
    pub(crate) access_log: LogBuffer,
    /// Connections and buffers of requests to upstreams.
    pub(crate) proxy: Rc<Resources>,
    pub(crate) draining: Cell<bool>,
    /// Mirrored requests in progress.
    pub(crate) copies: Cell<u32>,
    /// Rate limit of the lines about failures.
    failures: LineLimit,
    /// Rate limit of the lines about errors of clients.
    client_errors: LineLimit,
    /// Keys of `$request_id`.
    identity: std::hash::RandomState,
    serial: Cell<u64>,
    #[expect(
        clippy::vec_box,
        reason = "heads are large, and move between requests and this list"
    )]
    heads: RefCell<Vec<Box<RequestHead>>>,
    /// Lists of fields for the heads of responses.
    fields: RefCell<Vec<FieldLines>>,
    snapshot: RefCell<arc_swap::Cache<LiveRef, Arc<Snapshot>>>,
    /// Notified when the last connection has ended while draining.
    pub(crate) ended: tokio::sync::Notify,
}

/// Lets `arc_swap::Cache` read [`Shared`].
#[derive(Clone)]
pub(crate) struct LiveRef(Arc<Shared>);

impl std::ops::Deref for LiveRef {
    type Target = ArcSwap<Snapshot>;

    fn deref(&self) -> &Self::Target {
        &self.0.live
    }
}

/// Time for which a line of the log is not repeated.
const LINE_WINDOW: Duration = Duration::from_secs(1);

/// Most different lines in that time: more may contain values that clients choose.
const DIFFERENT_LINES: usize = 8;

/// Request heads kept per thread, and as many lists of fields.
const KEPT_HEADS: usize = 64;

/// Most response heads have no more bytes and fields.
const HEAD_BYTES: usize = 512;
const HEAD_FIELDS: usize = 16;

/// A longer list of fields is not kept.
const KEPT_FIELD_BYTES: usize = 8 * 1024;

impl Local {
    pub(crate) fn new(thread: u32, shared: Arc<Shared>) -> Self {
        let buffers = Rc::<Buffers>::default();
        Self {
            thread,
            buffers: Rc::clone(&buffers),
            own_fields: OwnFields::new(),
            files: FileCache::new(shared.cache_limits, Arc::clone(&shared.live.load().mime)),
            connections: Rc::new(Connections::new()),
            access_log: LogBuffer::default(),
            proxy: Rc::new(Resources::new(buffers)),
            draining: Cell::new(false),
            copies: Cell::new(0),
            failures: LineLimit::new(LINE_WINDOW, DIFFERENT_LINES),
            client_errors: LineLimit::new(LINE_WINDOW, DIFFERENT_LINES),
            identity: std::hash::RandomState::new(),
            serial: Cell::new(0),
            heads: RefCell::default(),
            fields: RefCell::default(),
            snapshot: RefCell::new(arc_swap::Cache::new(LiveRef(Arc::clone(&shared)))),
            ended: tokio::sync::Notify::new(),
            shared,
        }
    }

    pub(crate) fn counters(&self) -> &Arc<ThreadCounters> {
        &self.shared.counters[self.thread as usize]
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        self.shared.log.log(level, message);
    }

    /// Logs a failure that may affect very many requests at once: each line at most once a second and thread, with the number of suppressed
    /// ones.
    pub(crate) fn log_failure(&self, level: Level, message: &str) {
        self.log_limited(&self.failures, level, message, String::new);
    }

    /// The same for a request: `id` returns its id, which does not count when lines are compared.
    pub(crate) fn log_failure_of(&self, level: Level, message: &str, id: impl FnOnce() -> String) {
        self.log_limited(&self.failures, level, message, id);
    }

    /// The same for errors of clients, which must not hide failures.
    pub(crate) fn log_client_error_of(
        &self,
        level: Level,
        message: &str,
        id: impl FnOnce() -> String,
    ) {
        self.log_limited(&self.client_errors, level, message, id);
    }

    /// The same for an error of a client without a request.
    pub(crate) fn log_client_error(&self, level: Level, message: &str) {
        self.log_limited(&self.client_errors, level, message, String::new);
    }

    fn log_limited(
        &self,
        limit: &LineLimit,
        level: Level,
        message: &str,
        id: impl FnOnce() -> String,
    ) {
        let Some(left_out) = limit.admit(message, now_millis()) else {
            return;
        };
        let mut line = Cow::Borrowed(message);
        if left_out > 0 {
            line = format!("{message} (and {left_out} more lines were suppressed)").into();
        }
        match id().as_str() {
            "" => self.log(level, &line),
            id => self.shared.log.log_of_request(level, &line, id),
        }
    }

    /// The configuration in force. A request keeps the one with which it began.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let snapshot = Arc::clone(self.snapshot.borrow_mut().load());
        self.files.set_types(&snapshot.mime);
        snapshot
    }

    /// True if `snapshot` is the configuration in force.
    pub(crate) fn has_in_force(&self, snapshot: &Arc<Snapshot>) -> bool {
        Arc::ptr_eq(self.snapshot.borrow_mut().load(), snapshot)
    }

    /// The timeouts of a listener in the configuration in force.
    pub(crate) fn timeouts(&self, listener: &SharedListener) -> Timeouts {
        let mut live = self.snapshot.borrow_mut();
        let snapshot = live.load();
        let settings = snapshot.settings_of(listener.id);
        snapshot.settings.get(settings).timeouts
    }

    /// Closes idle connections to servers that are not in the configuration any more.
    pub(crate) fn prune_upstreams(&self) {
        let snapshot = self.snapshot();
        let groups = snapshot.upstreams.iter();
        let used: FxHashSet<u64> = groups
            .flat_map(|group| group.servers())
            .map(|server| server.id())
            .collect();
        self.proxy.keep_only(|id| used.contains(&id));
    }

    /// The configuration for requests that arrive through `listener`.
    pub(crate) fn snapshot_of(&self, listener: &SharedListener) -> Arc<Snapshot> {
        self.snapshot_at(listener).0
    }

    /// The same, and the number of the listener there.
    pub(crate) fn snapshot_at(&self, listener: &SharedListener) -> (Arc<Snapshot>, Option<usize>) {
        let live = self.snapshot();
        if let Some(position) = live.position_of(listener.id) {
            return (live, Some(position));
        }
        let retired = self.shared.retired();
        let snapshot = retired.get(&listener.id).map_or(live, Arc::clone);
        let position = snapshot.position_of(listener.id);
        (snapshot, position)
    }

    /// Numbers the requests of this thread.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.set(self.serial.get().wrapping_add(1));
        self.serial.get()
    }

    /// A number that cannot be guessed, for the request with this number.
    pub(crate) fn hash(&self, serial: u64, salt: u8) -> u64 {
        self.identity.hash_one((self.thread, serial, salt))
    }

    pub(crate) fn take_head(&self) -> Box<RequestHead> {
        self.heads.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_head(&self, mut head: Box<RequestHead>) {
        let mut heads = self.heads.borrow_mut();
        if heads.len() < KEPT_HEADS {
            head.reset();
            heads.push(head);
        }
    }

    /// An empty list for the fields of a response.
    pub(crate) fn take_fields(&self) -> FieldLines {
        let kept = self.fields.borrow_mut().pop();
        kept.unwrap_or_else(|| FieldLines::with_capacity(HEAD_BYTES, HEAD_FIELDS))
    }

    /// Takes back a list whose response has been sent and logged.
    pub(crate) fn give_fields(&self, mut list: FieldLines) {
        let mut fields = self.fields.borrow_mut();
        if (HEAD_BYTES..=KEPT_FIELD_BYTES).contains(&list.capacity()) && fields.len() < KEPT_HEADS {
            list.clear();
            fields.push(list);
        }
    }

    /// Called when this thread accepts nothing any more; connections passed to others are in their inboxes. The last thread notifies all.
    pub(crate) fn accepts_no_more(&self) {
        if self.shared.accepting.fetch_sub(1, Ordering::AcqRel) == 1 {
            for inbox in &self.shared.inboxes {
                // A thread that has ended needs no notification.
                let _ = inbox.send(Command::AllDrained);
            }
        }
    }

    /// True if the thread must end, has no connection, and will get none: one on its way is counted before it is passed.
    pub(crate) fn has_drained(&self) -> bool {
        self.draining.get()
            && self.shared.accepting.load(Ordering::Acquire) == 0
            && self.counters().open.load(Ordering::Relaxed) == 0
    }

    /// True if connections must end because the server ends. Check it only after seeing that they must end.
    pub(crate) fn is_draining(&self) -> bool {
        fence(Ordering::Acquire);
        self.shared.is_draining.load(Ordering::Relaxed)
    }

    /// True if connections that must end may still finish by themselves. Check it only after seeing that they must end.
    pub(crate) fn drains_gently(&self) -> bool {
        fence(Ordering::Acquire);
        self.shared.drains_gently.load(Ordering::Relaxed)
    }

    /// True if the time for connections to finish by themselves is over.
    pub(crate) fn is_cut(&self) -> bool {
        fence(Ordering::Acquire);
        self.shared.is_cut.load(Ordering::Relaxed)
    }

    /// Has this thread serve a connection of the server to itself, which counts as open from now on.
    pub(crate) fn serve(&self, command: Command) -> Result<(), ()> {
        let open = &self.counters().open;
        open.fetch_add(1, Ordering::Relaxed);
        let inbox = self.shared.inboxes.get(self.thread as usize);
        if inbox.is_some_and(|inbox| inbox.send(command).is_ok()) {
            return Ok(());
        }
        open.fetch_sub(1, Ordering::Relaxed);
        Err(())
    }

    /// Called when a connection has ended.
    pub(crate) fn connection_ended(&self) {
        let counters = self.counters();
        counters.closed.add(1);
        if counters.open.fetch_sub(1, Ordering::Relaxed) == 1 && self.draining.get() {
            self.ended.notify_one();
        }
    }
}
