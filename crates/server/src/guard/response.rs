//! An answer in place of the action's.

use tutti_conn::output::{Gone, Output};
use tutti_http::{BodyLength, FieldLines};
use tutti_request_log::Answerer;

use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::internal_redirect::{self, ErrorResponse};
use crate::plan::Changes;
use crate::sending::Whole;

/// An answer in place of the action's.
pub(crate) struct GuardResponse {
    pub(crate) status: u16,
    pub(crate) fields: FieldLines,
    /// The body from a service; `None`: one of the server's own pages.
    pub(crate) body: Option<Vec<u8>>,
}

impl GuardResponse {
    pub(super) fn of(status: u16) -> Self {
        Self {
            status,
            fields: FieldLines::new(),
            body: None,
        }
    }
}

/// Sends it.
pub(super) fn give(
    request: &Request<'_>,
    answer: GuardResponse,
    changes: &Changes,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    match &answer.body {
        None => Ok(page(request, &answer, changes, output)),
        // Its own page is replaced, but not what it says to the client.
        Some(_) if internal_redirect::has_page(request, answer.status) => {
            let said = answer.fields.iter().filter(|(name, _)| is_kept(name));
            let answer = GuardResponse {
                fields: said.collect(),
                ..GuardResponse::of(answer.status)
            };
            Ok(page(request, &answer, changes, output))
        }
        Some(body) => whole(request, (&answer, body), changes, output),
    }
}

/// True for fields of a service that the client gets with any page.
fn is_kept(name: &[u8]) -> bool {
    [&b"Set-Cookie"[..], b"WWW-Authenticate", b"Retry-After"]
        .iter()
        .any(|kept| name.eq_ignore_ascii_case(kept))
}

/// True if part of the request has not arrived. It is not waited for: a refused request may be large.
fn has_body(request: &Request<'_>) -> bool {
    request.view.body_length() != BodyLength::None
}

/// Makes one of the server's own pages.
pub(crate) fn page(
    request: &Request<'_>,
    answer: &GuardResponse,
    changes: &Changes,
    output: &mut Output,
) -> ExchangeStep {
    request.exchange.answerer.set(Answerer::Nothing);
    let failure = ErrorResponse {
        status: answer.status,
        fields: &answer.fields,
        is_body_coming: has_body(request),
    };
    match answer.status >= 400 {
        true => internal_redirect::fail(request, &failure, changes, output),
        false => internal_redirect::page(request, &failure, changes, output),
    }
}

/// Sends an answer from a service.
fn whole(
    request: &Request<'_>,
    (answer, body): (&GuardResponse, &[u8]),
    changes: &Changes,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    request.exchange.answerer.set(Answerer::Nothing);
    let fields: Vec<(&[u8], &[u8])> = answer.fields.iter().collect();
    let whole = Whole {
        status: answer.status,
        fields: &fields,
        body,
        is_body_coming: has_body(request),
    };
    Ok(whole.send(request, changes, output).into())
}
