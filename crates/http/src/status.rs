//! Reason phrases (RFC 9110 §15 and the IANA status code registry).

use http::StatusCode;

/// The reason phrase of a status; empty where the registry has none.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        // The registry's spelling, from which the library differs.
        203 => "Non-Authoritative Information",
        422 => "Unprocessable Content",
        _ => StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or_default(),
    }
}
