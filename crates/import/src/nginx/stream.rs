//! `stream`: servers for TCP, and for TLS by name without decrypting it.
//!
//! Must never: listen where a restriction or the encryption of the source is not carried over.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::listen::address;
use super::log_format::LogFormat;
use super::proxy::with_port;
use super::scope::Rule;
use super::site::Compiler;
use super::stream_choice::{Choice, choices};
use super::stream_fates::{CLOSING, closes, lost, needs_nothing};
use super::tree::Statement;
use super::variables::Meaning;
use crate::output::one_or_many;
use crate::template::{Piece, Text};
use crate::units::seconds;
use crate::words::Words;

/// The settings of a server: its own, or those around it.
struct Settings<'s> {
    around: &'s [Statement],
    own: &'s [Statement],
}

impl<'s> Settings<'s> {
    /// The last directive of this name.
    fn get(&self, name: &str) -> Option<&'s Statement> {
        let is_it = |statement: &&Statement| statement.name() == name;
        let own = self.own.iter().rfind(is_it);
        own.or_else(|| self.around.iter().rfind(is_it))
    }

    fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|one| one.argument(0) == "on")
    }

    /// All directives of these names, which are inherited together or not at all.
    fn all(&self, names: &[&str]) -> Vec<&'s Statement> {
        let of = |statements: &'s [Statement]| -> Vec<&'s Statement> {
            let is_one = |statement: &&Statement| names.contains(&statement.name());
            statements.iter().filter(is_one).collect()
        };
        let own = of(self.own);
        if own.is_empty() { of(self.around) } else { own }
    }
}

/// Directives that all servers of a `stream` share.
struct Shared<'s> {
    around: &'s [Statement],
    groups: BTreeMap<&'s str, &'s Statement>,
    maps: BTreeMap<&'s str, &'s Statement>,
    formats: BTreeMap<String, LogFormat>,
}

