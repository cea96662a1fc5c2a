//! Limits that are counted in a store, for several servers: the request waits briefly for its answer.
//!
//! Must never: count a request in a store before all limits without a store have admitted it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_config::model::LimitFallback;
use tutti_conn::output::Gone;
use tutti_guard::{CountedAt, RequestLimit};
use tutti_http::FieldLines;

use super::limits::{self, Pace};
use super::response::GuardResponse;
use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::plan::Plan;

/// Has the stores of its limits count a request; returns the pause that it has to make, at least this one.
pub(super) async fn ask(
    request: &Request<'_>,
    plan: &Plan,
    pause: Duration,
) -> Result<Result<Duration, GuardResponse>, Gone> {
    let guards = &request.snapshot.guards;
    let limits = guards.of(&plan.guards).flat_map(|guard| &guard.limits);
    let mut counted = limits.filter(|limit| limit.store.is_some()).peekable();
    if counted.peek().is_none() {
        return Ok(Ok(pause));
    }
    // Boxed, so that requests without such a limit have no memory for it.
    let asking = Box::pin(async move {
        let mut pause = pause;
        for limit in counted {
            match count_once(request, plan, limit).await? {
                Pace::In(time) => pause = pause.max(time),
                Pace::Now | Pace::Asked => {}
            }
        }
        Ok::<_, GuardResponse>(pause)
    });
    request.unless_gone(asking).await
}

/// Has the store count the request, unless that has been done.
async fn count_once(
    request: &Request<'_>,
    plan: &Plan,
    limit: &Arc<RequestLimit>,
) -> Result<Pace, GuardResponse> {
    let mut key = Vec::new();
    limits::write_key(request, plan, limit, &mut key)?;
    let admission = &request.exchange.admission;
    if key.is_empty() || admission.has_passed(limit, &key, CountedAt::Store) {
        return Ok(Pace::Now);
    }
    let pace = count(request, limit, &key).await?;
    admission.note_passed(limit, &key, CountedAt::Store);
    Ok(pace)
}

async fn count(
    request: &Request<'_>,
    limit: &RequestLimit,
    key: &[u8],
) -> Result<Pace, GuardResponse> {
    let Some(rate) = &limit.rate else {
        return Ok(Pace::Now);
    };
    if let Ok(taken) = limit.take_from_store(key).await {
        return limits::taken_from(request, limit, rate.whole(), taken);
    }
    match limit.model.options.on_error {
        LimitFallback::Refuse if !limit.model.options.dry_run => Err(refuse(request, limit)),
        LimitFallback::Refuse | LimitFallback::Share => {
            let taken = rate.take(key, Instant::now());
            limits::taken_from(request, limit, rate.own(), taken)
        }
    }
}

/// The answer to a request that could not be counted.
fn refuse(request: &Request<'_>, limit: &RequestLimit) -> GuardResponse {
    let place = &limit.model.pointer;
    let reason = format!("the store of `{place}` does not answer");
    refusals::failed(&request.client.local, request, 503, &reason);
    let mut fields = FieldLines::new();
    fields.push_number(b"Retry-After", 1);
    GuardResponse {
        status: 503,
        fields,
        body: None,
    }
}
