//! FastCGI 1.0, the web server's side of it.
//!
//! Section numbers are those of the FastCGI Specification of 29 April 1996 (Open Market, Inc.), which has no other edition.
//! [`RequestWriter`] writes the head of a request; [`stdin`] appends its body and [`stdin_end`] ends it. A [`RecordDecoder`], one for each
//! connection, splits the response into [`RecordEvent`]s.

mod read;
mod write;

pub use read::{RecordDecoder, RecordError, RecordEvent};
pub use write::{RequestWriter, STDIN_BYTES, abort, get_values, stdin, stdin_end};

/// The only version (§3.3).
const VERSION: u8 = 1;

/// Bytes of a record's header (§3.3).
const HEADER_BYTES: usize = 8;

/// The request number on a connection that carries one request at a time; 0 is for management records (§3.3).
pub const ONLY_REQUEST: u16 = 1;

/// Kinds of records (§8).
mod kind {
    pub(super) const BEGIN_REQUEST: u8 = 1;
    pub(super) const ABORT_REQUEST: u8 = 2;
    pub(super) const END_REQUEST: u8 = 3;
    pub(super) const PARAMS: u8 = 4;
    pub(super) const STDIN: u8 = 5;
    pub(super) const STDOUT: u8 = 6;
    pub(super) const STDERR: u8 = 7;
    pub(super) const GET_VALUES: u8 = 9;
    pub(super) const GET_VALUES_RESULT: u8 = 10;
    pub(super) const UNKNOWN_TYPE: u8 = 11;
}

/// The protocol status of a request (§5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// It was processed to its end, or to where the application stopped.
    Complete,
    /// The application takes one request at a time on a connection.
    CannotMultiplex,
    /// The application is overloaded. The request was not begun.
    Overloaded,
    /// The application does not support the responder role.
    UnknownRole,
    /// A number that is not in the specification.
    Other(u8),
}

impl From<u8> for ProtocolStatus {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Complete,
            1 => Self::CannotMultiplex,
            2 => Self::Overloaded,
            3 => Self::UnknownRole,
            other => Self::Other(other),
        }
    }
}

impl std::fmt::Display for ProtocolStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Complete => f.write_str("the request is complete"),
            Self::CannotMultiplex => {
                f.write_str("it takes one request at a time on a connection (FCGI_CANT_MPX_CONN)")
            }
            Self::Overloaded => f.write_str("it is overloaded (FCGI_OVERLOADED)"),
            Self::UnknownRole => {
                f.write_str("it does not support the responder role (FCGI_UNKNOWN_ROLE)")
            }
            Self::Other(number) => write!(f, "it gave the unknown protocol status {number}"),
        }
    }
}
