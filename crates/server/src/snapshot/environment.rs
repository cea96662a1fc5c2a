//! The outside resources of a configuration.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use tutti_config::model;
use tutti_pool::ApplicationPool;
use tutti_quic::Datagrams;
use tutti_spool::Spool;
use tutti_telemetry::Tracer;
use tutti_tls::{Bundle, Demands};

/// Provides what a configuration needs from outside: in the daemon, main opens sockets and logs, which the router may not, and the pool has
/// the applications.
pub trait SnapshotEnvironment {
    /// A bound, listening, non-blocking, close-on-exec stream socket. The error becomes a diagnostic at the listener.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn bind(&mut self, listener: &model::Listener) -> io::Result<OwnedFd>;

    /// UDP sockets at the same address and port; requested if the listener has HTTP/3 and had not. The error becomes a diagnostic at the
    /// option.
    ///
    /// # Errors
    /// Why they cannot be opened.
    fn bind_datagrams(&mut self, _listener: &model::Listener) -> io::Result<Datagrams> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A descriptor for appending to a log.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn open_log(&mut self, _path: &Path) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A spool for bodies of requests to upstreams, of up to this many bytes each.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn body_spool(&mut self, max_body: u64) -> io::Result<Spool> {
        Spool::create(&std::env::temp_dir(), max_body)
    }

    /// A spool for responses to slow clients, of up to this many bytes each.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn response_spool(&mut self, most: u64) -> io::Result<Spool> {
        Spool::create(&std::env::temp_dir(), most)
    }

    /// The file of a new cache; `None`: it is in memory only, which has been logged.
    fn cache_file(&mut self, _store: &str) -> Option<OwnedFd> {
        None
    }

    /// A tracer that sends spans to the address of `telemetry`.
    ///
    /// # Errors
    /// Why that is not possible.
    fn tracer(&mut self, _telemetry: &model::Telemetry) -> Result<Arc<Tracer>, String> {
        Err("spans cannot be sent here".to_owned())
    }

    /// The content of a file for access control; `None`: it is not read now, and the known content stays.
    fn guard_file(&mut self, _path: &Path) -> Option<Result<Vec<u8>, String>> {
        None
    }

    /// The certificate bundle of this name.
    fn certificate(&mut self, _name: &str) -> Option<Arc<Bundle>> {
        None
    }

    /// The certificates that this account has obtained on demand, and the way to request others.
    fn demands(&mut self, _account: &str) -> Option<Demands> {
        None
    }

    /// The running application with this name; requested for each in the configuration.
    fn application(&mut self, name: &str) -> Option<Arc<ApplicationPool>>;
}
