//! Addresses that listeners bind to, and addresses of servers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use tutti_document::shorten;
use tutti_options::source::{ALL, is_label as is_label_of_nodes};

pub use crate::address_pattern::{AddressError, AddressPattern, AddressSet, IpRange};
use crate::address_pattern::{parse_ip, parse_port, split_port};
use crate::template::{Template, TemplatePart};

/// Longest path of a unix socket: `sun_path` is 108 bytes, the last of them NUL (unix(7)).
const UNIX_PATH_MAX: usize = 107;

/// The notations of servers.
pub(crate) const SERVER_FORMS: &str =
    "write `ADDRESS:PORT`, `[IPV6]:PORT`, `NAME:PORT`, `unix:PATH` or `unix:@NAME`";

/// The default port of a server; `None`: a port is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    of_names: Option<u16>,
    of_addresses: Option<u16>,
}

impl Ports {
    /// A name is written as in a URL (RFC 9110 §4.2.1); an address without a port usually lacks it by mistake.
    pub(crate) const HTTP: Ports = Ports {
        of_names: Some(80),
        of_addresses: None,
    };
    /// RFC 9110 §4.2.2.
    pub(crate) const HTTPS: Ports = Ports {
        of_names: Some(443),
        of_addresses: Some(443),
    };
    /// FastCGI, uwsgi and SCGI have no default port.
    pub(crate) const GATEWAY: Ports = Ports {
        of_names: None,
        of_addresses: None,
    };

    /// The default port of the protocol.
    pub(crate) fn of_url(self) -> Option<u16> {
        self.of_names
    }

    /// The same, where an address without a port is no mistake, because variables give it.
    pub(crate) fn for_addresses_too(self) -> Ports {
        Ports {
            of_addresses: self.of_names,
            ..self
        }
    }
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenAddress {
    /// `*:PORT`: any address of this machine.
    Any(u16),
    /// A specific address and port.
    Ip(SocketAddr),
    /// `unix:/path`.
    Unix(PathBuf),
    /// `unix:@name`: a name in the abstract namespace, without the `@`.
    Abstract(String),
    /// `udp:ADDRESS:PORT`: UDP; `*` is 0.0.0.0.
    Udp(SocketAddr),
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// IPv4 or IPv6, and port.
    Inet(SocketAddr),
    /// A name to be resolved, and port.
    Name {
        /// In lower case.
        host: String,
        /// The same for all addresses.
        port: u16,
    },
    /// A service, whose servers and their ports are looked up (RFC 2782).
    Service {
        /// The name as written, in lower case: certificates are verified against it.
        host: String,
        /// The name of its SRV records.
        query: String,
    },
    /// A Kubernetes Service, whose endpoints the API server reports.
    Kubernetes {
        /// Its name in the cluster, `SERVICE.NAMESPACE.svc`: certificates are verified against it.
        host: String,
        /// Its name.
        service: String,
        /// Its namespace.
        namespace: String,
        /// `None`: it has only one.
        port: Option<ServicePort>,
    },
    /// Nodes of the fleet, which the store reports.
    Fleet {
        /// `all`, or `LABEL=VALUE`.
        selector: String,
        /// The same for all of them.
        port: u16,
    },
    /// A unix socket's path.
    Unix(PathBuf),
    /// A unix socket's name in the abstract namespace, without the `@`.
    Abstract(String),
}

/// A port of a Kubernetes Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServicePort {
    /// Its name in the Service.
    Name(String),
    /// The number on which the pods listen.
    Number(u16),
}

impl std::fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UpstreamAddress::Inet(address) => write!(f, "{address}"),
            UpstreamAddress::Name { host, port } => write!(f, "{host}:{port}"),
            UpstreamAddress::Service { query, .. } => write!(f, "{query}"),
            UpstreamAddress::Kubernetes {
                service, namespace, ..
            } => write!(f, "{service}.{namespace}"),
            UpstreamAddress::Fleet { selector, .. } => f.write_str(selector),
            UpstreamAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            UpstreamAddress::Abstract(name) => write!(f, "unix:@{name}"),
        }
    }
}

/// A protocol that carries CGI variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatewayKind {
    /// FastCGI 1.0.
    FastCgi,
    /// uWSGI's own protocol.
    Uwsgi,
    /// SCGI.
    Scgi,
}

