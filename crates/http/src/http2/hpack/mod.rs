//! Header compression of HTTP/2 (RFC 7541): [`HpackDecoder`] for the heads of requests, [`HpackEncoder`] for those of responses.
//!
//! Each has a dynamic table of at most [`TABLE_SIZE`] bytes for each connection, whatever the peer permits.
//!
//! Must never: enter a secret into the encoder's table (§7.1), or leave the decoder's table different from the client's after a block that
//! was accepted.

mod decoder;
mod encoder;
mod table;

pub use decoder::HpackDecoder;
pub use encoder::HpackEncoder;

/// Bytes of a dynamic table, as RFC 7541 §4.1 counts them: the initial value of SETTINGS_HEADER_TABLE_SIZE (RFC 9113 §6.5.2).
const TABLE_SIZE: usize = 4096;

/// The overhead of each entry (§4.1).
const ENTRY_BYTES: usize = 32;

/// Entries of the static table (appendix A).
const STATIC_ENTRIES: usize = 61;
