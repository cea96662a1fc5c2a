//! The listening socket and its connections, in an epoll set.

use std::io;
use std::net::SocketAddr;

use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, Socket, Type};

/// The token of the listening socket; connections use their slot number.
pub(crate) const LISTENER: u64 = u64::MAX;

pub(crate) fn listen(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Waits for events; a signal may end that without any.
pub(crate) fn wait(poll: &OwnedFd, events: &mut Vec<epoll::Event>) -> io::Result<()> {
    events.clear();
    match epoll::wait(poll, rustix::buffer::spare_capacity(events), None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn accept(
    poll: &OwnedFd,
    listener: &Socket,
    connections: &mut Vec<Option<OwnedFd>>,
    vacant: &mut Vec<usize>,
) -> io::Result<()> {
    while let Ok(connection) =
        rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
    {
        let index = vacant.pop().unwrap_or_else(|| {
            connections.push(None);
            connections.len() - 1
        });
        epoll::add(
            poll,
            connection.as_fd(),
            epoll::EventData::new_u64(index as u64),
            epoll::EventFlags::IN,
        )?;
        if let Some(entry) = connections.get_mut(index) {
            *entry = Some(connection);
        }
    }
    Ok(())
}
