//! Clients of `quinn-proto` and the server's endpoint in one thread, with datagrams in memory and a clock that the tests set.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod client;
mod connections;
mod early;
mod endpoints;
pub(crate) mod network;
mod requests;
mod responses;
mod world;
