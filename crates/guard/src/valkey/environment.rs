//! The requirements of a store from outside.

use std::net::IpAddr;
use std::path::Path;

use tutti_dialer::BoxFuture;

/// Gives a store access to its environment.
pub trait StoreEnvironment: Send + Sync {
    /// The content of a file that the configuration names.
    fn read<'s>(&'s self, file: &'s Path) -> BoxFuture<'s, Result<Vec<u8>, String>>;

    /// The addresses of a name.
    fn addresses<'s>(&'s self, host: &'s str) -> BoxFuture<'s, Result<Vec<IpAddr>, String>>;

    /// Logs an event.
    fn report(&self, event: StoreEvent, text: &str);
}

/// Events of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// It does not answer from now on.
    Lost,
    /// It does again.
    Found,
}
