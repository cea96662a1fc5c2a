//! `Listen`, `<VirtualHost>`, `ServerName` and `SSL…`: listeners, and which host gets a request.

use serde_json::{Map, Value, json};

use super::grammar::Directive;
use super::site::{Compiler, Site};
use crate::finding::SourceLocation;
use crate::output::{end_with, slug, step, when};

/// Certificates of clients that a host asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verify {
    Off,
    Optional,
    Required,
    /// In a way that cannot be carried over.
    Unknown,
}

/// True if a host uses TLS, with whatever module.
fn is_secure(site: &Site) -> bool {
    let keys = ["sslengine", "gnutlsenable", "nssengine"];
    let mut settings = keys.iter().filter_map(|key| site.setting(key));
    settings.any(|engine| engine.word(0) != "off")
}

/// A host as listeners see it.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) site: std::rc::Rc<Site>,
    pub(super) destination: String,
    /// Address and port, as `<VirtualHost>` has them; `*` for any.
    pub(super) addresses: Vec<(String, String)>,
    pub(super) place: SourceLocation,
}

/// `tls` of a listener, if there is one, and its hosts.
type Checked = (Option<Map<String, Value>>, Vec<Host>);

/// Each host once.
fn distinct<'h>(hosts: impl Iterator<Item = &'h Host>) -> Vec<&'h Host> {
    let mut distinct: Vec<&Host> = Vec::new();
    for host in hosts {
        if !distinct.iter().any(|known| std::ptr::eq(*known, host)) {
            distinct.push(host);
        }
    }
    distinct
}

