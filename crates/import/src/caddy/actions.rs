//! The actions of Caddy's larger directives: new paths, files, servers behind, PHP.

use serde_json::{Map, Value, json};

use super::directives::hidden;
use super::site_settings::{bare_name, is_plain, request_field};
use super::tree::Directive;
use super::{Caddy, Scope, finished, trim};
use crate::finding::SourceLocation;
use crate::output::{one_or_many, step, unused, when};
use crate::template::{Piece, Text, quoted};
use crate::units::{seconds, whole_seconds};

impl Caddy<'_> {
    /// `rewrite`, `try_files` and `uri`: the directives behind them see the new path, in a route of their own.
    pub(super) fn rewriting(
        &mut self,
        directive: &Directive,
        conditions: Map<String, Value>,
        arguments: &[String],
        rest: &[Directive],
        scope: &Scope,
        steps: &mut Vec<Value>,
    ) -> bool {
        let place = &directive.place;
        let mut after = self.steps(rest, scope);
        after.push(json!({"action": {"return": 404}}));
        trim(&mut after);
        let next = self.out.add_route(&format!("{}-next", self.site), after);
        let action = match directive.name() {
            "rewrite" => {
                let target = arguments.first().map_or("", String::as_str);
                match self.path(target, place, "rewrite") {
                    Some(text) => json!({"rewrite": text.template(), "pass": next}),
                    None => json!({"return": 403}),
                }
            }
            "try_files" => {
                let mut action = json!({"pass": next});
                for (index, item) in arguments.iter().enumerate().rev() {
                    let Some(text) = self.path(item, place, "try_files") else {
                        continue;
                    };
                    let found = json!({"rewrite": text.template(), "pass": next});
                    // The last one is taken without a look.
                    if index + 1 == arguments.len() {
                        action = found;
                        continue;
                    }
                    let mut path = Text::literal(scope.root.clone().unwrap_or_default());
                    path.extend(text);
                    action = json!({"share": path.template(), "index": "", "found": found, "fallback": action});
                }
                action
            }
            "uri" if matches!(arguments, [verb, _] if verb == "strip_suffix") => {
                let suffix = arguments.get(1).map_or("", String::as_str);
                let suffix = quoted(suffix);
                let script = format!(
                    "uri.endsWith({suffix}) ? uri.slice(0, uri.length - {suffix}.length) : uri"
                );
                let text = Text(vec![Piece::Script(script)]);
                json!({"rewrite": text.template(), "pass": next})
            }
            "uri" if matches!(arguments, [verb, _, _] if verb == "replace") => {
                let find = quoted(arguments.get(1).map_or("", String::as_str));
                let with = quoted(arguments.get(2).map_or("", String::as_str));
                let text = Text(vec![Piece::Script(format!(
                    "uri.replaceAll({find}, () => {with})"
                ))]);
                json!({"rewrite": text.template(), "pass": next})
            }
            "uri" if arguments.first().is_some_and(|verb| verb == "strip_prefix") => {
                let prefix = arguments.get(1).map_or("", String::as_str);
                let prefix = quoted(&format!("/{}", prefix.trim_matches('/')));
                let script = format!(
                    "uri.startsWith({prefix}) ? '/' + uri.slice({prefix}.length).replace(/^\\/+/, '') : uri"
                );
                let text = Text(vec![Piece::Script(script)]);
                json!({"rewrite": text.template(), "pass": next})
            }
            _ => {
                let hint = "write `handle_path`, which removes a prefix of the path, or a `rewrite` as a script";
                self.findings.lost(
                    place,
                    "uri",
                    "it is not carried over: its requests get 403",
                    hint,
                );
                json!({"return": 403})
            }
        };
        let is_all = conditions.is_empty();
        steps.push(step(conditions, action));
        is_all
    }

    /// A path that may have a query behind it.
    pub(super) fn path(
        &mut self,
        target: &str,
        place: &SourceLocation,
        name: &str,
    ) -> Option<Text> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let path = if path.starts_with('/') || path.starts_with('{') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        let mut text = self.text(&path, place, name)?;
        for piece in &mut text.0 {
            if let Piece::Text(text) = piece {
                *text = text.replace('%', "%25");
            }
        }
        // A query replaces the client's; without one, it is kept.
        match query {
            None | Some("{query}" | "{http.request.uri.query}") => {}
            Some("") => text.push("?"),
            Some(query) => {
                let (query, is_all) = match query.strip_suffix("&{query}") {
                    Some(query) => (query, true),
                    None => (query, false),
                };
                text.push("?");
                text.extend(self.text(query, place, name)?);
                let is_script = text.0.iter().any(|piece| matches!(piece, Piece::Script(_)));
                match (is_all, is_script) {
                    (true, false) => {
                        text.push("&");
                        text.0.push(Piece::Variable("query".to_owned()));
                    }
                    (true, true) => {}
                    (false, _) => text.push("?"),
                }
            }
        }
        Some(text)
    }

    /// Reads a text with placeholders.
    pub(super) fn text(
        &mut self,
        source: &str,
        place: &SourceLocation,
        name: &str,
    ) -> Option<Text> {
        let mut text = Text::default();
        let mut rest = source;
        while let Some((before, after)) = rest.split_once('{') {
            text.push(before);
            let Some((placeholder, tail)) = after.split_once('}') else {
                text.push("{");
                rest = after;
                continue;
            };
            rest = tail;
            // Other braces are part of the text.
            let is_name = |one: char| one.is_ascii_alphanumeric() || "._-/:$>".contains(one);
            if placeholder.is_empty() || !placeholder.chars().all(is_name) {
                text.push("{");
                rest = after;
                continue;
            }
            let short = placeholder
                .strip_prefix("http.request.")
                .unwrap_or(placeholder);
            let variable = match short {
                "path" | "uri.path" => "uri".to_owned(),
                "uri" => "request_uri".to_owned(),
                "query" | "uri.query" => "query".to_owned(),
                "http.error.status_text" | "err.status_text" | "err.message" => {
                    // The server's own page has it.
                    text.push("");
                    continue;
                }
                "port" | "local.port" => "server_port".to_owned(),
                "remote_port" | "remote.port" => "remote_port".to_owned(),
                "client_ip" | "vars.client_ip" => "remote_addr".to_owned(),
                "http.auth.user.id" => "remote_user".to_owned(),
                "uuid" => "request_id".to_owned(),
                "system.hostname" => "hostname".to_owned(),
                "tls_version" | "tls.version" => "tls_protocol".to_owned(),
                "err.status_code" | "http.error.status_code" | "error.status_code" => {
                    "error_status".to_owned()
                }
                "host" => "host".to_owned(),
                "hostport" => "header_host".to_owned(),
                "method" => "method".to_owned(),
                "remote_host" | "remote.host" => "remote_addr".to_owned(),
                other => match other.strip_prefix("header.") {
                    Some(field) => {
                        format!("header_{}", field.to_ascii_lowercase().replace('-', "_"))
                    }
                    None => {
                        let cookie = short.strip_prefix("cookie.");
                        let argument = short
                            .strip_prefix("query.")
                            .or_else(|| short.strip_prefix("uri.query."));
                        if let Some(name) = cookie {
                            text.0.push(Piece::Variable(format!("cookie_{name}")));
                            continue;
                        }
                        if let Some(name) = argument {
                            text.0.push(Piece::Variable(format!("arg_{name}")));
                            continue;
                        }
                        let script = match short {
                            "scheme" => "vars.tls_protocol ? 'https' : 'http'",
                            _ => {
                                let problem =
                                    format!("there is no equivalent of `{{{placeholder}}}`");
                                self.findings.lost(
                                    place,
                                    name,
                                    &problem,
                                    "`docs/reference/variables.md` lists the available variables",
                                );
                                return None;
                            }
                        };
                        text.0.push(Piece::Script(script.to_owned()));
                        continue;
                    }
                },
            };
            text.0.push(Piece::Variable(variable));
        }
        text.push(rest);
        Some(text)
    }

    pub(super) fn files(
        &mut self,
        scope: &Scope,
        is_listed: bool,
        hidden: Vec<String>,
        place: &SourceLocation,
    ) -> Value {
        let Some(root) = &scope.root else {
            self.findings.lost(
                place,
                "file_server",
                "there is no `root`: the folder in which Caddy was started is not known",
                "write `root * /srv/site`",
            );
            return json!({"return": 404});
        };
        let path = Text(vec![
            Piece::Text(root.clone()),
            Piece::Variable("uri".to_owned()),
        ]);
        let mut share = Map::from_iter([("share".to_owned(), path.template().into())]);
        share.insert("deny".to_owned(), one_or_many(hidden));
        if is_listed {
            share.insert("listing".to_owned(), "auto".into());
        }
        share.into()
    }

    pub(super) fn proxy(
        &mut self,
        directive: &Directive,
        arguments: &[String],
        scope: &Scope,
    ) -> Option<Value> {
        let place = &directive.place;
        let mut servers: Vec<String> = arguments.to_vec();
        let mut group = Group::default();
        let mut downs = Map::new();
        let mut fields = scope.request_headers.clone();
        let mut is_tls = false;
        let mut tls: Option<Map<String, Value>> = None;
        for option in directive.inner() {
            if group.takes(option) {
                continue;
            }
            match (option.name(), option.argument(0)) {
                ("to", _) => servers.extend_from_slice(option.arguments()),
                ("header_down", name) => {
                    let words = option.arguments().to_vec();
                    let bare = name.trim_start_matches('>');
                    match self.changed(option, &words, bare, None, scope) {
                        Some((name, value)) => drop(downs.insert(name, value)),
                        None => {
                            let hint = "write it in `response_headers_always` of the action";
                            let problem = "it is not carried over";
                            self.findings
                                .lost(&option.place, "header_down", problem, hint);
                        }
                    }
                }
                ("flush_interval", "-1") => {
                    drop(group.upstream.insert("buffering".to_owned(), false.into()))
                }
                ("header_up", name) => self.header_up(option, name, &mut fields)?,
                ("transport", _) => match transport(option) {
                    Ok(None) => {}
                    Ok(Some(options)) => {
                        is_tls = true;
                        tls = Some(options);
                    }
                    Err(problem) => {
                        let problem = format!("{problem}: requests here get 503");
                        let hint = "see `upstream` in `docs/reference/options.md`";
                        self.findings
                            .lost(&option.place, "transport", &problem, hint);
                        return None;
                    }
                },
                ("lb_try_duration", time) if whole_seconds(time).is_some() => self.findings.note(
                    place,
                    "lb_try_duration",
                    "another server is tried immediately",
                    "`retries` sets the number of attempts",
                ),
                (name, _) => self.findings.lost(
                    &option.place,
                    name,
                    "the importer does not translate it",
                    "see `upstream` in `docs/reference/options.md`",
                ),
            }
        }
        let tls = tls.unwrap_or_default();
        let members = self.members(&servers, group.is_first, &mut is_tls, place)?;
        let mut upstream = group.upstream;
        if !group.health.is_empty() {
            upstream.insert("health_check".to_owned(), group.health.into());
        }
        // Caddy sends the client's address to the server.
        upstream.insert("forwarded_headers".to_owned(), "x-forwarded".into());
        upstream.insert("servers".to_owned(), members.into());
        if is_tls {
            let value = match tls.is_empty() {
                true => true.into(),
                false => tls.into(),
            };
            upstream.insert("tls".to_owned(), value);
        }
        let name = unused(&self.out.upstreams, &format!("{}-servers", self.site));
        self.out.upstreams.insert(name.clone(), upstream.into());
        let mut action = when("pass", format!("upstreams/{name}"));
        if !fields.is_empty() {
            action.insert("request_headers".to_owned(), fields.into());
        }
        if !downs.is_empty() {
            let mut all = scope.always.clone();
            all.extend(downs);
            action.insert("response_headers_always".to_owned(), all.into());
        }
        Some(action.into())
    }

    /// A field of the requests to a server; `None`, after it is reported, where a field of a client's must not go through.
    fn header_up(
        &mut self,
        option: &Directive,
        name: &str,
        fields: &mut Map<String, Value>,
    ) -> Option<()> {
        if option.arguments().len() == 2 && is_plain(name) {
            let text = self.text(option.argument(1), &option.place, "header_up")?;
            fields.insert(name.to_owned(), text.template().into());
            return Some(());
        }
        if let Some((name, value)) = request_field(option.arguments()) {
            fields.insert(name, value);
            return Some(());
        }
        let bare = bare_name(name);
        let problem = match is_plain(bare) {
            true => "it is not carried over; the field from clients is removed",
            false => "it is not carried over: requests here get 503",
        };
        let hint = "write it in `request_headers` of the action";
        self.findings
            .lost(&option.place, "header_up", problem, hint);
        is_plain(bare).then(|| drop(fields.insert(bare.to_owned(), Value::Null)))
    }

    /// The servers of a group; `None` where the reason against it has been reported.
    fn members(
        &mut self,
        servers: &[String],
        is_first: bool,
        is_tls: &mut bool,
        place: &SourceLocation,
    ) -> Option<Map<String, Value>> {
        let mut members = Map::new();
        for server in servers {
            *is_tls |= server.starts_with("https://");
            let default_port = if *is_tls { 443 } else { 80 };
            let Some(address) = server_address(server, default_port) else {
                self.findings.lost(
                    place,
                    "reverse_proxy",
                    &format!("`{server}` is not the address of a server"),
                    "name the server with its port",
                );
                return None;
            };
            // Those behind the first one are for the time without it.
            let options = match is_first && !members.is_empty() {
                true => json!({"backup": true}),
                false => json!({}),
            };
            members.insert(address, options);
        }
        if members.is_empty() {
            self.findings.lost(
                place,
                "reverse_proxy",
                "it does not name a server",
                "add one, or a group in `upstreams`",
            );
            return None;
        }
        Some(members)
    }

    /// `php_fastcgi`: folders get their slash, scripts run, files are served, all else is the front controller's.
    pub(super) fn php(
        &mut self,
        directive: &Directive,
        arguments: &[String],
        conditions: &Map<String, Value>,
        rest: &[Directive],
        scope: &Scope,
        steps: &mut Vec<Value>,
    ) -> bool {
        let place = &directive.place;
        let (Some(root), [address]) = (scope.root.clone(), arguments) else {
            self.findings.lost(
                place,
                "php_fastcgi",
                "it needs a `root` and one server",
                "write `root * /srv/site`, and one address",
            );
            steps.push(step(conditions.clone(), json!({"return": 503})));
            return conditions.is_empty();
        };
        let mut options = when("root", root.clone());
        let mut params = Map::new();
        for option in directive.inner() {
            match option.name() {
                "env" => drop(params.insert(
                    option.argument(0).to_owned(),
                    option.argument(1).replace('$', "${dollar}").into(),
                )),
                "read_timeout" | "dial_timeout" | "write_timeout" => self.findings.note(
                    &option.place,
                    option.name(),
                    "it has no effect in Tutti",
                    "`proxy_options` has the timeouts of a server",
                ),
                name => self.findings.lost(
                    &option.place,
                    name,
                    "it is not carried over",
                    "see `fastcgi` in `docs/reference/options.md`",
                ),
            }
        }
        if !params.is_empty() {
            options.insert("params".to_owned(), params.into());
        }
        let address = address
            .strip_prefix("unix/")
            .map_or_else(|| address.clone(), |path| format!("unix:{path}"));
        let address = if address.starts_with(':') {
            format!("127.0.0.1{address}")
        } else {
            address
        };
        let run = |rewrite: Option<&str>| {
            let mut action = Map::from_iter([
                ("proxy".to_owned(), format!("fastcgi://{address}").into()),
                ("fastcgi".to_owned(), options.clone().into()),
            ]);
            if let Some(rewrite) = rewrite {
                action.insert("rewrite".to_owned(), rewrite.into());
            }
            if !scope.request_headers.is_empty() {
                action.insert(
                    "request_headers".to_owned(),
                    scope.request_headers.clone().into(),
                );
            }
            finished(action.into(), scope)
        };
        let share = |end: &str| {
            Text(vec![
                Piece::Text(root.clone()),
                Piece::Variable("uri".to_owned()),
                Piece::Text(end.to_owned()),
            ])
            .template()
        };
        let files = rest.iter().find(|one| one.name() == "file_server");
        if files.is_some() {
            self.name_texts();
        }
        let hidden =
            files.map(|files| hidden(files, scope).unwrap_or_else(|| vec!["*".to_owned()]));
        let front = run(Some("/index.php"));
        let file = match hidden {
            Some(hidden) => {
                let share = json!({"share": share(""), "deny": one_or_many(hidden)});
                finished(share, scope)
            }
            None => json!({"return": 404}),
        };
        let mut slash = Text(vec![Piece::Variable("uri".to_owned())]);
        // Without the query, as in Caddy.
        slash.push("/");
        let inner = vec![
            json!({"match": {"uri": "*/"}, "action": {"share": share("index.php"), "index": "", "found": run(Some("${uri}index.php")), "fallback": front}}),
            json!({"match": {"uri": "*.php"}, "action": {"share": share(""), "index": "", "found": run(None), "fallback": front}}),
            json!({"match": {"uri": "*.php/*"}, "action": run(None)}),
            json!({"action": {"share": share("/index.php"), "index": "", "found": finished(json!({"return": 308, "location": slash.template()}), scope),
                   "fallback": {"share": share(""), "index": "", "found": file, "fallback": front}}}),
        ];
        let pass = self.out.add_route(&format!("{}-php", self.site), inner);
        steps.push(step(conditions.clone(), json!({"pass": pass})));
        conditions.is_empty()
    }
}