impl GatewayKind {
    /// The scheme of its URL, and the name of its options.
    pub fn name(self) -> &'static str {
        match self {
            GatewayKind::FastCgi => "fastcgi",
            GatewayKind::Uwsgi => "uwsgi",
            GatewayKind::Scgi => "scgi",
        }
    }
}

impl UpstreamAddress {
    /// Parses an address; `ports` are the defaults.
    pub(crate) fn parse(text: &str, ports: Ports) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            // nginx writes `unix:/run/a.sock:/path`.
            if path.contains(":/") {
                return Err(AddressError(format!(
                    "`{}` has a path after the address",
                    shorten(text)
                )));
            }
            return unix(path).map(|address| match address {
                ListenAddress::Abstract(name) => UpstreamAddress::Abstract(name),
                _ => UpstreamAddress::Unix(PathBuf::from(path)),
            });
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err(AddressError(
                "an IPv6 address is written in brackets, as in `[::1]:8080`".to_owned(),
            ));
        }
        if text.contains('/') {
            return Err(AddressError(format!(
                "`{}` has a path after the address",
                shorten(text)
            )));
        }
        let (host, written) = split_port(text)?;
        if text.starts_with('[') && host.parse::<Ipv6Addr>().is_err() {
            return Err(AddressError(format!(
                "`{}` is not an IPv6 address",
                shorten(host)
            )));
        }
        let port = |default: Option<u16>| match written {
            Some(written) => parse_port(written),
            None => default.ok_or_else(|| AddressError(format!("`{}` has no port", shorten(text)))),
        };
        match host.parse::<IpAddr>() {
            Ok(ip) => Ok(UpstreamAddress::Inet(SocketAddr::new(
                ip,
                port(ports.of_addresses)?,
            ))),
            Err(_) if is_host_name(host) && service_of(host).is_some() => {
                Err(AddressError(format!(
                    "`{}` is the name of a service, not an address",
                    shorten(host)
                )))
            }
            Err(_) if is_host_name(host) => Ok(UpstreamAddress::Name {
                host: host.to_ascii_lowercase(),
                port: port(ports.of_names)?,
            }),
            Err(_) => Err(AddressError(format!(
                "`{}` is neither an IPv4 or IPv6 address nor the name of a host",
                shorten(host)
            ))),
        }
    }
}

impl UpstreamAddress {
    /// Returns the address of a server with `service`.
    pub(crate) fn service(
        text: &str,
        service: &str,
    ) -> Result<Self, (AddressError, Option<String>)> {
        let is_nameless =
            text.starts_with("unix:") || text.starts_with('[') || text.parse::<IpAddr>().is_ok();
        let (host, port) = split_port(text).map_err(|error| (error, None))?;
        if is_nameless || host.parse::<IpAddr>().is_ok() {
            let message = format!(
                "a service is looked up below a name, and `{}` is an address",
                shorten(text)
            );
            return Err((AddressError(message), None));
        }
        if let Some(port) = port {
            let message = format!(
                "SRV records of a service have the ports, but `{}` has one",
                shorten(text)
            );
            let hint = format!("write `{host}` without `:{}`", shorten(port));
            return Err((AddressError(message), Some(hint)));
        }
        // As in nginx, from which users copy it.
        let prefix = match service.contains('.') {
            true => service.to_owned(),
            false => format!("_{}._tcp", service.trim_start_matches('_')),
        };
        let query = format!("{}.{host}", prefix.trim_end_matches('.')).to_ascii_lowercase();
        if !is_host_name(&query) {
            let message = format!("`{}` is not a valid DNS name", shorten(&query));
            let hint = "labels have 1 to 63 letters, digits, `-` and `_`, and the whole name 253";
            return Err((AddressError(message), Some(hint.to_owned())));
        }
        Ok(UpstreamAddress::Service {
            host: host.to_ascii_lowercase(),
            query,
        })
    }
}

