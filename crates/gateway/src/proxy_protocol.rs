//! The PROXY protocol: what a trusted proxy reports about a connection, and what this server reports to its upstreams.
//!
//! Source: "The PROXY protocol, Versions 1 & 2" (HAProxy, 2020/03/05), sections in brackets. The `proxy-header` crate does the work; this
//! module adds a limit on the length, the strictness of §2.1, the checksum of §2.2.3.

use std::net::{IpAddr, SocketAddr};

use proxy_header::{Error, ParseConfig, ProxiedAddress, ProxyHeader};

/// The first bytes of version 1 (§2.1).
const TEXT: &[u8] = b"PROXY ";

/// The first bytes of version 2 (§2.2).
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The longest accepted header. Version 1 has at most 107 bytes (§2.1); version 2 permits up to 64 KiB, of which addresses and TLS facts
/// take some hundred.
pub const MAX_BYTES: usize = 4096;

/// The version to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// The content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxied {
    /// The client's addresses; `None`: those of the connection itself apply (a health check of the proxy, a protocol without addresses).
    pub addresses: Option<Addresses>,
    /// The client used TLS, according to a version 2 header (`PP2_TYPE_SSL`).
    pub is_tls: bool,
}

/// Both ends of a client's connection to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// The address it connected to.
    pub destination: SocketAddr,
}

/// The result of reading the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderProgress {
    /// The header is incomplete: read more, and call again with the longer slice.
    Incomplete,
    /// The header is the first `length` bytes; the client's bytes follow.
    Complete {
        /// Its message.
        proxied: Proxied,
        /// Its bytes.
        length: usize,
    },
}

/// Why the bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// They do not begin like a header.
    #[error("it does not begin with a PROXY header")]
    Missing,
    /// They begin like a header, but are invalid.
    #[error("its PROXY header is malformed")]
    Invalid,
    /// Longer than [`MAX_BYTES`].
    #[error("its PROXY header is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// The checksum is wrong.
    #[error("the checksum in its PROXY header is wrong")]
    Checksum,
}

/// Most bytes of a version 1 header, with its line end (§2.1).
const LONGEST_LINE: usize = 107;

/// Reads a header of either version from the start of what a proxy sent.
///
/// # Errors
/// [`Malformed`], at the first byte that shows it. The connection is to be closed (§2).
pub fn read(bytes: &[u8]) -> Result<HeaderProgress, Malformed> {
    let begins = |magic: &[u8]| bytes.iter().zip(magic).all(|(byte, magic)| byte == magic);
    let is_text = begins(TEXT);
    if !is_text && !begins(BINARY) {
        return Err(Malformed::Missing);
    }
    let head = bytes.get(..MAX_BYTES).unwrap_or(bytes);
    match ProxyHeader::parse(head, ParseConfig::default()) {
        Ok((header, length)) => {
            let own = bytes.get(..length).unwrap_or_default();
            // A line ends with its first LF, whatever follows it in the same read.
            let is_line = || memchr::memchr(b'\n', own).is_some_and(|end| end + 1 == length);
            let is_sound = || header.proxied_address().is_none() || has_plain_ports(own);
            if is_text && !(length <= LONGEST_LINE && is_line() && is_sound()) {
                return Err(Malformed::Invalid);
            }
            Ok(HeaderProgress::Complete {
                proxied: proxied(&header, own)?,
                length,
            })
        }
        // The line is complete, but something is missing in it.
        Err(Error::BufferTooShort) if is_text && memchr::memchr(b'\n', bytes).is_some() => {
            Err(Malformed::Invalid)
        }
        Err(Error::BufferTooShort) => match binary_length(bytes).filter(|_| !is_text) {
            Some(length) if length > MAX_BYTES => Err(Malformed::TooLong),
            // It is complete, and too short for the addresses it announces.
            Some(length) if bytes.len() >= length => Err(Malformed::Invalid),
            _ => Ok(HeaderProgress::Incomplete),
        },
        Err(_) => Err(Malformed::Invalid),
    }
}

/// The length of a version 2 header, once enough bytes have arrived (§2.2).
fn binary_length(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.get(14..16)?;
    let rest = u16::from_be_bytes(rest.try_into().ok()?);
    Some(16 + usize::from(rest))
}

