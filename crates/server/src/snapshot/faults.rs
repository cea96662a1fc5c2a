//! Faults of a configuration that only show when it is prepared, each at its place.

use std::io;

use tutti_config::Diagnostic;
use tutti_config::model;

/// A listener cannot be bound.
pub(crate) fn bind_fault(listener: &model::Listener, error: &io::Error) -> Diagnostic {
    let fault = Diagnostic::apply(
        listener.pointer.clone(),
        format!("cannot listen on `{}`: {error}", listener.name),
    );
    match error.kind() {
        io::ErrorKind::AddrInUse => fault
            .suggest("another program, or another listener, uses this port; `ss -ltnp` names it"),
        io::ErrorKind::PermissionDenied => {
            fault.suggest("ports below 1024 need root or CAP_NET_BIND_SERVICE")
        }
        io::ErrorKind::AddrNotAvailable => fault.suggest("this machine does not have that address"),
        _ => fault,
    }
}

/// The sockets of HTTP/3 cannot be opened.
pub(crate) fn http3_fault(listener: &model::Listener, error: &io::Error) -> Diagnostic {
    Diagnostic::apply(
        listener.pointer.child("http3"),
        format!("cannot take HTTP/3: {error}"),
    )
}
