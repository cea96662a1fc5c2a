//! The answer to requests of clients without a valid certificate, where the handshake has let them in (`client_failure`), or where it was
//! before the listener had its present rule.
//!
//! Must never: let such a request reach a route.

use std::rc::Rc;

use tutti_request_log::Answerer;

use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::plan::{Act, Plan};

/// The status of the answer, as nginx's.
const STATUS: u16 = 400;

/// The status on a connection whose handshake was by another rule: the client may send the request again on a new one (RFC 9110 §15.5.20).
const MISDIRECTED: u16 = 421;

/// The plan for a request that is refused. Its error page, another request in its place, is not.
pub(crate) fn refuse(request: &Request<'_>) -> Option<Plan> {
    let facts = request.client.channel.facts().map(Rc::as_ref);
    let entrance = request.entrance();
    let offer = entrance.and_then(|entry| entry.offer.as_deref());
    let (status, reason) = match offer.is_none_or(|offer| offer.has_checked(facts)) {
        true => (STATUS, facts?.client_refusal()?),
        false => (
            MISDIRECTED,
            "the connection is from before a change of the rule about client certificates",
        ),
    };
    if request.substitute.is_some() {
        return None;
    }
    if status == MISDIRECTED {
        request.client.take_no_more();
    }
    refusals::refused(&request.client.local, request, status, reason);
    request.exchange.answerer.set(Answerer::Nothing);
    if let Some(listener) = request.listener {
        let rules = request.snapshot.router.listener_rules(listener);
        request.exchange.rules.replace(rules);
    }
    Some(Plan::new(Act::page(status)))
}