fn proxied(header: &ProxyHeader<'_>, bytes: &[u8]) -> Result<Proxied, Malformed> {
    let mut is_tls = false;
    for tlv in header.tlvs() {
        match tlv.map_err(|_| Malformed::Invalid)? {
            proxy_header::Tlv::Ssl(tls) => is_tls = tls.client_ssl(),
            proxy_header::Tlv::Crc32c(sum) if !has_checksum(bytes, sum) => {
                return Err(Malformed::Checksum);
            }
            _ => {}
        }
    }
    let addresses = header.proxied_address().map(|address| Addresses {
        source: address.source,
        destination: address.destination,
    });
    Ok(Proxied { addresses, is_tls })
}

/// Ports are decimal, without sign or leading zeros (§2.1).
fn has_plain_ports(line: &[u8]) -> bool {
    let is_plain = |port: &[u8]| {
        port.iter().all(u8::is_ascii_digit) && (port == b"0" || port.first() != Some(&b'0'))
    };
    let fields = line.trim_ascii_end().rsplit(|byte| *byte == b' ');
    fields.take(2).all(is_plain)
}

/// True if `sum` is the checksum of the header with zeros in its place (§2.2.3).
fn has_checksum(bytes: &[u8], sum: u32) -> bool {
    /// `PP2_TYPE_CRC32C` and its length.
    const KIND: &[u8] = b"\x03\x00\x04";
    let stored = [KIND, &sum.to_be_bytes()].concat();
    let mut places = memchr::memmem::find_iter(bytes, &stored);
    // An address may happen to look like it.
    places.any(|place| {
        let mut zeroed = bytes.to_vec();
        let value = place + KIND.len()..place + stored.len();
        zeroed.get_mut(value).unwrap_or_default().fill(0);
        crc32c(&zeroed) == sum
    })
}

/// The checksum of iSCSI and SCTP (RFC 9260, appendix A), bit by bit: a header is short and comes once per connection.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg())
        })
    })
}

/// Appends a header with the client's addresses; without them, one that says that they are unknown (version 1) or that the connection is
/// our own (version 2).
pub fn write(out: &mut Vec<u8>, version: ProxyHeaderVersion, addresses: Option<Addresses>) {
    let header = match addresses {
        Some(Addresses {
            source,
            destination,
        }) => {
            let (source, destination) = of_one_family(source, destination);
            ProxyHeader::with_address(ProxiedAddress::stream(source, destination))
        }
        None => ProxyHeader::with_local(),
    };
    encode(out, version, &header);
}

/// Appends a header of version 2 with the addresses of a client that sends datagrams (§2.2: `DGRAM`).
pub fn write_for_datagrams(out: &mut Vec<u8>, addresses: Addresses) {
    let (source, destination) = of_one_family(addresses.source, addresses.destination);
    let header = ProxyHeader::with_address(ProxiedAddress::datagram(source, destination));
    encode(out, ProxyHeaderVersion::V2, &header);
}

fn encode(out: &mut Vec<u8>, version: ProxyHeaderVersion, header: &ProxyHeader<'_>) {
    // Addresses of one family always fit.
    let _ = match version {
        ProxyHeaderVersion::V1 => header.encode_v1(out),
        ProxyHeaderVersion::V2 => header.encode_v2(out),
    };
}

