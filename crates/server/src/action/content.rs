//! Answers with the body that the configuration gives to a `return`.

use tutti_conn::output::Output;

use crate::exchange::request::Request;
use crate::exchange::respond::Own;
use crate::exchange_step::ExchangeStep;
use crate::plan::{Changes, Returned};
use crate::writer::{Head, Response, Writer};

/// Appends the response, or has it sent piece by piece if it is large or compressed.
pub(crate) fn respond(
    request: &Request<'_>,
    returned: Returned,
    changes: &Changes,
    output: &mut Output,
) -> ExchangeStep {
    let head = Head {
        status: returned.status,
        length: Some(returned.body.len() as u64),
        own: Own::ALL,
        may_persist: true,
        may_have_trailers: false,
    };
    let writer = Writer::begin(request, &head, returned.fields.iter(), changes, output);
    Response::stored(writer, returned.body, request, output).into()
}
