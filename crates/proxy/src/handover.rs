//! Waiting for a connection that another request of the thread is using.
//!
//! Must never: hold a request while no other request of its thread is being served (`tutti_upstream` ensures that), or after its client has
//! gone.

use tutti_conn::clock::now_millis;
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;
use tutti_upstream::{MAX_WAIT, Pools, ServerClaim, UpstreamConnection};

use crate::client::Client;
use crate::wait::{self, Deadline};

/// Waits for a connection that another request of the thread is using, if that is better than to open one.
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
    let deadline = Deadline::new(NEVER);
    deadline.set(MAX_WAIT);
    let taken = wait::server(client, &deadline, |context| {
        pools.poll_take((&queue, &place), server, now_millis(), context)
    })
    .await?;
    Ok(taken.unwrap_or(None))
}
