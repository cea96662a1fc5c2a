//! Forwards requests to servers of upstreams, and their answers to the client: over HTTP/1, HTTP/2, FastCGI, uwsgi and SCGI, and as
//! tunnels.
//!
//! Decides which server gets a request, on which connection and in which protocol, and what happens when it fails; and runs the health
//! checks. `server` calls [`run`] for a request, with its own [`Client`], and starts the [`Monitor`]. `tutti-upstream` chooses servers and
//! opens connections.
//!
//! Depends on no listener, route or configuration except that of the upstream: the client is a trait, and the configured changes of a
//! request come with the [`ProxyRequest`].
//!
//! Must never: repeat a request that may have had an effect; leave a client without an answer, or the log without the reason; keep a server
//! busy for a client that has disconnected.

#![forbid(unsafe_code)]

mod attempt;
mod cgi;
mod client;
mod computed;
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
mod passthrough;
mod request;
mod resources;
mod scripts;
mod sessions;
mod tunnel;
mod wait;

pub use client::{AnswerHead, BodyStreamError, BufferLimits, Client, RequestBody};
pub use discarding_client::{DiscardingClient, NoBody};
pub use discovery::FileWanted;
pub use forward::{ForwardResult, run};
pub use health::Report;
pub use monitor::{Monitor, Resolvers};
pub use nodes::Nodes;
pub use passthrough::{PassedClient, PassedConnection, ServerSearch, datagram_header, open_tunnel};
pub use request::{BufferedBody, Cgi, ProxyRequest, UpstreamDestination};
pub use resources::Resources;
pub use scripts::{NoScript, ScriptCache, ScriptTarget, find};
pub use tunnel::{Tunnel, TunnelClient};
