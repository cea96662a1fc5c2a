//! A client of etcd's v3 API (<https://etcd.io/docs/v3.5/learning/api/>), as far as a fleet needs it.
//!
//! Used by [`etcd`](crate::etcd). One [`EtcdClient`] is one connection to one member; its owner connects to another when it
//! fails. Every wait has a limit: each call has a deadline, and a silent watch asks for its progress. Must never
//! happen: that an event is lost without an error.
//!
//! The messages are declared here with the numbers of etcd's `rpc.proto`, so that no `.proto` files must be compiled.
//!
//! | Module | holds |
//! |---|---|
//! | `messages` | messages of the API |
//! | `pairs` | keys and values |
//! | `transport` | a connection: TCP, TLS, HTTP/2 |
//! | `outgoing` | the body of a call |
//! | `calls` | gRPC calls over a connection |
//! | `client` | keys, transactions, leases |
//! | `watch` | events of keys as they arrive |

mod calls;
mod client;
mod error;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
pub(crate) mod hostile_member;
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
