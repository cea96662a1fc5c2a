//! Messages of HTTP/2 (RFC 9113 §8) in the terms of the rest of this crate.
//!
//! Frames, streams and header compression are a library's business (all but one thing: [`screen`]); what a list of fields *means* is ours, and it must mean the same
//! as in HTTP/1. So a request's list is written down as a head ([`request`]) and judged by the very code that judges HTTP/1's. A
//! response is data ([`OutgoingHead`](crate::OutgoingHead)) that the writer of either protocol takes, without the fields that
//! [`is_connection_specific`] names for HTTP/2.
//!
//! Must never happen: a field that ends its line, or a head that another reader would understand otherwise.

mod flood;
pub mod frame;
pub(crate) mod request;
mod screen;

pub use flood::{FloodGauge, Misuse};
pub use request::{Opening, WebSocketKey};
pub use screen::{BadFieldBlock, FieldScreen};

use crate::known_fields::Known;

/// The bytes that a client sends first if it knows that the server speaks HTTP/2 (§3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How the first bytes of a connection relate to [`PREFACE`].
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
    /// Judges them.
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

/// True if a field speaks of one HTTP/1 connection, and has no place in a message of HTTP/2 (§8.2.2).
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
    fn the_first_bytes_tell_the_protocol() {
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
