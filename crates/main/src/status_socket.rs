//! The socket on which the controller lets routers read `/status`, for a `proxy` to the control socket.
//!
//! NGINX Unit's router may use the control socket, and images publish its status that way. Tutti's router may not: it
//! gets the name of this abstract socket instead, which works whatever user the router has. Must never happen: that it
//! serves anything but the status (the controller ensures that), or any user but the router's.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use tutti_protocol::StatusPlace;
use tutti_sys::listen::{ListenOptions, SocketName, listen};

/// The socket and its name.
#[derive(Debug)]
pub(crate) struct StatusSocket {
    pub(crate) socket: OwnedFd,
    name: String,
}

impl StatusSocket {
    /// Opens it under a name that no other process can have taken.
    pub(crate) fn open() -> io::Result<StatusSocket> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let name = format!("tutti-status-{:032x}", u128::from_ne_bytes(random));
        let endpoint = SocketName::Abstract(name.clone().into_bytes());
        let socket = listen(&endpoint, ListenOptions::default())?;
        Ok(StatusSocket { socket, name })
    }

    /// Returns the address that a router uses instead of the control socket.
    pub(crate) fn place(&self, control: &SocketName) -> StatusPlace {
        let about = match control {
            SocketName::Path(path) => std::fs::metadata(path).ok(),
            _ => None,
        };
        StatusPlace {
            name: self.name.clone(),
            control: control.to_string(),
            file: about.map(|about| (about.dev(), about.ino())),
        }
    }
}
