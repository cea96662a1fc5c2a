//! The thread that keeps the connection of a store, so that no listen thread ever waits for one.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::connecting::{Driver, Open, connect};
use crate::{Store, Surroundings};

/// How long an attempt to connect may take, with the files that it needs and its trial.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(3);

/// The pause after the first attempt that has failed; it is doubled with each.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often the thread looks whether anybody has the store.
const LOOK: Duration = Duration::from_secs(1);

/// Starts the thread.
pub(crate) fn start(store: Weak<Store>, around: Arc<dyn Surroundings>) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    std::thread::Builder::new()
        .name("limits".to_owned())
        .spawn(move || runtime.block_on(keep(&store, &*around)))?;
    Ok(())
}

async fn keep(store: &Weak<Store>, around: &dyn Surroundings) {
    let mut pause = FIRST_PAUSE;
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
                    pause = FIRST_PAUSE;
                }
                why
            }
            Err(why) => why,
        };
        match store.upgrade() {
            Some(store) => store.lost(why, around),
            None => return,
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Drives a connection as long as it is of use; why it is not any more, or `None`: nobody has the store any more.
async fn use_up(store: &Weak<Store>, open: &Open, mut driver: Driver) -> Option<String> {
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
