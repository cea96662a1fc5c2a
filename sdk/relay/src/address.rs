//! The place where a program listens: it is chosen, and kept from other programs for as long as connections to it may be made.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;

use crate::folder::Folder;
use crate::options::Listen;

/// So many ports are looked at for one that no other worker has reserved. A hostile user may have reserved them all: then none is.
const MOST_PORTS: usize = 32;

/// Where the program listens.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A place, and what keeps it from others.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) address: Address,
    pub(crate) reserved: Option<Reserved>,
    /// The socket that listens there already, for [`Listen::Inherit`].
    pub(crate) inherited: Option<OwnedFd>,
}

/// Keeps a place from others, until it is dropped.
#[derive(Debug)]
#[allow(dead_code, reason = "what they hold goes with them")]
pub(crate) enum Reserved {
    Folder(Folder),
    Port(UnixDatagram),
}

/// Chooses the place, and for [`Listen::Inherit`] listens there.
pub(crate) fn choose(listen: Listen) -> io::Result<Chosen> {
    if listen == Listen::Port {
        return free_port();
    }
    let folder = Folder::create(&std::env::temp_dir())?;
    let path = folder.path().join("http.sock");
    let inherited = match listen {
        Listen::Inherit => Some(OwnedFd::from(UnixListener::bind(&path)?)),
        _ => None,
    };
    Ok(Chosen {
        address: Address::Unix(path),
        reserved: Some(Reserved::Folder(folder)),
        inherited,
    })
}

/// A port that no program listens on, and that no worker of another program has chosen or may still connect to. Other software may
/// take it meanwhile; then another one is tried.
fn free_port() -> io::Result<Chosen> {
    let mut seen = Vec::new();
    loop {
        let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = probe.local_addr()?;
        let reserved = reserve(address);
        if reserved.is_some() || seen.len() >= MOST_PORTS {
            return Ok(Chosen {
                address: Address::Tcp(address),
                reserved,
                inherited: None,
            });
        }
        // Held meanwhile, so that each is looked at once.
        seen.push(probe);
    }
}

/// Reserves a port among the workers of this network namespace, which abstract names belong to as ports do (unix(7)).
fn reserve(address: SocketAddr) -> Option<Reserved> {
    let name = UnixAddr::from_abstract_name(format!("tutti-port-{}", address.port())).ok()?;
    UnixDatagram::bind_addr(&name).ok().map(Reserved::Port)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_reserved_for_one_until_it_is_given_up() {
        let chosen = choose(Listen::Port).unwrap();
        let Address::Tcp(address) = chosen.address else {
            unreachable!("a port is TCP's");
        };
        assert!(chosen.reserved.is_some());
        // No program listens there yet, and another worker could be given it.
        assert!(TcpListener::bind(address).is_ok());
        assert!(reserve(address).is_none());
        drop(chosen.reserved);
        assert!(reserve(address).is_some());
    }
}
