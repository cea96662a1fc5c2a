//! FastCGI, uwsgi and SCGI: the protocols of servers that do not use HTTP.

use std::sync::Arc;

use crate::address::GatewayKind;
use crate::template::Template;

/// The protocol of an upstream's servers.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// A protocol with CGI variables.
    Gateway(Arc<Gateway>),
}

impl UpstreamProtocol {
    /// Returns the configured variables, if the protocol has any.
    pub fn parameters(&self) -> &[GatewayParameter] {
        match self {
            Self::Http => &[],
            Self::Gateway(gateway) => &gateway.parameters,
        }
    }
}

/// The mapping of requests to CGI variables, and the protocol.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Gateway {
    /// The protocol.
    pub kind: GatewayKind,
    /// The mapping of paths to scripts; `None`: paths do not name scripts.
    pub scripts: Option<Scripts>,
    /// Variables that are set or removed.
    pub parameters: Vec<GatewayParameter>,
}

/// A folder of scripts.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Scripts {
    /// The folder, as the server sees it, without a trailing slash.
    pub root: Box<[u8]>,
    /// The script of a folder.
    pub index: Box<[u8]>,
    /// The script that handles every request, with a leading slash.
    pub script: Option<Box<[u8]>>,
    /// Endings of scripts' names.
    pub suffixes: Vec<Box<[u8]>>,
    /// Check that the script exists.
    pub check_files: bool,
}

/// One of `params`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct GatewayParameter {
    /// As written.
    pub name: String,
    /// `None`: it is removed.
    pub value: Option<Template>,
}
