//! TCP connections as the system makes them.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{getpeername, getsockname};

/// Refuses a connection of a socket to itself. While no process listens on a port of this machine's ephemeral range,
/// the system may choose that very port for our own end (RFC 9293 §3.5: simultaneous open): there is no server, and none
/// could listen as long as the connection is open. It leaves no trace when it is closed.
///
/// # Errors
/// `ConnectionRefused` for such a connection, and errors of the system.
pub fn refuse_itself(connection: impl AsFd) -> io::Result<()> {
    if Some(getsockname(&connection)?) != getpeername(&connection)? {
        return Ok(());
    }
    set_socket_linger(&connection, Some(Duration::ZERO))?;
    Err(io::ErrorKind::ConnectionRefused.into())
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Instant;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

    use super::*;

    /// The time that the kernel holds a port after a connection of its own (`TCP_TIMEWAIT_LEN`).
    const TIME_WAIT: Duration = Duration::from_secs(60);

    #[test]
    fn a_connection_with_itself_is_refused_and_holds_no_port() {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        // Nothing else is at this address, so that no other socket takes the port when it is free again.
        bind(&socket, &SocketAddr::from(([127, 86, 0, 2], 0))).unwrap();
        let stream = TcpStream::from(socket);
        let address = stream.local_addr().unwrap();
        connect(&stream, &address).unwrap();
        let refused = refuse_itself(&stream).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        drop(stream);
        // The port is free again; a process that another test has just forked may hold the socket until it runs its program.
        let deadline = Instant::now() + TIME_WAIT / 2;
        let _server = loop {
            match TcpListener::bind(address) {
                Ok(server) => break server,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::yield_now();
        };
        assert!(refuse_itself(TcpStream::connect(address).unwrap()).is_ok());
    }
}
