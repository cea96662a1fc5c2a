//! Requests in place of others: a page for an error, and the route that `X-Accel-Redirect` or `X-Sendfile` names.
//!
//! `server` finds that an answer is not to go out, and where to; here is the request that is acted on in its place ([`Original`] makes a
//! [`Substitute`]), the place that an answer names ([`Named`]), and the fields that stay ([`Kept`]). No I/O.
//!
//! Must never: let an answer lead to something that is no path for the routes, or go on without end.

#![forbid(unsafe_code)]

mod head;
mod kept;
mod named;
mod substitute;

pub use kept::Kept;
pub use named::{Named, named, path};
pub use substitute::{Mended, Original, Substitute, Way};
