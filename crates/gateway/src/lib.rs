//! Protocols between a web server and the processes behind or in front of it: FastCGI, uwsgi, SCGI, their CGI variables, and the PROXY
//! protocol. Pure: bytes in, bytes out, no I/O.
//!
//! `upstream` and `server` own the sockets; they write a request with [`fastcgi::RequestWriter`], [`uwsgi::PacketWriter`] or
//! [`scgi::HeaderWriter`] and pass the answer to [`fastcgi::RecordDecoder`]. [`cgi::variables`] converts a request to CGI variables,
//! [`cgi::find_script`] finds the script of a path.
//!
//! Must never happen: a peer's bytes cause a panic, or use more memory than they need; a client's header field is taken for a variable of
//! ours; a script is outside its root.

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