impl Compiler<'_> {
    /// The servers of a `stream`.
    pub(super) fn stream(&mut self, around: &[Statement]) {
        for statement in around {
            self.report_in_stream(statement);
        }
        let named = |name: &'static str| around.iter().filter(move |one| one.name() == name);
        let shared = Shared {
            around,
            groups: named("upstream")
                .map(|one| (one.argument(0), one))
                .collect(),
            maps: named("map")
                .map(|one| (one.argument(1).trim_start_matches('$'), one))
                .collect(),
            formats: LogFormat::all(around),
        };
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        for server in named("server") {
            for listen in server.inner().iter().filter(|one| one.name() == "listen") {
                if let Some(address) = stream_address(listen) {
                    *taken.entry(address).or_default() += 1;
                }
            }
        }
        for server in named("server") {
            self.stream_server(server, &shared, &taken);
        }
    }

    /// Reports a directive that is not carried over. True: its server must be left out.
    fn report_in_stream(&mut self, statement: &Statement) -> bool {
        let name = statement.name();
        if needs_nothing(name) {
            return false;
        }
        let (problem, hint) = match lost(name) {
            Some(hint) => ("the importer does not translate it", hint),
            None => ("Tutti has no equivalent of it in a stream", CLOSING),
        };
        self.findings.lost(&statement.place, name, problem, hint);
        lost(name).is_none()
    }

    fn stream_server(
        &mut self,
        server: &Statement,
        shared: &Shared<'_>,
        taken: &BTreeMap<String, usize>,
    ) {
        let settings = Settings {
            around: shared.around,
            own: server.inner(),
        };
        let mut is_closed = shared.around.iter().any(|one| closes(one.name()));
        for statement in server.inner() {
            is_closed |= self.report_in_stream(statement);
        }
        let listeners = self.stream_listeners(server, &settings, taken);
        let steps = self.stream_steps(server, &settings, shared);
        let of_tcp = self.stream_log(&settings, shared, "TCP");
        let of_udp = listeners.iter().any(|(address, _)| is_udp(address));
        let of_udp = of_udp.then(|| self.stream_log(&settings, shared, "UDP"));
        let (Some(steps), Some((first, _)), false) = (steps, listeners.first(), is_closed) else {
            return;
        };
        let destination = match steps.as_slice() {
            [only] if only.get("match").is_none() => {
                let pass = only.pointer("/action/pass").and_then(Value::as_str);
                pass.map(str::to_owned)
            }
            _ => None,
        };
        let destination =
            destination.unwrap_or_else(|| self.out.add_stream(&format!("listen-{first}"), steps));
        for (address, mut listener) in listeners {
            let log = of_udp.as_ref().filter(|_| is_udp(&address));
            listener.insert("stream".to_owned(), destination.clone().into());
            listener.insert("access_log".to_owned(), log.unwrap_or(&of_tcp).clone());
            self.out.listeners.insert(address, listener.into());
        }
    }

    /// The addresses of a server, with the options of their listeners. Those that would not be as in the source are left
    /// out.
    fn stream_listeners(
        &mut self,
        server: &Statement,
        settings: &Settings<'_>,
        taken: &BTreeMap<String, usize>,
    ) -> Vec<(String, Map<String, Value>)> {
        let mut listeners = Vec::new();
        for listen in server.inner().iter().filter(|one| one.name() == "listen") {
            let has = |word: &str| listen.arguments().iter().any(|argument| argument == word);
            let text = listen.argument(0);
            let found = stream_address(listen);
            let is_taken = found.as_ref().is_some_and(|address| {
                taken.get(address).is_some_and(|count| *count > 1)
                    || self.out.listeners.contains_key(address)
            });
            let proxies = settings.all(&["set_real_ip_from"]);
            let unknown = listen.arguments().iter().skip(1).find(|option| {
                let name = option.split('=').next().unwrap_or_default();
                !LISTEN_OPTIONS.contains(name)
            });
            let problem = match &found {
                None => Some(format!("`{text}` is not an address")),
                Some(_) if has("ssl") => {
                    Some("TLS cannot be terminated in a stream, except for HTTP".to_owned())
                }
                Some(_) if unknown.is_some() => Some(format!(
                    "`{}` has no equivalent",
                    unknown.map_or("", String::as_str)
                )),
                Some(address) if is_taken => Some(format!("`{address}` has more than one server")),
                Some(_) if has("udp") => no_datagrams(settings, has("proxy_protocol")),
                Some(_) if has("proxy_protocol") && proxies.is_empty() => {
                    Some("it would trust the PROXY protocol header of every client".to_owned())
                }
                Some(_) => None,
            };
            if let Some(problem) = problem {
                let hint = match has("proxy_protocol") {
                    true => {
                        "name the proxies in `set_real_ip_from`, or in `proxy_protocol` of a listener"
                    }
                    false => CLOSING,
                };
                self.findings.lost(&listen.place, "listen", &problem, hint);
                continue;
            }
            let mut listener = Map::new();
            if has("proxy_protocol") {
                let sources = proxies.iter();
                let sources = sources.map(|one| one.argument(0).trim_end_matches(':').to_owned());
                let source = one_or_many(sources.collect());
                listener.insert("proxy_protocol".to_owned(), json!({ "source": source }));
            }
            if has("udp") {
                let sessions = sessions(settings);
                if !sessions.is_empty() {
                    listener.insert("udp".to_owned(), sessions.into());
                }
            }
            listeners.extend(found.map(|address| (address, listener)));
        }
        listeners
    }

    /// The steps for the connections of a server; `None`: they cannot be written, which has been reported.
    fn stream_steps(
        &mut self,
        server: &Statement,
        settings: &Settings<'_>,
        shared: &Shared<'_>,
    ) -> Option<Vec<Value>> {
        let Some(pass) = server.inner().iter().find(|one| one.name() == "proxy_pass") else {
            let problem = "it has no `proxy_pass`: Tutti does not listen there";
            self.findings
                .lost(&server.place, "server", problem, CLOSING);
            return None;
        };
        let choices = match self.stream_choices(pass, settings, shared) {
            Ok(choices) => choices,
            Err(problem) => {
                self.findings
                    .lost(&pass.place, "proxy_pass", &problem, CLOSING);
                return None;
            }
        };
        let mut content = Vec::new();
        for (conditions, target) in choices {
            match self.stream_upstream(&target, settings, shared) {
                Ok(name) => content.push((conditions, format!("upstreams/{name}"))),
                Err(problem) => {
                    self.findings
                        .lost(&pass.place, "proxy_pass", &problem, CLOSING);
                    return None;
                }
            }
        }
        Some(admitted(&settings.all(&["allow", "deny"]), &content))
    }

    /// The servers of `proxy_pass`, each with its conditions.
    fn stream_choices(
        &mut self,
        pass: &Statement,
        settings: &Settings<'_>,
        shared: &Shared<'_>,
    ) -> Result<Vec<Choice>, String> {
        let target = pass.argument(0);
        let Some(variable) = target.strip_prefix('$') else {
            return match target.contains('$') {
                true => Err(format!("`{target}` depends on the connection")),
                false => Ok(vec![(Map::new(), target.to_owned())]),
            };
        };
        let variable = variable.trim_matches(['{', '}']);
        let map = shared.maps.get(variable);
        let map = map.ok_or_else(|| format!("`{target}` depends on the connection"))?;
        let choices = choices(map).map_err(|problem| format!("`${variable}`: {problem}"))?;
        if !settings.is_on("ssl_preread") {
            // Nothing is read, so the variables of `ssl_preread` are empty.
            return Err("its map needs `ssl_preread on`".to_owned());
        }
        let has_tls = choices
            .iter()
            .any(|(conditions, _)| conditions.contains_key("tls"));
        let has_default = choices.iter().any(|(conditions, _)| conditions.is_empty());
        if has_default && !has_tls {
            let problem = "connections that do not begin with TLS are closed, and not passed to the default server";
            let hint =
                "add a step with `\"match\": {\"tls\": false}` for them (`docs/proxy/streams.md`)";
            self.findings.note(&pass.place, "proxy_pass", problem, hint);
        }
        Ok(choices)
    }

    /// The name of the upstream for a server or a group.
    fn stream_upstream(
        &mut self,
        target: &str,
        settings: &Settings<'_>,
        shared: &Shared<'_>,
    ) -> Result<String, String> {
        let mut upstream = match shared.groups.get(target) {
            Some(group) => self.group(group, "stream"),
            None => {
                let has_port = target.starts_with("unix:")
                    || target.rsplit_once(':').is_some_and(|(host, port)| {
                        !host.is_empty() && port.parse::<u16>().is_ok()
                    });
                if !has_port {
                    return Err(format!(
                        "`{target}` is neither a group in the source nor an address with a port"
                    ));
                }
                let mut servers = Map::new();
                servers.insert(with_port(target, 0), json!({}));
                Map::from_iter([("servers".to_owned(), Value::Object(servers))])
            }
        };
        let times = [
            ("proxy_connect_timeout", "connect_timeout"),
            ("proxy_timeout", "tunnel_timeout"),
            ("proxy_next_upstream_timeout", "retry_timeout"),
        ];
        for (name, option) in times {
            if let Some(time) = settings.get(name) {
                let seconds = seconds(time.argument(0))
                    .ok_or_else(|| format!("`{}` of `{name}` is not a time", time.argument(0)))?;
                upstream.insert(option.to_owned(), seconds.into());
            }
        }
        let tries = settings.get("proxy_next_upstream_tries");
        let tries = tries.and_then(|tries| tries.argument(0).parse::<u32>().ok());
        let is_off = settings
            .get("proxy_next_upstream")
            .is_some_and(|one| one.argument(0) == "off");
        if let Some(tries) = tries.filter(|tries| *tries > 0) {
            upstream.insert("retries".to_owned(), (tries - 1).min(1000).into());
        }
        if is_off {
            upstream.insert("retries".to_owned(), 0.into());
        }
        if settings.is_on("proxy_protocol") {
            upstream.insert("proxy_protocol".to_owned(), "v1".into());
        }
        if settings.is_on("proxy_ssl") {
            upstream.insert("tls".to_owned(), self.stream_tls(target, settings));
        }
        Ok(self.out.upstream(upstream, target))
    }

    /// TLS with the servers.
    fn stream_tls(&mut self, target: &str, settings: &Settings<'_>) -> Value {
        let verifies = settings.is_on("proxy_ssl_verify");
        if !verifies && let Some(place) = settings.get("proxy_ssl") {
            let hint = "remove `verify` if the server has a valid certificate";
            let problem = "as in nginx, the server's certificate is not verified";
            self.findings.note(&place.place, "proxy_ssl", problem, hint);
        }
        let mut tls = Map::from_iter([("verify".to_owned(), verifies.into())]);
        if let Some(ca) = settings.get("proxy_ssl_trusted_certificate") {
            let ca = self.beside(ca.argument(0));
            tls.insert("ca".to_owned(), ca.into());
        }
        let own = target.rsplit_once(':').map_or(target, |(host, _)| host);
        let name = settings.get("proxy_ssl_name");
        let name = name.map_or(own, |name| name.argument(0));
        if !name.contains('$') && !name.starts_with("unix") {
            tls.insert(
                "server_name".to_owned(),
                name.trim_matches(['[', ']']).into(),
            );
        }
        tls.into()
    }

    /// The access log of a server's listeners; nginx has none unless it is named.
    fn stream_log(
        &mut self,
        settings: &Settings<'_>,
        shared: &Shared<'_>,
        protocol: &str,
    ) -> Value {
        let mut logs = Vec::new();
        for statement in settings.all(&["access_log"]) {
            if statement.argument(0) == "off" {
                return false.into();
            }
            let format = shared.formats.get(statement.argument(1));
            let format = format.map(|format| format.option(&meaning(protocol)));
            match format {
                Some(Ok(Some(format))) if statement.arguments().len() == 2 => {
                    let path = self.beside(statement.argument(0));
                    logs.push(json!({"path": path, "format": format}));
                }
                _ => {
                    let problem = "its format or its options cannot be carried over";
                    let hint = "write `access_log` of the listener (`docs/proxy/streams.md`)";
                    self.findings
                        .lost(&statement.place, "access_log", problem, hint);
                }
            }
        }
        match logs.len() {
            0 => false.into(),
            1 => logs.remove(0),
            _ => logs.into(),
        }
    }
}

