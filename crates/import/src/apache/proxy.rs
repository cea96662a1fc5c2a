//! `ProxyPass`, balancers, and the fields that Apache adds to a request that it hands on.

use std::rc::Rc;

use serde_json::{Map, Value, json};
use tutti_config::pattern::Case;

use super::delivery::cookie_attributes;
use super::environment::Time;
use super::grammar::Directive;
use super::headers::{AnswerOf, Variant};
use super::meaning::Meaning;
use super::section::{Location, Mapping, Section, Stage, Where};
use super::site::{Compiler, Site, Spot};
use crate::output::{slug, step};
use crate::template::{Piece, Text, captures, quoted, script_text};
use crate::units::seconds;
use crate::words::Words;

/// A path that is passed on.
struct Pass {
    directive: Directive,
    place: Where,
    /// The path, without a slash at its end; `None` for an expression.
    at: Option<String>,
    from: String,
    target: String,
}

/// Options of `ProxyPass` for what Tutti does anyway, or for how Apache keeps connections.
const USUAL: Words = Words(
    "nocanon retry min max smax acquire disablereuse enablereuse flushpackets flushwait keepalive ttl upgrade
    iobuffersize receivebuffersize route connectiontimeout timeout loadfactor status interpolate stickysession
    nofailover scolonpathdelim redirect lbset responsefieldsize ping failontimeout",
);