impl UpstreamAddress {
    /// Returns the address of a server that is a Kubernetes Service.
    pub(crate) fn kubernetes(
        text: &str,
        port: Option<ServicePort>,
    ) -> Result<Self, (AddressError, Option<String>)> {
        let (name, written) = split_port(text).map_err(|error| (error, None))?;
        if let Some(written) = written {
            let message = format!(
                "the port of a Service is not part of its name, but `{}` has one",
                shorten(text)
            );
            let hint = format!(
                "write `\"{}\": {{\"kubernetes\": {{\"port\": {}}}}}`",
                shorten(name),
                shorten(written)
            );
            return Err((AddressError(message), Some(hint)));
        }
        let is_lower = |label: &str| !label.bytes().any(|byte| byte.is_ascii_uppercase());
        let is_label = |label: &str| is_label(label) && is_lower(label) && !label.contains('_');
        let parts = name.split_once('.');
        let Some((service, namespace)) = parts.filter(|(a, b)| is_label(a) && is_label(b)) else {
            let message = format!("`{}` is not a Kubernetes Service", shorten(text));
            let hint = "write `SERVICE.NAMESPACE`, as `web.default`";
            return Err((AddressError(message), Some(hint.to_owned())));
        };
        Ok(UpstreamAddress::Kubernetes {
            host: format!("{name}.svc"),
            service: service.to_owned(),
            namespace: namespace.to_owned(),
            port,
        })
    }

    /// Returns the address of servers that are nodes of the fleet.
    pub(crate) fn fleet(selector: &str, port: u16) -> Result<Self, (AddressError, Option<String>)> {
        if selector != ALL && !is_label_of_nodes(selector) {
            let message = format!("`{}` does not select nodes of a fleet", shorten(selector));
            let hint = "write `all`, or `LABEL=VALUE` for the nodes with a label";
            return Err((AddressError(message), Some(hint.to_owned())));
        }
        Ok(UpstreamAddress::Fleet {
            selector: selector.to_owned(),
            port,
        })
    }

    /// True if its addresses must be discovered.
    pub fn is_found(&self) -> bool {
        matches!(self, UpstreamAddress::Fleet { .. }) || self.host().is_some()
    }

    /// Returns the name to resolve; `None`: this is an address itself, or its servers have names of their own.
    pub fn host(&self) -> Option<&str> {
        match self {
            UpstreamAddress::Name { host, .. }
            | UpstreamAddress::Service { host, .. }
            | UpstreamAddress::Kubernetes { host, .. } => Some(host),
            UpstreamAddress::Inet(_)
            | UpstreamAddress::Fleet { .. }
            | UpstreamAddress::Unix(_)
            | UpstreamAddress::Abstract(_) => None,
        }
    }
}

/// Returns how to write a service as a server, if the text is the name of one: `_http._tcp.app.internal` (RFC 2782).
pub(crate) fn service_hint(text: &str) -> Option<String> {
    let (service, host) = service_of(text)?;
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    Some(format!(
        "write `\"{host}\": {{\"service\": \"{service}\"}}` among `servers` of an upstream"
    ))
}

/// Splits the name of a service into service and host.
fn service_of(text: &str) -> Option<(&str, &str)> {
    let (service, rest) = text.strip_prefix('_')?.split_once('.')?;
    let (protocol, host) = rest.split_once('.')?;
    let is_protocol = ["_tcp", "_udp"].contains(&protocol.to_ascii_lowercase().as_str());
    (is_protocol && !service.is_empty() && !host.is_empty()).then_some((service, host))
}

/// The URL of a `proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyUrl {
    /// The protocol of the server, if it is not HTTP.
    pub(crate) gateway: Option<GatewayKind>,
    /// It uses TLS.
    pub(crate) is_https: bool,
    /// The address of the server.
    pub(crate) address: ProxyAddress,
}

/// The address of a `proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyAddress {
    /// It is always the same.
    Fixed(UpstreamAddress),
    /// It has variables.
    Computed(Template, Ports),
}

/// Parses the URL of a `proxy`.
pub(crate) fn parse_proxy(url: &str) -> Result<ProxyUrl, (AddressError, Option<String>)> {
    // A script is in backticks, which are those of the address.
    let (tick, url) = match url.strip_prefix('`') {
        Some(inside) => ("`", inside),
        None => ("", url),
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        let hint = UpstreamAddress::parse(url, Ports::HTTP)
            .is_ok()
            .then(|| format!("write `http://{url}`"));
        return Err((
            AddressError("the scheme is missing, as in `http://127.0.0.1:8080`".to_owned()),
            hint,
        ));
    };
    let gateway = match scheme {
        "http" | "https" => None,
        "fastcgi" => Some(GatewayKind::FastCgi),
        "uwsgi" => Some(GatewayKind::Uwsgi),
        "scgi" => Some(GatewayKind::Scgi),
        _ => {
            let error = AddressError(format!(
                "the scheme `{}` is not supported by this version",
                shorten(scheme)
            ));
            let hint = "`http`, `https`, `fastcgi`, `uwsgi` and `scgi` are".to_owned();
            return Err((error, Some(hint)));
        }
    };
    let is_https = scheme == "https";
    let ports = match gateway {
        Some(_) => Ports::GATEWAY,
        None if is_https => Ports::HTTPS,
        None => Ports::HTTP,
    };
    let address = if tick.is_empty() && !rest.contains('$') {
        let address = UpstreamAddress::parse(rest, ports);
        ProxyAddress::Fixed(address.map_err(|error| (error, proxy_hint(scheme, rest)))?)
    } else {
        ProxyAddress::Computed(computed_address(tick, scheme, rest)?, ports)
    };
    Ok(ProxyUrl {
        gateway,
        is_https,
        address,
    })
}

