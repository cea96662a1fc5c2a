//! The answer to an authority that looks whether a name is ours (RFC 8555 §8.3), before routes and guards.

use tutti_http::{BodyLength, Method};

use crate::request::Request;

/// The path of such a request, up to its token.
const FOLDER: &[u8] = b"/.well-known/acme-challenge/";

/// The content that an authority asks for by its token, if it is one of those that are to be answered.
pub(crate) fn answer(request: &Request<'_>) -> Option<Vec<u8>> {
    let token = request.view.path().strip_prefix(FOLDER)?;
    if !matches!(request.view.method(), Method::Get | Method::Head)
        || request.view.body_length() != BodyLength::None
    {
        return None;
    }
    let challenges = request.client.local.shared.challenges.load();
    let token = std::str::from_utf8(token).ok()?;
    let answer = challenges.http.get(token)?;
    Some(answer.clone().into_bytes())
}
