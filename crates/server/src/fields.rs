//! Header fields as the configuration has them: who is believed in which ([`forwarded`], [`request_id`]), what is changed in those of a request
//! and of its response ([`request_headers`], [`response_headers`]), and what the server says itself ([`server_date`]).
//!
//! Called by `server` when a head has come and before one goes. Knows fields and the configuration's words about them, no connection and no snapshot,
//! and does no I/O.
//!
//! Must never: believe a field that somebody may have written who is not named, or change one that says where a message ends.

pub(crate) mod forwarded;
pub(crate) mod request_headers;
pub(crate) mod request_id;
pub(crate) mod response_headers;
pub(crate) mod server_date;
