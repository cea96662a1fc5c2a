//! The next step for a request, with all data it needs. Owned: it outlives the buffers.

use std::time::Duration;

use tutti_cache::Found;
use tutti_http::FieldLines;
use tutti_pool::ApplicationExchange;

use crate::exchange::collector::Collected;
use crate::exchange::respond::Persistence;
use crate::plan::Plan;
use crate::substitute::Substitute;
use crate::writer::{Response, Written};

/// The next step of an exchange: what it waits for, or how its response has ended.
pub(crate) enum ExchangeStep {
    /// Wait for the guards of this plan, at least for this pause.
    Guard { plan: Box<Plan>, pause: Duration },
    /// Read the request's body.
    Body(Box<Plan>),
    /// Wait for a response in the cache.
    Cache(Box<Fetch>),
    /// Answer with slices from the cache.
    Slices(Box<Plan>),
    /// Run an action that waits.
    Action(Box<Plan>, Collected),
    /// Send the rest of a response.
    Send(Box<Response>),
    /// Answer another request in place of this one.
    Substitute(Box<Substitute>),
    /// A server has switched protocols, and the response is in the output.
    Tunnel(Box<Tunnel>),
    /// An application has accepted a WebSocket handshake, and the response is in the output.
    WebSocket(Box<Upgraded>),
    /// The response is complete in the output.
    End(Persistence),
    /// The response is complete in the output, but the client may still be sending.
    Linger,
}

/// A request that the cache could not answer at once.
pub(crate) struct Fetch {
    pub(crate) found: Found,
    pub(crate) plan: Plan,
}

/// A connection that becomes a tunnel to a server. The 101 is in the output.
pub(crate) struct Tunnel {
    pub(crate) to_server: Box<tutti_proxy::Tunnel>,
    /// The fields of the response's head, if the access log needs them.
    pub(crate) head: FieldLines,
}

/// A connection that becomes a WebSocket.
pub(crate) struct Upgraded {
    pub(crate) exchange: ApplicationExchange,
    /// The fields of the response's head, if the access log needs them.
    pub(crate) head: FieldLines,
}

impl From<Written> for ExchangeStep {
    fn from(sent: Written) -> Self {
        match sent {
            Written::End(persistence) => Self::End(persistence),
            Written::Linger => Self::Linger,
            Written::Rest(response) => Self::Send(response),
        }
    }
}
