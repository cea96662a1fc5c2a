//! Waiting for a connection that another request of the thread is using.
//!
//! Must never: hold a request when nobody of its thread is being served, which `tutti_upstream` sees to, or when its client has gone.

use tutti_conn::clock::now_millis;
use tutti_conn::output::Gone;
use tutti_upstream::{MAX_WAIT, Pools, ServerClaim, UpstreamConnection};

use crate::client::Client;
use crate::wait::{self, Deadline};

/// Waits for a connection that another request of the thread is using, where that is better than to open one.
pub(crate) async fn wait<C: Client>(
    client: &mut C,
    pools: &Pools,
    claim: &ServerClaim,
) -> Result<Option<UpstreamConnection>, Gone> {
    let server = claim.server();
    let Some(queue) = pools.thread_queue(server, now_millis()) else {
        return Ok(None);
    };
    let Some(place) = queue.enter() else {
        return Ok(None);
    };
    let deadline = Deadline::new();
    deadline.set(MAX_WAIT);
    let taken = wait::server(client, &deadline, |context| {
        pools.poll_take((&queue, &place), server, now_millis(), context)
    })
    .await?;
    Ok(taken.unwrap_or(None))
}
