//! Texts of the store that are followed forever, whatever happens to the store.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};
use tutti_dialer::Backoff;
use tutti_fleet_store::store::{Entries, FleetStore, FleetStoreError};

/// The pause before unchanged texts are processed again because something they need was missing.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// Processes the texts of one prefix.
pub(crate) trait Follower: Send {
    /// Changes within this time are processed together.
    const TOGETHER: Duration = Duration::ZERO;

    /// The store is available, again or for the first time; `server` is the member that the texts come from.
    fn found(&mut self, _server: String) {}

    /// Processes all texts, after each change. Returns the pause after which unchanged ones must be processed again.
    fn process(
        &mut self,
        entries: &Entries,
    ) -> impl Future<Output = Result<Option<Duration>, FleetStoreError>> + Send;

    /// The store is not available. The follower of the heads logs it.
    fn lost(&mut self, _error: FleetStoreError) {}
}

/// Follows all texts with this prefix.
pub(crate) async fn follow<F: Follower>(
    store: &dyn FleetStore,
    prefix: &str,
    longest_pause: Duration,
    mut follower: F,
) {
    let mut backoff = Backoff::new(longest_pause);
    loop {
        let Err(error) = follow_once(store, prefix, &mut backoff, &mut follower).await;
        follower.lost(error);
        sleep(backoff.after_failure()).await;
    }
}

async fn follow_once<F: Follower>(
    store: &dyn FleetStore,
    prefix: &str,
    backoff: &mut Backoff,
    follower: &mut F,
) -> Result<Infallible, FleetStoreError> {
    let mut following = store.follow(prefix).await?;
    let mut entries = following.next().await?;
    // Not the member that the store is connected to now, because another call may have switched.
    follower.found(following.server());
    loop {
        let pause = follower.process(&entries).await?;
        backoff.reset();
        // `next` can be cancelled: what has arrived is returned by the next call.
        entries = match pause {
            None => following.next().await?,
            Some(pause) => match timeout(pause, following.next()).await {
                Ok(next) => next?,
                Err(_) => continue,
            },
        };
        let end = Instant::now() + F::TOGETHER;
        while Instant::now() < end
            && let Ok(more) = timeout_at(end, following.next()).await
        {
            entries = more?;
        }
    }
}
