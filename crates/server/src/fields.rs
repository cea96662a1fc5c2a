//! Header fields as configured: which senders are trusted ([`forwarded`], [`request_id`]), which fields of a request and of its response
//! are changed ([`request_headers`], [`response_headers`]), and which ones the server adds ([`server_date`]).
//!
//! Called by `server` when a head has been received and before one is sent. Depends on fields and their options, on no connection and no
//! snapshot, and does no I/O.
//!
//! Must never: trust a field that an untrusted sender may have written, or change one that determines the end of a message.

pub(crate) mod charset;
pub(crate) mod forwarded;
pub(crate) mod request_headers;
pub(crate) mod request_id;
pub(crate) mod response_headers;
pub(crate) mod response_rewrite;
pub(crate) mod server_date;
