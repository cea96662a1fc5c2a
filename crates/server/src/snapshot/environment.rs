//! The needs of a configuration that are met from outside.

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

use tutti_request_log::open_append;

/// Provides everything that a configuration needs from outside: in the daemon, main opens sockets and logs, which the router may not, and the pool has
/// the applications.
pub trait SnapshotEnvironment {
    /// A bound, listening, non-blocking, close-on-exec stream socket. The error becomes a diagnostic at the listener.
    ///
    /// # Errors
    /// Whatever stands against it.
    fn bind(&mut self, listener: &model::Listener) -> io::Result<OwnedFd>;

    /// UDP sockets at the same address and port; asked for if the
    /// listener speaks HTTP/3 and did not. The error becomes a diagnostic at the option.
    ///
    /// # Errors
    /// Whatever stands against it.
    fn bind_datagrams(&mut self, _listener: &model::Listener) -> io::Result<Datagrams> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A descriptor for appending to a log.
    ///
    /// # Errors
    /// Whatever stands against it.
    fn open_log(&mut self, path: &Path) -> io::Result<OwnedFd> {
        open_append(path)
    }

    /// A spool for bodies of requests to upstreams, of up to this many bytes each.
    ///
    /// # Errors
    /// Whatever stands against it.
    fn body_spool(&mut self, max_body: u64) -> io::Result<Spool> {
        Spool::create(&std::env::temp_dir(), max_body)
    }

    /// A spool for answers that slow clients have not taken, of up to this many bytes each.
    ///
    /// # Errors
    /// Whatever stands against it.
    fn response_spool(&mut self, most: u64) -> io::Result<Spool> {
        Spool::create(&std::env::temp_dir(), most)
    }

    /// The file of a store of responses that is new; `None`: it is in memory only, which has been told of.
    fn cache_file(&mut self, _store: &str) -> Option<OwnedFd> {
        None
    }

    /// Somebody who takes spans of requests and sends them where `telemetry` says.
    ///
    /// # Errors
    /// Why that is not possible.
    fn tracer(&mut self, _telemetry: &model::Telemetry) -> Result<Arc<Tracer>, String> {
        Err("nobody sends spans here".to_owned())
    }

    /// The content of a file that a guard needs; `None`: it is not read now, and what is known of it stands.
    fn guard_file(&mut self, _path: &Path) -> Option<Result<Vec<u8>, String>> {
        None
    }

    /// The certificate bundle of this name.
    fn certificate(&mut self, _name: &str) -> Option<Arc<Bundle>> {
        None
    }

    /// The certificates that this account has got on demand, and the way to others.
    fn demands(&mut self, _account: &str) -> Option<Demands> {
        None
    }

    /// The running application of this name; asked for each in the configuration.
    fn application(&mut self, name: &str) -> Option<Arc<ApplicationPool>>;
}
