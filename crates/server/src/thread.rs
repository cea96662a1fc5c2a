//! A listen thread: one current-thread runtime, and everything its connections share without locks.
//!
//! Started by [`Server`](crate::Server), told what to do by [`Command`]s. Its tasks are: the command loop, one accept loop per
//! listener, the deadline sweeper, the application completion task, and one task per connection. Nothing here may block but file
//! reads of regular files.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use rustc_hash::FxHashMap;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tutti_http::RequestHead;
use tutti_pool::{Level, LogSink, Threads};

use crate::access_log::LogBuffer;
use crate::buffers::Buffers;
use crate::clock::{DateCache, Millis, now_millis};
use crate::connection;
use crate::connections::{Connections, sweep_forever};
use crate::counters::ThreadCounters;
use crate::files::cache::{CacheLimits, FileCache};
use crate::listen::{Accepted, Listener, accept_forever};
use crate::snapshot::Snapshot;

/// What a listen thread can be told.
pub(crate) enum Command {
    /// Serve a connection another thread accepted.
    Adopt(Accepted),
    /// Accept on this listener.
    Listen(Arc<Listener>),
    /// Stop accepting on the listener of this id, and close its idle connections.
    Unlisten(u64),
    /// Another configuration is live.
    Refresh,
    /// Stop accepting at all, close idle connections, let the others finish their request; the thread ends after the last one.
    Drain,
    /// End now.
    Quit,
}

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) live: ArcSwap<Snapshot>,
    pub(crate) log: Arc<dyn LogSink>,
    pub(crate) pool: Arc<Threads>,
    pub(crate) counters: Vec<ThreadCounters>,
    pub(crate) inboxes: Vec<UnboundedSender<Command>>,
    pub(crate) cache_limits: CacheLimits,
}

/// State of one thread. Cells and `RefCell`s are borrowed for the length of a call only, never over an `await`.
pub(crate) struct Local {
    pub(crate) thread: u32,
    pub(crate) shared: Arc<Shared>,
    pub(crate) buffers: Buffers,
    pub(crate) date: DateCache,
    pub(crate) files: FileCache,
    pub(crate) connections: Rc<Connections>,
    pub(crate) access_log: LogBuffer,
    pub(crate) draining: Cell<bool>,
    /// When [`Local::complain`] last logged, and what it left out since.
    complained: Cell<(Option<Millis>, u64)>,
    /// Keys of `$request_id`.
    pub(crate) identity: std::hash::RandomState,
    serial: Cell<u64>,
    #[expect(
        clippy::vec_box,
        reason = "heads are large, and move between requests and this list"
    )]
    heads: RefCell<Vec<Box<RequestHead>>>,
    snapshot: RefCell<arc_swap::Cache<LiveRef, Arc<Snapshot>>>,
    /// Address of the MIME table the cached files were typed with.
    mime_table: Cell<usize>,
    accepting: RefCell<FxHashMap<u64, AbortHandle>>,
    ended: tokio::sync::Notify,
}

/// Lets `arc_swap::Cache` look into [`Shared`].
#[derive(Clone)]
pub(crate) struct LiveRef(Arc<Shared>);

impl std::ops::Deref for LiveRef {
    type Target = ArcSwap<Snapshot>;

    fn deref(&self) -> &Self::Target {
        &self.0.live
    }
}

/// Request heads kept per thread.
const KEPT_HEADS: usize = 64;

impl Local {
    fn new(thread: u32, shared: Arc<Shared>) -> Self {
        Self {
            thread,
            buffers: Buffers::default(),
            date: DateCache::new(),
            files: FileCache::new(shared.cache_limits),
            connections: Rc::new(Connections::new()),
            access_log: LogBuffer::default(),
            draining: Cell::new(false),
            complained: Cell::default(),
            identity: std::hash::RandomState::new(),
            serial: Cell::new(0),
            heads: RefCell::default(),
            snapshot: RefCell::new(arc_swap::Cache::new(LiveRef(Arc::clone(&shared)))),
            mime_table: Cell::new(0),
            accepting: RefCell::default(),
            ended: tokio::sync::Notify::new(),
            shared,
        }
    }

    pub(crate) fn counters(&self) -> &ThreadCounters {
        &self.shared.counters[self.thread as usize]
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        self.shared.log.log(level, message);
    }

    /// Logs what may happen to very many requests at once: at most once a second and thread, with the number of those left out.
    pub(crate) fn complain(&self, level: Level, message: &str) {
        let now = now_millis();
        let (last, left_out) = self.complained.get();
        if last.is_some_and(|last| now.saturating_sub(last) < 1_000) {
            self.complained.set((last, left_out + 1));
            return;
        }
        self.complained.set((Some(now), 0));
        if left_out == 0 {
            self.log(level, message);
        } else {
            self.log(
                level,
                &format!("{message} (and {left_out} more such lines)"),
            );
        }
    }