/// Parses an address with variables.
fn computed_address(
    tick: &str,
    scheme: &str,
    rest: &str,
) -> Result<Template, (AddressError, Option<String>)> {
    if rest.starts_with("unix:") {
        let message = "the path of a unix socket cannot have variables".to_owned();
        return Err((AddressError(message), None));
    }
    let template = Template::parse(&format!("{tick}{rest}"));
    let template = template.map_err(|error| (AddressError(error.to_string()), error.hint()))?;
    let has_path = template.parts().iter().any(
        |part| matches!(part, TemplatePart::Literal(text) if text.contains(['/', '?', '#', '@'])),
    );
    if has_path {
        let message = format!("`{}` has a path after the address", shorten(rest));
        let address = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let hint = format!("write `{scheme}://{address}`, and change the path with `rewrite`");
        return Err((AddressError(message), Some(hint)));
    }
    Ok(template)
}

/// Parses the address of a name server; the default port is that of the DNS (RFC 1035 §4.2).
pub fn parse_name_server(text: &str) -> Option<SocketAddr> {
    const DNS_PORT: u16 = 53;
    let address = text.parse::<SocketAddr>().ok();
    let address = address.or_else(|| Some(SocketAddr::new(text.parse().ok()?, DNS_PORT)))?;
    (address.port() != 0).then_some(address)
}

/// True if a text is a host name in DNS letters (RFC 1123 §2.1; `_` is in use too).
pub(crate) fn is_host_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    // The last label is never a number: that would be an address, usually a mistyped one.
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= 253
        && name.split('.').all(is_label)
        && !name.rsplit('.').next().is_some_and(is_number)
}

/// True for one label of such a name.
fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Returns the correct notation of a proxy's URL with a wrong address, if it is clear.
fn proxy_hint(scheme: &str, rest: &str) -> Option<String> {
    if let Some(hint) = service_hint(rest) {
        return Some(hint);
    }
    // After the scheme, the path of a unix socket begins with a slash, and another may follow it.
    let (address, path) = match rest.strip_prefix("unix:") {
        Some(socket) => {
            let (socket, path) = socket.split_once(":/")?;
            (format!("unix:{socket}"), path)
        }
        None => match rest.split_once('/') {
            Some((address, path)) => (address.to_owned(), path),
            None => {
                let (_, port) = split_port(rest).ok()?;
                let example = if scheme == "http" { 80 } else { 9000 };
                let lacks_port = port.is_none()
                    && UpstreamAddress::parse(&format!("{rest}:{example}"), Ports::GATEWAY).is_ok();
                return lacks_port.then(|| {
                    format!("write it behind the address, as in `{scheme}://{rest}:{example}`")
                });
            }
        },
    };
    Some(if path.is_empty() {
        format!("write `{scheme}://{address}`")
    } else {
        format!("write `{scheme}://{address}`, and change the path with `rewrite`")
    })
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path);
        }
        if let Some(address) = text.strip_prefix("udp:") {
            return match address.parse()? {
                ListenAddress::Any(port) => Ok(ListenAddress::Udp(SocketAddr::from((
                    Ipv4Addr::UNSPECIFIED,
                    port,
                )))),
                ListenAddress::Ip(address) => Ok(ListenAddress::Udp(address)),
                _ => Err(AddressError(
                    "an address and a port follow `udp:`, as in `udp:*:53`".to_owned(),
                )),
            };
        }
        if let Some(port) = text.strip_prefix("*:") {
            return Ok(ListenAddress::Any(parse_port(port)?));
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(inside) => inside.split_once("]:"),
            None => text
                .rsplit_once(':')
                .filter(|(host, _)| !host.contains(':')),
        }
        .ok_or_else(|| AddressError(missing_port(text)))?;
        let ip = parse_ip(host)?;
        Ok(ListenAddress::Ip(SocketAddr::new(ip, parse_port(port)?)))
    }
}

