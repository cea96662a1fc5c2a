//! Connects a single socket.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tutti_sys::tcp::refuse_itself;

use crate::stream::Socket;

/// Pause between two attempts while the backlog of a Unix socket is full.
const QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// The address of a socket.
#[derive(Clone, Debug)]
pub enum Address {
    /// TCP.
    Inet(SocketAddr),
    /// A path, or a name in the abstract namespace.
    Unix(UnixAddress),
}

/// Connects. Small messages are sent immediately over TCP (`TCP_NODELAY`).
///
/// # Errors
/// The system's error; it may take as long as the system tries.
pub async fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Inet(address) => {
            let stream = TcpStream::connect(address).await?;
            refuse_itself(&stream)?;
            stream.set_nodelay(true)?;
            Ok(Socket::Tcp(stream))
        }
        Address::Unix(address) => loop {
            match UnixStream::connect_addr(&address.clone().into()).await {
                // The backlog is full, and the kernel does not report when it has room again (unix(7), `EAGAIN`).
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(QUEUE_PAUSE).await;
                }
                outcome => return outcome.map(Socket::Unix),
            }
        },
    }
}
