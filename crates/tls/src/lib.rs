//! TLS: certificate bundles as they are uploaded, and what a listener offers to its clients.
//!
//! Owns what is known about certificates ([`Bundle`]) and how settings become a configuration of rustls. Of a listener ([`Offer`]): which
//! certificate for which name, protocols and ciphers, tickets and kept sessions, certificates of clients. Towards the servers of an
//! upstream ([`ClientTls`]): whom to trust, which certificate to show. Called by the daemon, which keeps the bundles, and by the server,
//! which speaks. Does no I/O.
//!
//! Must never: print or log a key; let a session that began under one rule about certificates go on under another; take a server for
//! the one that was meant without a certificate that says so, unless `verify` is off.

#![forbid(unsafe_code)]

mod bundle;
mod chain;
mod challenges;
mod client;
mod connection;
mod describe;
mod distinguished;
mod error;
mod handshake_facts;
mod names;
mod offer;
mod on_demand;
mod pem;
mod provider;
mod quic;
mod sessions;
mod tickets;

pub use bundle::Bundle;
pub use challenges::{ACME_PROTOCOL, AuthorityAnswers, Challenges};
pub use client::{ClientTls, SystemAuthorities};
pub use connection::TlsConnection;
pub use error::BundleError;
pub use handshake_facts::HandshakeFacts;
pub use offer::{CertificateSource, Find, Offer, OfferError};
pub use on_demand::{CertificateRequest, CertificateResult, Demands, Hello, OnDemand};
pub use quic::{QuicClient, QuicKeys, QuicOffer};
pub(crate) use tutti_dialer::provider;
