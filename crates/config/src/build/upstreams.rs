//! `upstreams`, `proxy` and `request_headers`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Builder, Reader, strings};
use crate::address::{Ports, ProxyUrl, SERVER_FORMS, parse_proxy};
use crate::diagnostic::{Diagnostic, shorten};
use crate::document::{Node, Value};
use crate::model::{
    ActionKind, Balance, Destination, ForwardedHeaders, HealthCheck, HealthQuestion, HttpVersion,
    Part, Pass, ProxyVersion, RequestHeader, RequestHeaderChange, Template, Upstream,
    UpstreamAddress, UpstreamOptions, UpstreamProtocol, UpstreamServer, UpstreamTls,
};
use crate::pointer::Pointer;
use crate::table::{HEALTH_CHECK, PROXY_OPTIONS, SERVER, UPSTREAM};

impl<'d> Builder<'d> {
    pub(super) fn upstreams(
        &mut self,
        node: &'d Node,
        pointer: &Pointer,
    ) -> BTreeMap<String, Arc<Upstream>> {
        let mut upstreams = BTreeMap::new();
        for member in node.members() {
            let reader = Reader {
                node: &member.node,
                table: &UPSTREAM,
                pointer: pointer.child(&member.name),
            };
            if let Some(upstream) = self.upstream(&member.name, reader) {
                upstreams.insert(member.name.to_string(), Arc::new(upstream));
            }
        }
        upstreams
    }

    fn upstream(&mut self, name: &str, reader: Reader<'d>) -> Option<Upstream> {
        let protocol = self.upstream_protocol(&reader);
        let tls = self.servers_tls(&reader, &protocol);
        let ports = match (&protocol, &tls) {
            (UpstreamProtocol::Gateway(_), _) => Ports::GATEWAY,
            (UpstreamProtocol::Http, Some(_)) => Ports::HTTPS,
            (UpstreamProtocol::Http, None) => Ports::HTTP,
        };
        let servers = reader
            .get("servers")
            .map(|(node, pointer)| self.servers(node, &pointer, ports))
            .unwrap_or_default();
        if let Some(tls) = &tls {
            self.must_have_names(&servers, tls, &reader);
        }
        let balance = match reader.text("balance").as_str() {
            "least_connections" => Balance::LeastConnections,
            "hash" => Balance::Hash(Template::parse(&reader.text("key")).ok()?),
            _ => Balance::RoundRobin,
        };
        if let Some(member) = reader.member("key")
            && !matches!(balance, Balance::Hash(_))
        {
            let pointer = reader.pointer.child("key");
            let diagnostic = Diagnostic::new(
                pointer,
                "`key` has no effect without `\"balance\": \"hash\"`",
            );
            self.faults.name(diagnostic, member);
        }
        let options = self.options(&reader, &protocol);
        Some(Upstream {
            name: name.to_owned(),
            servers,
            balance,
            slow_start: reader.time("slow_start"),
            queue: reader.count("queue"),
            queue_timeout: reader.time("queue_timeout"),
            health_check: self.health_check(&reader, &protocol, &options),
            protocol,
            tls,
            options,
            pointer: reader.pointer,
        })
    }

    fn health_check(
        &mut self,
        upstream: &Reader<'d>,
        protocol: &UpstreamProtocol,
        options: &UpstreamOptions,
    ) -> Option<HealthCheck> {
        let reader = upstream.inner("health_check", &HEALTH_CHECK)?;
        let question = match (reader.string("uri"), reader.string("grpc_service")) {
            (Some(uri), None) => HealthQuestion::Request {
                uri,
                host: reader.string("host"),
                statuses: statuses(&reader),
            },
            (_, Some(service)) => HealthQuestion::Grpc(service),
            (None, None) => HealthQuestion::Connection,
        };
        if let Some(member) = reader.member("grpc_service") {
            let is_http2 = matches!(protocol, UpstreamProtocol::Http)
                && options.http_version == HttpVersion::Http2;
            let message = if reader.member("uri").is_some() {
                Some("`uri` and `grpc_service` exclude each other: a check asks one thing")
            } else if is_http2 {
                None
            } else {
                Some("`grpc_service` needs servers that speak HTTP/2: `\"http_version\": 2`")
            };
            if let Some(message) = message {
                let pointer = reader.pointer.child("grpc_service");
                self.faults.name(Diagnostic::new(pointer, message), member);
            }
        }
        Some(HealthCheck {
            question,
            interval: reader.time("interval"),
            timeout: reader.time("timeout"),
            fails: reader.count("fails"),
            passes: reader.count("passes"),
        })
    }

