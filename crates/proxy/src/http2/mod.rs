//! Speaking HTTP/2 with a server: many requests at once on one connection, bytes both ways at once, trailers both ways.
//!
//! Frames, header compression and windows are `h2`'s. [`sessions`](crate::sessions) has the connections of a thread, [`driver`] moves the bytes of
//! one, [`stream`] is one request and its answer, [`head`] its head and [`upload`] its body.
//!
//! Must never: send a request again that a server may have begun with, or hold one client's bytes back because another does not take its own.

pub(crate) mod driver;
mod head;
pub(crate) mod stream;
mod upload;
