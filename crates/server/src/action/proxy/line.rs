//! Waiting for a connection that another request of the thread is using.
//!
//! Must never: hold a request when nobody of its thread is being served, which `tutti_upstream` sees to, or when its client has gone.

use tutti_upstream::{Claim, Connection, PATIENCE};

use super::wait::{self, Deadline};
use crate::clock::now_millis;
use crate::output::{Gone, Output};
use crate::request::Request;

/// Waits for a connection that another request of the thread is using, where that is better than to open one.
pub(super) async fn wait(
    request: &Request<'_>,
    output: &mut Output,
    claim: &Claim,
) -> Result<Option<Connection>, Gone> {
    let (pools, server) = (&request.connection.local.upstreams, claim.server());
    let Some(line) = pools.line(server, now_millis()) else {
        return Ok(None);
    };
    let Some(place) = line.enter() else {
        return Ok(None);
    };
    let deadline = Deadline::new();
    deadline.set(PATIENCE);
    let taken = wait::server(request, output, &deadline, |context| {
        pools.poll_take((&line, &place), server, now_millis(), context)
    })
    .await?;
    Ok(taken.unwrap_or(None))
}