    /// `tls` of a group.
    fn servers_tls(
        &mut self,
        upstream: &Reader<'d>,
        protocol: &UpstreamProtocol,
    ) -> Option<Arc<UpstreamTls>> {
        let (node, pointer) = upstream.get("tls")?;
        if matches!(node.value, Value::Bool(false)) {
            return None;
        }
        if let UpstreamProtocol::Gateway(gateway) = protocol {
            let message = format!(
                "`tls` has no effect here: {} is not spoken inside TLS",
                gateway.kind.name()
            );
            self.faults.value(Diagnostic::new(pointer, message), node);
        }
        Some(Arc::new(self.upstream_tls(upstream, &upstream.pointer)))
    }

    /// `tls` of the `proxy_options` of a `proxy` whose scheme is `https` or not.
    fn proxy_tls(
        &mut self,
        options: &Reader<'d>,
        is_https: bool,
        origin: &Pointer,
    ) -> Option<Arc<UpstreamTls>> {
        if let Some((node, pointer)) = options.get("tls") {
            let is_off = matches!(node.value, Value::Bool(false));
            if is_off == is_https && !self.faults.has(node) {
                let message = if is_https {
                    "the scheme of `proxy` is `https`, which is TLS"
                } else {
                    "`tls` has no effect here: the scheme of `proxy` is not `https`"
                };
                self.faults.value(Diagnostic::new(pointer, message), node);
            }
        }
        is_https.then(|| Arc::new(self.upstream_tls(options, origin)))
    }

    /// A certificate is compared with a name: sockets in the file system have none.
    fn must_have_names(
        &mut self,
        servers: &[UpstreamServer],
        tls: &UpstreamTls,
        reader: &Reader<'d>,
    ) {
        let is_nameless = |server: &&UpstreamServer| {
            matches!(
                server.address,
                UpstreamAddress::Unix(_) | UpstreamAddress::Abstract(_)
            )
        };
        if !tls.is_verified || tls.server_name.is_some() {
            return;
        }
        if let Some(server) = servers.iter().find(is_nameless) {
            let message = format!(
                "`{}` has no name that its certificate could be for",
                shorten(&server.name)
            );
            let diagnostic = Diagnostic::new(tls.pointer.clone(), message)
                .suggest("say which with `server_name` in `tls`");
            self.faults.value(diagnostic, reader.node);
        }
    }

    fn servers(&mut self, node: &'d Node, pointer: &Pointer, ports: Ports) -> Vec<UpstreamServer> {
        let mut servers = Vec::new();
        let mut addresses: HashMap<UpstreamAddress, &str> = HashMap::new();
        for member in node.members() {
            let address = match UpstreamAddress::parse(&member.name, ports) {
                Ok(address) => address,
                // What nobody could take has been reported.
                Err(_) if UpstreamAddress::parse(&member.name, Ports::HTTPS).is_err() => continue,
                Err(error) => {
                    let pointer = pointer.child(&member.name);
                    let diagnostic = Diagnostic::new(pointer, error.to_string());
                    self.faults.name(diagnostic.suggest(SERVER_FORMS), member);
                    continue;
                }
            };
            let reader = Reader {
                node: &member.node,
                table: &SERVER,
                pointer: pointer.child(&member.name),
            };
            if let Some(other) = addresses.insert(address.clone(), &member.name) {
                let message = format!(
                    "`{}` is the same address as `{}`",
                    shorten(&member.name),
                    shorten(other)
                );
                self.faults
                    .name(Diagnostic::new(reader.pointer.clone(), message), member);
            }
            servers.push(UpstreamServer {
                name: member.name.to_string(),
                address,
                weight: reader.number("weight"),
                backup: reader.boolean("backup"),
                max_connections: Some(reader.count("max_connections")).filter(|most| *most > 0),
            });
        }
        servers
    }

    /// The server of a `proxy`, as an upstream of one.
    pub(super) fn proxy(&mut self, action: &Reader<'d>) -> Option<Arc<Upstream>> {
        let url = action.string("proxy")?;
        let ProxyUrl {
            gateway,
            is_https,
            address,
        } = parse_proxy(&url).ok()?;
        let protocol = self.proxy_protocol(action, gateway);
        let written = action
            .inner("proxy_options", &PROXY_OPTIONS)
            .unwrap_or_else(|| super::settings::nothing(action, "proxy_options", &PROXY_OPTIONS));
        let defaults = super::settings::nothing(action, "proxy", &UPSTREAM);
        let servers = vec![UpstreamServer {
            name: address.to_string(),
            address,
            weight: 1.0,
            backup: false,
            max_connections: None,
        }];
        let tls = self.proxy_tls(&written, is_https, &action.pointer.child("proxy"));
        if let Some(tls) = &tls {
            self.must_have_names(&servers, tls, action);
        }
        let options = self.options(&written, &protocol);
        Some(Arc::new(Upstream {
            pointer: action.pointer.child("proxy"),
            servers,
            name: url,
            protocol,
            tls,
            balance: Balance::RoundRobin,
            slow_start: defaults.time("slow_start"),
            queue: defaults.count("queue"),
            queue_timeout: defaults.time("queue_timeout"),
            health_check: None,
            options,
        }))
    }

