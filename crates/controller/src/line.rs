//! The controller's connection to main.

use std::os::fd::OwnedFd;

use tutti_protocol::{FromController, ToController};

/// Sends requests to main, and receives its messages.
pub(crate) type Link = tutti_unprivileged::link::Link<FromController, ToController>;

/// Returns the memory file of main's answer, if it has one.
pub(super) async fn fetch(
    link: &Link,
    make: &(dyn Fn(u64) -> FromController + Sync),
) -> Result<Option<Vec<u8>>, String> {
    let done = link.request(make, Vec::new()).await;
    let done = done.map_err(|refused| refused.message)?;
    let file: Option<OwnedFd> = done.descriptors.into_iter().next();
    file.map(|file| {
        tutti_protocol::read_large(file, tutti_protocol::LONGEST).map_err(|error| error.to_string())
    })
    .transpose()
}
