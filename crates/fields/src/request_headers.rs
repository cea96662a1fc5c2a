//! `request_headers`: changes to a request before whoever it is for gets it, an application or a server of an upstream.

use tutti_config::model::{RequestHeader, RequestHeaderChange};
use tutti_http::edits::Edit;
use tutti_routing::{Decision, RequestInfo, ScriptFailed};

/// The changes of the action, with the values that they have for this request.
///
/// # Errors
/// One of them comes from a script that failed, as the request has been told.
pub fn edits<R: RequestInfo>(
    decision: &Decision<'_>,
    request: &R,
) -> Result<Vec<Edit>, ScriptFailed> {
    let edit = |header: &RequestHeader| {
        let name = header.name.clone();
        let value = |template| {
            let mut value = Vec::new();
            decision.render(template, request, &mut value)?;
            Ok(value)
        };
        Ok(match &header.change {
            RequestHeaderChange::Set(template) => Edit::set(name, value(template)?),
            RequestHeaderChange::Add(template) => Edit::add(name, value(template)?),
            RequestHeaderChange::Remove => Edit::remove(name),
        })
    };
    decision.request_headers.iter().map(edit).collect()
}
