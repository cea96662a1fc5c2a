//! Guards of actions: the only stage that may answer a request, change its fields or delay it before its action.
//!
//! [`enter`] is called with the plan for each request whose actions have a guard, [`wait`] if the guard must wait. `tutti-guard` makes the
//! decisions; this module has the request, the resulting fields, and the state that outlives a configuration.
//!
//! Must never: pass a request for which no decision could be made, or begin an action before all its guards have passed.

mod identity;
mod limits;
pub(crate) mod response;
mod stores;
mod subrequest;

use std::time::Duration;

use tutti_config::model;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_guard::{AuthKind, cors};
use tutti_http::FieldLines;
use tutti_http::edits::{Edit, is_alias};
use tutti_routing::RequestInfo as _;

use self::limits::Pace;
use self::response::GuardResponse;
use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::plan::Plan;

/// The result of the guards for a request.
pub(crate) enum Entrance {
    Open,
    /// It is answered here.
    Closed(GuardResponse),
    /// It must wait: for stores that count it, for its turn if it came too soon, and then for authentication.
    Waits(Duration),
}

/// Decides about a request as far as that needs no waiting.
pub(crate) fn enter(request: &Request<'_>, plan: &Plan) -> Entrance {
    let guards = &request.snapshot.guards;
    // The last action's CORS rules apply; browsers send preflights without a password, so this comes first.
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

/// Waits. Returns the plan to continue with, or the step after an answer in its place.
pub(crate) async fn wait(
    request: &Request<'_>,
    mut plan: Box<Plan>,
    pause: Duration,
    output: &mut Output,
) -> Result<Result<Box<Plan>, ExchangeStep>, Gone> {
    let client = request.client;
    // Earlier responses must not wait for this one.
    request.flush(output).await?;
    client.set_deadline(NEVER);
    let pause = match stores::ask(request, &plan, pause).await? {
        Ok(pause) => pause,
        Err(answer) => return response::give(request, answer, &plan.changes, output).map(Err),
    };
    if !pause.is_zero() {
        request.unless_gone(tokio::time::sleep(pause)).await?;
    }
    // Boxed, because most requests that wait do not wait for this.
    match request
        .unless_gone(Box::pin(identify(request, &plan)))
        .await?
    {
        Ok(added) => {
            // Only the guard may set these fields: `request_headers` may not, either.
            let is_set = |edit: &Edit| {
                let mut names = added.iter().map(|one| one.name().as_bytes());
                names.any(|name| is_alias(name, edit.name().as_bytes()))
            };
            plan.changes.edits.retain(|edit| !is_set(edit));
            plan.changes.edits.extend(added);
            let is_authenticated = request
                .snapshot
                .guards
                .of(&plan.guards)
                .filter_map(|guard| guard.identity.as_ref())
                .any(|identity| identity.model.names_client());
            if is_authenticated {
                request.exchange.admission.note_authenticated();
            }
            Ok(Ok(plan))
        }
        Err(answer) => response::give(request, answer, &plan.changes, output).map(Err),
    }
}

/// Authenticates a request, for each guard that requires it.
async fn identify(request: &Request<'_>, plan: &Plan) -> identity::Found {
    let guards = &request.snapshot.guards;
    let mut fields: Vec<Edit> = Vec::new();
    for guard in guards.of(&plan.guards) {
        if let Some(identity) = &guard.identity {
            let found = identity::find(request, guard, identity).await;
            if found.is_err() {
                guards.note_not_let_in(AuthKind::of(&identity.model));
            }
            let found = found?;
            // If two set the same field, the last one, which is nearest to the action, wins.
            fields.retain(|edit| !found.iter().any(|one| one.is_of(edit.name())));
            fields.extend(found);
        }
    }
    Ok(fields)
}

/// Notes the CORS fields of the response; returns an answer to a preflight.
fn other_origins(request: &Request<'_>, cors: &model::Cors) -> Option<GuardResponse> {
    let mut fields = FieldLines::new();
    // A value may contain text of the client, but no line break.
    let mut put = |name: &'static str, value: &[u8]| {
        let _ = fields.try_push(name.as_bytes(), value);
    };
    let origin = request.view.get_all(b"Origin").next();
    let asked = request
        .view
        .get_all(b"Access-Control-Request-Method")
        .next();
    let preflight = origin.zip(asked).filter(|_| request.method() == b"OPTIONS");
    match preflight {
        None => cors::answer(cors, origin, &mut put),
        Some((origin, _)) => {
            let headers = request
                .view
                .get_all(b"Access-Control-Request-Headers")
                .next();
            cors::preflight(cors, origin, headers, &mut put);
        }
    }
    request.exchange.admission.set_cors(fields);
    preflight.map(|_| GuardResponse::of(204))
}
