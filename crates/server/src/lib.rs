//! The server: connections, HTTP/1.1 and HTTP/2, routing to an action, the live configuration.
//!
//! Owns everything between an accepted connection and its response. The binary starts a [`Server`], which runs one thread for each of the
//! pool's [`Threads`](tutti_pool::Threads); the code that applies configurations calls [`Server::prepare`] and [`Server::commit`].
//!
//! The path of a request: `accept` (with TLS, `handshake`) → `connection_task` (reads) → `http1` (each complete request), or a stream of
//! `http2` or `http3` → `arrival` (its client, its trace) → the stages of `pipeline`, one after the other. Its state is its `exchange`, its
//! bytes and those of its response are in `messages`, and the connection to its `client` is a `channel`. All of them read the [snapshot] in
//! force.
//!
//! Must never happen: a request without a response on a connection that continues; a wait for a client without a deadline; bytes of a file
//! outside the configured shares; a listen thread that blocks on anything but a regular file.

mod action;
mod boxed;
mod cache;
mod cache_use;
mod challenge;
mod client_certificate;
mod connection;
mod content_coding;
mod early_hints;
mod exchange;
mod exchange_step;
mod fields;
mod guard;
mod gunzip;
mod handshake_check;
mod internal_redirect;
mod job_submission;
mod local;
mod maintenance;
mod mirror;
mod own_trailers;
mod pipeline;
mod plan;
mod replace;
mod request_body;
mod route;
mod scraper;
mod sending;
mod server;
mod slices;
mod slow_watch;
mod snapshot;
mod stub_status;
mod substitute;
mod transfer;
mod tunnel;
mod websocket;
mod writer;

pub use exchange::client::LAST_REQUEST;
pub use job_submission::{CountedBody, JobNotStored, Post};
pub use scraper::Scrape;
pub use server::{LeavingDatagrams, Retired, Server, SharedLimitStore, StartOptions, StoreStatus};
pub use snapshot::{PreparedSnapshot, SnapshotEnvironment, SpoolsNeeded};
pub use tutti_cache::{CacheStatus, Purge};
pub use tutti_conn::counters::ConnectionTotals;
pub use tutti_conn::listener::SharedListener;
pub use tutti_conn::response_buffers::BufferedBytes;
pub use tutti_guard::SharedLimit;
pub use tutti_proxy::{FileWanted, Nodes};
pub use tutti_quic::Datagrams;
pub use tutti_upstream::{ServerHealth, ServerStatus, status_address};