impl Compiler<'_> {
    /// Returns the steps of requests that are passed to other servers, before those of the rest.
    pub(super) fn proxies(&mut self, site: &Rc<Site>, mut rest: Vec<Value>) -> Vec<Value> {
        let passes = passes(site);
        let leaves_out = passes.iter().any(|pass| pass.target == "!");
        let mut steps = Vec::new();
        let content = if leaves_out {
            let content = self.out.add_route(&format!("{}-files", site.name), rest);
            rest = vec![json!({"action": {"pass": content}})];
            Some(content)
        } else {
            None
        };
        for pass in &passes {
            if let (Some(content), "!") = (&content, pass.target.as_str()) {
                steps.push(step(pass.place.conditions(), json!({"pass": content})));
                continue;
            }
            let mapping = Mapping {
                at: pass.at.clone().unwrap_or_default(),
                folder: String::new(),
            };
            let spot = Spot::outermost(site, &mapping);
            let action = match self.passed(site, pass) {
                Some(action) => action,
                // It has been reported.
                None => crate::output::when("return", 503),
            };
            let inner = self.answered(&spot, action);
            let part = format!(
                "{}-{}",
                site.name,
                if mapping.at.is_empty() {
                    "proxy".to_owned()
                } else {
                    slug(&mapping.at)
                }
            );
            let inner = self.guarded(site, &guards(site), &mapping, &part, inner);
            let action = match inner.as_slice() {
                [only] if only.get("match").is_none() => {
                    only.get("action").cloned().unwrap_or_default()
                }
                _ => json!({"pass": self.out.add_route(&part, inner)}),
            };
            let action = self.leading_to(site, &mapping, action);
            steps.push(step(pass.place.conditions(), action));
        }
        steps.extend(rest);
        steps
    }

    /// The steps of an action of another server, for each part of a place whose fields differ.
    pub(super) fn answered(&mut self, spot: &Spot, action: Map<String, Value>) -> Vec<Value> {
        let mut steps = Vec::new();
        for variant in self.variants(spot, &Where::default(), AnswerOf::Server) {
            let mut action = action.clone();
            self.fields(spot, &mut action, AnswerOf::Server, &variant);
            self.request_headers(spot, &variant, &mut action);
            steps.push(step(variant.place.conditions(), action.into()));
        }
        steps
    }

    fn passed(&mut self, site: &Rc<Site>, pass: &Pass) -> Option<Map<String, Value>> {
        let (authority, path) = split(&pass.target)?;
        let members = self.path_of_members(site, &pass.directive, &authority)?;
        // Where no path is left, Apache asks for `/` behind the address.
        let may_be_bare = path.is_empty() && !pass.from.ends_with('/');
        let path = members + &path;
        let mut action = self.server(site, &pass.directive, &authority)?;
        let is_raw = pass
            .directive
            .arguments
            .iter()
            .any(|word| word.eq_ignore_ascii_case("nocanon"));
        if pass.at.is_none() && pass.target.contains('$') {
            let uri = Text(vec![Piece::Variable("uri".to_owned())]);
            let groups = captures(&pass.from, Case::Exact, &uri);
            let text = (!authority.contains('$'))
                .then(|| substituted(&path, groups.as_deref()?))
                .flatten();
            let Some(text) = text else {
                let hint = "write a `rewrite` with the new path next to the server";
                let problem = format!("`{}` cannot be written: requests here get 503", pass.target);
                self.findings
                    .lost(&pass.directive.place, &pass.directive.name, &problem, hint);
                return None;
            };
            action.insert("rewrite".to_owned(), text.template().into());
        } else if pass.at.is_none() || (pass.from == path && !may_be_bare) {
            // The path is passed on normalised: without periods and needless encoding.
            if !is_raw {
                action.insert("rewrite".to_owned(), "$uri".into());
            }
        } else {
            let script = format!("(vars.uri ?? '').slice({}.length)", quoted(&pass.from));
            let script = match may_be_bare {
                true => format!("{script} || '/'"),
                false => script,
            };
            let text = Text(vec![
                Piece::Text(path.replace('%', "%25")),
                Piece::Script(script),
            ]);
            action.insert("rewrite".to_owned(), text.template().into());
        }
        Some(action)
    }

    /// `ProxyPassReverse` and its kin: the options of `rewrite_response`.
    fn reverse(&mut self, site: &Site) -> Map<String, Value> {
        let (mut locations, mut domains, mut paths) = (Map::new(), Map::new(), Map::new());
        let mut all: Vec<(&Directive, &str, &str)> = Vec::new();
        for section in &site.sections {
            let at = match &section.location {
                Some(Location::Path(path)) => path.as_str(),
                _ => "",
            };
            for directive in &section.directives {
                let is_reverse = directive.key.starts_with("proxypassreverse");
                match directive.arguments.as_slice() {
                    [to] if is_reverse && !at.is_empty() => all.push((directive, at, to)),
                    [from, to, ..] if is_reverse => all.push((directive, from, to)),
                    _ if is_reverse => {
                        let hint = "write `rewrite_response` into `proxy_options` (`docs/proxy/upstreams.md`)";
                        let problem = "it has no path, and is not carried over";
                        self.findings
                            .lost(&directive.place, &directive.name, problem, hint);
                    }
                    _ => {}
                }
            }
        }
        for (directive, from, to) in all {
            match directive.key.as_str() {
                "proxypassreversecookiedomain" => {
                    domains
                        .entry(from)
                        .or_insert_with(|| Text::literal(to).template().into());
                }
                "proxypassreversecookiepath" => {
                    paths
                        .entry(from)
                        .or_insert_with(|| Text::literal(to).template().into());
                }
                _ => {
                    let from_text = Text::literal(from).template();
                    for url in self.addresses_of(site, to) {
                        locations
                            .entry(url)
                            .or_insert_with(|| from_text.clone().into());
                    }
                }
            }
        }
        let mut attributes = Map::new();
        let directives = site.sections.iter().flat_map(|section| &section.directives);
        for cookie in directives.filter_map(cookie_attributes) {
            attributes.insert("*".to_owned(), cookie);
        }
        let mut options = Map::new();
        for (name, members) in [
            ("cookie_attributes", attributes),
            ("location", locations),
            ("cookie_domain", domains),
            ("cookie_path", paths),
        ] {
            if !members.is_empty() {
                options.insert(name.to_owned(), members.into());
            }
        }
        options
    }

    /// The addresses that a server behind may name itself by: those of all members of a group.
    fn addresses_of(&self, site: &Site, url: &str) -> Vec<String> {
        let Some(rest) = url.strip_prefix("balancer://") else {
            return vec![url.to_owned()];
        };
        let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
        let members = site
            .groups
            .get(name)
            .map(Directive::inner)
            .unwrap_or_default();
        members
            .iter()
            .filter(|member| member.is("balancermember"))
            .map(|member| format!("{}/{path}", member.argument(0).trim_end_matches('/')))
            .collect()
    }

    /// The path that the addresses of all members of a group have; it comes before the path of a request.
    pub(super) fn path_of_members(
        &mut self,
        site: &Site,
        directive: &Directive,
        url: &str,
    ) -> Option<String> {
        let group = url
            .strip_prefix("balancer://")
            .and_then(|name| site.groups.get(name));
        let members = group.map(Directive::inner).unwrap_or_default();
        let members = members.iter().filter(|member| member.is("balancermember"));
        let paths = members.map(|member| split(member.argument(0)).unwrap_or_default().1);
        let mut paths: Vec<String> = paths
            .map(|path| path.trim_end_matches('/').to_owned())
            .collect();
        paths.dedup();
        match paths.len() {
            0 | 1 => Some(paths.pop().unwrap_or_default()),
            _ => {
                let problem =
                    "the servers of the group have different paths: requests here get 503";
                let hint = "write an upstream without paths, and `rewrite` with the path that all of them have";
                self.findings
                    .lost(&directive.place, &directive.name, problem, hint);
                None
            }
        }
    }

    /// The action that hands a request to a server or a group, without its path.
    pub(super) fn server(
        &mut self,
        site: &Site,
        directive: &Directive,
        url: &str,
    ) -> Option<Map<String, Value>> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (scheme, authority) = match url
            .strip_prefix("unix:")
            .and_then(|rest| rest.split_once('|'))
        {
            Some((socket, behind)) => (
                behind
                    .split_once("://")
                    .map_or("http", |(scheme, _)| scheme),
                format!("unix:{socket}"),
            ),
            None => (scheme, rest.to_owned()),
        };
        let mut action = Map::new();
        let mut options = self.options(site, directive);
        let reverse = self.reverse(site);
        if !reverse.is_empty() {
            options.insert("rewrite_response".to_owned(), reverse.into());
        }
        if scheme == "balancer" {
            let Some(group) = site.groups.get(&authority).cloned() else {
                let hint = "also pass the file with its `<Proxy balancer://…>`";
                self.findings.lost(
                    &directive.place,
                    &directive.name,
                    &format!("there is no balancer `{authority}`"),
                    hint,
                );
                return None;
            };
            let mut upstream = self.group(site, &group)?;
            self.sticky(site, directive, &group, &mut upstream);
            for (name, value) in options {
                upstream.entry(name).or_insert(value);
            }
            let name = self.out.upstream(upstream, &authority);
            action.insert("pass".to_owned(), format!("upstreams/{name}").into());
        } else {
            let protocol = match scheme {
                "http" | "ws" | "h2c" => "http",
                "https" | "wss" | "h2" => "https",
                "fcgi" => "fastcgi",
                "uwsgi" | "scgi" => scheme,
                other => {
                    let hint = "make the server speak HTTP";
                    self.findings.lost(
                        &directive.place,
                        &directive.name,
                        &format!("`{other}` is not supported: requests here get 503"),
                        hint,
                    );
                    return None;
                }
            };
            if protocol == "https" {
                options.insert("tls".to_owned(), server_tls(site));
                if !verifies(site) {
                    let hint = "remove `verify` if the server has a valid certificate";
                    self.findings.note(
                        &directive.place,
                        &directive.name,
                        "as in Apache, the server's certificate is not verified",
                        hint,
                    );
                }
            }
            if matches!(scheme, "h2" | "h2c") {
                options.insert("http_version".to_owned(), 2.into());
            }
            action.insert(
                "proxy".to_owned(),
                format!("{protocol}://{}", with_port(&authority, protocol)).into(),
            );
            if !options.is_empty() {
                action.insert("proxy_options".to_owned(), options.into());
            }
        }
        self.own_fields(site, directive, &authority, &mut action);
        let overrides = site.setting("proxyerroroverride");
        if overrides.is_some_and(Directive::is_on) {
            action.insert("intercept_errors".to_owned(), true.into());
        }
        Some(action)
    }

    /// `stickysession` of a group, or of its `ProxyPass`.
    fn sticky(
        &mut self,
        site: &Site,
        pass: &Directive,
        group: &Directive,
        upstream: &mut Map<String, Value>,
    ) {
        let sets = group.inner().iter().filter(|one| one.is("proxyset"));
        let outside = site
            .all(&["proxyset"])
            .filter(|one| one.argument(0) == group.argument(0));
        let mut all = sets.chain(outside).chain([pass]).flat_map(|one| {
            let options = one.arguments.iter();
            options.map(move |option| (one, option.as_str()))
        });
        let named =
            all.find_map(|(one, option)| Some((one, option.strip_prefix("stickysession=")?)));
        let Some((directive, names)) = named else {
            return;
        };
        let name = names.split('|').next().unwrap_or_default();
        // A cookie that Apache itself sets keeps its name; that of an application stays the application's.
        let sets = |one: &Directive| {
            one.is("header") && one.raw.contains("BALANCER_WORKER_ROUTE") && one.raw.contains(name)
        };
        let is_own = site
            .sections
            .iter()
            .any(|section| section.directives.iter().any(sets));
        let cookie = if is_own { name } else { "route" };
        upstream.insert(
            "sticky".to_owned(),
            json!({"cookie": cookie, "same_site": "omit"}),
        );
        let hint = "see `sticky` in `docs/proxy/upstreams.md`";
        let problem = format!(
            "Tutti's own signed cookie `{cookie}` keeps clients at a server: those with a session may be moved to another one once"
        );
        self.findings
            .note(&directive.place, &directive.name, &problem, hint);
    }

    /// Times, as `ProxyPass` and the server say.
    fn options(&mut self, site: &Site, directive: &Directive) -> Map<String, Value> {
        let mut options = Map::new();
        let timeout = site
            .setting("proxytimeout")
            .or_else(|| site.setting("timeout"))
            .map(|timeout| timeout.argument(0).to_owned());
        let mut read = timeout.and_then(|timeout| seconds(&timeout));
        for option in directive.arguments.iter().skip(1) {
            let Some((name, value)) = option.split_once('=') else {
                continue;
            };
            let name = name.to_ascii_lowercase();
            match (name.as_str(), seconds(value)) {
                ("timeout", Some(seconds)) => read = Some(seconds),
                ("connectiontimeout", Some(seconds)) => {
                    drop(options.insert("connect_timeout".to_owned(), seconds.into()))
                }
                (name, _) if USUAL.contains(name) => {}
                ("lbmethod", _) => {}
                _ if directive.key.starts_with("proxypass") => self.findings.lost(
                    &directive.place,
                    &directive.name,
                    &format!("`{option}` has no equivalent"),
                    "see `proxy options` in `docs/reference/options.md`",
                ),
                _ => {}
            }
        }
        if let Some(read) = read.filter(|read| *read > 0.0) {
            options.insert("read_timeout".to_owned(), read.into());
        }
        options
    }

    /// `Host`, and the fields about the client.
    fn own_fields(
        &mut self,
        site: &Site,
        directive: &Directive,
        authority: &str,
        action: &mut Map<String, Value>,
    ) {
        let mut fields = Map::new();
        let preserves = site
            .setting("proxypreservehost")
            .is_some_and(Directive::is_on);
        if !preserves && action.contains_key("proxy") {
            let host = if authority.starts_with("unix:") {
                "localhost"
            } else {
                authority
            };
            fields.insert("Host".to_owned(), host.into());
        } else if !preserves {
            let members = site
                .groups
                .get(authority)
                .map(Directive::inner)
                .unwrap_or_default();
            let mut hosts: Vec<&str> = members
                .iter()
                .filter(|member| member.is("balancermember"))
                .filter_map(|member| member.argument(0).split_once("://"))
                .map(|(_, rest)| rest.split('/').next().unwrap_or(rest))
                .collect();
            hosts.dedup();
            match hosts.as_slice() {
                [only] => drop(fields.insert("Host".to_owned(), (*only).into())),
                _ => {
                    let hint = "set `Host` in `request_headers` if the servers need their own name";
                    self.findings.note(
                        &directive.place,
                        &directive.name,
                        "the servers of a group get the client's `Host`",
                        hint,
                    );
                }
            }
        }
        if site.setting("proxyaddheaders").is_none_or(Directive::is_on) {
            let script =
                |script: &str| Value::from(Text(vec![Piece::Script(script.to_owned())]).template());
            fields.insert("X-Forwarded-For".to_owned(), script("headers['X-Forwarded-For'] ? headers['X-Forwarded-For'] + ', ' + remoteAddr : remoteAddr"));
            fields.insert("X-Forwarded-Host".to_owned(), script("headers['X-Forwarded-Host'] ? headers['X-Forwarded-Host'] + ', ' + (headers.Host ?? '') : headers.Host ?? ''"));
            let server = if site.server.is_empty() {
                "$host".to_owned()
            } else {
                Text::literal(site.server.clone()).template()
            };
            fields.insert("X-Forwarded-Server".to_owned(), server.into());
        }
        if !fields.is_empty() {
            action.insert("request_headers".to_owned(), fields.into());
        }
    }

    /// `RequestHeader` of a part of a place.
    fn request_headers(&mut self, spot: &Spot, variant: &Variant, action: &mut Map<String, Value>) {
        let holding = Self::holding(spot, variant).into_iter();
        let set: Vec<Directive> = holding.map(|(directive, _)| directive).collect();
        let section = Section {
            directives: set.clone(),
            ..Section::default()
        };
        let site = &spot.site;
        let environment = self.environment(site, std::iter::once(&section), Time::Late);
        let meaning = Meaning {
            has_response: false,
            ..self.meaning_of(site, environment, Time::Late)
        };
        let fields = self.request_fields(&set, &meaning);
        if let (false, Some(headers)) = (
            fields.is_empty(),
            action
                .entry("request_headers")
                .or_insert_with(|| json!({}))
                .as_object_mut(),
        ) {
            headers.extend(fields);
        }
        if action.get("request_headers") == Some(&json!({})) {
            action.remove("request_headers");
        }
    }

    /// `<Proxy balancer://…>`
    fn group(&mut self, site: &Site, group: &Directive) -> Option<Map<String, Value>> {
        let (mut upstream, mut servers) = (Map::new(), Map::new());
        for member in group.inner() {
            match member.key.as_str() {
                "balancermember" => {
                    let (url, place) = (member.argument(0), &member.place);
                    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
                    if !matches!(scheme, "http" | "ws" | "https") {
                        self.findings.lost(
                            place,
                            &member.name,
                            &format!("`{scheme}` is not supported in a group"),
                            "make the server speak HTTP",
                        );
                        return None;
                    }
                    if scheme == "https" {
                        upstream.insert("tls".to_owned(), server_tls(site));
                    }
                    let mut options = Map::new();
                    for option in member.arguments.iter().skip(1) {
                        let (name, value) = option.split_once('=').unwrap_or((option, ""));
                        match (name.to_ascii_lowercase().as_str(), value) {
                            ("loadfactor", factor) => {
                                if let Ok(factor) = factor.parse::<f64>() {
                                    options.insert("weight".to_owned(), factor.into());
                                }
                            }
                            ("status", "+H" | "H") => {
                                drop(options.insert("backup".to_owned(), true.into()))
                            }
                            ("status", "+D" | "D") => {
                                drop(options.insert("weight".to_owned(), 0.into()))
                            }
                            ("retry", "0") => {
                                drop(options.insert("max_fails".to_owned(), 0.into()))
                            }
                            ("retry", seconds_of) => {
                                if let Some(seconds) = seconds(seconds_of) {
                                    options.insert("fail_timeout".to_owned(), seconds.into());
                                }
                            }
                            ("timeout", time) => {
                                if let Some(time) = seconds(time).filter(|time| *time > 0.0) {
                                    upstream.insert("read_timeout".to_owned(), time.into());
                                }
                            }
                            ("connectiontimeout", time) => {
                                if let Some(time) = seconds(time).filter(|time| *time > 0.0) {
                                    upstream.insert("connect_timeout".to_owned(), time.into());
                                }
                            }
                            (name, _) if USUAL.contains(name) => {}
                            _ => self.findings.lost(
                                place,
                                &member.name,
                                &format!("`{option}` has no equivalent"),
                                "see `upstream server` in `docs/reference/options.md`",
                            ),
                        }
                    }
                    let authority = rest.split('/').next().unwrap_or(rest);
                    servers.insert(with_port(authority, scheme), options.into());
                }
                "proxyset" => {
                    for option in &member.arguments {
                        match option.split_once('=') {
                            Some(("lbmethod", "bybusyness")) => drop(
                                upstream.insert("balance".to_owned(), "least_connections".into()),
                            ),
                            Some(("lbmethod", "byrequests" | "bytraffic")) => {}
                            Some((name, _)) if USUAL.contains(&name.to_ascii_lowercase()) => {}
                            _ => {
                                let hint = "`sticky` of an upstream keeps a client at one server (`docs/proxy/upstreams.md`)";
                                self.findings.lost(
                                    &member.place,
                                    &member.name,
                                    &format!("`{option}` has no equivalent"),
                                    hint,
                                );
                            }
                        }
                    }
                }
                // Access control is read with the sections.
                "require" | "order" | "allow" | "deny" | "requireany" | "requireall"
                | "requirenone" => {}
                _ => self.findings.lost(
                    &member.place,
                    &member.name,
                    "the importer does not translate it",
                    "see `upstream` in `docs/reference/options.md`",
                ),
            }
        }
        upstream.insert("servers".to_owned(), servers.into());
        Some(upstream)
    }
}

