//! Messages of HTTP/2 (RFC 9113 §8), converted to the types of the rest of this crate.
//!
//! A library does frames, streams and header compression (except [`screen`]); the *meaning* of a list of fields is defined here, and must
//! be the same as in HTTP/1. So a request's list is written as a head ([`request`]) and checked by the same code as HTTP/1's. A response is
//! data ([`OutgoingHead`](crate::OutgoingHead)) for the writer of either protocol, without the fields that [`is_connection_specific`]
//! excludes from HTTP/2.
//!
//! Must never happen: a field that ends its line, or a head that another reader would interpret differently.

mod flood;
pub mod frame;
mod hpack;
pub(crate) mod request;
mod section;

pub use flood::FloodGauge;
pub use hpack::{HpackDecoder, HpackEncoder};
pub use request::{Opening, RequestField, WebSocketKey};
pub use section::{SectionOutcome, read_request, read_trailers};

use crate::known_fields::Known;

/// The first bytes of a client that knows that the server speaks HTTP/2 (§3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The relation of a connection's first bytes to [`PREFACE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preface {
    /// They begin with it.
    Whole,
    /// They may become it.
    Part,
    /// They are something else.
    Other,
}

impl Preface {
    /// Compares them.
    pub fn of(input: &[u8]) -> Self {
        if input.starts_with(PREFACE) {
            Self::Whole
        } else if PREFACE.starts_with(input) {
            Self::Part
        } else {
            Self::Other
        }
    }
}

/// True if a field is about one HTTP/1 connection, and is not permitted in HTTP/2 (§8.2.2).
pub fn is_connection_specific(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::TransferEncoding
            | Known::Upgrade
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_determine_the_protocol() {
        for end in 0..PREFACE.len() {
            assert_eq!(Preface::of(&PREFACE[..end]), Preface::Part);
        }
        let of =
            |rest: &str| Preface::of(format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r{rest}").as_bytes());
        assert_eq!(of("\n\0"), Preface::Whole);
        assert_eq!(of("x"), Preface::Other);
        assert_eq!(Preface::of(b"POST / HTTP/1.1\r\n"), Preface::Other);
    }
}
