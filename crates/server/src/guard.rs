//! Stands before actions: one place for everything that may answer a request, change its fields or make it wait before anything
//! else is done with it.
//!
//! [`enter`] is called with the plan for each request whose actions have a guard, [`wait`] where that has to wait. The decisions are
//! `tutti-guard`'s; here are the request they are about, the fields that come of them, and the state that outlives a configuration.
//!
//! Must never: let a request by that could not be decided, or do anything of an action before all that stands before it has been passed.

mod identity;
mod limits;
pub(crate) mod response;
mod stores;
mod subrequest;

use std::time::Duration;

use tutti_config::model;
use tutti_guard::{AuthKind, cors};
use tutti_http::edits::{Edit, is_alias};
use tutti_routing::RequestInfo as _;

use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::plan::Plan;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};

use self::limits::Pace;
use self::response::GuardResponse;

/// The way of a request past its guards.
pub(crate) enum Entrance {
    Open,
    /// It is answered here.
    Closed(GuardResponse),
    /// It has to wait: for stores that count it, for its time, where it came too soon, and then for whoever says who it is from.
    Waits(Duration),
}

/// Decides about a request as far as that needs no waiting.
pub(crate) fn enter(request: &Request<'_>, plan: &Plan) -> Entrance {
    let guards = &request.snapshot.guards;
    // The last action says who may read its answers; browsers ask about that without a password, so it comes first.
    let said = guards
        .of(&plan.guards)
        .rev()
        .find_map(|one| one.model.cors.as_ref());
    if let Some(cors) = said
        && let Some(answer) = other_origins(request, cors)
    {
        return Entrance::Closed(answer);
    }
    let mut pause = Duration::ZERO;
    let mut asks = false;
    for limit in guards.of(&plan.guards).flat_map(|guard| &guard.limits) {
        match limits::pass(request, plan, limit) {
            Ok(Pace::Now) => {}
            Ok(Pace::In(time)) => pause = pause.max(time),
            Ok(Pace::Asked) => asks = true,
            Err(answer) => return Entrance::Closed(answer),
        }
    }
    asks |= guards
        .of(&plan.guards)
        .any(|guard| guard.identity.is_some());
    match pause.is_zero() && !asks {
        true => Entrance::Open,
        false => Entrance::Waits(pause),
    }
}

/// Waits. Returns the plan, which goes on, or the step after an answer in its place.
pub(crate) async fn wait(
    request: &Request<'_>,
    mut plan: Box<Plan>,
    pause: Duration,
    output: &mut Output,
) -> Result<Result<Box<Plan>, ExchangeStep>, Gone> {
    let client = request.client;
    // Earlier answers must not wait for this one.
    request.flush(output).await?;
    client.set_deadline(NEVER);
    let pause = match stores::ask(request, &plan, pause).await? {
        Ok(pause) => pause,
        Err(answer) => return response::give(request, answer, &plan.changes, output).map(Err),
    };
    if !pause.is_zero() {
        request.unless_gone(tokio::time::sleep(pause)).await?;
    }
    // In a box, because most requests that wait do not wait for this.
    match request
        .unless_gone(Box::pin(identify(request, &plan)))
        .await?
    {
        Ok(told) => {
            // Nobody says it beside the guard: not `request_headers` either.
            let is_told = |edit: &Edit| {
                let mut names = told.iter().map(|one| one.name().as_bytes());
                names.any(|name| is_alias(name, edit.name().as_bytes()))
            };
            plan.changes.edits.retain(|edit| !is_told(edit));
            plan.changes.edits.extend(told);
            // An answer to somebody who is known is for others only if it says so itself.
            let is_known = request
                .snapshot
                .guards
                .of(&plan.guards)
                .any(|guard| guard.identity.is_some());
            if let Some(asked) = &mut plan.asked {
                asked.is_authorized |= is_known;
            }
            Ok(Ok(plan))
        }
        Err(answer) => response::give(request, answer, &plan.changes, output).map(Err),
    }
}

/// Finds who a request is from, for each guard that wants to know.
async fn identify(request: &Request<'_>, plan: &Plan) -> identity::Found {
    let guards = &request.snapshot.guards;
    let mut told: Vec<Edit> = Vec::new();
    for guard in guards.of(&plan.guards) {
        if let Some(identity) = &guard.identity {
            let found = identity::find(request, guard, identity, guards.desk()).await;
            if found.is_err() {
                guards.note_not_let_in(AuthKind::of(&identity.model));
            }
            let found = found?;
            // The last one, who is nearest to the action, is right where two say the same.
            told.retain(|edit| !found.iter().any(|one| one.is_of(edit.name())));
            told.extend(found);
        }
    }
    Ok(told)
}

/// Notes what the answer says to pages of other origins; an answer where they only ask.
fn other_origins(request: &Request<'_>, cors: &model::Cors) -> Option<GuardResponse> {
    let admission = &request.exchange.admission;
    admission.say_of_origins();
    let origin = request.view.get_all(b"Origin").next();
    let asked = request
        .view
        .get_all(b"Access-Control-Request-Method")
        .next();
    let Some((origin, _)) = origin.zip(asked).filter(|_| request.method() == b"OPTIONS") else {
        cors::answer(cors, origin, &mut |name, value| admission.add(name, value));
        return None;
    };
    let headers = request
        .view
        .get_all(b"Access-Control-Request-Headers")
        .next();
    cors::preflight(cors, origin, headers, &mut |name, value| {
        admission.add(name, value);
    });
    Some(GuardResponse::of(204))
}
