//! `proxy_pass` and its kin, and `upstream`.

use serde_json::{Map, Value, json};

use super::site::{Compiler, Site};
use super::tree::Statement;
use crate::output::when;
use crate::template::{Piece, Text, quoted};
use crate::units::seconds;
use crate::words::Words;

/// Further servers that are tried unless `retries` says otherwise, and the most that it may say.
const USUAL_RETRIES: u32 = 2;
const MOST_RETRIES: u32 = 1000;

/// Fields that are about one connection (RFC 9110, section 7.6.1), which no configuration sets.
const OF_CONNECTION: Words =
    Words("content-length expect keep-alive proxy-connection te trailer transfer-encoding");

impl Compiler<'_> {
    /// The action of `proxy_pass`, `grpc_pass`, `uwsgi_pass` and `scgi_pass`.
    pub(super) fn proxy(
        &mut self,
        site: &Site,
        statement: &Statement,
    ) -> Option<Map<String, Value>> {
        match statement.name() {
            "uwsgi_pass" => self.gateway(site, statement, "uwsgi"),
            "scgi_pass" => self.gateway(site, statement, "scgi"),
            _ => self.http_server(site, statement),
        }
    }

    fn gateway(
        &mut self,
        site: &Site,
        statement: &Statement,
        protocol: &str,
    ) -> Option<Map<String, Value>> {
        if statement.argument(0).starts_with("suwsgi://") {
            let problem = "uwsgi is not supported over TLS: requests here get 503";
            let hint = "make the server speak HTTP over TLS, and write `proxy_pass https://…`";
            self.findings
                .lost(&statement.place, statement.name(), problem, hint);
            return None;
        }
        let params = self.params(site, &format!("{protocol}_param"));
        let options = if params.is_empty() {
            Map::new()
        } else {
            when("params", params)
        };
        self.send(site, statement, protocol, Some(options))
    }

    fn http_server(&mut self, site: &Site, statement: &Statement) -> Option<Map<String, Value>> {
        // With the path of the request, as it would have without.
        let url = statement.argument(0);
        let url = url.strip_suffix("$request_uri").unwrap_or(url);
        let has_variables = url.contains('$');
        let resolved = self.server_url(site, url);
        let url = resolved.as_str();
        let (scheme, rest) = match url.split_once("://") {
            Some(("grpc", rest)) => ("http", rest),
            Some(("grpcs", rest)) => ("https", rest),
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            None if statement.name() == "grpc_pass" => ("http", url),
            _ => ("", url),
        };
        let (authority, path) = authority_and_path(rest);
        let path = path.as_str();
        let mut named = statement.clone();
        if let Some(word) = named.words.get_mut(1) {
            *word = format!("{scheme}://{authority}");
        }
        let statement = &named;
        if scheme.is_empty() || authority.contains('$') || authority.is_empty() {
            let hint = "name the server, or a group of them in `upstreams`";
            self.findings.lost(
                &statement.place,
                statement.name(),
                "the server depends on the request, or is not valid",
                hint,
            );
            return None;
        }
        let mut inner = site.clone();
        if statement.name() == "grpc_pass" {
            inner
                .scope
                .options
                .insert("http_version".to_owned(), 2.into());
        }
        let fields = &mut inner.scope.request_headers;
        if !fields
            .iter()
            .any(|(name, ..)| name.eq_ignore_ascii_case("host"))
        {
            fields.push((
                "Host".to_owned(),
                "$proxy_host".to_owned(),
                statement.place.clone(),
            ));
        }
        let names = names_of_server(scheme, authority);
        inner.meaning.named.extend(names);
        let own = match (&site.prefix, path) {
            _ if has_variables => None,
            (_, "") => Some((format!("{scheme}://{authority}/"), "/".to_owned())),
            (Some(prefix), path) => Some((format!("{scheme}://{authority}{path}"), prefix.clone())),
            (None, _) => None,
        };
        let sends_own_name = fields
            .iter()
            .all(|(name, value, _)| !name.eq_ignore_ascii_case("host") || value == "$proxy_host");
        // A server that does not know the name of its group does not say it, and each change makes a group of its own.
        let says_own = sends_own_name || !self.groups.contains_key(authority);
        let own = own.filter(|_| says_own);
        let mut redirects = None;
        if statement.name() == "proxy_pass" && !site.is_question {
            redirects = self.redirects_by_expression(&inner, own.as_ref());
            if let Some(changes) = self.rewrite_response(site, own) {
                let options = &mut inner.scope.options;
                options.insert("rewrite_response".to_owned(), changes);
            }
        }
        let mut action = self.send(&inner, statement, scheme, None)?;
        if let Some(location) = redirects {
            let fields = json!({"Location": location.template()});
            action.insert("response_headers_always".to_owned(), fields);
        }
        if !path.is_empty() {
            let rewritten = match has_variables {
                // nginx sends such a path as it is.
                true => self.new_path(&inner, path, &statement.place, statement.name()),
                false => self.replaced(&inner, statement, path)?,
            };
            if let Some(rewritten) = rewritten {
                action.insert("rewrite".to_owned(), rewritten.into());
            }
        }
        Some(action)
    }

    /// The directive of a server that speaks FastCGI, uwsgi or SCGI, with its address; `None` if that is not known.
    pub(super) fn at_gateway(&mut self, site: &Site, handler: &Statement) -> Option<Statement> {
        let address = self.server_url(site, handler.argument(0));
        let bare = address
            .split_once("://")
            .map_or(address.as_str(), |(_, rest)| rest);
        let is_known =
            bare.starts_with("unix:") || bare.contains(':') || self.groups.contains_key(bare);
        if address.contains('$') || !is_known {
            let problem = match address.contains('$') {
                true => "the server depends on the request: requests here get 503".to_owned(),
                false => format!("the group `{bare}` is not in the source: requests here get 503"),
            };
            let hint = "pass the file with its `upstream`, or name the server";
            self.findings
                .lost(&handler.place, handler.name(), &problem, hint);
            return None;
        }
        let mut named = handler.clone();
        if let Some(word) = named.words.get_mut(1) {
            *word = address;
        }
        Some(named)
    }

    /// The address of `proxy_pass`, with variables whose value is fixed replaced.
    fn server_url(&self, site: &Site, url: &str) -> String {
        let Ok(text) = site.meaning.text(url) else {
            return url.to_owned();
        };
        if let Some(whole) = text.as_literal() {
            return whole;
        }
        // The part before the path is enough.
        let at = url.find("://").map_or(0, |at| at + 3);
        let at = url
            .get(at..)
            .and_then(|rest| rest.find('/'))
            .map(|end| at + end);
        let (server, path) = url.split_at(at.unwrap_or(url.len()));
        let server = site.meaning.text(server).ok();
        match server.and_then(|server| server.as_literal()) {
            Some(server) => server + path,
            None => url.to_owned(),
        }
    }

    /// The value of `rewrite` for a path in `proxy_pass`, which replaces what the location begins with.
    fn replaced(
        &mut self,
        site: &Site,
        statement: &Statement,
        path: &str,
    ) -> Option<Option<String>> {
        if path.contains('$') {
            return self
                .new_path(site, path, &statement.place, statement.name())
                .map(Some);
        }
        let prefix = match (&site.prefix, site.is_exact) {
            (Some(prefix), false) => prefix,
            _ => return Some(Some(Text::literal(path.replace('%', "%25")).template())),
        };
        if prefix == path {
            return Some(None);
        }
        // nginx counts bytes of the path, and JavaScript its own units; `slice` of the same text is right for both.
        let script = format!("uri.slice({}.length)", quoted(prefix));
        let text = Text(vec![
            Piece::Text(path.replace('%', "%25")),
            Piece::Script(script),
        ]);
        Some(Some(text.template()))
    }

    /// Sends requests to a server or a group.
    pub(super) fn send(
        &mut self,
        site: &Site,
        statement: &Statement,
        protocol: &str,
        gateway: Option<Map<String, Value>>,
    ) -> Option<Map<String, Value>> {
        let rest = statement.argument(0);
        let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
        let rest = rest.strip_suffix("$request_uri").unwrap_or(rest);
        let authority = if rest.starts_with("unix:") {
            let inner = rest.get(5..).unwrap_or_default();
            let end = inner.find(':').unwrap_or(inner.len());
            rest.get(..5 + end).unwrap_or(rest)
        } else {
            rest.split('/').next().unwrap_or(rest)
        };
        let mut options = site.scope.options.clone();
        if protocol == "https" && !site.scope.upstream_tls.contains_key("verify") {
            // nginx's default; its meaning is reported.
            let mut tls = site.scope.upstream_tls.clone();
            tls.insert("verify".to_owned(), false.into());
            options.insert("tls".to_owned(), tls.into());
            let hint = "remove `verify` if the server has a valid certificate";
            self.findings.note(
                &statement.place,
                statement.name(),
                "as in nginx, the server's certificate is not verified",
                hint,
            );
        } else if protocol == "https" {
            options.insert("tls".to_owned(), site.scope.upstream_tls.clone().into());
        }
        let mut action = Map::new();
        let is_http = matches!(protocol, "http" | "https");
        let gateway_name = if is_http { None } else { Some(protocol) };
        if let Some(group) = self.groups.get(authority).cloned() {
            let mut upstream = self.group(&group, protocol);
            upstream.extend(options);
            if let (Some(name), Some(gateway)) = (gateway_name, gateway) {
                upstream.insert(name.to_owned(), gateway.into());
            }
            let name = self.out.upstream(upstream, authority);
            action.insert("pass".to_owned(), format!("upstreams/{name}").into());
        } else {
            let address = match is_http {
                true => with_port(authority, if protocol == "https" { 443 } else { 80 }),
                false => authority.to_owned(),
            };
            action.insert("proxy".to_owned(), format!("{protocol}://{address}").into());
            if let (Some(name), Some(gateway)) = (gateway_name, gateway)
                && !gateway.is_empty()
            {
                action.insert(name.to_owned(), gateway.into());
            }
            if !options.is_empty() {
                action.insert("proxy_options".to_owned(), options.into());
            }
        }
        self.request_fields(site, &mut action);
        if statement.name() == "proxy_pass" {
            self.request_body(site, &mut action);
            self.request_method(site, &mut action);
        }
        Some(action)
    }

    /// `proxy_set_body`.
    fn request_body(&mut self, site: &Site, action: &mut Map<String, Value>) {
        let Some((body, place)) = site.scope.request_body.clone() else {
            if site.scope.sends_no_body && !site.is_question {
                action.insert("request_body".to_owned(), "".into());
            }
            return;
        };
        // The client's own.
        if body == "$request_body" || body == "${request_body}" {
            return;
        }
        if let Some(text) = self.text(site, &body, &place, "proxy_set_body") {
            action.insert("request_body".to_owned(), text.template().into());
        }
    }

    /// `proxy_method`.
    fn request_method(&mut self, site: &Site, action: &mut Map<String, Value>) {
        const METHODS: [&str; 7] = ["DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT", "QUERY"];
        let Some((method, place)) = site.scope.request_method.clone() else {
            return;
        };
        match METHODS.contains(&method.as_str()) {
            true => drop(action.insert("request_method".to_owned(), method.into())),
            false if method == "$request_method" => {}
            false => {
                let problem =
                    format!("the method `{method}` is not supported: the server gets the client's");
                let hint = format!(
                    "`request_method` of an action is one of {}",
                    METHODS.join(", ")
                );
                self.findings.lost(&place, "proxy_method", &problem, &hint);
            }
        }
    }

    /// `proxy_set_header`.
    pub(super) fn request_fields(&mut self, site: &Site, action: &mut Map<String, Value>) {
        let mut fields = Map::new();
        for (name, value, place) in site.scope.request_headers.clone() {
            // The connection to the server is Tutti's own, upgrades included.
            if ["Connection", "Upgrade"]
                .iter()
                .any(|own| name.eq_ignore_ascii_case(own))
            {
                continue;
            }
            // The cache asks for parts of large responses, or the client's own field is passed on.
            if name.eq_ignore_ascii_case("range") && value.contains("slice_range") {
                continue;
            }
            // It is sent as it came.
            if name.eq_ignore_ascii_case("host") && value == "$http_host" {
                continue;
            }
            let guards = &site.scope.guards;
            let is_of_question = guards.field_of(&value).is_some();
            let is_user = value == "$remote_user" && guards.realm.is_some()
                || guards.question.is_some() && is_of_question;
            // A guard sets it; a field of the client under such a name never counts.
            if is_user && !site.is_question {
                continue;
            }
            if value.is_empty() && name.eq_ignore_ascii_case("content-length") {
                continue;
            }
            if OF_CONNECTION.contains(&name.to_ascii_lowercase()) {
                let problem = format!("Tutti itself sets `{name}`");
                let hint = "remove the directive";
                self.findings
                    .note(&place, "proxy_set_header", &problem, hint);
                continue;
            }
            // The name is known only after the fields are made.
            if value.is_empty() || is_of_question || value == "$remote_user" {
                fields.insert(name, Value::Null);
                continue;
            }
            let text = self.text(site, &value, &place, "proxy_set_header");
            if text.is_none() && name.eq_ignore_ascii_case("host") {
                continue;
            }
            // A field that cannot be written must not be set by the client.
            let value = text.map_or(Value::Null, |text| text.template().into());
            fields.insert(name, value);
        }
        if !fields.is_empty() {
            action.insert("request_headers".to_owned(), fields.into());
        }
    }

    /// The addresses of a group, or the one that is meant.
    pub(super) fn group_addresses(&self, name: &str) -> Vec<String> {
        match self.groups.get(name) {
            Some(group) => {
                let servers = group
                    .inner()
                    .iter()
                    .filter(|statement| statement.name() == "server");
                servers
                    .map(|server| server.argument(0).to_owned())
                    .collect()
            }
            None => vec![name.to_owned()],
        }
    }

    pub(super) fn group(&mut self, group: &Statement, protocol: &str) -> Map<String, Value> {
        let mut upstream = Map::new();
        let mut servers = Map::new();
        for statement in group.inner() {
            let place = &statement.place;
            match statement.name() {
                "server" => self.server_of_group(statement, protocol, &mut servers, &mut upstream),
                "least_conn" => {
                    drop(upstream.insert("balance".to_owned(), "least_connections".into()))
                }
                "ip_hash" => drop(upstream.insert("balance".to_owned(), "hash".into())),
                "hash" => {
                    upstream.insert("balance".to_owned(), "hash".into());
                    let meaning = super::variables::Meaning::default();
                    match meaning.text(statement.argument(0)) {
                        Ok(key) => drop(upstream.insert("key".to_owned(), key.template().into())),
                        Err(unknown) => self.findings.lost(
                            place,
                            "hash",
                            &format!("there is no equivalent of the variable `${}`", unknown.0),
                            "the client's address is used as the key",
                        ),
                    }
                }
                "keepalive" => {
                    if let Ok(count) = statement.argument(0).parse::<u32>() {
                        upstream.insert("keepalive".to_owned(), count.into());
                    }
                }
                "keepalive_timeout" => {
                    if let Some(seconds) = seconds(statement.argument(0)) {
                        upstream.insert("keepalive_timeout".to_owned(), seconds.into());
                    }
                }
                "sticky" => match sticky(statement.arguments()) {
                    Some(sticky) => drop(upstream.insert("sticky".to_owned(), sticky)),
                    None => self.findings.lost(
                        place,
                        "sticky",
                        "only `sticky cookie` with constant values is carried over",
                        "use `sticky` of the upstream (`docs/proxy/upstreams.md`)",
                    ),
                },
                "zone" | "keepalive_requests" | "keepalive_time" | "random" | "state" => {
                    let why = "groups are always shared by all threads";
                    self.findings
                        .note(place, statement.name(), "it has no effect in Tutti", why);
                }
                other => self.findings.lost(
                    place,
                    other,
                    "the importer does not translate it",
                    "see `upstream` in `docs/reference/options.md`",
                ),
            }
        }
        // nginx tries all servers of a group.
        let retries = u32::try_from(servers.len())
            .unwrap_or(u32::MAX)
            .saturating_sub(1);
        if retries > USUAL_RETRIES {
            upstream.insert("retries".to_owned(), retries.min(MOST_RETRIES).into());
        }
        upstream.insert("servers".to_owned(), servers.into());
        upstream
    }

    /// A server of a group, with its options.
    fn server_of_group(
        &mut self,
        statement: &Statement,
        protocol: &str,
        servers: &mut Map<String, Value>,
        upstream: &mut Map<String, Value>,
    ) {
        let mut arguments = statement.arguments().iter().skip(1);
        let is_service = arguments.any(|option| option.starts_with("service="));
        let address = match is_service {
            // Its SRV records give the port.
            true => statement.argument(0).to_owned(),
            false => with_port(
                statement.argument(0),
                if protocol == "https" { 443 } else { 80 },
            ),
        };
        let mut options = Map::new();
        for option in statement.arguments().iter().skip(1) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match (name, value.parse::<u32>(), seconds(value)) {
                ("weight", Ok(weight), _) => {
                    drop(options.insert("weight".to_owned(), weight.into()))
                }
                ("max_conns", Ok(count), _) => {
                    drop(options.insert("max_connections".to_owned(), count.into()))
                }
                ("backup", ..) => drop(options.insert("backup".to_owned(), true.into())),
                ("down", ..) => drop(options.insert("weight".to_owned(), 0.into())),
                ("max_fails", Ok(fails), _) => {
                    drop(options.insert("max_fails".to_owned(), fails.into()))
                }
                ("fail_timeout", _, Some(seconds)) => {
                    drop(options.insert(name.to_owned(), seconds.into()))
                }
                // A group has one for all.
                ("slow_start", _, Some(seconds)) => {
                    drop(upstream.insert(name.to_owned(), seconds.into()))
                }
                ("resolve", ..) => {}
                ("service", ..) => drop(options.insert("service".to_owned(), value.into())),
                _ => self.findings.lost(
                    &statement.place,
                    "server",
                    &format!("`{option}` has no equivalent"),
                    "see `upstream server` in `docs/reference/options.md`",
                ),
            }
        }
        add_server(servers, address, options);
    }
}

