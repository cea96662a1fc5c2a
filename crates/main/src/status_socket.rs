//! The socket at which the controller lets routers read `/status`, for a `proxy` that leads to the control socket.
//!
//! NGINX Unit's router may use the control socket, and images publish its status that way. Ours may not: it gets the name of this socket
//! instead, which has no file, so that it is the same whatever user the router is. What must never happen: that it answers anything else
//! than the status (the controller sees to it), or anybody but the router's user.

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

    /// Tells a router what to connect to in the place of the control socket.
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
