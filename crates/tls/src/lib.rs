//! TLS: certificate bundles as they are uploaded, and what a listener offers to its clients.
//!
//! Owns what is known about certificates ([`Bundle`]) and how a listener's settings become a configuration of rustls ([`Offer`]): which
//! certificate for which name, protocols and ciphers, tickets and kept sessions, certificates of clients. Called by the daemon, which
//! keeps the bundles, and by the server, which speaks. Does no I/O.
//!
//! Must never: print or log a key; let a session that began under one rule about client certificates go on under another.

#![forbid(unsafe_code)]

mod bundle;
mod chain;
mod connection;
mod describe;
mod distinguished;
mod error;
mod facts;
mod names;
mod offer;
mod pem;
mod provider;
mod sessions;
mod tickets;

pub use bundle::Bundle;
pub use connection::Connection;
pub use error::BundleError;
pub use facts::Facts;
pub use offer::{Find, Offer, OfferError, Source};
pub use provider::provider;
