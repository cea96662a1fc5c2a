//! The dashboard.

use std::net::SocketAddr;
use std::path::PathBuf;
use tutti_document::Pointer;

use super::tls::Tls;

/// `settings.dashboard`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dashboard {
    /// Where it was written.
    pub pointer: Pointer,
    /// Where it listens; without TLS an address of this machine alone.
    pub address: SocketAddr,
    /// The file of the token; `None` only where each client has to show a certificate.
    pub token_file: Option<PathBuf>,
    /// `None`: it speaks plain HTTP.
    pub tls: Option<Tls>,
}

impl Dashboard {
    /// True if a client has to show a certificate before it can ask for anything.
    pub fn verifies_clients(&self) -> bool {
        let clients = self.tls.as_ref().and_then(|tls| tls.clients.as_ref());
        clients.is_some_and(|clients| clients.is_required)
    }
}