    /// How to talk to the servers, who speak `protocol`.
    fn options(&mut self, reader: &Reader<'d>, protocol: &UpstreamProtocol) -> UpstreamOptions {
        let options = options(reader);
        if options.http_version == HttpVersion::Http2
            && let Some(member) = reader.member("http_version")
        {
            let message = match protocol {
                UpstreamProtocol::Gateway(gateway) => Some(format!(
                    "`http_version` has no effect here: the servers speak `{}`",
                    gateway.kind.name()
                )),
                UpstreamProtocol::Http => options.proxy_protocol.map(|_| {
                    "HTTP/2 and `proxy_protocol` exclude each other: a connection carries requests of many clients".to_owned()
                }),
            };
            if let Some(message) = message {
                let pointer = reader.pointer.child("http_version");
                self.faults.name(Diagnostic::new(pointer, message), member);
            }
        }
        options
    }

    /// They are for whoever gets the request: elsewhere nothing would read them.
    pub(super) fn request_headers(
        &mut self,
        action: &Reader<'d>,
        kind: Option<&ActionKind>,
    ) -> Vec<RequestHeader> {
        let Some((node, pointer)) = action.get("request_headers") else {
            return Vec::new();
        };
        let is_read = match kind {
            Some(ActionKind::Pass(Pass::Fixed(destination))) => {
                !matches!(destination, Destination::Route(_))
            }
            Some(ActionKind::Pass(Pass::Computed(template))) => match template.parts().first() {
                Some(Part::Literal(first)) => !first.starts_with("routes"),
                _ => true,
            },
            _ => true,
        };
        if !is_read && let Some(member) = action.member("request_headers") {
            let message = "`request_headers` has no effect here: they are for `proxy` and for a `pass` to `upstreams/NAME` or `applications/NAME`";
            self.faults.name(Diagnostic::new(pointer, message), member);
        }
        let members = node.members().iter();
        members
            .filter_map(|member| {
                let template = |node: &Node| Template::parse(node.as_str()?).ok();
                let change = match &member.node.value {
                    Value::Null => RequestHeaderChange::Remove,
                    Value::Object(_) => {
                        RequestHeaderChange::Add(member.node.child("add").and_then(template)?)
                    }
                    _ => RequestHeaderChange::Set(template(&member.node)?),
                };
                Some(RequestHeader {
                    name: member.name.to_string(),
                    change,
                })
            })
            .collect()
    }
}

/// `status` of a health check.
fn statuses(reader: &Reader<'_>) -> Vec<u16> {
    let Some((node, _)) = reader.get("status") else {
        return Vec::new();
    };
    let status = |node: &Node| {
        node.whole_number()
            .and_then(|number| u16::try_from(number).ok())
    };
    match &node.value {
        Value::Array(list) => list.iter().filter_map(status).collect(),
        _ => status(node).into_iter().collect(),
    }
}

fn options(reader: &Reader<'_>) -> UpstreamOptions {
    let forwarded = reader.text("forwarded_headers");
    let bytes = reader
        .bytes("buffer_size")
        .or_else(|| reader.default("buffer_size").parse().ok());
    let proxy_protocol = match reader.text("proxy_protocol").as_str() {
        "v1" => Some(ProxyVersion::V1),
        "v2" => Some(ProxyVersion::V2),
        _ => None,
    };
    let retry_methods = match reader.get("retry_methods") {
        Some((node, _)) => strings(node).into_iter().map(str::to_owned).collect(),
        None => serde_json::from_str(reader.default("retry_methods")).unwrap_or_default(),
    };
    UpstreamOptions {
        proxy_protocol,
        http_version: match reader.count("http_version") {
            2 => HttpVersion::Http2,
            _ => HttpVersion::Http1,
        },
        connect_timeout: reader.time("connect_timeout"),
        send_timeout: reader.time("send_timeout"),
        read_timeout: reader.time("read_timeout"),
        tunnel_timeout: reader.time("tunnel_timeout"),
        // A connection is that of one client.
        keepalive: if proxy_protocol.is_none() {
            reader.size("keepalive")
        } else {
            0
        },
        keepalive_timeout: reader.time("keepalive_timeout"),
        retries: reader.count("retries"),
        retry_methods,
        max_fails: reader.count("max_fails"),
        fail_timeout: reader.time("fail_timeout"),
        request_buffering: reader.boolean("request_buffering"),
        buffering: reader.boolean("buffering"),
        buffer_size: usize::try_from(bytes.unwrap_or(0)).unwrap_or(usize::MAX),
        max_head_size: reader.size("max_head_size"),
        forwarded_headers: ForwardedHeaders {
            x_forwarded: matches!(forwarded.as_str(), "x-forwarded" | "both"),
            forwarded: matches!(forwarded.as_str(), "forwarded" | "both"),
        },
    }
}
