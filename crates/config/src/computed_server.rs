//! The server of a `proxy` whose address has variables, and the list of servers that it may be.
//!
//! A client may choose the values of variables. So an address counts only if the list permits it, and the list must name
//! loopback, link-local, private and other special addresses themselves: neither a name nor a wide range includes them.
//!
//! Must never: permit a server that no entry of the list describes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tutti_document::shorten;

use crate::address::{AddressError, Ports, UpstreamAddress};
use crate::address_pattern::{IpRange, ip_range, port_range, split_port};
use crate::pattern::{Pattern, Patterns};
use crate::table::CASELESS;
use crate::template::Template;

/// The server of a `proxy` whose address has variables.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputedServer {
    /// The scheme with `://`.
    scheme: Box<str>,
    /// Gives the address.
    pub address: Template,
    ports: Ports,
    allow: Vec<AllowedServer>,
}

/// Why a computed address is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComputedServerError {
    /// It is not the address of a server: 502.
    #[error("{0}")]
    Invalid(String),
    /// `allow` does not permit it: 403.
    #[error("`allow` does not permit the server `{0}`")]
    NotAllowed(String),
}

impl ComputedServer {
    /// Describes the servers that `address` may give. The entries of `allow` without a port permit the default port.
    pub(crate) fn new(
        scheme: &str,
        address: Template,
        ports: Ports,
        allow: Vec<AllowedServer>,
    ) -> Self {
        ComputedServer {
            scheme: format!("{scheme}://").into(),
            address,
            ports: ports.for_addresses_too(),
            allow,
        }
    }

    /// Returns the address of a server from its rendered text, if it is permitted.
    ///
    /// # Errors
    /// The text is not an address, or `allow` does not permit the server.
    pub fn server(&self, rendered: &[u8]) -> Result<UpstreamAddress, ComputedServerError> {
        let text = String::from_utf8_lossy(rendered);
        let invalid = |why: &str| ComputedServerError::Invalid(why.to_owned());
        if text.is_empty() {
            return Err(invalid("the address of the server is empty"));
        }
        // No address has them, and a client must not write lines of the log.
        if !rendered.iter().all(u8::is_ascii_graphic) {
            let text = shorten(&text).escape_default().to_string();
            return Err(invalid(&format!("`{text}` is not an address")));
        }
        if text.starts_with("unix:") {
            return Err(invalid("a computed address cannot be a unix socket"));
        }
        let address = UpstreamAddress::parse(&text, self.ports)
            .map_err(|AddressError(message)| ComputedServerError::Invalid(message))?;
        let is_permitted = match &address {
            UpstreamAddress::Name { host, port } => self.permits_name(host, *port),
            UpstreamAddress::Inet(address) => self.permits(*address, false),
            _ => false,
        };
        match is_permitted {
            true => Ok(address),
            false => Err(ComputedServerError::NotAllowed(shorten(&text))),
        }
    }

    /// Returns the URL of a server, as `proxy` would name it.
    pub fn url(&self, server: &UpstreamAddress) -> String {
        format!("{}{server}", self.scheme)
    }

    /// True if a permitted name may resolve to this address: to any public one, and to a special one that an entry names.
    pub fn permits_resolved(&self, address: SocketAddr) -> bool {
        self.permits(address, true)
    }

    fn permits_name(&self, host: &str, port: u16) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let mut allow = self.allow.iter();
        allow.any(|entry| entry.has_port(port, self.ports) && entry.has_name(host))
    }

    fn permits(&self, address: SocketAddr, is_resolved: bool) -> bool {
        let ip = address.ip().to_canonical();
        let block = special_block(ip);
        if block.is_none() && is_resolved {
            return true;
        }
        self.allow.iter().any(|entry| {
            let is_named = match &entry.servers {
                Servers::Addresses(range) => {
                    contains(*range, ip) && block.is_none_or(|block| is_within(*range, block))
                }
                Servers::All => block.is_none(),
                Servers::Names(_) => false,
            };
            is_named && entry.has_port(address.port(), self.ports)
        })
    }
}

/// An entry of `allow`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AllowedServer {
    servers: Servers,
    /// First and last; `None`: the default port of the protocol.
    ports: Option<(u16, u16)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Servers {
    /// `*`: every name and every public address.
    All,
    /// Names in lower case, where `*` stands for any characters.
    Names(Patterns),
    /// Addresses.
    Addresses(IpRange),
}

