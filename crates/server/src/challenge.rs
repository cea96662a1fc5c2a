//! The answer to an authority that checks the control of a name (RFC 8555 §8.3), before routes and guards.

use tutti_conn::output::Output;
use tutti_http::{BodyLength, Method};

use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::plan::Changes;
use crate::sending::Whole;

/// The path of such a request, before its token.
const FOLDER: &[u8] = b"/.well-known/acme-challenge/";

/// Answers an authority whose token is known.
pub(crate) fn answer(request: &Request<'_>, output: &mut Output) -> Option<ExchangeStep> {
    let token = request.view.path().strip_prefix(FOLDER)?;
    if !matches!(request.view.method(), Method::Get | Method::Head)
        || request.view.body_length() != BodyLength::None
    {
        return None;
    }
    let challenges = request.client.local.shared.challenges.load();
    let token = std::str::from_utf8(token).ok()?;
    let answer = Whole {
        status: 200,
        fields: &[(b"Content-Type", b"application/octet-stream")],
        body: challenges.http.get(token)?.as_bytes(),
        is_body_coming: false,
    };
    Some(answer.send(request, &Changes::default(), output).into())
}
