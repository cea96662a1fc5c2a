//! The dashboard.

use std::net::SocketAddr;
use tutti_document::Pointer;

use super::tls::Tls;
use crate::table::DashboardOptions;

/// `settings.dashboard`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dashboard {
    /// Where it was written.
    pub pointer: Pointer,
    /// Where it listens; without TLS an address of this machine alone.
    pub address: SocketAddr,
    /// `None`: it speaks plain HTTP.
    pub tls: Option<Tls>,
    /// The rest of it; without a file of a token only where each client has to show a certificate.
    pub options: DashboardOptions,
}

impl Dashboard {
    /// True if a client has to show a certificate before it can ask for anything.
    pub fn verifies_clients(&self) -> bool {
        let clients = self.tls.as_ref().and_then(|tls| tls.clients.as_ref());
        clients.is_some_and(|clients| clients.is_required)
    }
}
