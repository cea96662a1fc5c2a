//! Everything that a store needs from outside.

use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;

/// An answer that takes time.
pub type Pinned<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

/// The ways of a store to what is around it.
pub trait Surroundings: Send + Sync {
    /// The content of a file that the configuration names.
    fn read<'s>(&'s self, file: &'s Path) -> Pinned<'s, Result<Vec<u8>, String>>;

    /// The addresses of a name.
    fn addresses<'s>(&'s self, host: &'s str) -> Pinned<'s, Result<Vec<IpAddr>, String>>;

    /// Something that is worth a line in the log.
    fn tell(&self, event: Event, text: &str);
}

/// Events of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It does not answer from now on.
    Lost,
    /// It does again.
    Found,
}
