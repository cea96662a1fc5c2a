//! The body of a request before its action: checks whether it may have one, and receives it.
//!
//! An application or an upstream may have it streamed; otherwise it is collected, so that a slow client occupies no worker, or discarded.

use tutti_conn::output::Gone;
use tutti_http::websocket::handshake::{self, Handshake};
use tutti_http::{BodyDecoder, BodyLength};
use tutti_proxy::BodyStreamError;

use crate::exchange::Exchange;
use crate::exchange::client::ClientSide;
use crate::exchange::collector::{Collected, Collector};
use crate::exchange::messages::Messages;
use crate::exchange::request::Request;
use crate::job_submission::Gathered;
use crate::plan::{Act, Plan};

/// Checks the head's framing of the body before anything else.
///
/// # Errors
/// The status with which the request is refused.
pub(crate) fn check(request: &Request<'_>) -> Result<(), u16> {
    match request.view.body_length() == BodyLength::Chunked && !request.settings().accepts_chunked {
        true => Err(411),
        false => Ok(()),
    }
}

/// True if there is a body to be read.
///
/// # Errors
/// The status with which the request is refused.
pub(crate) fn expect(request: &Request<'_>, plan: &Plan) -> Result<bool, u16> {
    if request.view.body_length() == BodyLength::None {
        return Ok(false);
    }
    // A handshake must not have a body, and the body is not read for it.
    if matches!(plan.act, Act::Application(_)) && handshake::check(&request.view) != Handshake::None
    {
        return Err(400);
    }
    Ok(true)
}

/// Returns the decoder of the request's body.
///
/// # Errors
/// The status that the request is refused with, because its body is too large.
pub(crate) fn decoder(request: &Request<'_>) -> Result<BodyDecoder, u16> {
    let length = request.view.body_length();
    BodyDecoder::new(length, &request.settings().limits).map_err(|error| error.status())
}

/// True if the body is streamed to the action.
pub(crate) fn is_streamed(request: &Request<'_>, plan: &Plan) -> bool {
    match &plan.act {
        Act::Application(called) => called.application.streams_requests(),
        Act::Upstream(destination) => destination.streams(&request.view),
        _ => false,
    }
}

/// Receives the body for the action, or discards it if the action needs none; a status if it is refused.
pub(crate) async fn receive(
    (client, exchange): (&ClientSide, &Exchange),
    messages: &mut Messages,
    plan: &Plan,
) -> Result<Result<Collected, u16>, Gone> {
    let decoder = match decoder(&messages.request(client, exchange)) {
        Ok(decoder) => decoder,
        Err(status) => return Ok(Err(status)),
    };
    let snapshot = std::sync::Arc::clone(&messages.snapshot);
    let with = (client, exchange);
    let receiver = match &plan.act {
        Act::Spooler(spooler) => {
            let mut gathered = Gathered::new(spooler, &client.local.shared.desk);
            let outcome = read(with, messages, decoder, |data| gathered.add(data)).await?;
            return Ok(outcome.map(|()| Collected::Job(gathered)));
        }
        Act::Application(called) => {
            let application = &called.application;
            Some((&**application.name(), application.spool()))
        }
        Act::Upstream(destination) => {
            let spool = snapshot.body_spool.as_ref();
            spool.map(|spool| (destination.upstream.name(), spool))
        }
        Act::Page { .. }
        | Act::Content(_)
        | Act::File(_)
        | Act::Listing(_)
        | Act::Substitute(_)
        | Act::Metrics => None,
    };
    let Some((name, spool)) = receiver else {
        let outcome = read(with, messages, decoder, |_| Ok(())).await?;
        return Ok(outcome.map(|()| Collected::None));
    };
    let mut collector = Collector::new(name, spool, snapshot.body_buffer_bytes);
    let outcome = read(with, messages, decoder, |data| collector.add(data, client)).await?;
    Ok(outcome.map(|()| collector.finish()))
}

/// Reads the body and passes it to `sink`, which may refuse with a status. Bytes after the body stay in the input, directly after the head.
async fn read(
    (client, exchange): (&ClientSide, &Exchange),
    messages: &mut Messages,
    decoder: BodyDecoder,
    mut sink: impl FnMut(&[u8]) -> Result<(), u16>,
) -> Result<Result<(), u16>, Gone> {
    let send_timeout = messages.settings(exchange).timeouts.send;
    let (mut body, output) = messages.body(client, exchange, decoder);
    loop {
        let outcome = match body.ready(output, send_timeout).await {
            Ok(true) => sink(body.piece()),
            Ok(false) => return Ok(Ok(())),
            Err(BodyStreamError::Refused(status)) => Err(status),
            Err(BodyStreamError::Gone(gone)) => return Err(gone),
        };
        if outcome.is_err() {
            return Ok(outcome);
        }
        body.consume(body.piece().len());
    }
}
