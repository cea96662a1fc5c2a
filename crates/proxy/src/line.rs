//! Waiting for a connection that another request of the thread is using.
//!
//! Must never: hold a request when nobody of its thread is being served, which `tutti_upstream` sees to, or when its client has gone.

use tutti_upstream::{Claim, Connection, PATIENCE, Pools};

use crate::client::Client;
use crate::wait::{self, Deadline};
use tutti_conn::clock::now_millis;
use tutti_conn::output::Gone;

/// Waits for a connection that another request of the thread is using, where that is better than to open one.
pub(crate) async fn wait<C: Client>(
    client: &mut C,
    pools: &Pools,
    claim: &Claim,
) -> Result<Option<Connection>, Gone> {
    let server = claim.server();
    let Some(line) = pools.line(server, now_millis()) else {
        return Ok(None);
    };
    let Some(place) = line.enter() else {
        return Ok(None);
    };
    let deadline = Deadline::new();
    deadline.set(PATIENCE);
    let taken = wait::server(client, &deadline, |context| {
        pools.poll_take((&line, &place), server, now_millis(), context)
    })
    .await?;
    Ok(taken.unwrap_or(None))
}