/// True if certificates of servers are looked at.
fn verifies(site: &Site) -> bool {
    let verify = site.setting("sslproxyverify");
    verify.is_some_and(|verify| verify.word(0) == "require")
}

/// The TLS of servers behind, with the authorities that the source names.
fn server_tls(site: &Site) -> Value {
    let authorities = site.setting("sslproxycacertificatefile");
    match authorities.filter(|_| verifies(site)) {
        Some(file) => json!({"ca": super::listen::path(file)}),
        None => json!({"verify": verifies(site)}),
    }
}

/// Access control of requests that are passed on: `<Proxy>`, and sections without folders. A rule for some servers
/// refuses for all.
pub(super) fn guards(site: &Site) -> Vec<Section> {
    let mut all = Vec::new();
    for proxy in &site.proxies {
        let directives = proxy
            .inner()
            .iter()
            .filter(|directive| directive.key != "balancermember");
        all.push(Section {
            stage: Stage::Folder,
            is_unknown: proxy.argument(0) != "*",
            directives: directives.cloned().collect(),
            ..Section::default()
        });
    }
    all.extend(site.sections.iter().cloned());
    all
}

/// The paths that are handed on, in the order in which Apache looks: sections first, the last one of them before the others.
fn passes(site: &Site) -> Vec<Pass> {
    let mut passes = Vec::new();
    for section in site
        .sections
        .iter()
        .rev()
        .filter(|section| section.stage == Stage::Location && section.file.is_none())
    {
        for directive in section
            .directives
            .iter()
            .filter(|directive| matches!(directive.key.as_str(), "proxypass" | "proxypassmatch"))
        {
            let mut place = Where::default();
            let (at, from) = match &section.location {
                Some(Location::Path(path)) => {
                    place.path(path);
                    (Some(path.trim_end_matches('/').to_owned()), path.clone())
                }
                Some(Location::Match(source)) => {
                    place.found(source);
                    (None, String::new())
                }
                None => continue,
            };
            passes.push(Pass {
                directive: directive.clone(),
                place,
                at,
                from,
                target: directive.argument(0).to_owned(),
            });
        }
    }
    for directive in site.all(&["proxypass", "proxypassmatch"]) {
        let (from, target) = (
            directive.argument(0).to_owned(),
            directive.argument(1).to_owned(),
        );
        // They are handlers of scripts.
        if directive.is("proxypassmatch") && target.contains("fcgi://") {
            continue;
        }
        let mut place = Where::default();
        let at = if directive.is("proxypass") {
            place.path(&from);
            Some(from.trim_end_matches('/').to_owned())
        } else {
            place.found(&from);
            None
        };
        passes.push(Pass {
            directive: directive.clone(),
            place,
            at,
            from,
            target,
        });
    }
    passes
}

