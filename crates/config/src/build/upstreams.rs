//! `upstreams`, `proxy` and `request_headers`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tutti_document::{Diagnostic, Pointer, TreeNode, Value, shorten};
use tutti_options::source::is_label;

use super::builder::Builder;
use super::kubernetes::service_port;
use super::reader::{Reader, each, strings};
use crate::address::{AddressError, Ports, ProxyAddress, ProxyUrl, SERVER_FORMS, parse_proxy};
use crate::computed_server::AllowedServer;
use crate::model::{
    ActionKind, Balance, ComputedServer, Destination, GuardFile, HttpVersion, Pass, RequestHeader,
    RequestHeaderChange, Template, TemplatePart, Upstream, UpstreamAddress, UpstreamProtocol,
    UpstreamServer, UpstreamTls,
};
use crate::table::{
    ActionOptions, AddedHeader, BalanceWord, HealthCheckOptions, ProxyOptions, ServerOptions,
    StickyOptions, UpstreamGroup, UpstreamOptions,
};

impl<'d> Builder<'d> {
    pub(super) fn upstreams(
        &mut self,
        node: &'d TreeNode,
        pointer: &Pointer,
    ) -> BTreeMap<String, Arc<Upstream>> {
        let mut upstreams = BTreeMap::new();
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
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
            .get(&UpstreamGroup::servers)
            .map(|(node, pointer)| self.servers(node, &pointer, ports))
            .unwrap_or_default();
        if let Some(tls) = &tls {
            self.must_have_names(&servers, tls, &reader);
        }
        let group: UpstreamGroup = reader.read();
        let balance = match group.balance {
            BalanceWord::LeastConnections => Balance::LeastConnections,
            BalanceWord::Hash => Balance::Hash(Template::parse(&group.key).ok()?),
            BalanceWord::RoundRobin => Balance::RoundRobin,
        };
        if group.balance != BalanceWord::Hash {
            let message = "`key` has no effect without `\"balance\": \"hash\"`";
            self.refuse(&reader, &UpstreamGroup::key, message);
        }
        let options = self.options(&reader, &protocol);
        self.check_health_check(&reader, &protocol, &options);
        Some(Upstream {
            name: name.to_owned(),
            servers,
            balance,
            group,
            protocol,
            tls,
            computed: None,
            rewrite: self.response_rewrite(&reader),
            sticky_key: self.sticky_key(&reader),
            options,
            pointer: reader.pointer.into(),
        })
    }

    fn sticky_key(&mut self, upstream: &Reader<'d>) -> Option<GuardFile> {
        let sticky = upstream.inner(&UpstreamGroup::sticky)?;
        let options: StickyOptions = sticky.read();
        let path = options.key_file.as_deref()?;
        self.guard_file(&sticky, &StickyOptions::key_file, path)
    }

    fn check_health_check(
        &mut self,
        upstream: &Reader<'d>,
        protocol: &UpstreamProtocol,
        options: &UpstreamOptions,
    ) {
        let Some(reader) = upstream.inner(&UpstreamGroup::health_check) else {
            return;
        };
        let is_http2 = matches!(protocol, UpstreamProtocol::Http)
            && options.http_version == HttpVersion::Http2;
        if reader.has(&HealthCheckOptions::uri) {
            let message =
                "`uri` and `grpc_service` exclude each other: a check asks only one question";
            self.refuse(&reader, &HealthCheckOptions::grpc_service, message);
        } else if !is_http2 {
            let message = "`grpc_service` needs servers that speak HTTP/2: `\"http_version\": 2`";
            self.refuse(&reader, &HealthCheckOptions::grpc_service, message);
        }
    }

    /// `tls` of a group.
    fn servers_tls(
        &mut self,
        upstream: &Reader<'d>,
        protocol: &UpstreamProtocol,
    ) -> Option<Arc<UpstreamTls>> {
        let (node, pointer) = upstream.get(&UpstreamOptions::tls)?;
        if matches!(node.value, Value::Bool(false)) {
            return None;
        }
        if let UpstreamProtocol::Gateway(gateway) = protocol {
            let message = format!(
                "`tls` has no effect here: {} is not supported over TLS",
                gateway.kind.name()
            );
            self.wrong(node, pointer, message);
        }
        Some(Arc::new(self.upstream_tls(upstream, &upstream.pointer)))
    }