impl AllowedServer {
    /// Parses a name, in which `*` stands for any characters, an address, a range or a CIDR block, with a port or a range
    /// of ports.
    pub(crate) fn parse(text: &str, ports: Ports) -> Result<Self, AddressError> {
        let (host, written) = split_port(text)?;
        let written = written.map(port_range).transpose()?;
        if written.is_some_and(|(first, _)| first == 0) {
            return Err(AddressError("no server has port 0".to_owned()));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
        let servers = if host == "*" {
            Servers::All
        } else if let Ok(range) = ip_range(host) {
            Servers::Addresses(range)
        } else if !host.is_empty()
            && host.bytes().all(is_name)
            && host.bytes().any(|byte| byte.is_ascii_alphabetic())
        {
            let host = host.strip_suffix('.').unwrap_or(host);
            let pattern = Pattern::parse(host, CASELESS)
                .map_err(|error| AddressError(format!("`{}`: {error}", shorten(text))))?;
            Servers::Names(Patterns::new(vec![pattern]))
        } else {
            return Err(AddressError(format!(
                "`{}` is neither a name nor a range of addresses",
                shorten(text)
            )));
        };
        if written.is_none() && ports.of_url().is_none() {
            return Err(AddressError(format!("`{}` has no port", shorten(text))));
        }
        Ok(AllowedServer {
            servers,
            ports: written,
        })
    }

    fn has_port(&self, port: u16, defaults: Ports) -> bool {
        match self.ports {
            Some((first, last)) => (first..=last).contains(&port),
            None => defaults.of_url() == Some(port),
        }
    }

    fn has_name(&self, host: &str) -> bool {
        match &self.servers {
            Servers::All => true,
            Servers::Names(names) => names.matches(host.as_bytes()).unwrap_or(false),
            Servers::Addresses(_) => false,
        }
    }
}

fn contains(range: IpRange, ip: IpAddr) -> bool {
    match (range, ip) {
        (IpRange::V4(first, last), IpAddr::V4(ip)) => (first..=last).contains(&ip),
        (IpRange::V6(first, last), IpAddr::V6(ip)) => (first..=last).contains(&ip),
        _ => false,
    }
}

/// True if all addresses of a range are in a block.
fn is_within(range: IpRange, block: IpRange) -> bool {
    match range {
        IpRange::V4(first, last) => {
            contains(block, IpAddr::V4(first)) && contains(block, IpAddr::V4(last))
        }
        IpRange::V6(first, last) => {
            contains(block, IpAddr::V6(first)) && contains(block, IpAddr::V6(last))
        }
        IpRange::Any | IpRange::Unix => false,
    }
}

/// The blocks that lead to this machine, its network or no single server (IANA's registries of special-purpose addresses,
/// RFC 6890), and those of IPv6 that carry an IPv4 address (RFC 6052, RFC 3056, RFC 4380, RFC 2765).
const V4_BLOCKS: [(Ipv4Addr, u32); 12] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];
const V6_BLOCKS: [(Ipv6Addr, u32); 12] = [
    // The loopback address, and IPv4 addresses in their former notation.
    (Ipv6Addr::UNSPECIFIED, 96),
    // IPv4 addresses that a translator of this machine takes.
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

/// The special block that contains the address.
fn special_block(ip: IpAddr) -> Option<IpRange> {
    let mut blocks = V4_BLOCKS
        .iter()
        .map(|(first, bits)| {
            let last = first.to_bits() | (u32::MAX >> bits);
            IpRange::V4(*first, Ipv4Addr::from_bits(last))
        })
        .chain(V6_BLOCKS.iter().map(|(first, bits)| {
            let last = first.to_bits() | (u128::MAX >> bits);
            IpRange::V6(*first, Ipv6Addr::from_bits(last))
        }));
    blocks.find(|block| contains(*block, ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(allow: &[&str]) -> ComputedServer {
        let entry = |text: &&str| AllowedServer::parse(text, Ports::HTTP).unwrap();
        let address = Template::parse("$arg_backend").unwrap();
        ComputedServer::new(
            "http",
            address,
            Ports::HTTP,
            allow.iter().map(entry).collect(),
        )
    }

    fn is_allowed(allow: &[&str], address: &str) -> bool {
        match server(allow).server(address.as_bytes()) {
            Ok(_) => true,
            Err(ComputedServerError::NotAllowed(_)) => false,
            Err(error) => panic!("{address}: {error}"),
        }
    }

    #[test]
    fn names_are_compared_whole_and_with_their_port() {
        let allow = [
            "app.example",
            "*.apps.example:8000-8099",
            "blog-*.example:81",
        ];
        for (address, expected) in [
            ("app.example", true),
            ("APP.example.:80", true),
            ("app.example:81", false),
            ("xapp.example", false),
            ("app.example.evil.test", false),
            ("a.apps.example:8000", true),
            ("a.b.apps.example:8099", true),
            ("a.apps.example:8100", false),
            ("apps.example:8000", false),
            ("blog-1.example:81", true),
            ("blog.example:81", false),
            ("192.0.2.1:80", false),
        ] {
            assert_eq!(is_allowed(&allow, address), expected, "{address}");
        }
    }

    #[test]
    fn special_addresses_are_permitted_only_by_their_own_range() {
        for (allow, address, expected) in [
            ("192.0.2.0/24", "192.0.2.9:80", true),
            ("192.0.2.0/24", "192.0.2.9:8080", false),
            ("0.0.0.0/0:1-65535", "192.0.2.9:80", true),
            ("0.0.0.0/0:1-65535", "127.0.0.1:80", false),
            ("0.0.0.0/0:1-65535", "169.254.169.254:80", false),
            ("*:80", "192.0.2.9:80", true),
            ("*:80", "10.0.0.1:80", false),
            ("*:80", "name.example:80", true),
            ("10.0.0.0/8:80", "10.1.2.3:80", true),
            ("10.0.0.0/7:80", "10.1.2.3:80", false),
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:80", "[::ffff:127.0.0.1]:80", true),
            ("[::/0]:80", "[::1]:80", false),
            ("[::/0]:80", "[2001:db8::1]:80", true),
            ("[::/0]:80", "[64:ff9b::7f00:1]:80", false),
            ("[::/0]:80", "[2002:7f00:1::]:80", false),
            ("[::/0]:80", "[::ffff:0:7f00:1]:80", false),
            ("[::/0]:80", "[2001::7f00:1]:80", false),
            ("[::1]:80", "[::1]:80", true),
        ] {
            assert_eq!(is_allowed(&[allow], address), expected, "{allow} {address}");
        }
    }

    #[test]
    fn a_name_may_resolve_to_public_addresses_and_to_special_ones_that_are_named() {
        let server = server(&["*.example:8080", "10.0.0.0/24:8080"]);
        for (address, expected) in [
            ("192.0.2.1:8080", true),
            ("10.0.0.5:8080", true),
            ("10.0.1.5:8080", false),
            ("10.0.0.5:80", false),
            ("127.0.0.1:8080", false),
            ("[fd00::1]:8080", false),
            ("[::ffff:127.0.0.1]:8080", false),
        ] {
            let is_permitted = server.permits_resolved(address.parse().unwrap());
            assert_eq!(is_permitted, expected, "{address}");
        }
    }

    #[test]
    fn a_text_that_is_no_address_is_none() {
        let server = server(&["*:1-65535"]);
        for wrong in [
            &b""[..],
            b"unix:/run/a.sock",
            b"a b",
            b"user@host",
            b"host/path",
            b"host:0",
            b"host:http",
            b"127.1",
            b"::1",
            b"a\r\nb",
            b"host?x",
            "b\u{fc}cher.example".as_bytes(),
        ] {
            let outcome = server.server(wrong);
            let is_invalid = matches!(outcome, Err(ComputedServerError::Invalid(_)));
            assert!(is_invalid, "{:?}", String::from_utf8_lossy(wrong));
            let text = outcome.unwrap_err().to_string();
            assert!(!text.contains(char::is_control), "{text}");
        }
    }

    #[test]
    fn entries_that_mean_nothing_are_refused() {
        for wrong in [
            "",
            "!a.example",
            "a b",
            "http://a",
            "a:0",
            "10.0.0.0/33",
            "~a",
            "**",
            "unix:/a",
        ] {
            assert!(AllowedServer::parse(wrong, Ports::HTTP).is_err(), "{wrong}");
        }
        assert!(AllowedServer::parse("a.example", Ports::GATEWAY).is_err());
        assert!(AllowedServer::parse("a.example:9000", Ports::GATEWAY).is_ok());
    }
}