/// The options of a group of servers.
#[derive(Default)]
struct Group {
    upstream: Map<String, Value>,
    health: Map<String, Value>,
    /// Only the first server that is there gets requests.
    is_first: bool,
}

impl Group {
    /// Takes an option about the selection of servers and their health; false if it is another one.
    fn takes(&mut self, option: &Directive) -> bool {
        match (option.name(), option.argument(0)) {
            ("lb_policy", "least_conn") => drop(
                self.upstream
                    .insert("balance".to_owned(), "least_connections".into()),
            ),
            ("lb_policy", "ip_hash" | "client_ip_hash") => {
                drop(self.upstream.insert("balance".to_owned(), "hash".into()))
            }
            ("lb_policy", "uri_hash" | "header" | "query") => {
                let key = match option.argument(0) {
                    "uri_hash" => "$uri".to_owned(),
                    "header" => format!(
                        "$header_{}",
                        option.argument(1).to_ascii_lowercase().replace('-', "_")
                    ),
                    _ => format!("$arg_{}", option.argument(1)),
                };
                self.upstream.insert("balance".to_owned(), "hash".into());
                self.upstream.insert("key".to_owned(), key.into());
            }
            ("lb_policy", "cookie") => {
                let cookie = match option.argument(1) {
                    "" => "lb",
                    name => name,
                };
                self.upstream
                    .insert("sticky".to_owned(), json!({"cookie": cookie}));
            }
            ("lb_policy", "first") => self.is_first = true,
            ("lb_policy", "round_robin" | "random" | "random_choose") => {}
            ("lb_retries", number) if number.parse::<u32>().is_ok() => {
                let number = number.parse::<u32>().unwrap_or_default();
                self.upstream.insert("retries".to_owned(), number.into());
            }
            ("lb_try_interval", _) => {}
            ("health_uri", uri) => drop(self.health.insert("uri".to_owned(), uri.into())),
            ("health_interval", time) if seconds(time).is_some() => drop(
                self.health
                    .insert("interval".to_owned(), json!(seconds(time))),
            ),
            ("health_timeout", time) if seconds(time).is_some() => drop(
                self.health
                    .insert("timeout".to_owned(), json!(seconds(time))),
            ),
            ("health_fails", number) if number.parse::<u32>().is_ok() => drop(
                self.health
                    .insert("fails".to_owned(), json!(number.parse::<u32>().ok())),
            ),
            ("health_passes", number) if number.parse::<u32>().is_ok() => drop(
                self.health
                    .insert("passes".to_owned(), json!(number.parse::<u32>().ok())),
            ),
            ("health_status", status) if status.parse::<u16>().is_ok() => drop(
                self.health
                    .insert("status".to_owned(), json!(status.parse::<u16>().ok())),
            ),
            ("fail_duration", time) if seconds(time).is_some() => drop(
                self.upstream
                    .insert("fail_timeout".to_owned(), json!(seconds(time))),
            ),
            ("max_fails", number) if number.parse::<u32>().is_ok() => drop(
                self.upstream
                    .insert("max_fails".to_owned(), json!(number.parse::<u32>().ok())),
            ),
            (
                "request_buffers" | "response_buffers" | "stream_timeout" | "stream_close_delay",
                _,
            ) => {}
            _ => return false,
        }
        true
    }
}

