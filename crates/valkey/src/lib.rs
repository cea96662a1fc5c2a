//! Counts requests for several servers in a Valkey or a Redis: one round trip and one atomic operation for each request.
//!
//! [`Store::count`] is called on listen threads. A thread of the store's own keeps the connection. Where there is none, a request is told
//! so at once; where the answer does not come in time, after that time, and after a few of these the connection is given up and made
//! anew beside the requests. The caller decides what is done without an answer.
//!
//! | Module | holds |
//! |---|---|
//! | `script` | the operation, its keys and its answers |
//! | `connecting` | a connection: TCP, TLS, password, and a trial |
//! | `keeping` | the thread that keeps it |
//! | `files` | the content of the files that it needs |
//!
//! Must never: hold up a listen thread, keep a request longer than its time, or let what clients send become a name of a key.

#![forbid(unsafe_code)]

mod connecting;
mod files;
mod keeping;
mod script;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use tokio::time::timeout;
use tutti_config::model::LimitStore;

use self::connecting::Open;
pub use self::script::{Answer, Bound};

/// An answer that takes time.
pub type Pinned<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

/// The ways of a store to what is around it.
pub trait Surroundings: Send + Sync {
    /// The content of a file that the configuration names.
    fn read<'s>(&'s self, file: &'s Path) -> Pinned<'s, Result<Vec<u8>, String>>;

    /// The addresses of a name.
    fn addresses<'s>(&'s self, host: &'s str) -> Pinned<'s, Result<Vec<IpAddr>, String>>;

    /// Something that is worth a line in the log.
    fn tell(&self, event: Event, text: &str);
}

/// Events of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It does not answer from now on.
    Lost,
    /// It does again.
    Found,
}

/// The store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away;

/// A store of counts.
pub struct Store {
    /// As it is configured.
    pub model: Arc<LimitStore>,
    open: ArcSwapOption<Open>,
    state: Mutex<State>,
    has_begun: AtomicBool,
    answered: AtomicU64,
    failed: AtomicU64,
}

/// The knowledge of whether it is there.
#[derive(Default)]
struct State {
    /// Why it is not; `None`: it is, or nobody has tried.
    error: Option<String>,
    is_told: bool,
}

/// A store at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// It answers.
    pub is_connected: bool,
    /// Why it does not.
    pub error: Option<String>,
    /// Requests that it has counted.
    pub answered: u64,
    /// Requests for which there was no answer.
    pub failed: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.model.name)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// One that is not connected.
    pub fn new(model: &Arc<LimitStore>) -> Arc<Self> {
        Arc::new(Self {
            model: Arc::clone(model),
            open: ArcSwapOption::empty(),
            state: Mutex::default(),
            has_begun: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// True if it is this one.
    pub fn is(&self, model: &LimitStore) -> bool {
        *self.model == *model
    }

    /// Begins to connect, unless it has. Its thread ends when nobody has the store any more.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin(
        self: &Arc<Self>,
        around: impl FnOnce() -> Arc<dyn Surroundings>,
    ) -> io::Result<()> {
        match self.has_begun.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => keeping::start(Arc::downgrade(self), around()),
        }
    }

    /// Counts a request of this key of a limit.
    ///
    /// # Errors
    /// There is no answer, or none in time.
    pub async fn count(&self, limit: &str, key: &[u8], bound: Bound) -> Result<Answer, Away> {
        let Some(open) = self.open.load_full() else {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Err(Away);
        };
        let name = script::key(&self.model.prefix, limit, key);
        let asked = timeout(self.model.timeout, open.ask(&name, bound)).await;
        let why = match asked {
            Ok(Ok(answer)) => {
                open.has_answered();
                self.answered.fetch_add(1, Ordering::Relaxed);
                return Ok(answer);
            }
            Ok(Err(why)) => Some(why),
            Err(_) => None,
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        open.has_failed(why, self.model.timeout);
        Err(Away)
    }

    /// As it is now.
    pub fn status(&self) -> Status {
        Status {
            is_connected: self.open.load().is_some(),
            error: self.state().error.clone(),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests are counted over this connection from now on.
    fn found(&self, open: Arc<Open>, around: &dyn Surroundings) {
        self.open.store(Some(open));
        let mut state = self.state();
        state.error = None;
        if std::mem::take(&mut state.is_told) {
            around.tell(Event::Found, &format!("{self} answers again"));
        }
    }

    /// It is not there, which is told once.
    fn lost(&self, why: String, around: &dyn Surroundings) {
        self.open.store(None);
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_told, true) {
            let text = format!(
                "{self} does not answer: {why}; until it does, limits that are counted there do what their `on_error` says"
            );
            around.tell(Event::Lost, &text);
        }
        state.error = Some(why);
    }
}

/// `the store of limits "shared" at 10.0.0.1:6379`.
impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, address) = (&self.model.name, &self.model.address);
        write!(
            f,
            "the store of limits \"{name}\" at {}:{}",
            address.host, address.port
        )
    }
}