/// Converts both to IPv4 if they are IPv4 in any form, else both to IPv6: a header has one family.
fn of_one_family(a: SocketAddr, b: SocketAddr) -> (SocketAddr, SocketAddr) {
    let canonical =
        |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (a, b) = (canonical(a), canonical(b));
    if a.is_ipv4() == b.is_ipv4() {
        return (a, b);
    }
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    (mapped(a), mapped(b))
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
mod tests {
    use super::*;

    fn complete(bytes: &[u8]) -> (Proxied, usize) {
        match read(bytes) {
            Ok(HeaderProgress::Complete { proxied, length }) => (proxied, length),
            other => panic!("{other:?}"),
        }
    }

    fn addresses(source: &str, destination: &str) -> Option<Addresses> {
        Some(Addresses {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        })
    }

    /// The examples of §2.1.
    #[test]
    fn lines_of_the_specification() {
        for (line, expected) in [
            (
                "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n",
                addresses("192.168.0.1:56324", "192.168.0.11:443"),
            ),
            (
                "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
                addresses("255.255.255.255:65535", "255.255.255.255:65535"),
            ),
            (
                "PROXY TCP6 ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n",
                None,
            ),
            ("PROXY UNKNOWN\r\n", None),
            (
                "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
                None,
            ),
        ] {
            if line.contains("...") {
                assert_eq!(read(line.as_bytes()), Err(Malformed::Invalid));
                continue;
            }
            let bytes = [line.as_bytes(), b"GET / HTTP/1.1\r\n"].concat();
            let (proxied, length) = complete(&bytes);
            assert_eq!(
                (proxied.addresses, length),
                (expected, line.len()),
                "{line}"
            );
            for end in 0..line.len() {
                assert_eq!(
                    read(&bytes[..end]),
                    Ok(HeaderProgress::Incomplete),
                    "{line} {end}"
                );
            }
        }
    }

    /// §2.2, byte by byte.
    #[test]
    fn the_binary_header_of_the_specification() {
        let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
        bytes.extend_from_slice(&[192, 0, 2, 7, 198, 51, 100, 1, 0xdc, 0x04, 0x01, 0xbb]);
        let (proxied, length) = complete(&bytes);
        assert_eq!(
            proxied.addresses,
            addresses("192.0.2.7:56324", "198.51.100.1:443")
        );
        assert_eq!(length, 28);
        let mut written = Vec::new();
        write(&mut written, ProxyHeaderVersion::V2, proxied.addresses);
        assert_eq!(written, bytes);
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Ok(HeaderProgress::Incomplete));
        }
        // LOCAL: the proxy's own connection.
        let (proxied, length) = complete(b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00GET");
        assert_eq!((proxied.addresses, length), (None, 16));
        // AF_UNIX addresses are of no use here.
        let mut unix = b"\r\n\r\n\0\r\nQUIT\n\x21\x31\x00\xd8".to_vec();
        unix.extend_from_slice(&[b'x'; 216]);
        assert_eq!(complete(&unix).0.addresses, None);
    }

    #[test]
    fn invalid_headers_are_refused_at_once() {
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], Malformed::Missing),
            (b"PROXY\t", Malformed::Missing),
            (b"\r\n\r\nX", Malformed::Missing),
            (b"\x16\x03\x01", Malformed::Missing),
            (
                b"PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
                Malformed::Invalid,
            ),
            (
                b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
                Malformed::Invalid,
            ),
            (
                b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
                Malformed::Invalid,
            ),
            (
                b"PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
                Malformed::Invalid,
            ),
            (
                b"PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
                Malformed::Invalid,
            ),
            (b"PROXY TCP4 ::1 ::1 1 2\r\n", Malformed::Invalid),
            (b"PROXY TCP4 nonsense\r\n", Malformed::Invalid),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n", Malformed::Invalid),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\rX", Malformed::Invalid),
            (b"\r\n\r\n\0\r\nQUIT\n\x11\x11\x00\x0c", Malformed::Invalid),
            (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff", Malformed::TooLong),
            (
                b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x02\x00\x00",
                Malformed::Invalid,
            ),
        ] {
            assert_eq!(read(bytes), Err(expected), "{}", bytes.escape_ascii());
        }
        let two_lines = b"PROXY UNKNOWN\x0fP\n\r\nGET";
        assert_eq!(read(two_lines), Err(Malformed::Invalid));
        let endless = [&b"PROXY UNKNOWN "[..], &[b'x'; 5000]].concat();
        assert!(read(&endless).is_err());
    }

    #[test]
    fn tls_facts_and_the_checksum() {
        let start = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00";
        let ends = [192, 0, 2, 7, 198, 51, 100, 1, 0xdc, 0x04, 0x01, 0xbb];
        // PP2_TYPE_SSL with PP2_CLIENT_SSL, not verified.
        let mut bytes = [&start[..], &[20], &ends, &[0x20, 0, 5, 1, 0, 0, 0, 1]].concat();
        assert!(complete(&bytes).0.is_tls);
        bytes[31] = 0;
        assert!(!complete(&bytes).0.is_tls);
        let mut bytes = [&start[..], &[19], &ends, &[3, 0, 4, 0, 0, 0, 0]].concat();
        let sum = crc32c(&bytes);
        bytes[31..35].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(complete(&bytes).1, 35);
        bytes[16] ^= 1;
        assert_eq!(read(&bytes), Err(Malformed::Checksum));
    }

    #[test]
    fn the_checksum_is_that_of_iscsi() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn both_addresses_are_written_in_one_family() {
        let mut out = Vec::new();
        write(
            &mut out,
            ProxyHeaderVersion::V1,
            addresses("[::ffff:192.0.2.1]:5", "198.51.100.1:80"),
        );
        write(
            &mut out,
            ProxyHeaderVersion::V1,
            addresses("[2001:db8::1]:5", "198.51.100.1:80"),
        );
        write(&mut out, ProxyHeaderVersion::V1, None);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "PROXY TCP4 192.0.2.1 198.51.100.1 5 80\r\nPROXY TCP6 2001:db8::1 ::ffff:198.51.100.1 5 80\r\nPROXY UNKNOWN\r\n"
        );
    }
}