fn missing_port(text: &str) -> String {
    if text.parse::<Ipv6Addr>().is_ok() || (text.contains("::") && !text.contains('[')) {
        "an IPv6 address is written in brackets and followed by a port, as in `[::1]:8080`"
            .to_owned()
    } else if text.parse::<u16>().is_ok() {
        format!("`{text}` has a port only; write `*:{text}` for any address")
    } else {
        "the port is missing, as in `*:8080`".to_owned()
    }
}

fn unix(path: &str) -> Result<ListenAddress, AddressError> {
    if path.contains('\0') {
        return Err(AddressError(
            "the name of a unix socket cannot contain NUL".to_owned(),
        ));
    }
    if path.len() > UNIX_PATH_MAX {
        return Err(AddressError(format!(
            "the name of a unix socket has at most {UNIX_PATH_MAX} bytes"
        )));
    }
    match path.strip_prefix('@') {
        Some("") => Err(AddressError(
            "the name after `unix:@` is missing".to_owned(),
        )),
        Some(name) => Ok(ListenAddress::Abstract(name.to_owned())),
        None if path.is_empty() => {
            Err(AddressError("the path after `unix:` is missing".to_owned()))
        }
        None => Ok(ListenAddress::Unix(PathBuf::from(path))),
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ListenAddress::Any(port) => write!(f, "*:{port}"),
            ListenAddress::Ip(address) => write!(f, "{address}"),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            ListenAddress::Abstract(name) => write!(f, "unix:@{name}"),
            ListenAddress::Udp(address) if address.ip() == Ipv4Addr::UNSPECIFIED => {
                write!(f, "udp:*:{}", address.port())
            }
            ListenAddress::Udp(address) => write!(f, "udp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(patterns: &[&str], address: &str) -> bool {
        let list = patterns
            .iter()
            .map(|source| AddressPattern::parse(source).unwrap())
            .collect();
        AddressSet::new(list).matches(address.parse().ok())
    }

    #[test]
    fn documented_address_patterns_match() {
        assert!(matches(&["192.0.2.1-192.0.2.200"], "192.0.2.77:1"));
        assert!(!matches(
            &["198.51.100.1-198.51.100.200:8000"],
            "198.51.100.1:8001"
        ));
        assert!(matches(&["203.0.113.0/24:8080-8090"], "203.0.113.255:8085"));
        assert!(matches(&["*:80"], "[2001:db8::1]:80"));
        assert!(matches(&["2001:0db8::/32"], "[2001:db8:ffff::]:1"));
        assert!(matches(
            &["[2001:0db8:bbbb::1-2001:0db8:cccc::]:8080-8090"],
            "[2001:db8:bbbc::]:8090"
        ));
        assert!(matches(
            &["[2001:0db8:ccce::/48]:8000"],
            "[2001:db8:ccce::7]:8000"
        ));
        assert!(!matches(
            &["192.0.2.1-192.0.2.10", "!192.0.2.9"],
            "192.0.2.9:1"
        ));
        assert!(matches(&["unix"], ""), "no address is a unix socket");
        assert!(!matches(&["unix"], "127.0.0.1:80"));
        assert!(matches(&["0.0.0.0/0"], "1.2.3.4:5"));
        assert!(
            matches(&["127.0.0.1"], "[::ffff:127.0.0.1]:5"),
            "a mapped address is the IPv4 one"
        );
        assert!(matches(&["127.0.0.1/32"], "127.0.0.1:5"));
        assert!(!matches(&["127.0.0.1/32"], "127.0.0.2:5"));
        assert!(
            matches(&["192.0.2.7:0"], "192.0.2.7:0"),
            "a proxy without a port"
        );
        assert!(!matches(&["192.0.2.7:0"], "192.0.2.7:80"));
        assert!(matches(&["!10.1.1.0/16"], "10.2.0.1:1"));
        assert!(!matches(&["!10.1.1.0/16"], "10.1.200.1:1"));
    }

    #[test]
    fn wrong_address_patterns_are_refused() {
        for wrong in [
            "",
            "*",
            "1.2.3",
            "1.2.3.4/33",
            "1.2.3.9-1.2.3.4",
            "1.2.3.4-::1",
            "[::1",
            "*:65536",
            "*:9-3",
            "a:b",
        ] {
            assert!(AddressPattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn servers_are_parsed_and_printed() {
        for (url, address) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("https://192.0.2.1", "192.0.2.1:443"),
            ("https://[::1]", "[::1]:443"),
            ("http://backend", "backend:80"),
            ("http://unix:/run/a.sock", "unix:/run/a.sock"),
            ("http://unix:@name", "unix:@name"),
            ("http://Backend_1.internal:81", "backend_1.internal:81"),
            ("https://backend.", "backend.:443"),
        ] {
            let ProxyAddress::Fixed(found) = parse_proxy(url).unwrap().address else {
                panic!("{url}");
            };
            assert_eq!(found.to_string(), address);
        }
        for wrong in [
            "",
            "127.0.0.1:8080",
            "gopher://127.0.0.1",
            "http://",
            "http://::1",
            "http://[127.0.0.1]:80",
            "http://127.0.0.1:0",
            "http://127.0.0.1",
            "http://[::1]",
            "fastcgi://backend",
            "http://127.0.0.1:8080/",
            "http://127.0.0.1:8080/path",
            "http://unix:/run/a.sock:/path",
            "http://unix:",
            "http://a b:80",
            "http://a..b",
            "http://10.0.0.300",
            "http://-a",
            "http://_http._tcp.backend",
        ] {
            assert!(parse_proxy(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn services_are_named_as_nginx_names_them() {
        for (host, service, query) in [
            ("app.internal", "http", "_http._tcp.app.internal"),
            ("App.internal.", "HTTP", "_http._tcp.app.internal."),
            ("app.internal", "_http", "_http._tcp.app.internal"),
            ("app.internal", "_http._tcp", "_http._tcp.app.internal"),
            ("service.consul", "v2.web", "v2.web.service.consul"),
            ("service.consul", "web.", "web.service.consul"),
        ] {
            let address = UpstreamAddress::service(host, service).unwrap();
            assert_eq!(address.to_string(), query);
        }
        let long = format!("{}.a", "a".repeat(63));
        for (host, service) in [
            ("app.internal:80", "http"),
            ("10.0.0.1", "http"),
            ("[::1]", "http"),
            ("::1", "http"),
            ("unix:/run/a.sock", "http"),
            ("app.internal", "a..b"),
            ("app.internal", "a b"),
            ("app..internal", "http"),
            (&[long.as_str(); 4].join("."), "http"),
        ] {
            assert!(UpstreamAddress::service(host, service).is_err(), "{host}");
        }
    }

    #[test]
    fn services_of_kubernetes_have_two_parts() {
        let address = UpstreamAddress::kubernetes("web.shop-1", None).unwrap();
        assert_eq!(address.to_string(), "web.shop-1");
        assert_eq!(address.host(), Some("web.shop-1.svc"));
        for wrong in [
            "web",
            "web.shop.svc",
            "web.shop:80",
            "Web.shop",
            "web_1.shop",
            "-web.shop",
            ".shop",
            "web.",
            "10.0.0.1",
            "unix:/run/a",
            "[::1]",
        ] {
            let outcome = UpstreamAddress::kubernetes(wrong, None);
            assert!(outcome.is_err(), "{wrong}");
        }
    }

    #[test]
    fn nodes_of_a_fleet_are_all_or_those_with_a_label() {
        for selector in ["all", "role=web", "zone=eu-1.a"] {
            let address = UpstreamAddress::fleet(selector, 8080).unwrap();
            assert_eq!(address.to_string(), selector);
            assert!(address.is_found() && address.host().is_none());
        }
        for wrong in ["", "web", "role=", "=web", "a=b=c", "10.0.0.1:80", "all:80"] {
            assert!(UpstreamAddress::fleet(wrong, 8080).is_err(), "{wrong}");
        }
    }

    #[test]
    fn listen_addresses_are_parsed_and_printed() {
        for text in [
            "*:8080",
            "127.0.0.1:80",
            "[::1]:8080",
            "unix:/run/a.sock",
            "unix:@name",
            "udp:*:53",
            "udp:127.0.0.1:53",
            "udp:[::]:53",
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "8080",
            "*:0",
            "*:65536",
            "*:+80",
            "::1",
            "[::1]",
            "localhost:80",
            "unix:",
            "unix:@",
            "1.2.3.4",
            "udp:53",
            "udp:",
            "udp:unix:/run/a",
            "udp:udp:*:53",
            "udp/*:53",
        ] {
            assert!(wrong.parse::<ListenAddress>().is_err(), "{wrong}");
        }
    }
}
