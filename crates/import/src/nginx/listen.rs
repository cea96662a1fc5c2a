//! `listen`, `server_name` and `ssl_…`: listeners, and which server gets a request.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::clients::{Entry, Host, Listen, inherited, rejects_handshakes};
use super::scope::RealIp;
use super::site::Compiler;
use super::tree::Statement;
use crate::output::{end_with, slug, step, when};
use crate::units::seconds;

/// The proxies that the listeners trust, by address.
pub(super) type Believed = BTreeMap<String, RealIp>;

/// The server that answers for all other names at an address.
fn default_of<'s, S>(
    mut here: impl Iterator<Item = (S, &'s Listen)> + Clone,
) -> Option<(S, &'s Listen)> {
    let mut named = here.clone();
    let named = named.find(|(_, listen)| listen.is_default);
    named.or_else(|| here.next())
}

/// Returns the proxies that each listener trusts: those of the default server there.
pub(super) fn believed(servers: &[(&Statement, Vec<Listen>)], http: &RealIp) -> Believed {
    let mut believed = Believed::new();
    for listen in servers.iter().flat_map(|(_, listens)| listens) {
        let here = servers.iter().filter_map(|(statement, listens)| {
            let here = listens.iter().find(|one| one.address == listen.address)?;
            Some((*statement, here))
        });
        if let Some((statement, _)) = default_of(here) {
            let own = http.enter(statement.inner());
            believed.insert(listen.address.clone(), own);
        }
    }
    believed
}

/// Adds the listeners for IPv4 of addresses with `ipv6only=off`, which holds for all servers there: Tutti's sockets for IPv6 take no
/// connections over IPv4.
pub(super) fn add_ipv4(servers: &mut [(&Statement, Vec<Listen>)]) {
    let all = servers.iter().flat_map(|(_, listens)| listens);
    let both: BTreeSet<String> = all
        .filter(|listen| listen.has_ipv4)
        .map(|listen| listen.address.clone())
        .collect();
    for (_, listens) in servers {
        let own = listens
            .iter()
            .filter(|listen| both.contains(&listen.address));
        let others: Vec<Listen> = own
            .filter_map(|listen| {
                let port = listen.address.strip_prefix("[::]:")?;
                let address = format!("*:{port}");
                let is_new = listens.iter().all(|known| known.address != address);
                let other = Listen {
                    address,
                    ..listen.clone()
                };
                is_new.then_some(other)
            })
            .collect();
        listens.extend(others);
    }
}