/// The address of a `listen`, as a listener has it.
fn stream_address(listen: &Statement) -> Option<String> {
    let address = address(listen.argument(0))?;
    let mut options = listen.arguments().iter().skip(1);
    match options.any(|option| option == "udp") {
        true if address.starts_with("unix:") => None,
        true => Some(format!("{UDP}{address}")),
        false => Some(address),
    }
}

/// The beginning of the addresses of listeners for datagrams.
const UDP: &str = "udp:";

fn is_udp(address: &str) -> bool {
    address.starts_with(UDP)
}

/// A reason why datagrams would not be passed on as in the source.
fn no_datagrams(settings: &Settings<'_>, has_header: bool) -> Option<String> {
    let reasons = [
        (
            has_header,
            "the PROXY protocol of clients that send datagrams",
        ),
        (
            settings.is_on("proxy_protocol"),
            "`proxy_protocol` of version 1 in datagrams: servers that know version 2 can have that",
        ),
        (settings.is_on("proxy_ssl"), "`proxy_ssl` for datagrams"),
        (settings.is_on("ssl_preread"), "`ssl_preread` of datagrams"),
    ];
    let mut found = reasons.iter().filter(|(is_there, _)| *is_there);
    let (_, reason) = found.next()?;
    Some(format!("there is no equivalent of {reason}"))
}

