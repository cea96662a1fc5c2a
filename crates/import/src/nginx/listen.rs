//! `listen`, `server_name` and `ssl_…`: listeners, and which server gets a request.

use serde_json::{Map, Value, json};

use super::site::Compiler;
use super::tree::Statement;
use crate::finding::Place;
use crate::output::{end_with, slug, step, when};
use crate::units::seconds;

/// A `listen` of a server.
#[derive(Clone, Debug)]
pub(super) struct Listen {
    pub(super) address: String,
    pub(super) is_tls: bool,
    is_default: bool,
    proxy_protocol: bool,
    place: Place,
}

/// A server as listeners see it.
pub(super) struct Host<'s> {
    pub(super) statement: &'s Statement,
    pub(super) destination: String,
    pub(super) listens: Vec<Listen>,
}

impl Compiler<'_> {
    /// The addresses that a server listens on.
    pub(super) fn listens(&mut self, server: &Statement) -> Vec<Listen> {
        let mut listens = Vec::new();
        let old = server
            .inner()
            .iter()
            .any(|statement| statement.name() == "ssl" && statement.argument(0) == "on");
        for statement in server
            .inner()
            .iter()
            .filter(|statement| statement.name() == "listen")
        {
            let has = |word: &str| {
                statement
                    .arguments()
                    .iter()
                    .any(|argument| argument == word)
            };
            let Some(address) = address(statement.argument(0)) else {
                let hint = "write the address as numbers: `127.0.0.1:8080`";
                self.findings.lost(
                    &statement.place,
                    "listen",
                    &format!("`{}` is no address", statement.argument(0)),
                    hint,
                );
                continue;
            };
            for option in statement.arguments().iter().skip(1) {
                let name = option.split('=').next().unwrap_or_default();
                match name {
                    "default_server" | "default" | "ssl" | "http2" | "proxy_protocol"
                    | "ipv6only" | "reuseport" | "deferred" | "backlog" | "fastopen"
                    | "so_keepalive" | "bind" | "rcvbuf" | "sndbuf" | "setfib" => {}
                    "quic" | "http3" => self.findings.lost(
                        &statement.place,
                        "listen",
                        "there is no HTTP/3",
                        "clients take HTTP/2; leave out `Alt-Svc`",
                    ),
                    _ => self.findings.lost(
                        &statement.place,
                        "listen",
                        &format!("`{option}` has nothing like it"),
                        "see `listener` in `docs/reference.md`",
                    ),
                }
            }
            if has("quic") {
                continue;
            }
            listens.push(Listen {
                address,
                is_tls: old || has("ssl"),
                is_default: has("default_server") || has("default"),
                proxy_protocol: has("proxy_protocol"),
                place: statement.place.clone(),
            });
        }
        if listens.is_empty() {
            listens.push(Listen {
                address: "*:80".to_owned(),
                is_tls: old,
                is_default: false,
                proxy_protocol: false,
                place: server.place.clone(),
            });
        }
        listens
    }

    /// Makes the listeners of all servers.
    pub(super) fn listeners(&mut self, hosts: &[Host<'_>], http: &[Statement]) {
        let mut addresses: Vec<&str> = Vec::new();
        for listen in hosts.iter().flat_map(|host| &host.listens) {
            if !addresses.contains(&listen.address.as_str()) {
                addresses.push(&listen.address);
            }
        }
        // Addresses that have the same servers share a route.
        let mut made: Vec<(Vec<Value>, String)> = Vec::new();
        for address in addresses {
            let mut here: Vec<(&Host<'_>, &Listen)> = Vec::new();
            for host in hosts {
                if let Some(listen) = host.listens.iter().find(|listen| listen.address == address) {
                    here.push((host, listen));
                }
            }
            let default = here
                .iter()
                .position(|(_, listen)| listen.is_default)
                .unwrap_or_default();
            let Some((default, listen)) = here.get(default).copied() else {
                continue;
            };
            let steps = self.by_name(&here, default);
            let pass = match made.iter().find(|(known, _)| *known == steps) {
                Some((_, pass)) => pass.clone(),
                None if steps.len() == 1 => default.destination.clone(),
                None => {
                    let pass = self
                        .out
                        .add_route(&format!("listen-{}", slug(address)), steps.clone());
                    made.push((steps, pass.clone()));
                    pass
                }
            };
            let mut listener = when("pass", pass);
            if let Some(tls) = self.tls(&here, default) {
                listener.insert("tls".to_owned(), tls);
            }
            self.believed_proxies(&mut listener, listen, http, default.statement);
            self.out
                .listeners
                .insert(address.to_owned(), listener.into());
        }
    }

    /// Steps that choose a server by the name that is asked for: exact names, `*.name` and `name.*` by length, regular expressions.
    fn by_name(&mut self, here: &[(&Host<'_>, &Listen)], default: &Host<'_>) -> Vec<Value> {
        let mut steps = Vec::new();
        let (mut exact, mut before, mut behind, mut patterns) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (host, _) in here {
            for statement in host
                .statement
                .inner()
                .iter()
                .filter(|statement| statement.name() == "server_name")
            {
                let mut own = Vec::new();
                for name in statement
                    .arguments()
                    .iter()
                    .map(|name| name.to_ascii_lowercase())
                {
                    if let Some(source) = name.strip_prefix('~') {
                        if self.is_pattern(&format!("~{source}"), &statement.place, "server_name") {
                            patterns.push((host.destination.clone(), format!("~{source}")));
                        }
                    } else if let Some(bare) = name.strip_prefix('.') {
                        own.push(bare.to_owned());
                        before.push((host.destination.clone(), format!("*.{bare}")));
                    } else if name.starts_with("*.") {
                        before.push((host.destination.clone(), name));
                    } else if name.ends_with(".*") {
                        behind.push((host.destination.clone(), name));
                    } else if !matches!(name.as_str(), "" | "_") {
                        own.push(name);
                    }
                }
                if !own.is_empty() {
                    exact.push((host.destination.clone(), own));
                }
            }
        }
        before.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
        behind.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
        let others = before.into_iter().chain(behind).chain(patterns);
        let all = exact
            .into_iter()
            .chain(others.map(|(destination, name)| (destination, vec![name])));
        for (destination, names) in all {
            steps.push(step(
                when("host", crate::output::one_or_many(names)),
                json!({"pass": destination}),
            ));
        }
        end_with(&mut steps, &default.destination);
        steps
    }

    fn tls(&mut self, here: &[(&Host<'_>, &Listen)], default: &Host<'_>) -> Option<Value> {
        if !here.iter().any(|(_, listen)| listen.is_tls) {
            return None;
        }
        let mut certificates: Vec<Value> = Vec::new();
        let first = here.iter().filter(|(host, _)| std::ptr::eq(*host, default));
        let others = here
            .iter()
            .filter(|(host, _)| !std::ptr::eq(*host, default));
        for (host, listen) in first.chain(others) {
            let find = |name: &'static str| {
                let block = host.statement.inner().iter();
                block.filter(move |statement| statement.name() == name)
            };
            for (certificate, key) in find("ssl_certificate").zip(find("ssl_certificate_key")) {
                let (file, key) = (self.path(certificate), self.path(key));
                let entry = if file == key {
                    json!({"file": file})
                } else {
                    json!({"file": file, "key": key})
                };
                if !certificates.contains(&entry) {
                    certificates.push(entry);
                }
            }
            if find("ssl_certificate").next().is_none() && certificates.is_empty() {
                let hint = "give the file of `nginx.conf` too, if the certificate is named there";
                self.findings.lost(
                    &listen.place,
                    "listen",
                    "there is no `ssl_certificate` for it",
                    hint,
                );
            }
        }
        if certificates.is_empty() {
            return None;
        }
        let certificate = match certificates.len() {
            1 => certificates.remove(0),
            _ => certificates.into(),
        };
        let mut tls = when("certificate", certificate);
        let block = default.statement.inner();
        let value = |name: &str| block.iter().find(|statement| statement.name() == name);
        if let Some(protocols) = value("ssl_protocols") {
            let has = |version: &str| {
                protocols
                    .arguments()
                    .iter()
                    .any(|argument| argument == version)
            };
            match (has("TLSv1.2"), has("TLSv1.3")) {
                (true, false) => drop(tls.insert(
                    "conf_commands".to_owned(),
                    json!({"MaxProtocol": "TLSv1.2"}),
                )),
                (false, true) => drop(tls.insert(
                    "conf_commands".to_owned(),
                    json!({"MinProtocol": "TLSv1.3"}),
                )),
                _ => {}
            }
            if has("TLSv1") || has("TLSv1.1") || has("SSLv3") {
                self.findings.note(
                    &protocols.place,
                    "ssl_protocols",
                    "versions before TLS 1.2 are not offered",
                    "RFC 8996 deprecates them",
                );
            }
        }
        let mut session = Map::new();
        if value("ssl_session_cache").is_some_and(|cache| cache.argument(0).starts_with("shared")) {
            session.insert("cache_size".to_owned(), 4000.into());
        }
        if let Some(timeout) =
            value("ssl_session_timeout").and_then(|statement| seconds(statement.argument(0)))
        {
            session.insert("timeout".to_owned(), (timeout as u64).max(1).into());
        }
        if let Some(tickets) = value("ssl_session_tickets") {
            session.insert("tickets".to_owned(), (tickets.argument(0) == "on").into());
        }
        if !session.is_empty() {
            tls.insert("session".to_owned(), session.into());
        }
        for (host, _) in here {
            self.client_certificates(host, default, &mut tls);
        }
        Some(tls.into())
    }

    fn client_certificates(
        &mut self,
        host: &Host<'_>,
        default: &Host<'_>,
        tls: &mut Map<String, Value>,
    ) {
        let find = |name: &str| {
            host.statement
                .inner()
                .iter()
                .find(|statement| statement.name() == name)
        };
        let Some(verify) = find("ssl_verify_client").filter(|verify| verify.argument(0) != "off")
        else {
            return;
        };
        let Some(authority) = find("ssl_client_certificate") else {
            return;
        };
        if !std::ptr::eq(host, default) {
            let hint = "give this server a listener of its own";
            self.findings.lost(
                &verify.place,
                "ssl_verify_client",
                "a listener asks all its clients for certificates, or none: all are asked",
                hint,
            );
        }
        tls.insert("client_ca".to_owned(), self.path(authority).into());
        if verify.argument(0) == "optional" {
            tls.insert("client_verify".to_owned(), "optional".into());
        }
    }

    /// A path of a file that may be relative to nginx's folder.
    fn path(&self, statement: &Statement) -> String {
        let path = statement.argument(0);
        if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/etc/nginx/{path}")
        }
    }

    /// Who may say whom a connection is from.
    fn believed_proxies(
        &mut self,
        listener: &mut Map<String, Value>,
        listen: &Listen,
        http: &[Statement],
        server: &Statement,
    ) {
        let all = || http.iter().chain(server.inner());
        let sources: Vec<&str> = all()
            .filter(|statement| statement.name() == "set_real_ip_from")
            .map(|statement| statement.argument(0).trim_end_matches(':'))
            .collect();
        let header = all()
            .rfind(|statement| statement.name() == "real_ip_header")
            .map_or("X-Real-IP", |statement| statement.argument(0));
        if listen.proxy_protocol {
            let from: Value = if sources.is_empty() {
                let hint = "name the proxies in `proxy_protocol.source`";
                self.findings.note(
                    &listen.place,
                    "listen",
                    "as in nginx, everybody must send a PROXY protocol header, and is believed",
                    hint,
                );
                json!(["0.0.0.0/0", "::/0", "unix"])
            } else {
                json!(sources)
            };
            listener.insert("proxy_protocol".to_owned(), json!({"source": from}));
        }
        if !sources.is_empty() && header != "proxy_protocol" {
            let recursive = all().any(|statement| {
                statement.name() == "real_ip_recursive" && statement.argument(0) == "on"
            });
            listener.insert(
                "forwarded".to_owned(),
                json!({"source": sources, "client_ip": header, "recursive": recursive}),
            );
        }
    }
}

/// An address as a listener's name.
fn address(text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(format!("unix:{path}"));
    }
    if text.parse::<u16>().is_ok() {
        return Some(format!("*:{text}"));
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (format!("[{host}]"), port.strip_prefix(':').unwrap_or("80")),
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), port),
            None => (text.to_owned(), "80"),
        },
    };
    port.parse::<u16>().ok()?;
    match host.as_str() {
        "*" | "0.0.0.0" => Some(format!("*:{port}")),
        "localhost" => Some(format!("127.0.0.1:{port}")),
        host => {
            let address = format!("{host}:{port}");
            address
                .parse::<std::net::SocketAddr>()
                .is_ok()
                .then_some(address)
        }
    }
}
