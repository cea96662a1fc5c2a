//! `request_headers`: changes to a request before whoever it is for gets it, an application or a server of an upstream.

use tutti_config::model::{GatewayParameter, RequestHeader, RequestHeaderChange, TemplatePart};
use tutti_http::edits::Edit;
use tutti_routing::{Decision, RequestInfo, ScriptFailed};

/// The kinds of changes, as [`shared`] writes them: no byte of a name.
const SET: u8 = 0;
const ADD: u8 = 1;
const REMOVE: u8 = 2;
const PARAMETER: u8 = 3;

/// The changes of the action, with the values that they have for this request.
///
/// # Errors
/// One of them comes from a script that failed, as the request has been told.
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
            RequestHeaderChange::Set(template) => Edit::set(name, value(template)?),
            RequestHeaderChange::Add(template) => Edit::add(name, value(template)?),
            RequestHeaderChange::Remove => Edit::remove(name),
        })
    };
    decision.request_headers.iter().map(edit).collect()
}

/// Returns the changes of the action as far as they tell one kind of request from another, for the identity of a cached response:
/// responses are shared between requests for which these are the same. `parameters` are those of a gateway, which are changes as well.
///
/// Left out are values that tell one client or one request from all others and that every application is given anyway (address, id and
/// time). A script can combine anything, so all of its value counts.
///
/// # Errors
/// One of them comes from a script that failed, as the request has been told.
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
        // Values may contain any byte: the length keeps two changes from looking like one.
        let length = out.len() - start;
        out.extend_from_slice(&length.to_le_bytes());
    }
    Ok(out)
}
