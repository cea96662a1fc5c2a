//! The connection of a store, and the thread that keeps it open, so that no listen thread waits for it.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tutti_config::model::LimitStore;
use tutti_dialer::Backoff;

use super::connecting::{Driver, Open, connect};
use super::environment::{StoreEnvironment, StoreEvent};

/// The timeout of an attempt to connect, including files and test.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(3);

/// The pause after the first failed attempt, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Interval between the thread's checks whether the store is still used.
const LOOK: Duration = Duration::from_secs(1);

/// The current connection, if there is one.
pub(crate) struct Kept {
    model: Arc<LimitStore>,
    open: ArcSwapOption<Open>,
    state: Mutex<State>,
}

/// The state of the connection.
#[derive(Default)]
struct State {
    /// Why it is not open; `None`: it is, or has not been tried.
    error: Option<String>,
    is_logged: bool,
}

/// `the store of limits "shared" at 10.0.0.1:6379`.
impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, address) = (&self.model.name, &self.model.address);
        write!(
            f,
            "the store of limits \"{name}\" at {}:{}",
            address.host, address.port
        )
    }
}

impl Kept {
    pub(crate) fn new(model: &Arc<LimitStore>) -> Kept {
        Kept {
            model: Arc::clone(model),
            open: ArcSwapOption::empty(),
            state: Mutex::default(),
        }
    }

    /// The connection.
    pub(crate) fn open(&self) -> Option<Arc<Open>> {
        self.open.load_full()
    }

    /// Why there is none.
    pub(crate) fn error(&self) -> Option<String> {
        self.state().error.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the connection for requests.
    fn found(&self, open: Arc<Open>, around: &dyn StoreEnvironment) {
        self.open.store(Some(open));
        let mut state = self.state();
        state.error = None;
        if std::mem::take(&mut state.is_logged) {
            around.report(StoreEvent::Found, &format!("{self} answers again"));
        }
    }

    /// Notes that it is lost, and logs that once.
    fn lost(&self, why: String, around: &dyn StoreEnvironment) {
        self.open.store(None);
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_logged, true) {
            let text = format!(
                "{self} does not answer: {why}; until it does, the `on_error` of its limits applies"
            );
            around.report(StoreEvent::Lost, &text);
        }
        state.error = Some(why);
    }
}

/// Starts the thread.
pub(crate) fn start(store: Weak<Kept>, around: Arc<dyn StoreEnvironment>) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    std::thread::Builder::new()
        .name("limits".to_owned())
        .spawn(move || runtime.block_on(keep(&store, &*around)))?;
    Ok(())
}

async fn keep(store: &Weak<Kept>, around: &dyn StoreEnvironment) {
    let mut backoff = Backoff::beginning_with(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let Some(model) = store.upgrade().map(|store| Arc::clone(&store.model)) else {
            return;
        };
        let attempt = timeout(LONGEST_ATTEMPT, connect(&model, around)).await;
        let late = || Err(format!("no answer within {} s", LONGEST_ATTEMPT.as_secs()));
        let why = match attempt.unwrap_or_else(|_| late()) {
            Ok((open, driver)) => {
                let open = Arc::new(open);
                match store.upgrade() {
                    Some(store) => store.found(Arc::clone(&open), around),
                    None => return,
                }
                let Some(why) = use_up(store, &open, driver).await else {
                    return;
                };
                if open.was_of_use() {
                    backoff.reset();
                }
                why
            }
            Err(why) => why,
        };
        match store.upgrade() {
            Some(store) => store.lost(why, around),
            None => return,
        }
        sleep(backoff.after_failure()).await;
    }
}

/// Drives a connection as long as it can be used; returns why it cannot any more, or `None` if the store is not used any more.
async fn use_up(store: &Weak<Kept>, open: &Open, mut driver: Driver) -> Option<String> {
    loop {
        tokio::select! {
            () = &mut driver => return Some(open.reason()),
            () = open.is_broken.notified() => return Some(open.reason()),
            () = sleep(LOOK) => {
                if store.strong_count() == 0 {
                    return None;
                }
            }
        }
    }
}