impl Compiler<'_> {
    /// The addresses that a server listens on.
    pub(super) fn listens(&mut self, server: &Statement, http: &[Statement]) -> Vec<Listen> {
        let mut listens = Vec::new();
        let mut around = server.inner().iter().chain(http);
        // The older form.
        let ssl = around.find(|statement| statement.name() == "ssl");
        let old = ssl.is_some_and(|ssl| ssl.argument(0) == "on");
        let mut says_none = true;
        for statement in server
            .inner()
            .iter()
            .filter(|statement| statement.name() == "listen")
        {
            says_none = false;
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
                    &format!("`{}` is not an address", statement.argument(0)),
                    hint,
                );
                continue;
            };
            for option in statement.arguments().iter().skip(1) {
                let name = option.split('=').next().unwrap_or_default();
                match name {
                    "default_server" | "default" | "ssl" | "http2" | "quic" | "http3"
                    | "proxy_protocol" | "ipv6only" | "reuseport" | "deferred" | "backlog"
                    | "fastopen" | "so_keepalive" | "bind" | "rcvbuf" | "sndbuf" | "setfib" => {}
                    _ => self.findings.lost(
                        &statement.place,
                        "listen",
                        &format!("`{option}` has no equivalent"),
                        "see `listener` in `docs/reference/options.md`",
                    ),
                }
            }
            let is_quic = has("quic") || has("http3");
            listens.push(Listen {
                address,
                is_tls: old || has("ssl") || is_quic,
                is_quic,
                is_default: has("default_server") || has("default"),
                has_ipv4: has("ipv6only=off"),
                proxy_protocol: has("proxy_protocol"),
                place: statement.place.clone(),
            });
        }
        if says_none {
            listens.push(Listen {
                address: "*:80".to_owned(),
                is_tls: old,
                is_quic: false,
                is_default: false,
                has_ipv4: false,
                proxy_protocol: false,
                place: server.place.clone(),
            });
        }
        listens
    }

    /// Makes the listeners of all servers. A listener is left out if it would not be encrypted where its source is, or would trust every
    /// client about its address.
    pub(super) fn listeners(
        &mut self,
        hosts: &[Host<'_>],
        http: &[Statement],
        believed: &Believed,
    ) {
        let mut addresses: Vec<&str> = Vec::new();
        for listen in hosts.iter().flat_map(|host| &host.listens) {
            if !addresses.contains(&listen.address.as_str()) {
                addresses.push(&listen.address);
            }
        }
        // Addresses that have the same servers share a route.
        let mut made: Vec<(Vec<Value>, String)> = Vec::new();
        for address in addresses {
            let mut here: Vec<Entry<'_, '_>> = Vec::new();
            for host in hosts {
                let mut listens = host.listens.iter();
                if let Some(listen) = listens.find(|listen| listen.address == address) {
                    here.push(Entry {
                        host,
                        listen,
                        destination: host.destination.clone(),
                    });
                }
            }
            let all = host_entries(hosts, address);
            let Some((default, listen)) = default_of(here.iter().map(|one| (one.host, one.listen)))
            else {
                continue;
            };
            let mut listener = Map::new();
            if all.iter().any(|listen| listen.is_tls) {
                let Some(tls) = self.tls(&mut here, default, http) else {
                    continue;
                };
                if all.iter().any(|listen| listen.is_quic) {
                    self.quic(&all, &tls, &mut listener);
                }
                listener.insert("tls".to_owned(), tls.into());
            }
            let http2 = inherited("http2", default.statement.inner(), http).next();
            if http2.is_some_and(|http2| http2.argument(0) == "off") {
                listener.insert("http2".to_owned(), false.into());
            }
            let real_ip = believed.get(address).cloned().unwrap_or_default();
            if !self.believed_proxies(&mut listener, listen, &real_ip) {
                continue;
            }
            let steps = self.by_name(&here, default);
            let pass = match made.iter().find(|(known, _)| *known == steps) {
                Some((_, pass)) => pass.clone(),
                None => match steps.as_slice() {
                    [only] if only.get("match").is_none() => {
                        let only = only.pointer("/action/pass").and_then(Value::as_str);
                        only.unwrap_or(&default.destination).to_owned()
                    }
                    _ => {
                        let name = format!("listen-{}", slug(address));
                        let pass = self.out.add_route(&name, steps.clone());
                        made.push((steps, pass.clone()));
                        pass
                    }
                },
            };
            listener.insert("pass".to_owned(), pass.into());
            listener.extend(self.responses.clone());
            self.out
                .listeners
                .insert(address.to_owned(), listener.into());
        }
    }

    /// HTTP/3 at an address of TLS.
    fn quic(
        &mut self,
        all: &[&Listen],
        tls: &Map<String, Value>,
        listener: &mut Map<String, Value>,
    ) {
        let Some(quic) = all.iter().find(|listen| listen.is_quic) else {
            return;
        };
        let is_old = tls.get("conf_commands") == Some(&json!({"MaxProtocol": "TLSv1.2"}));
        if is_old {
            let hint = "add `TLSv1.3` to `ssl_protocols`";
            let problem = "HTTP/3 needs TLS 1.3, which is not offered";
            self.findings.lost(&quic.place, "listen", problem, hint);
            return;
        }
        if all.iter().all(|listen| listen.is_quic) {
            let problem = "Tutti also listens on TCP, with the same TLS";
            let hint = "clients without HTTP/3 need TCP";
            self.findings.note(&quic.place, "listen", problem, hint);
        }
        listener.insert("http3".to_owned(), true.into());
    }

    /// Returns steps that choose a server by the requested name: exact names, `*.name` and `name.*` by length, regular
    /// expressions.
    fn by_name(&mut self, here: &[Entry<'_, '_>], default: &Host<'_>) -> Vec<Value> {
        let mut steps = Vec::new();
        let (mut exact, mut before, mut behind, mut patterns) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Entry {
            host, destination, ..
        } in here
        {
            for statement in host
                .statement
                .inner()
                .iter()
                .filter(|statement| statement.name() == "server_name")
            {
                let mut own = Vec::new();
                for name in statement.arguments() {
                    if name.starts_with('~') {
                        let is_known = self.is_pattern(name, &statement.place, "server_name");
                        let name = is_known.then(|| name.clone());
                        patterns.push((destination.clone(), name, statement));
                        continue;
                    }
                    let name = name.to_ascii_lowercase();
                    if let Some(bare) = name.strip_prefix('.') {
                        own.push(bare.to_owned());
                        before.push((destination.clone(), format!("*.{bare}")));
                    } else if name.starts_with("*.") {
                        before.push((destination.clone(), name));
                    } else if name.ends_with(".*") {
                        behind.push((destination.clone(), name));
                    } else if !matches!(name.as_str(), "" | "_") {
                        own.push(name);
                    }
                }
                if !own.is_empty() {
                    exact.push((destination.clone(), own));
                }
            }
        }
        before.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
        behind.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
        let mut entries = here.iter();
        let last = entries.find(|one| std::ptr::eq(one.host, default));
        let mut last = last
            .map_or(&default.destination, |one| &one.destination)
            .clone();
        // Any name may be that of an expression that is not known: no other server may answer for it.
        let unknown = patterns.iter().position(|(own, name, _)| {
            name.is_none() && here.iter().any(|one| one.destination != *own)
        });
        if let Some((_, _, statement)) = unknown.and_then(|at| patterns.get(at)) {
            let problem = "any name may be that of this expression: requests for names that no server at this address has as a text get 403";
            let hint = "write the names themselves, and import again";
            self.findings
                .lost(&statement.place, "server_name", problem, hint);
            last = self.refusal();
        }
        patterns.truncate(unknown.unwrap_or(patterns.len()));
        let patterns = patterns
            .into_iter()
            .filter_map(|(destination, name, _)| Some((destination, name?)));
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
        end_with(&mut steps, &last);
        steps
    }

    /// `tls` of a listener; `None` if there is no certificate for it, and it must not be opened.
    fn tls(
        &mut self,
        here: &mut [Entry<'_, '_>],
        default: &Host<'_>,
        http: &[Statement],
    ) -> Option<Map<String, Value>> {
        let mut certificates: Vec<Value> = Vec::new();
        let first = here.iter().filter(|one| std::ptr::eq(one.host, default));
        let others = here.iter().filter(|one| !std::ptr::eq(one.host, default));
        let mut without = None;
        for Entry { host, listen, .. } in first.chain(others) {
            let of = |name: &'static str| inherited(name, host.statement.inner(), http);
            let mut has_one = false;
            for (certificate, key) in of("ssl_certificate").zip(of("ssl_certificate_key")) {
                let (file, key) = (
                    self.beside(certificate.argument(0)),
                    self.beside(key.argument(0)),
                );
                if file.contains('$') || file.contains("data:") {
                    let problem = format!("`{file}` is not a certificate file");
                    let hint = "name a file for each name, in `tls.certificate` of the listener";
                    self.findings
                        .lost(&certificate.place, certificate.name(), &problem, hint);
                    continue;
                }
                has_one = true;
                let entry = if file == key {
                    json!({"file": file})
                } else {
                    json!({"file": file, "key": key})
                };
                if !certificates.contains(&entry) {
                    certificates.push(entry);
                }
            }
            if !has_one && !rejects_handshakes(host, http) {
                without.get_or_insert_with(|| listen.place.clone());
            }
        }
        if certificates.is_empty() {
            if let Some(place) = without.or_else(|| Some(here.first()?.listen.place.clone())) {
                let problem = "it has no `ssl_certificate`: Tutti does not listen on this address, since connections would not be encrypted";
                let hint = "also pass `nginx.conf` if it names the certificate";
                self.findings.lost(&place, "listen", problem, hint);
            }
            return None;
        }
        let certificate = match certificates.len() {
            1 => certificates.remove(0),
            _ => certificates.into(),
        };
        let mut tls = when("certificate", certificate);
        let value = |name: &'static str| inherited(name, default.statement.inner(), http).next();
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
        self.client_certificates(here, http, &mut tls);
        Some(tls)
    }

    /// Returns the proxies that may name the client of a connection; false if every client could.
    fn believed_proxies(
        &mut self,
        listener: &mut Map<String, Value>,
        listen: &Listen,
        real_ip: &RealIp,
    ) -> bool {
        let sources = &real_ip.sources;
        if listen.proxy_protocol {
            if sources.is_empty() {
                let problem = "any client could claim any address with a PROXY protocol header: Tutti does not listen on this address";
                let hint = "name the proxies with `set_real_ip_from`, then import again";
                self.findings.lost(&listen.place, "listen", problem, hint);
                return false;
            }
            listener.insert("proxy_protocol".to_owned(), json!({"source": sources}));
        }
        let header = real_ip.header();
        if !sources.is_empty() && !header.eq_ignore_ascii_case("proxy_protocol") {
            listener.insert(
                "forwarded".to_owned(),
                json!({"source": sources, "client_ip": header, "recursive": real_ip.is_recursive}),
            );
        }
        true
    }
}

/// All the `listen` of servers for an address.
fn host_entries<'h>(hosts: &'h [Host<'_>], address: &str) -> Vec<&'h Listen> {
    let listens = hosts.iter().flat_map(|host| &host.listens);
    listens.filter(|listen| listen.address == address).collect()
}

/// An address as a listener's name.
pub(super) fn address(text: &str) -> Option<String> {
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
    crate::program::listener(&host, port)
}
