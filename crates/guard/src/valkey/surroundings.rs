//! The requirements of a store from outside.

use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;

/// A boxed future.
pub type Pinned<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

/// Gives a store access to its environment.
pub trait Surroundings: Send + Sync {
    /// The content of a file that the configuration names.
    fn read<'s>(&'s self, file: &'s Path) -> Pinned<'s, Result<Vec<u8>, String>>;

    /// The addresses of a name.
    fn addresses<'s>(&'s self, host: &'s str) -> Pinned<'s, Result<Vec<IpAddr>, String>>;

    /// Logs an event.
    fn log_event(&self, event: Event, text: &str);
}

/// Events of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It does not answer from now on.
    Lost,
    /// It does again.
    Found,
}
