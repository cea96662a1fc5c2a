//! Maintenance: requests get 503 and a page, whatever their route, except from the clients that are exempt.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use tutti_config::model::Maintenance;
use tutti_http::FieldLines;
use tutti_request_log::Answerer;
use tutti_routing::{RequestInfo as _, ScopeNumber};

use crate::action::share::{self, Found};
use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::internal_redirect;
use crate::plan::{Act, Plan, Served};

/// The maintenance that keeps a request with these settings from being served, the innermost one first; jobs of the server itself continue.
pub(crate) fn closing<'s>(
    request: &Request<'s>,
    settings: ScopeNumber,
) -> Option<&'s Arc<Maintenance>> {
    let all = &request.snapshot.settings.get(settings).maintenance;
    if all.is_empty() || request.substitute.is_some() {
        return None;
    }
    let listener = request.client.listener.id;
    if request.snapshot.is_of_job(listener) || request.snapshot.is_question(listener) {
        return None;
    }
    let client = request.remote();
    all.iter().find(|one| !one.except.matches(client))
}

/// The answer to such a request.
pub(crate) fn act(request: &Request<'_>, maintenance: &Arc<Maintenance>) -> Act {
    request.exchange.answerer.set(Answerer::Maintenance);
    // These requests do not count for a route.
    request.exchange.route.take();
    // It must not be cached beyond the maintenance.
    let mut fields = FieldLines::of("Cache-Control", b"no-store");
    let options = &maintenance.options;
    if options.retry_after > 0 {
        fields.push_number(b"Retry-After", options.retry_after.into());
    }
    if let Some(page) = &options.page
        && let Some(substitute) = internal_redirect::of_maintenance(request, page, fields.clone())
    {
        return Act::Substitute(substitute);
    }
    Act::Page {
        status: 503,
        fields,
    }
}

/// The maintenance page.
pub(crate) fn page(request: &Request<'_>, page: &Path) -> Plan {
    request.exchange.answerer.set(Answerer::Maintenance);
    let mut path = page.as_os_str().as_bytes().to_vec();
    let found = share::find(request, &mut path, "", None, || usize::MAX);
    let Found::File(file) = found else {
        let reason = format!("the maintenance page {page:?} cannot be read");
        refusals::failed(&request.client.local, request, 503, &reason);
        return Plan::new(Act::page(503));
    };
    Plan::new(Act::File(Served::plain(file)))
}