    /// The live configuration. A request keeps the one it began with.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let snapshot = Arc::clone(self.snapshot.borrow_mut().load());
        let table = Arc::as_ptr(&snapshot.mime) as usize;
        if self.mime_table.replace(table) != table {
            self.files.clear();
        }
        snapshot
    }

    /// Numbers the requests of this thread.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.set(self.serial.get().wrapping_add(1));
        self.serial.get()
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

    /// Serves a connection here or, where another thread holds clearly fewer, there.
    pub(crate) fn place(self: &Rc<Self>, accepted: Accepted) {
        let mine = self.counters().open.load(Ordering::Relaxed);
        let least = self
            .shared
            .counters
            .iter()
            .zip(&self.shared.inboxes)
            .min_by_key(|(counters, _)| counters.open.load(Ordering::Relaxed));
        if let Some((counters, inbox)) = least {
            let theirs = counters.open.load(Ordering::Relaxed);
            // An eighth, and two, is balance enough: each hand-over wakes a thread.
            if mine > theirs + 2 + theirs / 8 {
                // Counted for the receiver at once, or a burst would all go to the same thread.
                counters.open.fetch_add(1, Ordering::Relaxed);
                match inbox.send(Command::Adopt(accepted)) {
                    Ok(()) => return,
                    Err(unsent) => {
                        counters.open.fetch_sub(1, Ordering::Relaxed);
                        if let Command::Adopt(accepted) = unsent.0 {
                            self.serve_new(accepted);
                        }
                        return;
                    }
                }
            }
        }
        self.serve_new(accepted);
    }

    fn serve_new(self: &Rc<Self>, accepted: Accepted) {
        self.counters().open.fetch_add(1, Ordering::Relaxed);
        self.serve(accepted);
    }

    fn serve(self: &Rc<Self>, accepted: Accepted) {
        connection::spawn(Rc::clone(self), accepted);
    }

    /// A connection has ended.
    pub(crate) fn connection_ended(&self) {
        let counters = self.counters();
        counters.closed.add(1);
        if counters.open.fetch_sub(1, Ordering::Relaxed) == 1 && self.draining.get() {
            self.ended.notify_one();
        }
    }

    fn listen(self: &Rc<Self>, listener: Arc<Listener>) {
        let id = listener.id;
        let task = tokio::task::spawn_local(accept_forever(Rc::clone(self), listener));
        if let Some(former) = self.accepting.borrow_mut().insert(id, task.abort_handle()) {
            former.abort();
        }
    }

    fn unlisten(&self, id: u64) {
        if let Some(task) = self.accepting.borrow_mut().remove(&id) {
            task.abort();
        }
        self.connections.wake_all();
    }

    fn drain(&self) {
        self.draining.set(true);
        self.accepting
            .borrow_mut()
            .drain()
            .for_each(|(_, task)| task.abort());
        self.connections.wake_all();
        if self.counters().open.load(Ordering::Relaxed) == 0 {
            self.ended.notify_one();
        }
    }

    /// Carries out commands until told to end.
    async fn run(self: &Rc<Self>, inbox: &mut UnboundedReceiver<Command>) {
        loop {
            let command = tokio::select! {
                command = inbox.recv() => command,
                () = self.ended.notified() => return,
            };
            match command {
                Some(Command::Adopt(accepted)) => self.serve(accepted),
                Some(Command::Listen(listener)) => self.listen(listener),
                Some(Command::Unlisten(id)) => self.unlisten(id),
                Some(Command::Refresh) => drop(self.snapshot()),
                Some(Command::Drain) => self.drain(),
                Some(Command::Quit) | None => return,
            }
        }
    }
}

/// Starts a listen thread.
pub(crate) fn start(
    thread: u32,
    shared: Arc<Shared>,
    mut inbox: UnboundedReceiver<Command>,
    alive: Arc<watch::Sender<usize>>,
) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new()
        .name(format!("listen-{thread}"))
        .spawn(move || {
            let _alive = Alive(alive);
            let log = Arc::clone(&shared.log);
            if let Err(error) = body(thread, shared, &mut inbox) {
                log.log(
                    Level::Alert,
                    &format!("listen thread {thread} cannot run: {error}"),
                );
            }
        })
}

/// Counts a thread out, also if it panics.
struct Alive(Arc<watch::Sender<usize>>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

thread_local! {
    /// For the hook that runs before the thread sleeps, which cannot capture what is not `Send`.
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

fn before_sleep() {
    // Completions of applications: tasks that this wakes keep the runtime from sleeping.
    tutti_pool::threads::park();
    CURRENT.with_borrow(|current| {
        if let Some(local) = current {
            local.access_log.flush();
        }
    });
}

fn body(
    thread: u32,
    shared: Arc<Shared>,
    inbox: &mut UnboundedReceiver<Command>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_park(before_sleep)
        .on_thread_unpark(tutti_pool::threads::unpark)
        .build_local(LocalOptions::default())?;
    let pool = Arc::clone(&shared.pool);
    pool.enter(thread);
    let local = Rc::new(Local::new(thread, shared));
    CURRENT.set(Some(Rc::clone(&local)));
    runtime.block_on(async {
        let watched = Rc::clone(&local);
        tokio::task::spawn_local(async move {
            if let Err(error) = pool.watch(thread).await {
                watched.log(
                    Level::Alert,
                    &format!("listen thread {thread} cannot hear applications: {error}"),
                );
            }
        });
        tokio::task::spawn_local(sweep_forever(Rc::clone(&local.connections)));
        local.run(inbox).await;
    });
    CURRENT.set(None);
    drop(runtime);
    local.access_log.flush();
    Ok(())
}