impl Compiler<'_> {
    /// Makes the listeners. `main` answers where no host listens.
    pub(super) fn listeners(&mut self, listens: &[Directive], hosts: &[Host], main: Option<&Host>) {
        for address in &self.addresses(listens, hosts) {
            let (ip, port) = address.rsplit_once(':').unwrap_or(("*", "80"));
            let fits = |(host_ip, host_port): &(String, String)| {
                (host_port == "*" || host_port == port)
                    && (host_ip == "*" || ip == "*" || host_ip == ip)
            };
            // One with an address of its own goes before those for any.
            let exact: Vec<&Host> = hosts
                .iter()
                .filter(|host| host.addresses.iter().any(|one| one.0 != "*" && fits(one)))
                .collect();
            let any: Vec<&Host> = hosts
                .iter()
                .filter(|host| host.addresses.iter().any(|one| one.0 == "*" && fits(one)))
                .collect();
            let here: Vec<&Host> = if exact.is_empty() {
                any.clone()
            } else {
                exact.clone()
            };
            let Some(default) = here.first().copied().or(main) else {
                continue;
            };
            let here = if here.is_empty() { vec![default] } else { here };
            let unique = distinct(here.iter().chain(any.iter()).copied());
            // Each host as this listener sees it: one whose clients cannot be checked answers 403.
            let Some((tls, checked)) = self.checked(&unique) else {
                continue;
            };
            let seen = |host: &&Host| {
                let position = unique.iter().position(|known| std::ptr::eq(*known, *host));
                position.and_then(|position| checked.get(position))
            };
            let Some(default) = seen(&default) else {
                continue;
            };
            let exact: Vec<&Host> = exact.iter().filter_map(seen).collect();
            let any: Vec<&Host> = any.iter().filter_map(seen).collect();
            let here: Vec<&Host> = here.iter().filter_map(seen).collect();
            let mut steps = Vec::new();
            // Hosts of several addresses behind one socket: the local address of the connection chooses.
            if ip == "*" && !exact.is_empty() {
                for host in &exact {
                    for (own, _) in host
                        .addresses
                        .iter()
                        .filter(|one| one.0 != "*" && fits(one))
                    {
                        let same: Vec<&Host> = exact
                            .iter()
                            .filter(|other| other.addresses.iter().any(|one| one.0 == *own))
                            .copied()
                            .collect();
                        for mut inner in self.by_name(&same) {
                            let conditions = inner
                                .as_object_mut()
                                .map(|inner| inner.entry("match").or_insert_with(|| json!({})));
                            if let Some(conditions) = conditions.and_then(Value::as_object_mut) {
                                conditions.insert(
                                    "destination".to_owned(),
                                    format!("{own}:{port}").into(),
                                );
                            }
                            if !steps.contains(&inner) {
                                steps.push(inner);
                            }
                        }
                    }
                }
                match (any.is_empty(), main) {
                    (false, _) => steps.extend(self.by_name(&any)),
                    (true, Some(main)) => steps.push(json!({"action": {"pass": main.destination}})),
                    // The server outside of all hosts answers there, which is not known.
                    (true, None) => steps.push(json!({"action": {"return": 403}})),
                }
            } else {
                steps = self.by_name(&here);
            }
            let pass = match steps.as_slice() {
                [only] if only.get("match").is_none() => default.destination.clone(),
                _ => {
                    let known = self
                        .out
                        .routes
                        .iter()
                        .find(|(_, known)| known.as_array() == Some(&steps))
                        .map(|(name, _)| format!("routes/{name}"));
                    known.unwrap_or_else(|| {
                        self.out
                            .add_route(&format!("listen-{}", slug(address)), steps)
                    })
                }
            };
            let mut listener = when("pass", pass);
            if let Some(tls) = tls {
                listener.insert("tls".to_owned(), tls.into());
            }
            self.out.listeners.insert(address.clone(), listener.into());
        }
    }

    /// The addresses of all listeners.
    fn addresses(&mut self, listens: &[Directive], hosts: &[Host]) -> Vec<String> {
        let mut addresses: Vec<String> = Vec::new();
        for listen in listens {
            match address(listen.argument(0)) {
                Some(address) if addresses.contains(&address) => {}
                Some(address) => addresses.push(address),
                None => self.findings.lost(
                    &listen.place,
                    "Listen",
                    &format!("`{}` is not an address", listen.argument(0)),
                    "write the address as numbers: `127.0.0.1:8080`",
                ),
            }
        }
        // The file of a site says nothing about `Listen`.
        if listens.is_empty() {
            for (_, port) in hosts.iter().flat_map(|host| &host.addresses) {
                let address = format!("*:{}", if port == "*" { "80" } else { port });
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            if addresses.is_empty() {
                addresses.push("*:80".to_owned());
            }
        }
        addresses
    }

    /// Returns steps that choose a host by the requested name, in their order; the first is the one for all other
    /// names.
    fn by_name(&mut self, here: &[&Host]) -> Vec<Value> {
        let mut steps = Vec::new();
        for host in here {
            let mut names = Vec::new();
            if !host.site.server.is_empty() {
                names.push(host.site.server.clone());
            }
            for alias in host
                .site
                .own
                .iter()
                .filter(|directive| directive.is("serveralias"))
            {
                for name in &alias.arguments {
                    let name = name.to_ascii_lowercase();
                    names.push(if name.contains('?') {
                        format!("~^{}$", super::section::of_glob(&name))
                    } else {
                        name
                    });
                }
            }
            if names.is_empty() {
                continue;
            }
            steps.push(step(
                when("host", crate::output::one_or_many(names)),
                json!({"pass": host.destination}),
            ));
        }
        let Some(default) = here.first() else {
            return steps;
        };
        end_with(&mut steps, &default.destination);
        steps
    }

    /// `tls` of a listener, if there is one, and its hosts with where each leads. `None`: it must not be opened, as nothing would be
    /// encrypted.
    fn checked(&mut self, here: &[&Host]) -> Option<Checked> {
        let mut checked: Vec<Host> = here.iter().map(|host| (*host).clone()).collect();
        if !here.iter().any(|host| is_secure(&host.site)) {
            return Some((None, checked));
        }
        let Some(mut tls) = self.tls(here) else {
            if let Some(first) = here.first() {
                let problem = "it has no certificate: Tutti does not listen on its address, since connections would not be encrypted";
                let hint = "write `SSLCertificateFile` and `SSLCertificateKeyFile` into the host, then import again";
                self.findings.lost(&first.place, "SSLEngine", problem, hint);
            }
            return None;
        };
        self.client_certificates(&mut checked, &mut tls);
        Some((Some(tls), checked))
    }

    /// Certificates of clients. A listener asks for them as one, and each host checks what came.
    fn client_certificates(&mut self, hosts: &mut [Host], tls: &mut Map<String, Value>) {
        let asked: Vec<(Verify, Option<String>)> = hosts
            .iter()
            .map(|host| match is_secure(&host.site) {
                true => self.verify(&host.site),
                false => (Verify::Off, None),
            })
            .collect();
        let named = |(_, authority): &(Verify, Option<String>)| authority.clone();
        let Some(authority) = asked.iter().find_map(named) else {
            for (host, (verify, _)) in hosts.iter_mut().zip(&asked) {
                if *verify == Verify::Unknown {
                    host.destination = self.refused();
                }
            }
            return;
        };
        let is_required = asked
            .iter()
            .all(|(verify, own)| *verify == Verify::Required && own.as_ref() == Some(&authority));
        tls.insert("client_ca".to_owned(), authority.clone().into());
        if !is_required {
            tls.insert("client_verify".to_owned(), "optional".into());
        }
        for (host, (verify, own)) in hosts.iter_mut().zip(&asked) {
            let is_same = own.as_ref() == Some(&authority);
            match verify {
                Verify::Off => {}
                Verify::Required if is_required => {}
                Verify::Optional if is_same => {}
                Verify::Required if is_same => {
                    let test = "`${vars.tls_client_verify === 'SUCCESS' ? '' : 1}`";
                    let steps = vec![
                        json!({"match": {"if": test}, "action": {"return": 403}}),
                        json!({"action": {"pass": host.destination}}),
                    ];
                    host.destination = self.out.add_route("with-certificate", steps);
                }
                Verify::Required | Verify::Optional | Verify::Unknown => {
                    host.destination = self.refused();
                    if *verify != Verify::Unknown {
                        let problem = "a listener has one set of CA certificates for clients, and this host has another: it responds 403 there";
                        let hint = "use a separate listener for this host";
                        self.findings
                            .lost(&host.place, "SSLVerifyClient", problem, hint);
                    }
                }
            }
        }
    }

    /// The certificates that a host asks its clients for, and the file of the authorities.
    fn verify(&mut self, site: &Site) -> (Verify, Option<String>) {
        let in_parts = super::restrict::asks_for_certificates(&site.sections);
        let says = |key: &str| site.setting(key).filter(|one| one.word(0) != "none");
        let asks = says("sslverifyclient");
        let verify = match asks.map(|asks| asks.word(0)).as_deref() {
            Some("require") => Verify::Required,
            Some("optional") => Verify::Optional,
            // Certificates that are not checked let no client in; a part of the host that wants one answers 403.
            _ if in_parts => Verify::Optional,
            _ => return (Verify::Off, None),
        };
        let authority = site.setting("sslcacertificatefile").map(path);
        let unchecked = says("sslcarevocationcheck").or_else(|| says("sslocspenable"));
        let unchecked = unchecked.filter(|one| one.word(0) != "off");
        if let Some(unchecked) = unchecked {
            let problem = "revoked certificates would be accepted: the host responds 403 over TLS";
            let hint = "authenticate clients in another way (`docs/http/access.md`)";
            self.findings
                .lost(&unchecked.place, &unchecked.name, problem, hint);
            return (Verify::Unknown, None);
        }
        if authority.is_none() {
            if let Some(asks) = asks {
                let problem = "it has no `SSLCACertificateFile`: the host responds 403 over TLS";
                let hint = "name the file with the CA certificates in `tls.client_ca`";
                self.findings.lost(&asks.place, &asks.name, problem, hint);
                return (Verify::Unknown, None);
            }
            return (Verify::Off, None);
        }
        (verify, authority)
    }

    /// A destination that answers 403.
    fn refused(&mut self) -> String {
        let steps = json!([{"action": {"return": 403}}]);
        let mut routes = self.out.routes.iter();
        let known = routes.find(|(_, known)| **known == steps);
        match known.map(|(name, _)| format!("routes/{name}")) {
            Some(known) => known,
            None => {
                let steps = vec![json!({"action": {"return": 403}})];
                self.out.add_route("refused", steps)
            }
        }
    }

    /// Returns `tls` of a listener, without the options for clients' certificates.
    fn tls(&mut self, here: &[&Host]) -> Option<Map<String, Value>> {
        let is_on = |host: &&&Host| is_secure(&host.site);
        let secure: Vec<&Host> = here.iter().filter(is_on).copied().collect();
        let first = secure.first().copied()?;
        if let Some(plain) = here.iter().find(|host| !is_on(host)) {
            let hint = "use a separate port for it";
            self.findings.lost(
                &plain.place,
                "SSLEngine",
                "a listener uses TLS for all its hosts, including this one",
                hint,
            );
        }
        let mut certificates: Vec<Value> = Vec::new();
        for host in &secure {
            let all = |key: &'static str| {
                let is_own = host.site.own.iter().any(|directive| directive.is(key));
                let directives = match is_own {
                    true => &host.site.own,
                    false => &host.site.outer,
                };
                directives.iter().filter(move |directive| directive.is(key))
            };
            for (number, file) in all("sslcertificatefile").enumerate() {
                let key = all("sslcertificatekeyfile").nth(number);
                let entry = match key {
                    Some(key) if key.argument(0) != file.argument(0) => {
                        json!({"file": path(file), "key": path(key)})
                    }
                    _ => json!({"file": path(file)}),
                };
                if !certificates.contains(&entry) {
                    certificates.push(entry);
                }
            }
            for chain in all("sslcertificatechainfile") {
                let hint = "append its certificates to the file of `SSLCertificateFile`, as in Apache since 2.4.8";
                self.findings.lost(
                    &chain.place,
                    &chain.name,
                    "the chain cannot be in a separate file",
                    hint,
                );
            }
        }
        if certificates.is_empty() {
            return None;
        }
        let certificate = if certificates.len() == 1 {
            certificates.remove(0)
        } else {
            certificates.into()
        };
        let mut tls = when("certificate", certificate);
        self.protocols(&first.site, &mut tls);
        Some(tls)
    }

    fn protocols(&mut self, site: &Site, tls: &mut Map<String, Value>) {
        if let Some(protocols) = site.setting("sslprotocol") {
            let mut offered = [false, false];
            for (position, word) in protocols.arguments.iter().enumerate() {
                let word = word.to_ascii_lowercase();
                let (value, name) = match (word.strip_prefix('-'), word.strip_prefix('+')) {
                    (Some(name), _) => (false, name.to_owned()),
                    (_, Some(name)) => (true, name.to_owned()),
                    _ => {
                        if position == 0 {
                            offered = [false, false];
                        }
                        (true, word.clone())
                    }
                };
                match name.as_str() {
                    "all" => offered = [value, value],
                    "tlsv1.2" => offered[0] = value,
                    "tlsv1.3" => offered[1] = value,
                    _ => {}
                }
            }
            match offered {
                [true, false] => drop(tls.insert(
                    "conf_commands".to_owned(),
                    json!({"MaxProtocol": "TLSv1.2"}),
                )),
                [false, true] => drop(tls.insert(
                    "conf_commands".to_owned(),
                    json!({"MinProtocol": "TLSv1.3"}),
                )),
                [false, false] => self.findings.note(
                    &protocols.place,
                    &protocols.name,
                    "versions before TLS 1.2 are not offered",
                    "RFC 8996 deprecates them",
                ),
                [true, true] => {}
            }
        }
        if let Some(suites) = site
            .setting("sslciphersuite")
            .filter(|suites| suites.argument(0) != "HIGH:!aNULL")
        {
            self.findings.note(
                &suites.place,
                &suites.name,
                "Tutti offers its own list of ciphers, all of them with forward secrecy",
                "see `docs/http/tls.md`",
            );
        }
        if let Some(tickets) = site.setting("sslsessiontickets") {
            tls.insert("session".to_owned(), json!({"tickets": tickets.is_on()}));
        }
    }
}

/// A path that may be relative to the server's folder.
pub(super) fn path(directive: &Directive) -> String {
    let path = directive.argument(0);
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/etc/apache2/{path}")
    }
}

/// `80`, `10.0.0.1:80`, `[::1]:80` as a listener's name.
fn address(text: &str) -> Option<String> {
    if text.parse::<u16>().is_ok() {
        return Some(format!("*:{text}"));
    }
    crate::program::address(text).filter(|address| !address.starts_with("unix:"))
}

/// The addresses of `<VirtualHost>`.
pub(super) fn of_host(section: &Directive) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for text in &section.arguments {
        let (ip, port) = match text.rsplit_once(':') {
            Some((ip, port)) if !port.ends_with(']') => (ip, port),
            _ => (text.as_str(), "*"),
        };
        let ip = if matches!(ip, "_default_" | "*" | "0.0.0.0") {
            "*"
        } else {
            ip
        };
        all.push((ip.to_owned(), port.to_owned()));
    }
    all
}
