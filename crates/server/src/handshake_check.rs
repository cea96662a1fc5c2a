//! Checks the WebSocket handshake (RFC 6455 §4.2.1) of a request for an application.

use tutti_conn::output::Output;
use tutti_http::websocket::handshake::{self, Handshake};
use tutti_http::{BodyLength, FieldLines};

use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::internal_redirect::{self, ErrorResponse};
use crate::plan::{Act, Changes, Plan};

/// An invalid handshake.
pub(crate) struct InvalidHandshake(Handshake);

/// Notes a WebSocket handshake in the plan for an application.
pub(crate) fn check(request: &Request<'_>, plan: &mut Plan) -> Result<(), InvalidHandshake> {
    let Act::Application(called) = &mut plan.act else {
        return Ok(());
    };
    // One with a body has been refused.
    if request.view.body_length() != BodyLength::None {
        return Ok(());
    }
    match handshake::check(&request.view) {
        Handshake::None => Ok(()),
        Handshake::Valid(accept) => {
            called.upgrade = Some(accept);
            plan.changes.hints = FieldLines::new();
            Ok(())
        }
        refused => Err(InvalidHandshake(refused)),
    }
}

impl InvalidHandshake {
    /// Answers (RFC 6455 §4.4).
    pub(crate) fn answer(self, request: &Request<'_>, output: &mut Output) -> ExchangeStep {
        let mut fields = FieldLines::new();
        let status = match self.0 {
            Handshake::Version => {
                fields.push(b"Connection", b"Upgrade");
                fields.push(b"Upgrade", b"websocket");
                fields.push(b"Sec-WebSocket-Version", b"13");
                426
            }
            _ => 400,
        };
        let answer = ErrorResponse::of(status, &fields);
        internal_redirect::page(request, &answer, &Changes::default(), output)
    }
}
