//! Requests on their way to servers of upstreams, and the answers back: over HTTP/1, HTTP/2, FastCGI, uwsgi and SCGI,
//! and as tunnels.
//!
//! Owns everything between a request that is to go to an upstream and its answer: which server is asked, on which connection, in which words,
//! and what happens when it fails; and the checks that tell which servers work. `server` calls [`run`] for a request, with its own
//! [`Client`], and starts the [`Monitor`]. `tutti-upstream` chooses servers and opens connections.
//!
//! Sees no listener, route or configuration but that of the upstream: the client is a trait, and what the configuration changes about a
//! request comes with the [`ProxyRequest`].
//!
//! Must never: send a request again that may have had an effect; leave a client without an answer, or the reason out of the log; go
//! on with a server for a client that has gone.

#![forbid(unsafe_code)]

mod attempt;
mod cgi;
mod client;
mod discarding_client;
mod discovery;
mod forward;
mod grpc;
mod handover;
mod head;
mod health;
mod http1;
mod http2;
mod link;
mod monitor;
mod nodes;
mod outgoing;
mod request;
mod resources;
mod scripts;
mod sessions;
mod tunnel;
mod wait;

pub use client::{AnswerHead, BodyStreamError, BufferLimits, Client, RequestBody};
pub use discarding_client::{NoBody, Nobody};
pub use discovery::FileWanted;
pub use forward::{ForwardResult, run};
pub use health::Report;
pub use monitor::{Monitor, Ways};
pub use nodes::Nodes;
pub use request::{BufferedBody, Cgi, ProxyRequest, UpstreamDestination};
pub use resources::Resources;
pub use scripts::{NoScript, ScriptCache, ScriptTarget, find};
pub use tunnel::{Tunnel, TunnelClient};
