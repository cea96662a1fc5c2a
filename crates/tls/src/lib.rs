//! TLS: certificate bundles as they are uploaded, and a listener's configuration.
//!
//! Contains certificates ([`Bundle`]) and the conversion of settings to a configuration of rustls. For a listener ([`Offer`]): certificates
//! by name, protocols and ciphers, tickets and stored sessions, certificates of clients. For the servers of an upstream ([`ClientTls`]):
//! trusted authorities, the certificate to show. Called by the daemon, which stores the bundles, and by the server, which does the
//! handshakes. Does no I/O.
//!
//! Must never: print or log a key; resume a session that began under another rule about client certificates; accept a server without a
//! certificate for its name, unless `verify` is off.

#![forbid(unsafe_code)]

mod bundle;
mod chain;
mod challenges;
mod client;
mod client_check;
mod client_hello;
mod connection;
mod describe;
mod distinguished;
mod error;
mod handshake_facts;
mod names;
mod offer;
mod on_demand;
mod pem;
mod possession;
mod provider;
mod quic;
mod sessions;
mod tickets;
mod validity;

pub use bundle::Bundle;
pub use challenges::{ACME_PROTOCOL, AuthorityAnswers, Challenges};
pub use client::{ClientTls, SystemAuthorities, unverified_client};
pub use client_hello::{HelloError, HelloProgress, MOST_HELLO_BYTES, TlsHello, read_hello};
pub use connection::TlsConnection;
pub use error::BundleError;
pub use handshake_facts::HandshakeFacts;
pub use offer::{CertificateSource, Find, Offer, OfferError};
pub use on_demand::{CertificateRequest, CertificateResult, Demands, Hello, OnDemand};
pub use quic::{QuicClient, QuicKeys, QuicOffer};
pub(crate) use tutti_dialer::provider;
pub use validity::{ReplacementError, Validity};
