//! The protocols between a web server and what stands behind or before it: FastCGI, uwsgi, SCGI, the CGI variables that all three
//! carry, and the PROXY protocol. Pure: bytes in, bytes out, no I/O.
//!
//! `upstream` and `server` own the sockets; they have a request written with [`fastcgi::RequestWriter`], [`uwsgi::PacketWriter`] or
//! [`scgi::HeaderWriter`] and give [`fastcgi::RecordDecoder`] what comes back. [`cgi::variables`] says what a request is in the words of CGI,
//! [`cgi::find_script`] which script a path means.
//!
//! Must never happen: a peer's bytes that panic, or make us keep more than they are; a client's header field that passes for a
//! variable of ours; a script's name that leads outside its root.

#![forbid(unsafe_code)]

pub mod cgi;
pub mod fastcgi;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod properties;
pub mod proxy_protocol;
pub mod scgi;
pub mod uwsgi;
