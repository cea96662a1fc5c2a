//! `io::Error` with the operation that failed in front of it.

use std::fmt;
use std::io;

/// An operating-system error and what was being done; the payload of the `io::Error`s of this crate.
#[derive(Debug)]
pub struct ErrorContext {
    what: String,
    source: io::Error,
}

impl fmt::Display for ErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for ErrorContext {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Puts `what` in front of an error, keeping its kind and (for [`os_code`]) its number.
pub fn context(what: impl Into<String>, source: impl Into<io::Error>) -> io::Error {
    let source = source.into();
    io::Error::new(
        source.kind(),
        ErrorContext {
            what: what.into(),
            source,
        },
    )
}

/// The `errno` behind an error, through any [`ErrorContext`] around it.
pub fn os_code(error: &io::Error) -> Option<i32> {
    if let Some(code) = error.raw_os_error() {
        return Some(code);
    }
    let context = error.get_ref()?.downcast_ref::<ErrorContext>()?;
    os_code(&context.source)
}

/// Returns the remedy if a socket could not be opened, connected or accepted because this machine has no more of a resource, which says
/// nothing about the other end; `None` for other errors.
pub fn remedy(error: &io::Error) -> Option<&'static str> {
    Some(match error.raw_os_error()? {
        libc::EMFILE => "raise the limit of open files (LimitNOFILE, ulimit -n)",
        libc::ENFILE => "raise fs.file-max",
        // connect(2): all local ports are in use.
        libc::EADDRNOTAVAIL => "widen net.ipv4.ip_local_port_range",
        libc::ENOBUFS | libc::ENOMEM => "the kernel has no memory for another connection",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_keeps_kind_number_and_text() {
        let inner = io::Error::from_raw_os_error(libc::EADDRINUSE);
        let outer = context("binding", context("socket", inner));
        assert_eq!(outer.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(os_code(&outer), Some(libc::EADDRINUSE));
        assert!(outer.to_string().starts_with("binding: socket: "));
    }
}
