//! The dashboard.

use std::net::SocketAddr;

use tutti_document::Pointer;

use super::tls::{ClientFailure, Tls};
use crate::table::DashboardOptions;

/// `settings.dashboard`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dashboard {
    /// Where it was written.
    pub pointer: Pointer,
    /// The address it listens on; without TLS an address of this machine only.
    pub address: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// The remaining options; without a token file only if each client must present a certificate.
    pub options: DashboardOptions,
}

impl Dashboard {
    /// True if a client must present a certificate before it can send a request.
    pub fn verifies_clients(&self) -> bool {
        let clients = self.tls.as_ref().and_then(|tls| tls.clients.as_ref());
        clients.is_some_and(|clients| {
            clients.is_required && clients.failure == ClientFailure::Handshake
        })
    }
}
