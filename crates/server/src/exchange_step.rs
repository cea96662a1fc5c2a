//! The next step for a request, with everything that it takes. Owned: it outlives the buffers.

use std::time::Duration;

use tutti_http::FieldLines;
use tutti_pool::ApplicationExchange;

use crate::exchange::collector::Collected;
use crate::exchange::respond::Persistence;
use crate::plan::Plan;
use crate::substitute::Substitute;
use crate::writer::{Response, Written};
use tutti_cache::Found;

/// The next step of an exchange: what it waits for, or how its response has ended.
pub(crate) enum ExchangeStep {
    /// Wait for the guards of this, for so long at least.
    Guard { plan: Box<Plan>, pause: Duration },
    /// Read the request's body.
    Body(Box<Plan>),
    /// Wait for a response in the cache.
    Cache(Box<Fetch>),
    /// Perform an action that waits for something.
    Action(Box<Plan>, Collected),
    /// Send the rest of a response.
    Send(Box<Response>),
    /// Answer another request in place of this one.
    Substitute(Box<Substitute>),
    /// A server has changed the protocol, and the response is in the output.
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

/// A connection that is a tunnel to a server from now on. The response that says so is in the output.
pub(crate) struct Tunnel {
    pub(crate) to_server: Box<tutti_proxy::Tunnel>,
    /// The fields of the response's head, where the access log may ask for them.
    pub(crate) head: FieldLines,
}

/// A connection that is a WebSocket from now on.
pub(crate) struct Upgraded {
    pub(crate) exchange: ApplicationExchange,
    /// The fields of the response's head, where the access log may ask for them.
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
