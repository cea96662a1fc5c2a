//! Streams: connections that are passed on without being parsed as HTTP.

use tutti_document::Pointer;

use super::{AddressSet, Patterns};

/// The steps for the connections of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Tried in order; if none matches, the connection is closed.
    pub steps: Vec<StreamStep>,
}

impl Stream {
    /// True if a connection may be read as HTTP.
    pub fn terminates(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| step.action == StreamAction::Terminate)
    }

    /// True if connections that do not begin with TLS may match a step after they have been read.
    pub fn distinguishes_tls(&self) -> bool {
        self.steps.iter().any(|step| step.tls.is_some())
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamStep {
    /// Where it was written.
    pub pointer: Pointer,
    /// It begins with TLS, or does not.
    pub tls: Option<bool>,
    /// The name that the client asks for; patterns are lower-cased.
    pub server_name: Option<Patterns>,
    /// The protocols that it offers.
    pub alpn: Option<Patterns>,
    /// Address and port that the connection comes from.
    pub source: Option<AddressSet>,
    /// Address and port that it was made to.
    pub destination: Option<AddressSet>,
    /// The action if all match.
    pub action: StreamAction,
}

impl StreamStep {
    /// True if the first bytes of the client are needed to decide.
    pub fn needs_hello(&self) -> bool {
        self.tls.is_some() || self.server_name.is_some() || self.alpn.is_some()
    }
}

/// The action for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamAction {
    /// Pass it to a server of this upstream, a key of `Config::upstreams`.
    Pass(String),
    /// Terminate TLS here, and read requests.
    Terminate,
    /// Close it.
    Close,
}