/// A URL without its path, and the path.
fn split(url: &str) -> Option<(String, String)> {
    if let Some((socket, behind)) = url
        .strip_prefix("unix:")
        .and_then(|rest| rest.split_once('|'))
    {
        let (authority, path) = split(behind)?;
        return Some((format!("unix:{socket}|{authority}"), path));
    }
    let (scheme, rest) = url.split_once("://")?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    Some((format!("{scheme}://{authority}"), path.to_owned()))
}

/// An address with its port.
fn with_port(authority: &str, protocol: &str) -> String {
    let last = authority
        .rsplit_once(']')
        .map_or(authority, |(_, rest)| rest);
    if authority.starts_with("unix:") || last.contains(':') {
        return authority.replace("localhost:", "127.0.0.1:");
    }
    let port = match protocol {
        "https" => 443,
        "fastcgi" => 8000,
        _ => 80,
    };
    format!(
        "{}:{port}",
        if authority == "localhost" {
            "127.0.0.1"
        } else {
            authority
        }
    )
}

/// A path with `$1` of an expression's groups; `None` for a query, which would end at a value.
fn substituted(path: &str, groups: &str) -> Option<Text> {
    if path.contains('?') {
        return None;
    }
    let mut text = Text::default();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('$') {
        text.push(&before.replace('%', "%25"));
        let digit = after.chars().next().filter(char::is_ascii_digit)?;
        text.extend(script_text(format!("({groups} ?? [])[{digit}] ?? ''")));
        rest = after.get(1..)?;
    }
    text.push(&rest.replace('%', "%25"));
    Some(text)
}
