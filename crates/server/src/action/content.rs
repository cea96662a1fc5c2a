//! Answers with the body that the configuration gives to a `return`.

use tutti_conn::output::Output;

use crate::exchange::request::Request;
use crate::exchange::respond::{Own, Persistence};
use crate::exchange_step::ExchangeStep;
use crate::plan::{Changes, Returned};
use crate::writer::{Body, Head, Response, Writer};

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
    if writer.is_transformed() {
        // A body that is changed may fail, which ends the connection: that is decided where the request may wait.
        return ExchangeStep::Send(Box::new(Response {
            writer,
            body: Body::Stored(returned.body),
            lingers: false,
        }));
    }
    match Response::stored(writer, returned.body, request, output) {
        Ok(sent) => sent.into(),
        // Only a body that is changed fails.
        Err(_) => ExchangeStep::End(Persistence::Close),
    }
}
