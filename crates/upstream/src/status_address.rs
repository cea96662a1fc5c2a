//! The control socket of this server as a server of a `proxy`: connections go to a socket that serves only `/status`.
//!
//! Set once when the router starts. Must never happen: that a client's connection reaches the control socket itself. If it does, because a
//! path changes meanwhile, the controller recognises the router and answers only `/status`.

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

/// Stores the address of the control socket, the device and inode of its file if it has one, and the abstract name of the socket to use
/// instead.
pub fn set(control: String, file: Option<(u64, u64)>, status: &str) -> std::io::Result<()> {
    let place = StatusAddress {
        control,
        file,
        status: SocketAddr::from_abstract_name(status)?,
    };
    // A second router in one process, which only tests have, uses the first one's.
    let _ = PLACE.set(place);
    Ok(())
}

/// The socket to connect to, if this is the address of the control socket.
pub(crate) fn instead_of(address: &UpstreamAddress) -> Option<SocketAddr> {
    let place = PLACE.get()?;
    // Compared by inode, because many paths may lead to the file.
    let is_its_file = || match (address, place.file) {
        (UpstreamAddress::Unix(path), Some(file)) => {
            std::fs::metadata(path).is_ok_and(|about| (about.dev(), about.ino()) == file)
        }
        _ => false,
    };
    let is_control = address.to_string() == place.control || is_its_file();
    is_control.then(|| place.status.clone())
}
