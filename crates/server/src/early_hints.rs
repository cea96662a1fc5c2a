//! 103 (Early Hints, RFC 8297): which clients get them, and the configured ones.
//!
//! Must never: send one to a client that may take it for the final response. HTTP/1.0 has no interim responses, and some clients of
//! HTTP/1.1 do not support them, so those get none unless the configuration permits it.

use tutti_config::model::EarlyHints;
use tutti_conn::output::Output;
use tutti_http::{BodyLength, FieldLines, Known, Method, OutgoingHead, Version, is_field_value};
use tutti_routing::Decision;

use crate::exchange::channel::Channel;
use crate::exchange::request::Request;
use crate::exchange::respond;
use crate::plan::Plan;

/// True if the client of this request may get 103.
pub(crate) fn are_taken(request: &Request<'_>) -> bool {
    match (request.settings().early_hints, request.view.version()) {
        (EarlyHints::Never, _) | (_, Version::Http10) => false,
        (EarlyHints::Http2, version) => version > Version::Http11,
        (EarlyHints::Always, _) => true,
    }
}

/// The configured fields for this request; none if the client would not use them.
pub(crate) fn listed(request: &Request<'_>, decision: &Decision<'_>) -> FieldLines {
    let mut fields = FieldLines::new();
    let rulebook = request.snapshot.router.rules();
    let hints = rulebook.hints(&request.exchange.rules.borrow());
    if hints.is_empty() || request.substitute.is_some() || !are_taken(request) {
        return fields;
    }
    // The resources of a page are useless for other kinds of requests (Fetch, §2.2.5).
    let is_page = || {
        let mode = request.view.get_all(b"Sec-Fetch-Mode").next();
        mode.is_none_or(|mode| mode.eq_ignore_ascii_case(b"navigate"))
    };
    if !matches!(request.view.method(), Method::Get | Method::Head)
        || request.view.body_length() != BodyLength::None
        || !is_page()
    {
        return fields;
    }
    for hint in hints {
        let mut value = Vec::new();
        // A script that failed yields no hint.
        let rendered = decision.render(hint, request, &mut value);
        if rendered.is_ok() && !value.is_empty() && is_field_value(&value) {
            fields.push(b"Link", &value);
        }
    }
    fields
}

/// Forwards an interim response of a server or an application, without framing fields: it has no body (RFC 9110 §15.2), and a client that
/// trusted them would take the next head for one.
pub(crate) fn pass_on<'f>(
    request: &Request<'_>,
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    output: &mut Output,
) {
    let is_known = request.view.version() > Version::Http10
        && request.substitute.is_none()
        && !matches!(request.client.channel, Channel::Discard);
    if is_known && (status != 103 || are_taken(request)) {
        let fields = fields
            .filter(|(name, _)| !respond::is_framing(Known::from_name(name)))
            .collect();
        respond::put(request.client, OutgoingHead { status, fields }, output);
    }
}

/// Sends the hints of the plan.
pub(crate) fn send(request: &Request<'_>, plan: &mut Plan, output: &mut Output) {
    if plan.changes.hints.is_empty() {
        return;
    }
    let head = OutgoingHead {
        status: 103,
        fields: std::mem::take(&mut plan.changes.hints),
    };
    respond::put(request.client, head, output);
}
