//! The actions that answer a request, a module for each.

pub(crate) mod abandon;
pub(crate) mod app;
mod app_response;
mod content;
mod conversation;
pub(crate) mod file;
pub(crate) mod listing;
pub(crate) mod metrics;
pub(crate) mod share;
pub(crate) mod spooler;
mod upgrade;
pub(crate) mod upstream;

use tutti_conn::output::{Gone, Output};

use crate::boxed::boxed;
use crate::exchange::collector::{ActionBody, Collected};
use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::internal_redirect::{self, ErrorResponse};
use crate::plan::{Act, Plan};
use crate::slow_watch::watched;

/// Runs the action of a plan, unless that has to wait.
pub(crate) fn run_now(
    request: &Request<'_>,
    plan: Plan,
    body: Collected,
    output: &mut Output,
) -> ExchangeStep {
    match plan.act {
        Act::Page { status, fields } => {
            let answer = ErrorResponse::of(status, &fields);
            match status >= 400 {
                true => internal_redirect::fail(request, &answer, &plan.changes, output),
                false => internal_redirect::page(request, &answer, &plan.changes, output),
            }
        }
        Act::Content(returned) => content::respond(request, *returned, &plan.changes, output),
        Act::Substitute(substitute) => ExchangeStep::Substitute(substitute),
        Act::File(served) => file::respond(request, served, &plan.changes, output),
        Act::Metrics
        | Act::Spooler(_)
        | Act::Listing(_)
        | Act::Upstream(_)
        | Act::Application(_) => ExchangeStep::Action(Box::new(plan), body),
    }
}

/// Runs the action of a plan that has to wait. Bytes that cannot be sent at once are in `output` afterwards.
pub(crate) async fn run<'r>(
    request: &Request<'r>,
    plan: &Plan,
    body: ActionBody<'r>,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    // Earlier responses must not wait for this one.
    if !output.is_empty() {
        request.flush(output).await?;
    }
    let changes = &plan.changes;
    match &plan.act {
        Act::Application(called) => {
            let answer = boxed(|| app::run(request, (called, changes), body, output));
            watched(request, answer).await
        }
        Act::Upstream(destination) => {
            let answer = boxed(|| upstream::run(request, (destination, changes), body, output));
            watched(request, answer).await
        }
        Act::Listing(folder) => listing::run(request, folder, changes, output).await,
        Act::Metrics => metrics::run(request, changes, output).await,
        Act::Spooler(spooler) => {
            boxed(|| spooler::run(request, (spooler, changes), body.gathered(), output)).await
        }
        // These do not wait.
        Act::Page { .. } | Act::Content(_) | Act::File(_) | Act::Substitute(_) => Err(Gone::Closed),
    }
}
