//! TLS of a listener.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tutti_document::Pointer;

use super::stored::StoredName;
use super::written_at::WrittenAt;
pub use crate::openssl::TlsProtocol;
pub use crate::table::ClientFailure;
use crate::table::{TlsSessionOptions, UpstreamTlsOptions};

/// `tls` of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// Where it was written.
    pub pointer: Pointer,
    /// Bundles to present, at least one; the first is for server names without a match.
    pub certificates: Vec<StoredName>,
    /// Versions and ciphers that `conf_commands` allow.
    pub protocol: TlsProtocol,
    /// Session resumption.
    pub session: TlsSession,
    /// `client_ca`: verification of client certificates.
    pub clients: Option<TlsClients>,
    /// Certificates for names that clients ask for.
    pub on_demand: Option<TlsOnDemand>,
}

/// Certificates that are ordered when a client asks for the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOnDemand {
    /// Name of the account.
    pub account: String,
    /// The time that a handshake waits for one.
    pub timeout: Duration,
}

/// A certificate in files: a bundle that main reads, under the path of the first file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFile {
    /// Where it was written.
    pub pointer: Pointer,
    /// Certificate and chain; and the key, if it has no separate file.
    pub file: PathBuf,
    /// The key.
    pub key: Option<PathBuf>,
}

impl CertificateFile {
    /// True for a name that is a path, and not the name of a bundle.
    pub fn is_named_by(name: &str) -> bool {
        name.starts_with('/') || name.starts_with("./")
    }

    /// The name of its bundle.
    pub fn name(&self) -> String {
        self.file.display().to_string()
    }
}

/// `tls` of an upstream: this server as a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// Where it was written, or the place that implies it.
    pub pointer: WrittenAt,
    /// CA certificates for servers; `None`: those of the system.
    pub authorities: Option<Vec<Authority>>,
    /// The client certificate for servers that ask for one.
    pub certificate: Option<StoredName>,
    /// Versions and ciphers.
    pub protocol: TlsProtocol,
    /// Sessions are resumed.
    pub resumes: bool,
    /// The remaining options.
    pub options: UpstreamTlsOptions,
}

/// `tls.session` of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// The number of cached sessions, and their lifetime.
    pub options: TlsSessionOptions,
    /// Ticket keys.
    pub tickets: Tickets,
}

/// Session tickets: none, or encrypted with these keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tickets {
    /// No tickets.
    Off,
    /// With random keys of this process.
    Random,
    /// With these, at least one: all decrypt, the last one encrypts.
    Keys(Vec<TicketKey>),
}

/// A ticket key: 48 or 80 bytes. Not shown in logs.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TicketKey(pub Vec<u8>);

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKey({} bytes)", self.0.len())
    }
}

/// CA certificates for clients or servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Authority {
    /// In a bundle of `/certificates`.
    Bundle(StoredName),
    /// In a file.
    File(AuthorityFile),
}

/// A file of certificates, and the place that names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthorityFile {
    /// Where it was written.
    pub pointer: WrittenAt,
    /// An absolute path.
    pub path: PathBuf,
}

/// Client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsClients {
    /// Their CA certificates, at least one.
    pub authorities: Vec<Authority>,
    /// Clients without a certificate are rejected.
    pub is_required: bool,
    /// The treatment of rejected clients, and of those with an invalid one.
    pub failure: ClientFailure,
}
