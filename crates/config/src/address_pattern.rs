//! Address patterns of `source`, `destination` and others, and the parsing shared by all addresses.
//!
//! Matching compares numbers, never text, and does not allocate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Why an address cannot be used, without a period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(pub(crate) String);

/// A set of address patterns, matched as [`crate::pattern::Patterns`] are.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressSet {
    list: Vec<AddressPattern>,
    has_positive: bool,
}

/// One address pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPattern {
    /// It had a leading `!`.
    pub negated: bool,
    /// Addresses.
    pub range: IpRange,
    /// First and last port; `None`: any port.
    pub ports: Option<(u16, u16)>,
}

/// Addresses of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpRange {
    /// Any IP address (`*`).
    Any,
    /// First and last.
    V4(Ipv4Addr, Ipv4Addr),
    /// First and last.
    V6(Ipv6Addr, Ipv6Addr),
    /// Any unix socket (`unix`).
    Unix,
}

impl Default for AddressSet {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl AddressSet {
    /// Creates a set. A set without patterns contains no address: an allowlist that has become empty must not admit
    /// every client.
    pub fn new(list: Vec<AddressPattern>) -> Self {
        let has_positive = list.is_empty() || list.iter().any(|pattern| !pattern.negated);
        AddressSet { list, has_positive }
    }

    /// Its patterns.
    pub fn list(&self) -> &[AddressPattern] {
        &self.list
    }

    /// True if the address belongs to the set; `None` means a unix socket.
    pub fn matches(&self, address: Option<SocketAddr>) -> bool {
        let mut found = !self.has_positive;
        for pattern in &self.list {
            if pattern.contains(address) {
                if pattern.negated {
                    return false;
                }
                found = true;
            }
        }
        found
    }
}

impl AddressPattern {
    /// Parses `!`, address, range, CIDR block, `*` or `unix`, with a port or a range of ports.
    pub fn parse(source: &str) -> Result<AddressPattern, AddressError> {
        let (negated, rest) = match source.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, source),
        };
        if rest == "unix" {
            return Ok(AddressPattern {
                negated,
                range: IpRange::Unix,
                ports: None,
            });
        }
        let (addresses, ports) = split_port(rest)?;
        let range = if addresses == "*" {
            IpRange::Any
        } else {
            ip_range(addresses)?
        };
        if range == IpRange::Any && ports.is_none() {
            return Err(AddressError("`*` needs a port, as in `*:80`".to_owned()));
        }
        Ok(AddressPattern {
            negated,
            range,
            ports: ports.map(port_range).transpose()?,
        })
    }

    fn contains(&self, address: Option<SocketAddr>) -> bool {
        let Some(address) = address else {
            return self.range == IpRange::Unix;
        };
        let in_range = match (self.range, address.ip().to_canonical()) {
            (IpRange::Any, _) => true,
            (IpRange::V4(first, last), IpAddr::V4(ip)) => (first..=last).contains(&ip),
            (IpRange::V6(first, last), IpAddr::V6(ip)) => (first..=last).contains(&ip),
            _ => false,
        };
        in_range
            && self
                .ports
                .is_none_or(|(first, last)| (first..=last).contains(&address.port()))
    }
}

/// Splits off a trailing `:PORT`; IPv6 addresses with a port are in brackets.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<&str>), AddressError> {
    if let Some(inside) = text.strip_prefix('[') {
        let (addresses, rest) = inside
            .split_once(']')
            .ok_or_else(|| AddressError("`[` is never closed by `]`".to_owned()))?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((addresses, Some(port))),
            None if rest.is_empty() => Ok((addresses, None)),
            None => Err(AddressError(format!(
                "`{rest}` follows `]` where only `:PORT` may"
            ))),
        };
    }
    match text.split_once(':') {
        Some((addresses, port)) if !port.contains(':') => Ok((addresses, Some(port))),
        _ => Ok((text, None)),
    }
}

pub(crate) fn ip_range(text: &str) -> Result<IpRange, AddressError> {
    if let Some((address, bits)) = text.split_once('/') {
        return cidr(parse_ip(address)?, bits);
    }
    if let Some((first, last)) = text.split_once('-') {
        return match (parse_ip(first)?, parse_ip(last)?) {
            (IpAddr::V4(a), IpAddr::V4(b)) if a <= b => Ok(IpRange::V4(a, b)),
            (IpAddr::V6(a), IpAddr::V6(b)) if a <= b => Ok(IpRange::V6(a, b)),
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => Err(AddressError(
                format!("the range ends (`{last}`) before it begins (`{first}`)"),
            )),
            _ => Err(AddressError(
                "a range goes from IPv4 to IPv4 or from IPv6 to IPv6".to_owned(),
            )),
        };
    }
    Ok(match parse_ip(text)? {
        IpAddr::V4(ip) => IpRange::V4(ip, ip),
        IpAddr::V6(ip) => IpRange::V6(ip, ip),
    })
}

fn cidr(address: IpAddr, bits: &str) -> Result<IpRange, AddressError> {
    let width: u32 = if address.is_ipv4() { 32 } else { 128 };
    let prefix = u32::from_str(bits)
        .ok()
        .filter(|prefix| *prefix <= width)
        .ok_or_else(|| {
            AddressError(format!(
                "`/{bits}` is not a prefix length between 0 and {width}"
            ))
        })?;
    Ok(match address {
        IpAddr::V4(ip) => {
            let host = u32::MAX.checked_shr(prefix).unwrap_or(0);
            let first = ip.to_bits() & !host;
            IpRange::V4(
                Ipv4Addr::from_bits(first),
                Ipv4Addr::from_bits(first | host),
            )
        }
        IpAddr::V6(ip) => {
            let host = u128::MAX.checked_shr(prefix).unwrap_or(0);
            let first = ip.to_bits() & !host;
            IpRange::V6(
                Ipv6Addr::from_bits(first),
                Ipv6Addr::from_bits(first | host),
            )
        }
    })
}

pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, AddressError> {
    text.parse()
        .map_err(|_| AddressError(format!("`{text}` is not an IPv4 or IPv6 address")))
}

pub(crate) fn port_range(text: &str) -> Result<(u16, u16), AddressError> {
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (any_port(first)?, any_port(last)?),
        None => {
            let port = any_port(text)?;
            (port, port)
        }
    };
    if first > last {
        return Err(AddressError(format!(
            "the port range ends ({last}) before it begins ({first})"
        )));
    }
    Ok((first, last))
}

/// Parses the port of a pattern: no connection has port 0, but a client may be reported without a port, and then it is
/// 0.
fn any_port(text: &str) -> Result<u16, AddressError> {
    port_number(text)
        .ok_or_else(|| AddressError(format!("`{text}` is not a port number between 0 and 65535")))
}

pub(crate) fn parse_port(text: &str) -> Result<u16, AddressError> {
    port_number(text)
        .filter(|port| *port != 0)
        .ok_or_else(|| AddressError(format!("`{text}` is not a port number between 1 and 65535")))
}

/// `from_str` would also take `+80`.
pub(crate) fn port_number(text: &str) -> Option<u16> {
    let port = text.parse().ok()?;
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(port)
}
