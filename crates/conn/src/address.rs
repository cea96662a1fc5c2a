//! Addresses as text, without an allocation.

use std::io::{Cursor, Write};
use std::net::SocketAddr;

/// An address as text, stored inline; a unix socket is `unix:`, as in Unit's logs.
#[derive(Debug)]
pub struct AddressText {
    /// 46 bytes is `INET6_ADDRSTRLEN` (inet_ntop(3)).
    text: Cursor<[u8; 46]>,
    /// The port; 0 for a unix socket.
    pub port: u16,
}

impl AddressText {
    /// The text of `address`, or of a unix socket.
    pub fn of(address: Option<SocketAddr>) -> Self {
        let mut text = Cursor::new([0; 46]);
        // Any address fits.
        let _ = match address {
            // Formatting costs ten times as many instructions.
            Some(SocketAddr::V4(address)) => write_octets(&mut text, address.ip().octets()),
            Some(SocketAddr::V6(address)) => write!(text, "{}", address.ip()),
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

fn write_octets(text: &mut impl Write, octets: [u8; 4]) -> std::io::Result<()> {
    let mut separator: &[u8] = b"";
    for octet in octets {
        text.write_all(separator)?;
        text.write_all(itoa::Buffer::new().format(octet).as_bytes())?;
        separator = b".";
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_standard_library_writes_them() {
        for text in [
            "0.0.0.0:1",
            "127.0.0.1:80",
            "255.10.100.9:65535",
            "[::1]:80",
            "[::ffff:1.2.3.4]:8",
            "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:443",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            let written = AddressText::of(Some(address));
            assert_eq!(written.text(), address.ip().to_string().as_bytes());
            assert_eq!(written.port, address.port());
        }
        assert_eq!(AddressText::of(None).text(), b"unix:");
    }
}
