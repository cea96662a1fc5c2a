//! A client of Kubernetes' API, as far as the endpoints of services need it: lists and watches of EndpointSlices
//! (`discovery.k8s.io/v1`), <https://kubernetes.io/docs/reference/using-api/api-concepts/>.
//!
//! Owns the connection to the API server and what is known of the slices of one Service. The caller gives the files and the addresses of
//! names, and is told which endpoints are ready. Nothing here knows upstreams.
//!
//! Must never happen: that a token is sent to somebody whose certificate has not been checked; that an API server which fails takes
//! endpoints away.

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
