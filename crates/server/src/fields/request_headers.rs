//! `request_headers`: changes to a request for an application or a server of an upstream.

use tutti_config::model::{GatewayParameter, RequestHeader, RequestHeaderChange, TemplatePart};
use tutti_http::edits::Edit;
use tutti_routing::{Decision, RequestInfo, ScriptFailed};

/// The kinds of changes in [`shared`]: bytes that no name contains.
const SET: u8 = 0;
const ADD: u8 = 1;
const REMOVE: u8 = 2;
const PARAMETER: u8 = 3;

/// The changes of the action, with their values for this request.
///
/// # Errors
/// One of them comes from a script that failed; the request has been notified.
pub(crate) fn edits<R: RequestInfo>(
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
            RequestHeaderChange::Set(template) => match value(template)? {
                // Variables without a value leave no field, not even the client's own.
                value if value.is_empty() && template.as_literal().is_none() => Edit::remove(name),
                value => Edit::set(name, value),
            },
            RequestHeaderChange::Add(template) => Edit::add(name, value(template)?),
            RequestHeaderChange::Remove => Edit::remove(name),
        })
    };
    decision.request_headers.iter().map(edit).collect()
}

/// Returns the changes of the action that distinguish kinds of requests, for the identity of a cached response: responses are shared
/// between requests for which these are equal. `parameters` are those of a gateway, which are changes, too.
///
/// Values that are unique to one client or one request and that every application gets anyway (address, id and time) are omitted. A script
/// can combine anything, so its whole value counts.
///
/// # Errors
/// One of them comes from a script that failed; the request has been notified.
pub(crate) fn shared<R: RequestInfo>(
    decision: &Decision<'_>,
    parameters: &[GatewayParameter],
    request: &R,
) -> Result<Vec<u8>, ScriptFailed> {
    let changes = decision.request_headers.iter().map(|header| {
        let (mark, template) = match &header.change {
            RequestHeaderChange::Set(template) => (SET, Some(template)),
            RequestHeaderChange::Add(template) => (ADD, Some(template)),
            RequestHeaderChange::Remove => (REMOVE, None),
        };
        (header.name.as_str(), mark, template)
    });
    let parameters = parameters.iter();
    let parameters = parameters.map(|one| (one.name.as_str(), PARAMETER, one.value.as_ref()));
    let mut out = Vec::new();
    for (name, mark, template) in changes.chain(parameters) {
        out.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
        out.push(mark);
        let Some(template) = template else {
            continue;
        };
        let start = out.len();
        let is_own = |part: &TemplatePart| matches!(part, TemplatePart::Variable(one) if one.is_of_one_request());
        match template.parts().iter().any(is_own) {
            true => decision.render(&template.without(is_own), request, &mut out)?,
            false => decision.render(template, request, &mut out)?,
        }
        // Values may contain any byte: with the length, two changes cannot look like one.
        let length = out.len() - start;
        out.extend_from_slice(&length.to_le_bytes());
    }
    Ok(out)
}
