//! `Cache-Status` (RFC 9211).

use tutti_http::FieldLines;

use crate::Millis;
use crate::stored::Stored;
use crate::storing::NotStored;

/// The name of the cache.
const NAME: &str = "Tutti";

/// Why a request was forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// The configuration excludes it from the cache.
    Bypass,
    /// Its method is never answered from a cache.
    Method,
    /// No response was stored.
    Miss,
    /// The stored response is stale.
    Stale,
    /// It asks for a range, or has conditions that only the origin can evaluate.
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

/// The store's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// From memory.
    There,
    /// From disk.
    OnDisk,
    /// Another request fetched the response meanwhile.
    Coalesced,
    /// It was requested from the origin for this request, and stored.
    Fetched,
    /// The origin validated the response.
    Validated,
    /// The response is stale, and the origin has failed.
    Error(u16),
}

/// Adds the field to a stored response.
pub fn hit(fields: &mut FieldLines, stored: &Stored, hit: Hit, now: Millis) {
    let remaining = stored.freshness.remaining(now).div_euclid(1000);
    fields.push_with(b"Cache-Status", |line| {
        line.extend_from_slice(NAME.as_bytes());
        let (how, detail) = match hit {
            Hit::There => ("; hit; ttl=", ""),
            Hit::OnDisk => ("; hit; ttl=", "; detail=disk"),
            Hit::Coalesced => ("; fwd=uri-miss; collapsed; ttl=", ""),
            Hit::Fetched => ("; fwd=uri-miss; stored; ttl=", ""),
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

/// Adds the field to a response of the origin; `kept` says whether it is being stored, or why not.
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