/// The values of the variables about the server in an address.
fn names_of_server(scheme: &str, authority: &str) -> [(String, Text); 2] {
    let usual = if scheme == "https" { 443 } else { 80 };
    let (host, port) = match authority.starts_with("unix:") {
        true => ("localhost", String::new()),
        false => {
            let address = with_port(authority, usual);
            let port = address.rsplit(':').next().unwrap_or_default();
            let host = authority.trim_end_matches(&format!(":{usual}"));
            (host, port.to_owned())
        }
    };
    [
        ("proxy_host".to_owned(), Text::literal(host)),
        ("proxy_port".to_owned(), Text::literal(port)),
    ]
}

/// The parts of an address behind its scheme. A path may begin with a variable, and a query alone is that of `/`.
fn authority_and_path(rest: &str) -> (&str, String) {
    const PATHS: [&str; 7] = [
        "/",
        "?",
        "$uri",
        "${uri}",
        "$document_uri",
        "$request_uri",
        "${request_uri}",
    ];
    let end = match rest.starts_with("unix:") {
        true => rest.rfind(':').filter(|at| *at > 4),
        false => PATHS.iter().filter_map(|path| rest.find(path)).min(),
    };
    let (authority, path) = rest.split_at(end.unwrap_or(rest.len()));
    let path = path.strip_prefix(':').unwrap_or(path);
    let slash = if path.starts_with('?') { "/" } else { "" };
    (authority, format!("{slash}{path}"))
}

