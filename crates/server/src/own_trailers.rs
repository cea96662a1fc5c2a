//! `trailers`: configured fields after the body of a response.

use tutti_http::{NO_FIELDS, Trailers, Version};
use tutti_request_log::Finished;
use tutti_routing::Seen;

use crate::exchange::request::Request;

/// True if the fields follow a response with this status, and the client accepts them.
pub(crate) fn apply(request: &Request<'_>, status: u16) -> bool {
    // The others have no body.
    let has_them = matches!(status, 200..=203 | 206..=303 | 305..=399);
    let is_accepted = || request.view.version() > Version::Http10 && request.takes_trailers();
    has_them && !request.settings().trailers.is_empty() && !request.is_head() && is_accepted()
}

/// Their names, for `Trailer`.
pub(crate) fn names(request: &Request<'_>) -> Vec<u8> {
    let trailers = request.settings().trailers.iter();
    let names: Vec<&str> = trailers.map(|(name, _)| name.as_str()).collect();
    names.join(", ").into_bytes()
}

/// Adds them with their values after a body of this many bytes.
pub(crate) fn add(
    request: &Request<'_>,
    (status, body_bytes): (u16, u64),
    trailers: &mut Trailers,
) {
    let response = Finished {
        begun: request.exchange.begun,
        status,
        body_bytes,
        head: &NO_FIELDS,
        time: None,
    };
    let rewritten = request.exchange.rewritten.borrow();
    let seen = Seen {
        request,
        rewritten: rewritten.as_deref(),
        response: Some(&response),
    };
    for (name, template) in &request.settings().trailers {
        let mut value = Vec::new();
        // A script that failed gives no field, nor does an empty value.
        if tutti_routing::render(template, &seen, &mut value).is_ok() && !value.is_empty() {
            trailers.push(name.as_bytes(), &value);
        }
    }
}
