//! Options of a source: a store from which a node of a fleet takes its configuration.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::kinds::STRINGS;
use crate::table::{Names, Text, ValueKind};
use crate::{Typed as _, Unread, options};

options! {
    /// A store from which this server takes its configuration, as a node of a fleet. Each node has its own `source`:
    /// documents of the fleet do not change it
    pub struct SourceOptions: SOURCE = "source" {
        /// etcd 3.4 or later; 3.5 is recommended
        etcd: Unread [required(), kind(EtcdOptions::KIND), beyond()],
        /// The unique name of this node: letters, digits, `-`, `_` and `.`; by default the machine's host name
        name: Option<String> [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// Labels of this node: `{"zone": "a"}`; documents can be limited to nodes with a label. Names and values have
        /// the same characters as `name`
        labels: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::NotEmpty))), beyond()],
        /// The IP address at which other nodes reach this one, for upstreams with `fleet`; by default the address from
        /// which it reaches the store
        address: Option<String> [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// Absolute path of a file with the keys that encrypt certificates of the fleet, one per line, 32 bytes in
        /// Base64; only its owner and root may read it. The first key encrypts, all of them decrypt
        secret_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
    }
}

options! {
    /// An etcd cluster
    pub struct EtcdOptions: ETCD = "etcd" {
        /// Its members: `https://HOST:PORT`, or `http://` without encryption
        endpoints: Vec<String> [required(), kind(STRINGS), beyond()],
        /// Prefix of all keys of the fleet
        prefix: String [kind(ValueKind::String(Text::NotEmpty)), default("\"/tutti/\""), beyond()],
        /// The user, if etcd requires authentication
        user: Option<String> [kind(ValueKind::String(Text::NotEmpty)), needs(&["password_file"]), beyond()],
        /// Absolute path of a file with the user's password, which only its owner and root may read
        password_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), needs(&["user"]), beyond()],
        /// TLS with members whose endpoints begin with `https://`
        tls: Unread [kind(EtcdTlsOptions::KIND), beyond()],
    }
}

options! {
    /// TLS with an etcd cluster
    pub struct EtcdTlsOptions: ETCD_TLS = "etcd tls" {
        /// Absolute path of a PEM file with the CA certificates to verify members with, instead of the system's
        ca: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Absolute path of a PEM file with the client certificate for members, and its chain
        certificate: Option<PathBuf> [kind(ValueKind::String(Text::Path)), needs(&["key"]), beyond()],
        /// Absolute path of a PEM file with the key of that certificate
        key: Option<PathBuf> [kind(ValueKind::String(Text::Path)), needs(&["certificate"]), beyond()],
        /// The name that members' certificates must have, instead of the host of the endpoint
        server_name: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
    }
}

/// Longest name of a node: that of a host in the DNS (RFC 1035 §2.3.4).
const LONGEST_NAME: usize = 253;

/// True if the text can be the name of a node, or the name or value of a label: it becomes part of a key in the store.
pub fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(is_letter)
}

/// Longest name of a certificate of a fleet, in characters.
const LONGEST_CERTIFICATE_NAME: usize = 80;

/// True if the text can be the name of a certificate of a fleet: it becomes part of a key in the store, and must be
/// neither that of an automatic certificate nor the path of a file.
pub fn is_certificate_name(text: &str) -> bool {
    let is_short = !text.is_empty() && text.chars().count() <= LONGEST_CERTIFICATE_NAME;
    let is_others = crate::acme_names::is_bundle(text) || text.contains('/');
    is_short && !is_others && !text.contains(char::is_control)
}

/// True for `LABEL=VALUE`.
pub fn is_label(text: &str) -> bool {
    let parts = text.split_once('=');
    parts.is_some_and(|(label, value)| is_name(label) && is_name(value))
}

/// The selector of all nodes of a fleet; `LABEL=VALUE` selects those with a label.
pub const ALL: &str = "all";

/// A node of a fleet that takes requests from others: its record is in the store as long as it runs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LiveNode {
    /// Its name.
    pub name: String,
    /// The address at which others reach it.
    pub address: IpAddr,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl LiveNode {
    /// True if a selector matches the node: `all`, or one of its labels.
    pub fn is_meant_by(&self, selector: &str) -> bool {
        let label = selector.split_once('=');
        selector == ALL
            || label.is_some_and(|(label, value)| {
                self.labels.get(label).is_some_and(|own| own == value)
            })
    }
}

/// The nodes of a fleet that take requests, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LiveNodes {
    /// The nodes in the store; `None` until the store has answered for the first time.
    pub nodes: Option<Vec<LiveNode>>,
    /// Why the store cannot be reached now, if so.
    pub lost: Option<String>,
}

impl LiveNodes {
    /// Maximum number of nodes: a store that reports more is not believed.
    pub const MOST: usize = 10_000;
}

/// The client port of etcd, as registered with IANA.
const ETCD_PORT: u16 = 2379;

/// A member of an etcd cluster, as written in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EtcdMember {
    /// It speaks TLS.
    pub is_secure: bool,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Parses `https://HOST:PORT` or `http://HOST:PORT`; the port may be left out.
///
/// # Errors
/// Returns the expected form.
pub fn read_member(text: &str) -> Result<EtcdMember, String> {
    let expected = || "expected `https://HOST:PORT` or `http://HOST:PORT`".to_owned();
    let (is_secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err(expected()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(expected)?)),
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_host) {
        return Err(expected());
    }
    let port = match port {
        None => ETCD_PORT,
        Some(port) => port.parse().map_err(|_| expected())?,
    };
    Ok(EtcdMember {
        is_secure,
        host: host.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_urls() {
        let read = |text: &str| read_member(text).map(|one| (one.is_secure, one.host, one.port));
        let one = |is_secure, host: &str, port| Ok((is_secure, host.to_owned(), port));
        assert_eq!(
            read("https://etcd-1.example.com:2380"),
            one(true, "etcd-1.example.com", 2380)
        );
        assert_eq!(
            read("http://127.0.0.1:12379/"),
            one(false, "127.0.0.1", 12379)
        );
        assert_eq!(read("https://[::1]:1"), one(true, "::1", 1));
        assert_eq!(read("https://etcd"), one(true, "etcd", 2379));
        for wrong in [
            "etcd:2379",
            "https://",
            "https://a:port",
            "https://a/b",
            "ftp://a",
            "http://user@a",
            "http://[::1]x",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_node_is_meant_by_all_and_by_its_labels() {
        let node = LiveNode {
            name: "a".to_owned(),
            address: [10, 0, 0, 1].into(),
            labels: BTreeMap::from([("zone".to_owned(), "b".to_owned())]),
        };
        assert!(node.is_meant_by(ALL) && node.is_meant_by("zone=b"));
        for other in ["zone=a", "zone", "role=b", "", "zone=", "b"] {
            assert!(!node.is_meant_by(other), "{other}");
        }
    }

    #[test]
    fn names_are_parts_of_keys() {
        assert!(is_name("web-1.example.com") && is_label("zone=a"));
        for wrong in ["", "a/b", "a=b", "a b", "ä"] {
            assert!(!is_name(wrong), "{wrong}");
        }
        assert!(!is_label("zone") && !is_label("zone=") && !is_label("a=b=c"));
    }
}
