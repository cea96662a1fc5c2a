//! What stands before an action: one place for everything that may answer a request, change its fields or make it wait before anything
//! else is done with it.
//!
//! [`enter`] is called with the plan for each request whose actions have a guard, [`run`] where that has to wait. The decisions are
//! `tutti-guard`'s; here are the request they are about, the fields that come of them, and the state that outlives a configuration.
//!
//! Must never: let a request by that could not be decided, or do anything of an action before all that stands before it has been passed.

mod admission;
mod limits;

use std::sync::Arc;
use std::time::Duration;

use tutti_config::model;
use tutti_guard::cors;
use tutti_http::FieldLines;
use tutti_routing::RequestInfo as _;

use crate::channel_io::unless_gone;
use crate::dispatch;
use crate::plan::Plan;
use crate::refusals;
use crate::request::Request;
use crate::step::Step;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};

pub(crate) use self::admission::Admission;
use self::limits::{Limit, Pace};

/// Everything that stands before actions, as the router numbers it.
#[derive(Default)]
pub(crate) struct Guards {
    list: Vec<Guard>,
}

/// What stands before one action.
struct Guard {
    model: Arc<model::Guard>,
    limits: Vec<Arc<Limit>>,
}

/// An answer in place of the action's.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: FieldLines,
}

impl Answer {
    fn of(status: u16) -> Self {
        Self {
            status,
            fields: FieldLines::new(),
        }
    }
}

/// Whether a request may go on.
pub(crate) enum Entrance {
    Open,
    /// It is answered here.
    Closed(Answer),
    /// Not yet.
    Waits(Waits),
}

/// What a request waits for.
pub(crate) struct Waits {
    /// Its time, where it came too soon.
    pause: Duration,
}

/// A request that waits, and what is to be done then.
pub(crate) struct Guarded {
    pub(crate) plan: Plan,
    pub(crate) waits: Waits,
}

impl Guards {
    /// Those of a configuration. What has been counted for the one before goes on where it did not change.
    pub(crate) fn new(wanted: &[Arc<model::Guard>], previous: Option<&Guards>) -> Self {
        let mut known: Vec<Arc<Limit>> = Vec::new();
        if let Some(previous) = previous {
            let before = previous.list.iter().flat_map(|guard| &guard.limits);
            known.extend(before.cloned());
        }
        let mut limit = |wanted: &Arc<model::Limit>| {
            if let Some(same) = known.iter().find(|known| known.is(wanted)) {
                return Arc::clone(same);
            }
            let new = Arc::new(Limit::new(wanted));
            known.push(Arc::clone(&new));
            new
        };
        let list = wanted.iter().map(|model| Guard {
            limits: model.limits.iter().map(&mut limit).collect(),
            model: Arc::clone(model),
        });
        Self {
            list: list.collect(),
        }
    }

    fn of<'g>(&'g self, plan: &'g Plan) -> impl DoubleEndedIterator<Item = &'g Guard> {
        let numbers = plan.guards.iter();
        numbers.filter_map(|number| self.list.get(*number))
    }
}

/// Decides about a request as far as that needs no waiting.
pub(crate) fn enter(request: &Request<'_>, plan: &Plan) -> Entrance {
    let guards = &request.snapshot.guards;
    // The last action says who may read its answers; browsers ask about that without a password, so it comes first.
    let said = guards.of(plan).rev().find_map(|one| one.model.cors.as_ref());
    if let Some(cors) = said
        && let Some(answer) = other_origins(request, cors)
    {
        return Entrance::Closed(answer);
    }
    let mut pause = Duration::ZERO;
    for limit in guards.of(plan).flat_map(|guard| &guard.limits) {
        match limits::pass(request, plan, limit) {
            Ok(Pace::Now) => {}
            Ok(Pace::In(time)) => pause = pause.max(time),
            Err(answer) => return Entrance::Closed(answer),
        }
    }
    match pause.is_zero() {
        true => Entrance::Open,
        false => Entrance::Waits(Waits { pause }),
    }
}

/// Waits, and goes on.
pub(crate) async fn run(
    request: &Request<'_>,
    guarded: Guarded,
    output: &mut Output,
) -> Result<Step, Gone> {
    let connection = request.connection;
    // Earlier answers must not wait for this one.
    connection
        .flush(output, request.snapshot.timeouts.send)
        .await?;
    connection.set_deadline(NEVER);
    let Guarded { plan, waits } = guarded;
    if !waits.pause.is_zero() {
        unless_gone(connection, tokio::time::sleep(waits.pause)).await?;
    }
    Ok(dispatch::go_on(request, plan, output))
}

/// Notes what the answer says to pages of other origins; an answer where they only ask.
fn other_origins(request: &Request<'_>, cors: &model::Cors) -> Option<Answer> {
    let admission = &request.connection.admission;
    admission.say_of_origins();
    let origin = request.view.get_all(b"Origin").next();
    let asked = request.view.get_all(b"Access-Control-Request-Method").next();
    let Some((origin, _)) = origin.zip(asked).filter(|_| request.method() == b"OPTIONS") else {
        cors::answer(cors, origin, &mut |name, value| admission.add(name, value));
        return None;
    };
    let headers = request.view.get_all(b"Access-Control-Request-Headers").next();
    cors::preflight(cors, origin, headers, &mut |name, value| {
        admission.add(name, value);
    });
    Some(Answer::of(204))
}

/// Tells why a request is answered here.
fn tell(request: &Request<'_>, status: u16, reason: &str) {
    refusals::refused(&request.connection.local, request, status, reason);
}