/// The options of sessions of UDP.
fn sessions(settings: &Settings<'_>) -> Map<String, Value> {
    let number = |name: &str| settings.get(name)?.argument(0).parse::<u32>().ok();
    let mut options = Map::new();
    if let Some(responses) = number("proxy_responses") {
        options.insert("responses".to_owned(), responses.into());
    }
    // 0 means that there is no limit.
    if let Some(requests) = number("proxy_requests").filter(|requests| *requests > 0) {
        options.insert("requests".to_owned(), requests.into());
    }
    options
}

/// Options of `listen` that are carried over, or need nothing.
const LISTEN_OPTIONS: Words = Words(
    "udp ssl proxy_protocol backlog reuseport so_keepalive bind ipv6only rcvbuf sndbuf fastopen deferred",
);

/// The variables of a stream's log.
fn meaning(protocol: &str) -> Meaning {
    let mut meaning = Meaning::default();
    let variable = |name: &str| Text(vec![Piece::Variable(name.to_owned())]);
    for (name, own) in [
        ("session_time", "request_time"),
        ("ssl_preread_server_name", "tls_server_name"),
        ("bytes_received", "bytes_received"),
        ("bytes_sent", "bytes_sent"),
        ("upstream_bytes_sent", "bytes_received"),
        ("upstream_bytes_received", "bytes_sent"),
        ("upstream_addr", "upstream_addr"),
        ("upstream_connect_time", "upstream_connect_time"),
    ] {
        meaning.named.insert(name.to_owned(), variable(own));
    }
    meaning
        .named
        .insert("protocol".to_owned(), Text::literal(protocol));
    meaning
}

/// The steps for the clients that the rules of `allow` and `deny` admit. A connection that none matches is closed.
fn admitted(rules: &[&Statement], content: &[(Map<String, Value>, String)]) -> Vec<Value> {
    let mut steps = Vec::new();
    let mut add = |source: Option<Vec<String>>| {
        for (conditions, pass) in content {
            let mut conditions = conditions.clone();
            if let Some(source) = &source
                && !source.is_empty()
            {
                conditions.insert("source".to_owned(), one_or_many(source.clone()));
            }
            let action = json!({ "pass": pass });
            steps.push(crate::output::step(conditions, action));
        }
    };
    let mut denied = Vec::new();
    for statement in rules {
        let rule = Rule {
            allows: statement.name() == "allow",
            source: statement.argument(0).to_owned(),
            place: statement.place.clone(),
        };
        match (rule.allows, rule.pattern()) {
            (false, Some(pattern)) => denied.push(format!("!{pattern}")),
            (false, None) => return closed_or(steps),
            (true, Some(pattern)) => {
                add(Some([vec![pattern], denied.clone()].concat()));
            }
            (true, None) => {
                add(Some(denied));
                return steps;
            }
        }
    }
    add(Some(denied));
    steps
}

/// A stream without a step for anyone.
fn closed_or(steps: Vec<Value>) -> Vec<Value> {
    match steps.is_empty() {
        true => vec![json!({"action": {"close": true}})],
        false => steps,
    }
}
