//! Reads the client's address and protocol as servers in front of this one report them.
//!
//! Trusted only from the addresses that the listener names as `source`. Must never: use a part of a field that an untrusted sender may have
//! written: in a list, everything left of the first untrusted address is only the client's claim.

use std::net::{IpAddr, SocketAddr};

use tutti_config::model::Forwarded;
use tutti_conn::listener::canonical;
use tutti_http::RequestView;

/// The client of a request according to its fields; `None`: not reported by a trusted server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its address; port 0 if none is given.
    pub(crate) address: Option<SocketAddr>,
    /// True if it uses HTTPS towards the servers in front of this one.
    pub(crate) is_https: Option<bool>,
}

impl Origin {
    /// Reads the fields of a request that came from `peer`.
    pub(crate) fn of(
        view: &RequestView<'_>,
        peer: Option<SocketAddr>,
        trusted: &Forwarded,
    ) -> Self {
        if !trusted.source.matches(peer) {
            return Self::default();
        }
        let fields = |name: &Option<String>| {
            name.as_ref()
                .map(|name| view.get_all(name.as_bytes()).collect::<Vec<_>>())
                .unwrap_or_default()
        };
        Self {
            address: client(&fields(&trusted.options.client_ip), trusted),
            is_https: fields(&trusted.options.protocol)
                .last()
                .and_then(|value| last_of(value))
                .and_then(protocol),
        }
    }
}

/// The client's address from the fields that name it, in the order received.
fn client(fields: &[&[u8]], trusted: &Forwarded) -> Option<SocketAddr> {
    let elements = fields
        .iter()
        .rev()
        .flat_map(|value| value.rsplit(|byte| *byte == b','))
        .flat_map(spaced);
    let mut found = None;
    for element in elements {
        // A trusted server writes no invalid element, unless it does not know the address: everything further left is ignored.
        let Some(address) = address(element) else {
            break;
        };
        found = Some(address);
        if !trusted.options.recursive || !trusted.source.matches(found) {
            break;
        }
    }
    found
}

/// Splits an element of a list at its spaces, the last part first; an empty element gives one empty part.
fn spaced(element: &[u8]) -> impl Iterator<Item = &[u8]> {
    let element = element.trim_ascii();
    element
        .rsplit(u8::is_ascii_whitespace)
        .filter(move |piece| !piece.is_empty() || element.is_empty())
}

fn last_of(value: &[u8]) -> Option<&[u8]> {
    value
        .rsplit(|byte| *byte == b',')
        .next()
        .map(<[u8]>::trim_ascii)
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`; the port is 0 if none is given.
fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let address = match text.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, 0),
        Err(_) => match text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(inside) => SocketAddr::new(IpAddr::V6(inside.parse().ok()?), 0),
            None => text.parse().ok()?,
        },
    };
    Some(canonical(address))
}

/// True if it names HTTPS; `None` if it names no protocol.
fn protocol(value: &[u8]) -> Option<bool> {
    if value.eq_ignore_ascii_case(b"https") || value.eq_ignore_ascii_case(b"on") {
        Some(true)
    } else if value.eq_ignore_ascii_case(b"http") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use tutti_config::model::{AddressPattern, AddressSet, ForwardedOptions};

    use super::*;

    fn trusted(source: &[&str], recursive: bool) -> Forwarded {
        let patterns = source
            .iter()
            .map(|text| AddressPattern::parse(text).unwrap())
            .collect();
        Forwarded {
            source: AddressSet::new(patterns),
            options: ForwardedOptions {
                client_ip: Some("X-Forwarded-For".to_owned()),
                recursive,
                protocol: Some("X-Forwarded-Proto".to_owned()),
                ..ForwardedOptions::default()
            },
        }
    }

    fn found(fields: &[&str], source: &[&str], recursive: bool) -> Option<String> {
        let fields: Vec<&[u8]> = fields.iter().map(|field| field.as_bytes()).collect();
        client(&fields, &trusted(source, recursive)).map(|address| address.to_string())
    }

    #[test]
    fn the_documented_example_gives_the_documented_addresses() {
        let fields = ["192.0.2.18", "203.0.113.195, 198.51.100.178"];
        let source = ["192.0.2.0/24", "198.51.100.0/24"];
        assert_eq!(
            found(&fields, &source, false).as_deref(),
            Some("198.51.100.178:0")
        );
        assert_eq!(
            found(&fields, &source, true).as_deref(),
            Some("203.0.113.195:0")
        );
    }

    #[test]
    fn spaces_separate_as_commas_do() {
        let fields = ["192.0.2.18  203.0.113.195, 10.0.0.2 10.0.0.3 "];
        for (recursive, expected) in [(false, "10.0.0.3:0"), (true, "203.0.113.195:0")] {
            assert_eq!(
                found(&fields, &["10.0.0.0/8"], recursive).as_deref(),
                Some(expected)
            );
        }
        // A missing element counts as an invalid one.
        assert_eq!(
            found(&["192.0.2.18,, 10.0.0.3"], &["10.0.0.0/8"], true).as_deref(),
            Some("10.0.0.3:0")
        );
    }

    #[test]
    fn where_all_are_trusted_the_first_is_taken() {
        let fields = ["10.0.0.1, 10.0.0.2", "10.0.0.3"];
        assert_eq!(
            found(&fields, &["10.0.0.0/8"], true).as_deref(),
            Some("10.0.0.1:0")
        );
    }

    #[test]
    fn addresses_before_an_invalid_one_are_ignored() {
        let source = ["10.0.0.0/8"];
        for (fields, expected) in [
            (&["1.2.3.4, unknown"][..], None),
            (&["1.2.3.4, unknown, 10.0.0.9"], Some("10.0.0.9:0")),
            (&["1.2.3.4,"], None),
            (&[""], None),
            (&["1.2.3.4", "10.0.0.300"], None),
        ] {
            assert_eq!(
                found(fields, &source, true).as_deref(),
                expected,
                "{fields:?}"
            );
        }
    }

    #[test]
    fn addresses_are_read_with_and_without_port() {
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1:0")),
            ("192.0.2.1:443", Some("192.0.2.1:443")),
            ("2001:db8::1", Some("[2001:db8::1]:0")),
            ("[2001:db8::1]", Some("[2001:db8::1]:0")),
            ("[2001:db8::1]:443", Some("[2001:db8::1]:443")),
            ("::ffff:192.0.2.1", Some("192.0.2.1:0")),
            ("[192.0.2.1]", None),
            ("localhost", None),
            ("192.0.2.1:x", None),
        ] {
            let found = address(text.as_bytes()).map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_last_protocol_counts() {
        for (value, expected) in [
            ("https", Some(true)),
            ("ON", Some(true)),
            ("http", Some(false)),
            ("https, http", Some(false)),
            ("ftp", None),
            ("", None),
        ] {
            let found = last_of(value.as_bytes()).and_then(protocol);
            assert_eq!(found, expected, "{value}");
        }
    }
}
