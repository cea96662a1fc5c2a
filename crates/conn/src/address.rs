//! Addresses as text, without an allocation.

use std::io::{Cursor, Write};
use std::net::SocketAddr;

/// An address as text, stored inline; a unix socket is `unix:`, as in Unit's logs.
#[derive(Debug)]
pub struct Address {
    /// 46 bytes is `INET6_ADDRSTRLEN` (inet_ntop(3)).
    text: Cursor<[u8; 46]>,
    /// The port; 0 for a unix socket.
    pub port: u16,
}

impl Address {
    /// The text of `address`, or of a unix socket.
    pub fn of(address: Option<SocketAddr>) -> Self {
        let mut text = Cursor::new([0; 46]);
        // Any address fits.
        let _ = match address {
            Some(address) => write!(text, "{}", address.ip()),
            None => text.write_all(b"unix:"),
        };
        Self {
            text,
            port: address.map_or(0, |address| address.port()),
        }
    }

    /// The address without its port.
    pub fn text(&self) -> &[u8] {
        let length = usize::try_from(self.text.position()).unwrap_or(0);
        self.text.get_ref().get(..length).unwrap_or_default()
    }
}
