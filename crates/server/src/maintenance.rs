//! Maintenance: requests get 503 and a page, whatever their route, except from the clients that are exempt.

use std::os::unix::ffi::OsStrExt as _;

use tutti_http::FieldLines;
use tutti_routing::RequestInfo as _;

use crate::action::share::{self, Found};
use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::internal_redirect;
use crate::plan::{Act, Plan, Served};
use tutti_request_log::Answerer;

/// True if a request gets the maintenance page; jobs of the server itself continue.
pub(crate) fn applies(request: &Request<'_>) -> bool {
    let Some(maintenance) = request.snapshot.maintenance.as_deref() else {
        return false;
    };
    let listener = request.client.listener.id;
    let is_own = request.snapshot.is_of_job(listener) || request.snapshot.is_question(listener);
    request.substitute.is_none() && !is_own && !maintenance.except.matches(request.remote())
}

/// The answer to such a request.
pub(crate) fn act(request: &Request<'_>) -> Act {
    request.exchange.answerer.set(Answerer::Maintenance);
    // These requests do not count for a route.
    request.exchange.route.take();
    // It must not be cached beyond the maintenance.
    let mut fields = FieldLines::of("Cache-Control", b"no-store");
    let maintenance = request.snapshot.maintenance.as_deref();
    if let Some(retry_after) = maintenance
        .map(|one| one.options.retry_after)
        .filter(|one| *one > 0)
    {
        fields.push_number(b"Retry-After", retry_after.into());
    }
    if maintenance.is_some_and(|one| one.options.page.is_some())
        && let Some(substitute) = internal_redirect::of_maintenance(request, fields.clone())
    {
        return Act::Substitute(substitute);
    }
    Act::Page {
        status: 503,
        fields,
    }
}

/// The maintenance page.
pub(crate) fn page(request: &Request<'_>) -> Plan {
    request.exchange.answerer.set(Answerer::Maintenance);
    let maintenance = request.snapshot.maintenance.as_deref();
    let page = maintenance.and_then(|maintenance| maintenance.options.page.as_deref());
    let Some(page) = page else {
        return Plan::new(Act::page(503));
    };
    let mut path = page.as_os_str().as_bytes().to_vec();
    let found = share::find(request, &mut path, "", None, true);
    let Found::File(file) = found else {
        let reason = format!("the maintenance page {page:?} cannot be read");
        refusals::failed(&request.client.local, request, 503, &reason);
        return Plan::new(Act::page(503));
    };
    Plan::new(Act::File(Served::plain(file)))
}
