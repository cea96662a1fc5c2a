//! FastCGI, uwsgi and SCGI: what is spoken with servers that do not speak HTTP.

use std::sync::Arc;

use crate::address::GatewayKind;
use crate::template::Template;

/// The protocol of an upstream's servers.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// One of those that carry CGI variables.
    Gateway(Arc<Gateway>),
}

impl UpstreamProtocol {
    /// Variables that the configuration sets, where the protocol carries such.
    pub fn parameters(&self) -> &[GatewayParameter] {
        match self {
            Self::Http => &[],
            Self::Gateway(gateway) => &gateway.parameters,
        }
    }
}

/// How a request is put into CGI variables, and what carries them.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Gateway {
    /// The protocol that carries them.
    pub kind: GatewayKind,
    /// Which script is meant; `None`: the application is no collection of scripts.
    pub scripts: Option<Scripts>,
    /// Variables that are set or left out.
    pub parameters: Vec<GatewayParameter>,
}

/// A folder of scripts.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Scripts {
    /// The folder, as the server sees it, without a slash at its end.
    pub root: Box<[u8]>,
    /// The script of a folder.
    pub index: Box<[u8]>,
    /// The script that answers everything, with a slash at its front.
    pub script: Option<Box<[u8]>>,
    /// Endings of scripts' names.
    pub suffixes: Vec<Box<[u8]>>,
    /// Look whether the script is there.
    pub check_files: bool,
}

/// One of `params`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct GatewayParameter {
    /// As written.
    pub name: String,
    /// `None`: it is left out.
    pub value: Option<Template>,
}
