//! The server: connections, HTTP/1.1 and HTTP/2, routing to an action, the live configuration.
//!
//! Owns everything between an accepted connection and its answer. The binary starts a [`Server`], which runs one thread for each of the
//! pool's [`Threads`](tutti_pool::Threads); whoever applies configurations calls [`Server::prepare`] and [`Server::commit`].
//!
//! A request's way: `accept` (a connection comes; with TLS, `handshake`) → `connection_task` (reads) → `http1` (each complete request), or a stream of
//! `http2` or `http3` → `arrival` (its client, its trace) → the stages of `pipeline`, one after the other. What belongs to it is its `exchange`, the bytes
//! of it and its response are in `messages`, and the way to its `client` is a `channel`. All of them read the [snapshot] in force.
//!
//! Must never happen: a request without an answer on a connection that goes on; a wait without a deadline on a client; bytes of a
//! file outside what the configuration shares; a listen thread that blocks on anything but a regular file.

mod accept;
mod action;
mod arrival;
mod body;
mod cache;
mod caches;
mod challenge;
mod channel;
mod client;
mod collector;
mod concern;
mod connection;
mod connection_task;
mod early_hints;
mod exchange;
mod fields;
mod guard;
mod handshake;
mod handshake_check;
mod http1;
mod http2;
mod http3;
mod instead;
mod local;
mod maintenance;
mod messages;
mod metrics;
mod mirror;
mod pipeline;
mod plan;
mod posts;
mod proxy_header;
mod refusals;
mod request;
mod request_body;
mod respond;
mod route;
mod route_log;
mod scraper;
mod sending;
mod server;
mod shared_limits;
mod slow_watch;
mod snapshot;
mod step;
mod stream;
mod stream_task;
mod substitute;
mod thread;
mod trace;
mod transfer;
mod tunnel;
mod websocket;
mod writer;

pub use connection_task::LAST_REQUEST;
pub use posts::{NotStored, Post};
pub use scraper::Scrape;
pub use server::{Options, Retired, Server};
pub use shared_limits::{LimitStore, StoreStatus};
pub use snapshot::{Prepared, SpoolsNeeded, Surroundings};
pub use tutti_cache::{CacheStatus, Purge};
pub use tutti_conn::counters::Totals;
pub use tutti_conn::holdings::Held;
pub use tutti_conn::listener::Listener;
pub use tutti_guard::SharedLimit;
pub use tutti_proxy::{FileWanted, Nodes};
pub use tutti_quic::Datagrams;
pub use tutti_upstream::{Health, ServerStatus, status_place};
