//! `settings.kubernetes`, and `kubernetes` of servers.

use tutti_document::{Diagnostic, Value};

use super::builder::Builder;
use super::reader::Reader;
use crate::model::{Kubernetes, ServicePort};
use crate::table::{KubernetesOptions, KubernetesServiceOptions};

/// RFC 9110 §4.2.2.
const HTTPS_PORT: u16 = 443;

impl<'d> Builder<'d> {
    pub(super) fn kubernetes(&mut self, reader: &Reader<'d>) -> Kubernetes {
        let options: KubernetesOptions = reader.read();
        self.must_be_absolute(reader, &KubernetesOptions::ca);
        self.must_be_absolute(reader, &KubernetesOptions::token_file);
        let server = options.server.as_deref().and_then(api_server);
        if let (Some((node, pointer)), None) = (reader.get(&KubernetesOptions::server), &server)
            && !self.faults.has(node)
        {
            let message = "this is not the URL of a Kubernetes API server";
            let fault = Diagnostic::new(pointer, message).expect(
                "`https://HOST` or `https://HOST:PORT`: the token is never sent without TLS",
            );
            self.faults.value(fault, node);
        }
        Kubernetes { server, options }
    }
}

/// Splits `https://HOST:PORT` into host and port.
fn api_server(text: &str) -> Option<(String, u16)> {
    let rest = text.strip_prefix("https://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => {
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port)
        }
        None => {
            let host = rest.split_once(':').map_or(rest, |(host, _)| host);
            let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
            if host.is_empty() || !host.bytes().all(is_host) {
                return None;
            }
            (host, rest.strip_prefix(host)?)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0)?,
        None if port.is_empty() => HTTPS_PORT,
        None => return None,
    };
    Some((host.to_owned(), port))
}

/// Builds the port of a Service.
pub(super) fn service_port(reader: &Reader<'_>) -> Option<ServicePort> {
    let (node, _) = reader.get(&KubernetesServiceOptions::port)?;
    match &node.value {
        Value::String(name) => Some(ServicePort::Name(name.to_string())),
        Value::Number(number) => number.parse().ok().map(ServicePort::Number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_servers_are_read() {
        for (text, host, port) in [
            ("https://10.0.0.1:6443", "10.0.0.1", 6443),
            (
                "https://kubernetes.default.svc",
                "kubernetes.default.svc",
                443,
            ),
            ("https://[fd00::1]:6443/", "fd00::1", 6443),
            ("https://[fd00::1]", "fd00::1", 443),
        ] {
            assert_eq!(api_server(text), Some((host.to_owned(), port)), "{text}");
        }
        for wrong in [
            "http://10.0.0.1",
            "10.0.0.1:6443",
            "https://",
            "https://a:0",
            "https://a:b",
            "https://a/path",
            "https://[a]",
            "https://[::1]80",
            "https://user@a",
        ] {
            assert_eq!(api_server(wrong), None, "{wrong}");
        }
    }
}
