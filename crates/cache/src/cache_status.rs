//! The words of `Cache-Status` (RFC 9211).

use tutti_http::FieldLines;

use crate::Millis;
use crate::stored::Stored;
use crate::storing::NotStored;

/// The name of the cache.
const NAME: &str = "Tutti";

/// Why a request went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// The configuration says that it goes past the cache.
    Bypass,
    /// Its method is never answered from a cache.
    Method,
    /// There was nothing for it.
    Miss,
    /// The response that there was is no longer fresh.
    Stale,
    /// It is for a part, or has conditions that only the origin may decide.
    Request,
}

impl ForwardReason {
    fn word(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::Miss => "uri-miss",
            Self::Stale => "stale",
            Self::Request => "request",
        }
    }
}

/// How an answer came out of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// It was there.
    There,
    /// It was on disk.
    OnDisk,
    /// Another request has fetched it meanwhile.
    Coalesced,
    /// The origin says that it is still valid.
    Validated,
    /// It is stale, and the origin has failed.
    Error(u16),
}

/// Adds the field of an answer from the store.
pub fn hit(fields: &mut FieldLines, stored: &Stored, hit: Hit, now: Millis) {
    let remaining = stored.freshness.remaining(now).div_euclid(1000);
    fields.push_with(b"Cache-Status", |line| {
        line.extend_from_slice(NAME.as_bytes());
        let (how, detail) = match hit {
            Hit::There => ("; hit; ttl=", ""),
            Hit::OnDisk => ("; hit; ttl=", "; detail=disk"),
            Hit::Coalesced => ("; fwd=uri-miss; collapsed; ttl=", ""),
            Hit::Validated => ("; fwd=stale; fwd-status=304; ttl=", ""),
            Hit::Error(_) => ("; hit; fwd=stale; fwd-status=", "; detail=error"),
        };
        line.extend_from_slice(how.as_bytes());
        if let Hit::Error(status) = hit {
            line.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
            line.extend_from_slice(b"; ttl=");
        }
        line.extend_from_slice(itoa::Buffer::new().format(remaining).as_bytes());
        line.extend_from_slice(detail.as_bytes());
    });
}

/// Adds the field of an answer of the origin; `kept`: it is being stored, or why it is not.
pub(crate) fn forwarded(
    fields: &mut FieldLines,
    forward: ForwardReason,
    status: u16,
    kept: Option<Result<(), NotStored>>,
) {
    fields.push_with(b"Cache-Status", |line| {
        let text = format!("{NAME}; fwd={}; fwd-status={status}", forward.word());
        line.extend_from_slice(text.as_bytes());
        match kept {
            Some(Ok(())) => line.extend_from_slice(b"; stored"),
            Some(Err(why)) => {
                line.extend_from_slice(b"; detail=");
                line.extend_from_slice(why.word().as_bytes());
            }
            None => {}
        }
    });
}
