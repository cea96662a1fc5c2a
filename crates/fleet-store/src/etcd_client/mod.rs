//! A client of etcd's third API (<https://etcd.io/docs/v3.5/learning/api/>), as much of it as a fleet needs.
//!
//! Called by [`etcd`](crate::etcd). One [`EtcdClient`] is one connection to one member; who holds it connects to another when it fails. Nothing waits
//! without an end: each call has a deadline, and a watch asks whether it still hears anything. What must never happen: that an event is
//! left out without an error.
//!
//! The messages are written out here, with the numbers of etcd's `rpc.proto`, so that nothing has to be compiled from `.proto` files.
//!
//! | Module | holds |
//! |---|---|
//! | `messages` | messages of the API |
//! | `pairs` | keys and values |
//! | `transport` | a connection: TCP, TLS, HTTP/2 |
//! | `outgoing` | the body of a call |
//! | `calls` | calls of gRPC over a connection |
//! | `client` | keys, transactions, leases |
//! | `watch` | events of keys as they come |

mod calls;
mod client;
mod error;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod hostile_member;
mod messages;
mod outgoing;
mod pairs;
mod transport;
mod watch;

pub use client::{EtcdClient, KeepAlive, Operation};
pub use error::EtcdError;
pub use pairs::Pair;
pub use transport::{ClusterOptions, EtcdEndpoint, EtcdTls};
pub use watch::{KeyChange, Watch};