/// The option `sticky` for `sticky cookie NAME …`.
fn sticky(words: &[String]) -> Option<Value> {
    let [kind, name, attributes @ ..] = words else {
        return None;
    };
    let mut sticky = when("cookie", name.as_str());
    for attribute in attributes {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let (option, value): (&str, Value) = match name {
            "expires" if value == "max" => ("max_age", 315_360_000.into()),
            "expires" => ("max_age", seconds(value)?.into()),
            "domain" | "path" if !value.contains('$') => (name, value.into()),
            "httponly" => ("http_only", true.into()),
            "secure" => ("secure", true.into()),
            "samesite" => ("same_site", value.to_ascii_lowercase().into()),
            _ => return None,
        };
        sticky.insert(option.to_owned(), value);
    }
    let is_plain = kind == "cookie" && !name.contains('$');
    is_plain.then(|| sticky.into())
}

/// Adds a server of a group. One that is there twice gets the requests of both.
fn add_server(servers: &mut Map<String, Value>, address: String, mut options: Map<String, Value>) {
    let weight = |options: &Map<String, Value>| {
        let weight = options.get("weight").and_then(Value::as_u64);
        weight.unwrap_or(1)
    };
    if let Some(Value::Object(known)) = servers.get(&address) {
        let is_spare = |options: &Map<String, Value>| options.contains_key("backup");
        match (weight(known), weight(&options)) {
            (0, _) => {}
            (_, 0) => return,
            _ if is_spare(&options) && !is_spare(known) => return,
            (former, more) if is_spare(&options) == is_spare(known) => {
                options.insert("weight".to_owned(), (former + more).into());
            }
            _ => {}
        }
    }
    servers.insert(address, options.into());
}

/// An address with its port; nginx's default is that of the scheme.
pub(super) fn with_port(address: &str, port: u16) -> String {
    let last = address.rsplit_once(']').map_or(address, |(_, rest)| rest);
    if address.starts_with("unix:") || last.contains(':') {
        address.to_owned()
    } else if !address.contains(['.', ':', '[']) && address.parse::<u16>().is_ok() {
        format!("127.0.0.1:{address}")
    } else {
        format!("{address}:{port}")
    }
}