/// Returns the TLS of `transport`, if it has any. The error says why it cannot be carried over.
fn transport(transport: &Directive) -> Result<Option<Map<String, Value>>, String> {
    if transport.argument(0) != "http" {
        return Err(format!("`{}` is not supported here", transport.argument(0)));
    }
    let mut tls: Option<Map<String, Value>> = None;
    for option in transport.inner() {
        let first = option.argument(0);
        let known = match option.name() {
            "tls" => None,
            "tls_insecure_skip_verify" => Some(("verify", false.into())),
            "tls_server_name" if !first.contains('{') => Some(("server_name", first.into())),
            "tls_trusted_ca_certs" => Some(("ca", one_or_many(option.arguments().to_vec()))),
            "tls_trust_pool" if first == "file" && option.inner().is_empty() => {
                let files = option.arguments().get(1..).unwrap_or_default();
                Some(("ca", one_or_many(files.to_vec())))
            }
            name if name.starts_with("tls") => {
                return Err(format!("`{name}` has no equivalent"));
            }
            _ => continue,
        };
        let options = tls.get_or_insert_default();
        if let Some((name, value)) = known {
            options.insert(name.to_owned(), value);
        }
    }
    Ok(tls)
}

/// Returns the address of a server of `reverse_proxy`, with its port; `None`: it is not an address.
fn server_address(server: &str, default_port: u16) -> Option<String> {
    let bare = server
        .trim_start_matches("https://")
        .trim_start_matches("http://")
        .trim_start_matches("h2c://");
    if let Some(path) = bare.strip_prefix("unix/") {
        return (!path.contains('{')).then(|| format!("unix:{path}"));
    }
    if bare.contains(['{', '/']) {
        return None;
    }
    let address = match bare.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => bare.to_owned(),
    };
    let last = address.rsplit(']').next().unwrap_or_default();
    Some(match last.contains(':') || address.starts_with("unix:") {
        true => address,
        false => format!("{address}:{default_port}"),
    })
}
