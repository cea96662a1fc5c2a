//! Limits on requests: `limit` of an action.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_conn::connection_limits::ClientKey;
use tutti_guard::{Bound, CountedAt, Quota, RequestLimit, Taken};
use tutti_http::FieldLines;
use tutti_pool::Level;
use tutti_routing::{RequestInfo as _, Seen};

use super::response::GuardResponse;
use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::plan::Plan;

/// When a request may continue.
pub(super) enum Pace {
    Now,
    In(Duration),
    /// After the limit's store has been asked.
    Asked,
}

/// Counts a request for a limit, unless that has been done.
pub(super) fn pass(
    request: &Request<'_>,
    plan: &Plan,
    limit: &Arc<RequestLimit>,
) -> Result<Pace, GuardResponse> {
    let mut key = request.client.local.buffers.take();
    let outcome = match write_key(request, plan, limit, &mut key) {
        Ok(()) if key.is_empty() => Ok(Pace::Now),
        Ok(()) => count(request, limit, &key),
        Err(answer) => Err(answer),
    };
    request.client.local.buffers.give(key);
    outcome
}

fn count(
    request: &Request<'_>,
    limit: &Arc<RequestLimit>,
    key: &[u8],
) -> Result<Pace, GuardResponse> {
    let admission = &request.exchange.admission;
    let mut pace = Pace::Now;
    if !admission.has_passed(limit, key, CountedAt::Server) {
        pace = count_here(request, limit, key)?;
        admission.note_passed(limit, key, CountedAt::Server);
    }
    match limit.rate.is_some() && limit.store.is_some() {
        true => Ok(Pace::Asked),
        false => Ok(pace),
    }
}

/// Counts a request in the memory of this server.
fn count_here(
    request: &Request<'_>,
    limit: &RequestLimit,
    key: &[u8],
) -> Result<Pace, GuardResponse> {
    if let Some(concurrency) = &limit.concurrency {
        match concurrency.enter(key) {
            Some(permit) => request.exchange.admission.hold(permit),
            None => refuse(request, limit, None)?,
        }
    }
    if !limit.model.options.dry_run
        && let Some(bandwidths) = request.snapshot.bandwidths_of(&limit.model)
    {
        let shared = &request.exchange.bandwidths;
        shared.borrow_mut().push(bandwidths.of(key));
    }
    match limit.rate.as_ref().filter(|_| limit.store.is_none()) {
        None => Ok(Pace::Now),
        Some(rate) => {
            let taken = rate.take(key, Instant::now());
            taken_from(request, limit, rate.own(), taken)
        }
    }
}

/// Handles the result of a rate limit with this `quota`.
pub(super) fn taken_from(
    request: &Request<'_>,
    limit: &RequestLimit,
    quota: Quota,
    taken: Taken,
) -> Result<Pace, GuardResponse> {
    let options = &limit.model.options;
    match taken {
        Taken::Refused { retry } => {
            refuse(request, limit, Some((quota, retry)))?;
            Ok(Pace::Now)
        }
        Taken::Admitted {
            early,
            remaining,
            reset,
        } => {
            if options.announce && !options.dry_run {
                let admission = &request.exchange.admission;
                let mut put = |name: &str, value: &str| admission.add(name, value.as_bytes());
                limit.announce(quota, (remaining, reset), &mut put);
            }
            match options.delay && !options.dry_run && !early.is_zero() {
                true => Ok(Pace::In(early)),
                false => Ok(Pace::Now),
            }
        }
    }
}

/// The request exceeds the limit: it is refused, or only logged.
fn refuse(
    request: &Request<'_>,
    limit: &RequestLimit,
    rate: Option<(Quota, Duration)>,
) -> Result<(), GuardResponse> {
    let options = &limit.model.options;
    let what = match rate {
        Some(_) => "`rate`",
        None => "`concurrent`",
    };
    let place = &limit.model.pointer;
    limit.note_beyond(match rate {
        Some(_) => Bound::Rate,
        None => Bound::Concurrent,
    });
    let local = &request.client.local;
    if options.dry_run {
        let line = format!(
            "{what} of `{place}` is exceeded, logged only, because of `dry_run`, {}",
            refusals::origin(request)
        );
        local.log_client_error_of(Level::Info, &line, || refusals::id(request));
        return Ok(());
    }
    let reason = format!("{what} of `{place}` is exceeded");
    refusals::refused(local, request, options.status, &reason);
    let mut fields = FieldLines::new();
    if let Some((quota, retry)) = rate {
        fields.push_number(b"Retry-After", tutti_guard::seconds(retry));
        let mut put = |name: &str, value: &str| fields.push(name.as_bytes(), value.as_bytes());
        limit.announce(quota, (0, retry), &mut put);
    }
    Err(GuardResponse {
        status: options.status,
        fields,
        body: None,
    })
}

/// Writes the key under which a request is counted; empty: it is not counted.
pub(super) fn write_key(
    request: &Request<'_>,
    plan: &Plan,
    limit: &RequestLimit,
    key: &mut Vec<u8>,
) -> Result<(), GuardResponse> {
    let Some(template) = &limit.model.key else {
        ClientKey::write(request.remote().map(|address| address.ip()), key);
        return Ok(());
    };
    let seen = Seen {
        request,
        rewritten: plan.changes.rewritten.as_deref(),
        response: None,
    };
    // Without a key there would be no limit, so a script that fails refuses the request.
    tutti_routing::render(template, &seen, key).map_err(|_| GuardResponse::of(500))
}
