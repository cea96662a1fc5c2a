//! A client of the Kubernetes API, as far as the endpoints of services need it: lists and watches of EndpointSlices
//! (`discovery.k8s.io/v1`), <https://kubernetes.io/docs/reference/using-api/api-concepts/>.
//!
//! Owns the connection to the API server and the known slices of one Service. The caller provides the files and
//! resolves names, and gets the ready endpoints. It does not depend on upstreams.
//!
//! Must never happen: that a token is sent to a server whose certificate has not been verified; that a failing API
//! server removes endpoints.

#![forbid(unsafe_code)]

mod client;
mod failure;
mod follow;
mod lines;
mod objects;
mod slices;

pub use client::ClusterAccess;
pub use follow::{ClusterEnvironment, News, WatchedService, follow};
pub use slices::{Port, ReadyEndpoint};