    /// Builds `tls` of the `proxy_options` of a `proxy` whose scheme is `https` or not.
    fn proxy_tls(
        &mut self,
        options: &Reader<'d>,
        is_https: bool,
        origin: &Pointer,
    ) -> Option<Arc<UpstreamTls>> {
        if let Some((node, pointer)) = options.get(&UpstreamOptions::tls) {
            let is_off = matches!(node.value, Value::Bool(false));
            if is_off == is_https && !self.faults.has(node) {
                let message = if is_https {
                    "the scheme of `proxy` is `https`, which always uses TLS"
                } else {
                    "`tls` has no effect here: the scheme of `proxy` is not `https`"
                };
                self.faults.value(Diagnostic::new(pointer, message), node);
            }
        }
        is_https.then(|| Arc::new(self.upstream_tls(options, origin)))
    }

    /// Checks that servers have names to verify certificates against: sockets in the file system have none.
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
        if !tls.options.verify || tls.options.server_name.is_some() {
            return;
        }
        if let Some(server) = servers.iter().find(is_nameless) {
            let message = format!(
                "`{}` has no name to verify its certificate against",
                shorten(&server.name)
            );
            let diagnostic = Diagnostic::new(Pointer::clone(&tls.pointer), message)
                .suggest("set `server_name` in `tls`");
            self.faults.value(diagnostic, reader.node);
        }
    }

    fn servers(
        &mut self,
        node: &'d TreeNode,
        pointer: &Pointer,
        ports: Ports,
    ) -> Vec<UpstreamServer> {
        let mut servers = Vec::new();
        let mut addresses: HashMap<UpstreamAddress, &str> = HashMap::new();
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
            let options: ServerOptions = reader.read();
            let address = self.server_address(&member.name, &reader, &options, ports);
            let address = match address {
                Ok(address) => address,
                // A malformed address has been reported, and so has an invalid service.
                Err(_)
                    if UpstreamAddress::parse(&member.name, Ports::HTTPS).is_err()
                        && !is_label(&member.name) =>
                {
                    continue;
                }
                Err(_)
                    if reader
                        .get(&ServerOptions::service)
                        .is_some_and(|(node, _)| self.faults.has(node)) =>
                {
                    continue;
                }
                Err((error, hint)) => {
                    let diagnostic = Diagnostic::new(reader.pointer, error.to_string());
                    let diagnostic = match hint {
                        Some(hint) => diagnostic.suggest(hint),
                        None => diagnostic,
                    };
                    self.faults.name(diagnostic, member);
                    continue;
                }
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
                options,
            });
        }
        servers
    }

    /// Builds the address of a server from its name and the kind of that name.
    fn server_address(
        &mut self,
        name: &str,
        server: &Reader<'d>,
        options: &ServerOptions,
        ports: Ports,
    ) -> Result<UpstreamAddress, (AddressError, Option<String>)> {
        let pod = server.inner(&ServerOptions::kubernetes);
        if pod.is_some() {
            let message = "`service` and `kubernetes` exclude each other";
            self.refuse(server, &ServerOptions::service, message);
        }
        let nodes = server.inner(&ServerOptions::fleet);
        if nodes.is_some() {
            for other in [&ServerOptions::service, &ServerOptions::kubernetes] {
                let message = format!("`{}` and `fleet` exclude each other", other.name);
                self.refuse(server, other, message);
            }
        }
        match (&options.service, pod, nodes) {
            (_, _, Some(nodes)) => self.nodes_of_fleet(name, server, &nodes),
            (_, Some(pod), None) => UpstreamAddress::kubernetes(name, service_port(&pod)),
            (Some(service), None, None) => UpstreamAddress::service(name, service),
            (None, None, None) => UpstreamAddress::parse(name, ports)
                .map_err(|error| (error, Some(SERVER_FORMS.to_owned()))),
        }
    }

    /// Builds the server of a `proxy`, as an upstream with one server.
    pub(super) fn proxy(&mut self, action: &Reader<'d>) -> Option<Arc<Upstream>> {
        let url = action.text(&ActionOptions::proxy)?;
        let ProxyUrl {
            gateway,
            is_https,
            address,
        } = parse_proxy(url).ok()?;
        let protocol = self.proxy_protocol(action, gateway);
        let written = action.inner_or_nothing(&ActionOptions::proxy_options);
        let (servers, computed) = match address {
            ProxyAddress::Fixed(address) => {
                let message = "`allow` has no effect here: the address in `proxy` has no variables";
                self.refuse(&written, &ProxyOptions::allow, message);
                (vec![UpstreamServer::at(address)], None)
            }
            ProxyAddress::Computed(address, ports) => {
                let allow = self.allow(action, &written, ports)?;
                let url = url.trim_start_matches('`');
                let scheme = url.split(':').next().unwrap_or_default();
                let computed = ComputedServer::new(scheme, address, ports, allow);
                (Vec::new(), Some(Arc::new(computed)))
            }
        };
        let tls = self.proxy_tls(&written, is_https, &action.place(&ActionOptions::proxy));
        if let Some(tls) = &tls {
            self.must_have_names(&servers, tls, action);
        }
        let options = self.options(&written, &protocol);
        Some(Arc::new(Upstream {
            pointer: action.place(&ActionOptions::proxy).into(),
            servers,
            name: url.to_owned(),
            protocol,
            tls,
            balance: Balance::RoundRobin,
            group: UpstreamGroup::default(),
            computed,
            rewrite: self.response_rewrite(&written),
            sticky_key: None,
            options,
        }))
    }

    /// The servers that an address with variables may name; without them, clients could choose any.
    fn allow(
        &mut self,
        action: &Reader<'d>,
        options: &Reader<'d>,
        ports: Ports,
    ) -> Option<Vec<AllowedServer>> {
        let Some((node, pointer)) = options.get(&ProxyOptions::allow) else {
            let (node, pointer) = action.get(&ActionOptions::proxy)?;
            let message = "the address has variables, so clients may choose the server";
            let hint = "list the permitted servers in `allow` of `proxy_options`, for example `[\"*.app.internal:8080\", \"10.0.0.0/8:8080\"]`";
            self.faults
                .value(Diagnostic::new(pointer, message).suggest(hint), node);
            return None;
        };
        if strings(node).is_empty() {
            self.wrong(
                node,
                pointer,
                "the list is empty, so every request would get 403",
            );
            return None;
        }
        let mut allow = Vec::new();
        for (node, pointer) in each(node, &pointer) {
            match AllowedServer::parse(node.as_str()?, ports) {
                Ok(entry) => allow.push(entry),
                Err(error) => {
                    let hint = "write for example `app.internal:8080`, `*.internal`, `10.0.0.0/8:8000-8099` or `*:443`";
                    let diagnostic = Diagnostic::new(pointer, error.to_string()).suggest(hint);
                    self.faults.value(diagnostic, node);
                }
            }
        }
        Some(allow)
    }

    /// Builds the options for talking to servers with `protocol`.
    fn options(&mut self, reader: &Reader<'d>, protocol: &UpstreamProtocol) -> UpstreamOptions {
        let mut options: UpstreamOptions = reader.read();
        if options.proxy_protocol.is_some() {
            // A connection belongs to one client.
            options.keepalive = 0;
        }
        if options.http_version == HttpVersion::Http2 {
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
                self.refuse(reader, &UpstreamOptions::http_version, message);
            }
        }
        options
    }

    /// Refuses `request_body` and `request_method` where they have no effect: they apply to requests to other servers.
    pub(super) fn refuse_unread(&mut self, action: &Reader<'d>, kind: Option<&ActionKind>) {
        let is_read = match kind {
            Some(ActionKind::Pass(Pass::Fixed(destination))) => {
                matches!(destination, Destination::Upstream(_))
            }
            Some(ActionKind::Pass(Pass::Computed(template))) => match template.parts().first() {
                Some(TemplatePart::Literal(first)) => first.starts_with("upstreams"),
                _ => true,
            },
            _ => true,
        };
        if is_read {
            return;
        }
        for option in [&ActionOptions::request_body, &ActionOptions::request_method] {
            if action.has(option) {
                let message = format!(
                    "`{}` has no effect here: it is for `proxy` and for a `pass` to `upstreams/NAME`",
                    option.name
                );
                self.refuse(action, option, &message);
            }
        }
    }

    /// They apply to the receiver of the request: elsewhere they would have no effect.
    pub(super) fn request_headers(
        &mut self,
        action: &Reader<'d>,
        kind: Option<&ActionKind>,
    ) -> Vec<RequestHeader> {
        let Some((node, _)) = action.get(&ActionOptions::request_headers) else {
            return Vec::new();
        };
        let is_read = match kind {
            Some(ActionKind::Pass(Pass::Fixed(destination))) => !matches!(
                destination,
                Destination::Route(_) | Destination::Metrics | Destination::StubStatus
            ),
            Some(ActionKind::Pass(Pass::Computed(template))) => match template.parts().first() {
                Some(TemplatePart::Literal(first)) => !first.starts_with("routes"),
                _ => true,
            },
            _ => true,
        };
        if !is_read {
            let message = "`request_headers` has no effect here: they are for `proxy` and for a `pass` to `upstreams/NAME`, `applications/NAME` or `spoolers/NAME`";
            self.refuse(action, &ActionOptions::request_headers, message);
        }
        let members = node.members().iter();
        members
            .filter_map(|member| {
                let template = |node: &TreeNode| Template::parse(node.as_str()?).ok();
                let change = match &member.node.value {
                    Value::Null => RequestHeaderChange::Remove,
                    Value::Object(_) => RequestHeaderChange::Add(
                        member
                            .node
                            .child(AddedHeader::add.name)
                            .and_then(template)?,
                    ),
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
