//! The control socket of this server as a server of a `proxy`: connections go to the socket that answers `/status` alone.
//!
//! Set once when the router starts. What must never happen: that a connection for a client reaches the control socket itself; should it,
//! by a path that changes meanwhile, then the controller knows the router and answers no more than this either.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::SocketAddr;
use std::sync::OnceLock;

use tutti_config::model::UpstreamAddress;

struct StatusAddress {
    /// The address of the control socket: `unix:/path`, `unix:@name`.
    control: String,
    /// Device and inode of its file.
    file: Option<(u64, u64)>,
    status: SocketAddr,
}

static PLACE: OnceLock<StatusAddress> = OnceLock::new();

/// Notes the control socket by its address, and by its file's device and inode where it has one; and the abstract name of the socket to
/// connect to instead.
pub fn set(control: String, file: Option<(u64, u64)>, status: &str) -> std::io::Result<()> {
    let place = StatusAddress {
        control,
        file,
        status: SocketAddr::from_abstract_name(status)?,
    };
    // A second router in one process, as tests have it, keeps the first one's.
    let _ = PLACE.set(place);
    Ok(())
}

/// The socket to connect to where this address is that of the control socket.
pub(crate) fn instead_of(address: &UpstreamAddress) -> Option<SocketAddr> {
    let place = PLACE.get()?;
    // Many paths lead to a file.
    let is_its_file = || match (address, place.file) {
        (UpstreamAddress::Unix(path), Some(file)) => {
            std::fs::metadata(path).is_ok_and(|about| (about.dev(), about.ino()) == file)
        }
        _ => false,
    };
    let is_control = address.to_string() == place.control || is_its_file();
    is_control.then(|| place.status.clone())
}
