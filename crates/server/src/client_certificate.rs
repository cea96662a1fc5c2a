//! The answer to requests of clients without a valid certificate, where the handshake has let them in (`client_failure`).
//!
//! Must never: let such a request reach a route.

use tutti_request_log::Answerer;

use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::plan::{Act, Plan};

/// The status of the answer, as nginx's.
const STATUS: u16 = 400;

/// The plan for a request that is refused. Its error page, another request in its place, is not.
pub(crate) fn refuse(request: &Request<'_>) -> Option<Plan> {
    let facts = request.client.channel.facts()?;
    let reason = facts.client_refusal()?;
    if request.substitute.is_some() {
        return None;
    }
    refusals::refused(&request.client.local, request, STATUS, reason);
    request.exchange.answerer.set(Answerer::Nothing);
    let listener = request.snapshot.position_of(request.client.listener.id);
    if let Some(listener) = listener {
        let rules = request.snapshot.router.listener_rules(listener);
        request.exchange.rules.replace(rules);
    }
    Some(Plan::new(Act::page(STATUS)))
}
