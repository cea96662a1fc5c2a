//! Texts of the store that are followed forever, whatever happens to the store.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tutti_dialer::Backoff;
use tutti_fleet_store::store::{Entries, FleetStore, FleetStoreError, Following};

/// When unchanged entries must be processed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Not before they change.
    Never,
    /// Soon: something they need was missing.
    Soon,
    /// After a while.
    Later,
}

impl Again {
    fn pause(self) -> Option<Duration> {
        match self {
            Again::Never => None,
            Again::Soon => Some(Duration::from_secs(1)),
            Again::Later => Some(Duration::from_secs(30)),
        }
    }
}

/// Follows all texts with this prefix, and processes them after each change. The follower of the heads logs an
/// unavailable store.
pub(crate) async fn watch<F>(
    store: Arc<dyn FleetStore>,
    prefix: &str,
    longest_pause: Duration,
    look: impl Fn(Entries) -> F,
) where
    F: Future<Output = Again>,
{
    let mut backoff = Backoff::new(longest_pause);
    loop {
        let Err(_) = watch_once(&store, prefix, &mut backoff, &look).await;
        sleep(backoff.after_failure()).await;
    }
}

async fn watch_once<F>(
    store: &Arc<dyn FleetStore>,
    prefix: &str,
    backoff: &mut Backoff,
    look: &impl Fn(Entries) -> F,
) -> Result<Infallible, FleetStoreError>
where
    F: Future<Output = Again>,
{
    let mut following = store.follow(prefix).await?;
    let mut entries = following.next().await?;
    backoff.reset();
    loop {
        let again = look(entries.clone()).await;
        entries = next_or_again(&mut *following, entries, again.pause()).await?;
    }
}

/// Returns the next entries; after `pause`, if there is one, the same ones again.
pub(crate) async fn next_or_again(
    following: &mut dyn Following,
    entries: Entries,
    pause: Option<Duration>,
) -> Result<Entries, FleetStoreError> {
    match pause {
        None => following.next().await,
        // Not cancelled while data has arrived: it would be lost with the future.
        Some(pause) => timeout(pause, following.next())
            .await
            .unwrap_or(Ok(entries)),
    }
}
