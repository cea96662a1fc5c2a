//! HTTP/2 with a server: many requests at once on one connection, bodies and trailers in both directions at once.
//!
//! `h2` does frames, header compression and windows. [`sessions`](crate::sessions) has the connections of a thread, [`driver`] moves the
//! bytes of one, [`stream`] is one request and its answer, [`head`] its head and [`upload`] its body.
//!
//! Must never: repeat a request that a server may have begun, or delay one client because another does not read.

pub(crate) mod driver;
mod head;
pub(crate) mod stream;
mod upload;
