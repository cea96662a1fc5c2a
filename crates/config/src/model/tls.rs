//! TLS of a listener.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tutti_document::Pointer;

pub use crate::openssl::TlsProtocol;

use super::stored::StoredName;
use super::written_at::WrittenAt;
use crate::table::{TlsSessionOptions, UpstreamTlsOptions};

/// `tls` of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// Where it was written.
    pub pointer: Pointer,
    /// Bundles to show to clients, at least one; the first is the one for names that none has.
    pub certificates: Vec<StoredName>,
    /// Versions and ciphers, of those that `conf_commands` allow.
    pub protocol: TlsProtocol,
    /// How sessions are taken up again.
    pub session: TlsSession,
    /// `client_ca`: clients show certificates.
    pub clients: Option<TlsClients>,
    /// Certificates for names that clients ask for.
    pub on_demand: Option<TlsOnDemand>,
}

/// Certificates that are got when a client asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOnDemand {
    /// Name of the account.
    pub account: String,
    /// How long a handshake waits for one.
    pub timeout: Duration,
}

/// A certificate in files: a bundle that main reads, under the path of the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFile {
    /// Where it was written.
    pub pointer: Pointer,
    /// Certificate and chain; and the key, if it has no file of its own.
    pub file: PathBuf,
    /// The key.
    pub key: Option<PathBuf>,
}

impl CertificateFile {
    /// True for what is no name of a bundle but a path.
    pub fn is_named_by(name: &str) -> bool {
        name.starts_with('/') || name.starts_with("./")
    }

    /// The name of its bundle.
    pub fn name(&self) -> String {
        self.file.display().to_string()
    }
}

/// `tls` of an upstream: how this server is a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// Where it was written, or where it follows from.
    pub pointer: WrittenAt,
    /// Who vouches for servers; `None`: the authorities of the system.
    pub authorities: Option<Vec<Authority>>,
    /// The bundle to show to servers that want a certificate.
    pub certificate: Option<StoredName>,
    /// Versions and ciphers.
    pub protocol: TlsProtocol,
    /// Sessions are taken up again.
    pub resumes: bool,
    /// The rest of it.
    pub options: UpstreamTlsOptions,
}

/// `tls.session` of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// How many are kept, and how long.
    pub options: TlsSessionOptions,
    /// Keys of tickets.
    pub tickets: Tickets,
}

/// Sessions that clients keep: none, or sealed with which keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tickets {
    /// They are not.
    Off,
    /// With keys that nobody else has.
    Random,
    /// With these, at least one: all open, the last one makes.
    Keys(Vec<TicketKey>),
}

/// A key of tickets: 48 or 80 bytes. Not shown in logs.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TicketKey(pub Vec<u8>);

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKey({} bytes)", self.0.len())
    }
}

/// Where certificates are that vouch for clients or servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Authority {
    /// In a bundle of `/certificates`.
    Bundle(StoredName),
    /// In a file.
    File(AuthorityFile),
}

/// A file of certificates, and where it is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthorityFile {
    /// Where it was written.
    pub pointer: WrittenAt,
    /// An absolute path.
    pub path: PathBuf,
}

/// Certificates that clients show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsClients {
    /// Those who vouch for them, at least one.
    pub authorities: Vec<Authority>,
    /// A client without one is turned away.
    pub is_required: bool,
}
